"""The comparisons that a claim asks for, made on results and corrected together."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from prsrank.experiment.claims import ClaimTest, Point, same_point
from prsrank.experiment.statistics import Comparison, compare_queries, per_query
from prsrank.metrics.significance import holm
from prsrank.types import Floats

SIGNIFICANT = 0.05
SUPPORTS, AGAINST, UNDECIDED, NOT_RUN = "supports", "against", "undecided", "not run"


class Measured(Protocol):
    """What is read of results."""

    def panels(self) -> Sequence[str]:
        """Return the panels."""
        ...

    def methods(self, panel: str) -> Sequence[str]:
        """Return the methods of a panel."""
        ...

    def points(self) -> Sequence[Point]:
        """Return the points of the axis, in the spec's order."""
        ...

    def values(self, panel: str, method: str, point: Any, metric: str) -> Floats:
        """Return runs x queries."""
        ...


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
    comparison: Comparison | None
    corrected: float = math.nan
    outcome: str = NOT_RUN

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
        winner: the winner's values per query, for each member that was run.
        rival: the rival's.
    """

    members: tuple[Judged, ...]
    winner: tuple[Floats, ...]
    rival: tuple[Floats, ...]


def make_comparisons(claims: Sequence[ClaimTest], results: Measured) -> list[Group]:
    """Make every comparison of some claims; correct their p values together after Holm."""
    return _corrected([group for claim in claims for group in _groups(claim, results)])


def measured(
    results: Measured, panel: str, method: str, point: Point, metric: str
) -> Floats | None:
    """Return runs x queries, or None where nothing was measured."""
    if panel not in results.panels() or method not in results.methods(panel):
        return None
    try:
        values = results.values(panel, method, point, metric)
    except KeyError:
        return None
    return values if values.size and not np.isnan(values).all() else None


def _groups(claim: ClaimTest, results: Measured) -> Iterator[Group]:
    for rival in claim.rivals:
        for metric in claim.metrics:
            members, winners, rivals = [], [], []
            for panel, point in _places(claim, rival, results):
                sides = _sides(claim, rival, results, panel, point, metric)
                if sides is None:
                    members.append(Judged(claim, rival, metric, panel, point, None))
                    continue
                first, second = sides
                comparison = compare_queries(
                    first,
                    second,
                    lower_is_better=claim.lower_wins(metric),
                    margin=claim.margin,
                )
                members.append(Judged(claim, rival, metric, panel, point, comparison))
                winners.append(first)
                rivals.append(second)
            yield Group(tuple(members), tuple(winners), tuple(rivals))


def _places(claim: ClaimTest, rival: str | float, results: Measured) -> Iterator[tuple[str, Point]]:
    beside = isinstance(rival, str) and claim.than_panel is None
    needed = {claim.winner, rival} if beside else {claim.winner}
    panels = claim.panels
    if panels is None:
        panels = tuple(p for p in results.panels() if needed <= set(results.methods(p)))
    points = claim.points
    if points is None:
        apart = [p for p in (claim.at, claim.relative_to) if p is not None]
        points = tuple(p for p in results.points() if not any(same_point(p, q) for q in apart))
    for panel in panels:
        for point in points:
            yield panel, point


def _sides(
    claim: ClaimTest,
    rival: str | float,
    results: Measured,
    panel: str,
    point: Point,
    metric: str,
) -> tuple[Floats, Floats] | None:
    """Return one value per query of the winner and of the rival."""

    def side(method: str, at: Point, panel: str) -> Floats | None:
        values = measured(results, panel, method, at, metric)
        if values is None or claim.relative_to is None:
            return None if values is None else per_query(values)
        start = measured(results, panel, method, claim.relative_to, metric)
        return None if start is None else per_query(values) - per_query(start)

    at = point if claim.at is None else claim.at
    first = side(claim.winner, at, panel)
    if first is None:
        return None
    if isinstance(rival, str):
        second = side(rival, point, panel if claim.than_panel is None else claim.than_panel)
    else:
        second = np.full(first.shape, rival)
    return None if second is None else (first, second)


def _corrected(groups: Sequence[Group]) -> list[Group]:
    """Correct all p values together and say what each comparison shows."""
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


def _decided(one: Judged, corrected: float) -> Judged:
    if one.comparison is None:
        return one
    if not corrected <= SIGNIFICANT:
        return replace(one, corrected=corrected, outcome=UNDECIDED)
    return replace(one, corrected=corrected, outcome=SUPPORTS if one.claimed_way else AGAINST)
