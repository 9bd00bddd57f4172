r"""Whether the results bear out a claim: confirmed, not confirmed or contradicted, and why.

Every entry of the spec's `test` list (`prsrank.experiment.spec.Claim`) gives one paired
comparison for each rival, metric, panel and point. Their two-sided p values are corrected
together after Holm. Then

- *confirmed*: every comparison was run, goes the claimed way and is significant at 5 %;
- *contradicted*: at least one is significant the other way;
- *not confirmed*: anything else, such as too few queries to tell.

If in truth nothing differs, at most one claim in twenty is confirmed or contradicted by chance.
With a margin, "the claimed way" is: worse by less than the margin.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from prsrank.experiment.results import Results
from prsrank.experiment.spec import Claim, Point, Spec
from prsrank.experiment.statistics import compare_queries, per_query
from prsrank.experiment.words import direction
from prsrank.metrics.significance import PairedTest, holm
from prsrank.notebook.vega_lite import point_text
from prsrank.types import Floats

SIGNIFICANT = 0.05
CONFIRMED, NOT_CONFIRMED, CONTRADICTED = "confirmed", "not confirmed", "contradicted"
SUPPORTS, AGAINST, UNDECIDED, NOT_RUN = "supports", "against", "undecided", "not run"


@dataclass(frozen=True, eq=False)
class Comparison:
    """One comparison of a claim.

    Attributes:
        claim: the entry of the `test` list that it belongs to.
        rival: method or number that the winner is compared with.
        metric: metric compared.
        panel: where.
        point: the rival's point (and the winner's, unless the claim has `at`).
        sides: the winner's and the rival's value per query; None where it was not run.
        paired: winner - rival; None where it was not run.
        corrected: p value after Holm over the whole claim; NaN where there is none.
    """

    claim: Claim
    rival: str | float
    metric: str
    panel: str
    point: Point
    sides: tuple[Floats, Floats] | None = None
    paired: PairedTest | None = None
    corrected: float = math.nan

    @property
    def lower_wins(self) -> bool:
        """Whether the smaller value is claimed to win."""
        return bool(self.claim.below or (self.claim.better and direction(self.metric) < 0))

    @property
    def claimed_way(self) -> bool:
        """Whether the difference, the margin allowed for, goes the claimed way."""
        if self.paired is None:
            return False
        sign = -1 if self.lower_wins else 1
        return sign * self.paired.difference + self.claim.margin > 0

    @property
    def outcome(self) -> str:
        """What it says of the claim: "supports", "against", "undecided" or "not run"."""
        if self.paired is None:
            return NOT_RUN
        if not self.corrected <= SIGNIFICANT:
            return UNDECIDED
        return SUPPORTS if self.claimed_way else AGAINST

    def names(self, titles: Mapping[str, str]) -> tuple[str, str]:
        """Return how a text calls the winner and the rival."""
        winner, at = self.claim.winner, self.claim.at
        rival = titles.get(self.rival, self.rival) if isinstance(self.rival, str) else self.rival
        words = rival if isinstance(rival, str) else f"{rival:g}"
        place = "" if at is None else f" at {point_text(at)}"
        return f"{titles.get(winner, winner)}{place}", words


@dataclass(frozen=True)
class Verdict:
    """What becomes of a claim.

    Attributes:
        label: "confirmed", "not confirmed" or "contradicted".
        comparisons: what it rests on.
    """

    label: str
    comparisons: tuple[Comparison, ...] = ()


def judge(spec: Spec, results: Results) -> Verdict | None:
    """Judge the claim of a spec by its results; None for a spec that claims nothing."""
    if not spec.test:
        return None
    made = [
        _compared(Comparison(claim, rival, metric, panel, point), results)
        for claim in spec.test
        for rival in claim.rivals
        for metric in claim.metric
        for panel, point in _places(claim, rival, results)
    ]
    p_values = [
        math.nan if comparison.paired is None else comparison.paired.p_value for comparison in made
    ]
    corrected = zip(made, holm(p_values).tolist(), strict=True)
    comparisons = tuple(replace(comparison, corrected=p) for comparison, p in corrected)
    outcomes = {comparison.outcome for comparison in comparisons}
    if AGAINST in outcomes:
        return Verdict(CONTRADICTED, comparisons)
    return Verdict(CONFIRMED if outcomes == {SUPPORTS} else NOT_CONFIRMED, comparisons)


def _places(claim: Claim, rival: str | float, results: Results) -> Iterator[tuple[str, Point]]:
    """Return the panels and points of a comparison."""
    needed = {claim.winner} if claim.than_panel else claim.methods & {claim.winner, rival}
    panels = claim.panels or [p for p in results.panels() if needed <= set(results.methods(p))]
    others = [point for point in results.axis_points if point not in claim.fixed_points]
    return product(panels, claim.points or others)


def _compared(comparison: Comparison, results: Results) -> Comparison:
    claim, metric, panel = comparison.claim, comparison.metric, comparison.panel

    def values(panel: str, method: str, point: Point) -> Floats | None:
        here = results.measured(panel, method, point, metric)
        if here is None or claim.relative_to is None:
            return None if here is None else per_query(here)
        start = results.measured(panel, method, claim.relative_to, metric)
        return None if start is None else per_query(here) - per_query(start)

    point, rival = comparison.point, comparison.rival
    first = values(panel, claim.winner, point if claim.at is None else claim.at)
    if isinstance(rival, str):
        second = values(claim.than_panel or panel, rival, point)
    else:
        second = None if first is None else np.full(first.shape, float(rival))
    if first is None or second is None:
        return comparison
    # a margin moves the null hypothesis to "worse by the margin"
    shift = -claim.margin if comparison.lower_wins else claim.margin
    paired = compare_queries(first, second, margin=shift)
    return replace(comparison, sides=(first, second), paired=paired)
