"""Which method is shipped."""

import pytest

from prsrank.evaluation.results import Difference
from prsrank.fit.choice import LEVEL, better_shown


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
