"""Which method is shipped."""

from types import SimpleNamespace

import pytest

from prsrank.evaluation.results import Difference
from prsrank.fit.plan import Plan
from prsrank.fit.tuning import LEVEL, better_shown, choose


def less_posterior(name, difference, p_value):
    """A method's gain over the preferred one."""
    ends = difference - 0.1, difference + 0.1
    return Difference("all", "dcg@10", "clipped", name, "posterior", difference, *ends, p_value, 0)


@pytest.mark.parametrize(
    ("found", "chosen"),
    [
        ([("prs", 0.2, 0.5), ("ips", 0.1, 0.9)], "posterior"),  # better by chance
        ([("prs", 0.2, 0.01), ("ips", 0.1, 0.001)], "prs"),  # the best of those that are shown
        ([("prs", 0.2, 0.03), ("ips", 0.1, 0.9)], "posterior"),  # one of two at the level
        ([("prs", -0.2, 0.001), ("ips", 0.1, 0.02)], "ips"),  # worse for sure is not better
        ([("prs", -0.2, 0.001), ("ips", 0.1, 0.9)], "posterior"),  # though it alone is sure
    ],
)
def test_another_method_replaces_the_preferred_one_only_if_it_is_shown_to_be_better(found, chosen):
    choice = better_shown("posterior", [less_posterior(*one) for one in found])
    assert choice.name == chosen
    assert (chosen == "posterior") == choice.why.startswith("it is the first choice")
    assert set(choice.to_json_dict()["validation"]) == {"prs", "ips"}


def test_chance_alone_replaces_it_in_at_most_5_percent():
    """Each of n p values is below LEVEL / n with that chance; together at most LEVEL."""
    at = LEVEL / 4
    assert better_shown("a", [less_posterior(n, 1, at) for n in "bcde"]).name == "b"
    assert better_shown("a", [less_posterior(n, 1, at + 1e-9) for n in "bcde"]).name == "a"


class Judging:
    """A part whose clicks show a difference; it notes what it was asked."""

    def __init__(self, differences):
        self.differences, self.asked = differences, []
        self.evaluation = self
        self.narrowest = "dr"

    def evaluate(self, curve, rankers, *, against, seed):
        self.asked.append((curve, rankers, against, seed))
        return self

    def difference(self, ranker, metric, *, against, estimator):
        assert (metric, against, estimator) == ("dcg@10", "posterior", "dr")
        return self.differences[ranker]


def chosen_of(weighting="auto", **differences):
    validation = Judging({n: less_posterior(n, d, 0.001) for n, d in differences.items()})
    parts = SimpleNamespace(validation=validation)  # nothing else may be asked
    plan = Plan("log.parquet", data="synthetic:mq2007:50", weighting=weighting, seed=4)
    tuned = {n: SimpleNamespace(ranker=f"ranker {n}") for n in ("posterior", *differences)}
    return choose(parts, "a curve", tuned, plan), validation.asked


def test_methods_are_compared_on_the_validation_part_with_the_preferred_one():
    choice, asked = chosen_of(prs=-0.1, ips=0.2)
    rankers = {n: f"ranker {n}" for n in ("posterior", "prs", "ips")}
    assert asked == [("a curve", rankers, ["posterior"], 4)]
    assert choice.name == "ips"
    assert [one.ranker for one in choice.differences] == ["prs", "ips"]


def test_a_named_method_is_shipped_whatever_the_clicks_say():
    choice, asked = chosen_of("posterior", ips=0.2, naive=0.3)
    assert (choice.name, choice.why, asked) == ("posterior", "it was asked for", [])
