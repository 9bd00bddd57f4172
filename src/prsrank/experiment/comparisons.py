"""The comparisons that a claim asks for, made on results and corrected together."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from prsrank.experiment.claims import ClaimTest, same_point
from prsrank.experiment.results import Results
from prsrank.experiment.spec import Point
from prsrank.experiment.statistics import compare_queries, per_query
from prsrank.metrics.significance import PairedTest, holm
from prsrank.types import Floats

SIGNIFICANT = 0.05
SUPPORTS, AGAINST, UNDECIDED, NOT_RUN = "supports", "against", "undecided", "not run"


@dataclass(frozen=True)
class Judged:
    """One comparison of a claim.

    Attributes:
        claim: the entry of the `test` list that it belongs to.
        rival: method or number that the winner is compared with.
        metric: metric compared.
        panel: where.
        point: the rival's point (and the winner's, unless the claim has `at`).
        comparison: winner - rival; None where it was not run.
        corrected: p value after Holm over the whole claim; NaN where there is none.
        outcome: "supports", "against", "undecided" or "not run".
    """

    claim: ClaimTest
    rival: str | float
    metric: str
    panel: str
    point: Point
    comparison: PairedTest | None = None
    corrected: float = math.nan
    outcome: str = NOT_RUN

    @property
    def winners_point(self) -> Point:
        """The winner's point."""
        return self.point if self.claim.at is None else self.claim.at

    @property
    def claimed_way(self) -> bool:
        """Whether the difference, the margin allowed for, goes the claimed way."""
        if self.comparison is None:
            return False
        sign = -1 if self.claim.lower_wins(self.metric) else 1
        return sign * self.comparison.difference + self.claim.margin > 0


@dataclass(frozen=True)
class Group:
    """The comparisons of one claim, rival and metric.

    Attributes:
        members: one for each panel and point.
        sides: the winner's and the rival's values per query, for each member that was run.
    """

    members: tuple[Judged, ...]
    sides: tuple[tuple[Floats, Floats], ...]


def make_comparisons(claims: Sequence[ClaimTest], results: Results) -> list[Group]:
    """Make every comparison of some claims; correct their p values together after Holm."""
    groups = [
        _group(claim, rival, metric, results)
        for claim in claims
        for rival in claim.rivals
        for metric in claim.metrics
    ]
    family = [
        math.nan if one.comparison is None else one.comparison.p_value
        for group in groups
        for one in group.members
    ]
    corrected = iter(holm(family).tolist())
    return [
        replace(group, members=tuple(_decided(one, next(corrected)) for one in group.members))
        for group in groups
    ]


def _group(claim: ClaimTest, rival: str | float, metric: str, results: Results) -> Group:
    members, sides = [], []
    for panel, point in _panels_and_points(claim, rival, results):
        one = Judged(claim, rival, metric, panel, point)
        found = _sides(one, results)
        if found is not None:
            lower = claim.lower_wins(metric)
            compared = compare_queries(*found, lower_is_better=lower, margin=claim.margin)
            one = replace(one, comparison=compared)
            sides.append(found)
        members.append(one)
    return Group(tuple(members), tuple(sides))


def _panels_and_points(
    claim: ClaimTest, rival: str | float, results: Results
) -> Iterator[tuple[str, Point]]:
    beside = isinstance(rival, str) and claim.than_panel is None
    needed = {claim.winner, rival} if beside else {claim.winner}
    panels = claim.panels
    if panels is None:
        panels = tuple(p for p in results.panels() if needed <= set(results.methods(p)))
    points = claim.points
    if points is None:
        apart = [p for p in (claim.at, claim.relative_to) if p is not None]
        points = tuple(p for p in results.axis_points if not any(same_point(p, q) for q in apart))
    return product(panels, points)


def _sides(one: Judged, results: Results) -> tuple[Floats, Floats] | None:
    """Return one value per query of the winner and of the rival; None if either was not run."""
    claim = one.claim

    def side(panel: str, method: str, point: Point) -> Floats | None:
        values = results.measured(panel, method, point, one.metric)
        if values is None or claim.relative_to is None:
            return None if values is None else per_query(values)
        start = results.measured(panel, method, claim.relative_to, one.metric)
        return None if start is None else per_query(values) - per_query(start)

    first = side(one.panel, claim.winner, one.winners_point)
    if first is None:
        return None
    if not isinstance(one.rival, str):
        return first, np.full(first.shape, one.rival)
    beside = one.panel if claim.than_panel is None else claim.than_panel
    second = side(beside, one.rival, one.point)
    return None if second is None else (first, second)


def _decided(one: Judged, corrected: float) -> Judged:
    if one.comparison is None:
        return one
    if not corrected <= SIGNIFICANT:
        return replace(one, corrected=corrected, outcome=UNDECIDED)
    return replace(one, corrected=corrected, outcome=SUPPORTS if one.claimed_way else AGAINST)
