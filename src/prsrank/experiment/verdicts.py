r"""Whether the results bear out a claim: confirmed, not confirmed or contradicted, and why.

Every entry of the spec's `test` list (see `claims`) gives one paired comparison for each rival,
metric, panel and point. Their two-sided p values are corrected together after Holm. Then

- *confirmed*: every comparison was run, goes the claimed way and is significant at 5 %;
- *contradicted*: at least one is significant the other way;
- *not confirmed*: anything else, such as too few queries to tell.

If in truth nothing differs, at most one claim in twenty is confirmed or contradicted by chance.
With a margin, "the claimed way" is: worse by less than the margin.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from prsrank.experiment.claims import read_test
from prsrank.experiment.comparisons import AGAINST, SUPPORTS, Judged, make_comparisons
from prsrank.experiment.evidence import evidence
from prsrank.experiment.results import Results
from prsrank.experiment.spec import Spec

CONFIRMED, NOT_CONFIRMED, CONTRADICTED = "confirmed", "not confirmed", "contradicted"


@dataclass(frozen=True)
class Verdict:
    """What becomes of a claim.

    Attributes:
        label: "confirmed", "not confirmed" or "contradicted".
        evidence: the figures that it rests on, in a sentence.
        comparisons: every comparison.
    """

    label: str
    evidence: str
    comparisons: tuple[Judged, ...] = ()


def judge(
    spec: Spec, results: Results, *, titles: Mapping[str, str] | None = None
) -> Verdict | None:
    """Judge the claim of a spec by its results.

    Args:
        spec: the experiment; `test` and `metrics` are read.
        results: its values.
        titles: how the evidence calls methods, where not by their name.

    Returns:
        The verdict; None for a spec that claims nothing.
    """
    if not spec.test:
        return None
    claims = [read_test(entry, metrics=spec.metrics) for entry in spec.test]
    groups = make_comparisons(claims, results)
    judged = tuple(member for group in groups for member in group.members)
    return Verdict(_label(judged), evidence(groups, titles=titles), judged)


def _label(judged: Sequence[Judged]) -> str:
    outcomes = {one.outcome for one in judged}
    if AGAINST in outcomes:
        return CONTRADICTED
    return CONFIRMED if outcomes == {SUPPORTS} else NOT_CONFIRMED
