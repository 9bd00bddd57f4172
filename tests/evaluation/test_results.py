import pytest

from prsrank.evaluation.results import CounterfactualEvaluation, Difference, Estimate


def evaluation_of(*kinds):
    pairs = [("a", "logged"), ("b", "logged"), ("b", "a")]
    estimates = tuple(Estimate("all", "dcg@10", k, n, 1.0, 0.5, 1.5) for k in kinds for n in "ab")
    differences = tuple(
        Difference("all", "dcg@10", kind, one, other, number, -1.0, 1.0, 0.5, 0.1)
        for kind in kinds
        for number, (one, other) in enumerate(pairs)
    )
    return CounterfactualEvaluation(estimates, differences, (), 0.0, 100, 0, 0.95)


@pytest.mark.parametrize(
    ("kinds", "narrowest"),
    [
        (("ips", "snips", "clipped", "dr"), "dr"),
        (("ips", "snips", "clipped"), "clipped"),
        (("snips", "ips"), "ips"),
        (("snips",), "snips"),
    ],
)
def test_decisions_rest_on_the_narrowest_estimate_that_there_is(kinds, narrowest):
    assert evaluation_of(*kinds).narrowest == narrowest


def test_a_difference_is_that_of_the_two_rankers_named():
    found = evaluation_of("ips", "dr")
    for number, (one, other) in enumerate([("a", "logged"), ("b", "logged"), ("b", "a")]):
        for kind in ("ips", "dr"):
            got = found.difference(one, "dcg@10", against=other, estimator=kind)
            assert (got.ranker, got.against, got.estimator) == (one, other, kind)
            assert got.difference == number
