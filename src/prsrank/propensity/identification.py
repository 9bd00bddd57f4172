r"""Which positions a log tells an estimator of, by counts alone.

A position's propensity is known relative to position 1 if comparisons link the two. What
counts as a comparison is each estimator's own: its `identify`. The verdict is `judge_counts`, as
for an estimated curve.
"""
# ruff: noqa: S608 -- queries hold constants, never a user's text

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from prsrank.logs.tables import numbers_sql
from prsrank.propensity.verdict import FEW_CARRIERS, Status, judge_counts
from prsrank.types import LogTables

PLACES = 50
"""How many positions {docs} tells one by one."""

_SHALLOW = 10
_MOST_PAIRS = 200_000_000

MOVE = "log sessions of a second ranker or randomise a share"

SHUFFLED = (
    "CASE WHEN design = 'uniform' THEN true "
    "WHEN starts_with(design, 'top-k:') "
    "THEN k <= TRY_CAST(split_part(design, ':', 2) AS INTEGER) "
    "WHEN starts_with(design, 'swap:') THEN k = TRY_CAST(split_part(design, ':', 2) AS INTEGER) "
    "OR k = TRY_CAST(split_part(design, ':', 3) AS INTEGER) ELSE false END"
)
"""SQL: whether the design of a session puts the doc at position k by chance."""

# docs shown, and clicked, at the same positions count together: far fewer than docs
_PAIRS = (
    "WITH kinds AS (SELECT places, hits, clicked AS any_click, count(*) AS docs "
    "FROM {{docs}} WHERE cells > 1 GROUP BY places, hits, clicked), "
    "part AS (SELECT *, (hits & (1::BIGINT << k)) != 0 AS hit FROM kinds, {numbers} "
    "WHERE (places & (1::BIGINT << k)) != 0) "
    "SELECT a.k, b.k, sum(CASE WHEN a.any_click THEN a.docs ELSE 0 END)::BIGINT, "
    "bool_or(a.hit) AND bool_or(b.hit) FROM part a JOIN part b ON a.places = b.places "
    "AND a.hits = b.hits AND a.any_click = b.any_click WHERE a.k < b.k GROUP BY a.k, b.k"
)
_CLICKS = (
    "SELECT k, sum(clicked)::BIGINT, count(DISTINCT q) FROM {cells} "
    "SEMI JOIN (SELECT q, d FROM {docs} WHERE cells > 1 AND clicked) USING (q, d) "
    "WHERE clicked > 0 GROUP BY k"
)


@dataclass(frozen=True)
class Identified:
    """What a log can tell a propensity estimator, by counts.

    Attributes:
        method: name of the estimator.
        status: how far it can.
        reason: why, in a sentence.
        counts: what the log holds for it.
    """

    method: str
    status: Status
    reason: str
    counts: Mapping[str, int]


def trusted_methods(methods: Iterable[Identified]) -> list[str]:
    """Return the methods that a log identifies, then those that it identifies weakly."""
    trusted = (Status.IDENTIFIED, Status.WEAK)
    return [
        estimator.method
        for status in trusted
        for estimator in methods
        if estimator.status == status
    ]


def depth_of(tables: LogTables) -> int:
    """Return the last position of the log."""
    return int(tables.row("SELECT coalesce(max(hi), 0) FROM {sessions}")[0])


def any_marked(tables: LogTables, which: str) -> bool:
    """Tell whether sessions are marked as swaps, or as anything else (which: "NOT")."""
    (count,) = tables.row(
        "SELECT count(*) FROM {sessions} "
        f"WHERE other_design != '' AND {which} starts_with(other_design, 'swap:')"
    )
    return bool(count)


def linked_positions(edges: Iterable[tuple[int, int]]) -> set[int]:
    """Return the positions that comparisons link to position 1, itself included.

    >>> sorted(linked_positions([(1, 3), (3, 4), (5, 6)]))
    [1, 3, 4]
    """
    neighbours: dict[int, set[int]] = {}
    for one, two in edges:
        neighbours.setdefault(one, set()).add(two)
        neighbours.setdefault(two, set()).add(one)
    # only ratios are known: a position not linked to 1 has no scale
    reached, ahead = {1}, [1]
    while ahead:
        new = neighbours.get(ahead.pop(), set()) - reached
        reached |= new
        ahead += new
    return reached


def judged(
    method: str,
    linked: set[int],
    clicks: Mapping[int, int],
    *,
    depth: int,
    none: str,
    unlinked: str,
    counts: Mapping[str, int],
    queries: Mapping[int, int] | None = None,
) -> Identified:
    """Return a verdict from the positions that are linked to 1 and the clicks behind each.

    Args:
        method: name of the estimator.
        linked: positions that are linked to position 1.
        clicks: clicks behind each position.
        depth: the last position.
        none: why nothing is linked, if so.
        unlinked: why some positions are not.
        counts: what the log holds for the estimator.
        queries: queries with clicks behind each position; default: enough.
    """
    if len(linked - {1}) == 0:
        return Identified(method, Status.UNKNOWN, none, counts)
    at = range(1, depth + 1)
    few = None
    if queries is not None:
        few = np.array([queries.get(k, 0) <= FEW_CARRIERS for k in at])
    verdict = judge_counts(
        np.array([k in linked for k in at]),
        np.array([clicks.get(k, 0) for k in at]),
        why_unknown=unlinked,
        few=few,
    )
    plenty = f"{sum(clicks.values()):,} clicks link positions 1 to {depth}"
    return Identified(method, verdict.status, verdict.reason or plenty, counts)


class MovedDocs:
    """What docs shown at several positions tell; pairs of positions that share such docs.

    Attributes:
        depth: the last position of the log.
        paired: the last of which pairs are looked at: all would be too many in a large log.
        docs: number of such docs.
        pairs: two positions, the number of clicked docs shown at both, whether both have clicks.
        clicks: clicks on such docs, by position.
        queries: queries with such clicks, by position.
    """

    def __init__(self, tables: LogTables) -> None:
        self.depth = depth_of(tables)
        self.paired, self.docs = _affordable(tables, self.depth)
        self.pairs = tables.rows(_PAIRS.format(numbers=numbers_sql(max(self.paired, 1), "r(k)")))
        counted = tables.rows(_CLICKS)
        self.clicks = {k: clicks for k, clicks, _ in counted}
        self.queries = {k: queries for k, _, queries in counted}

    def judged(self, method: str, links: Iterable[tuple[int, int]]) -> Identified:
        """Return the verdict for an estimator that compares these pairs of positions."""
        none = f"every doc was only ever shown at one position; {MOVE}"
        if self.docs:
            none = f"no clicked docs link any position to position 1; {MOVE}"
        known = linked_positions(links)
        # below the pairs that were looked at clicks have to do, unless the links end before
        if self.paired in known:
            known |= {k for k, clicks in self.clicks.items() if k > self.paired and clicks}
        return judged(
            method,
            known,
            self.clicks,
            queries=self.queries,
            depth=self.depth,
            none=none,
            unlinked="no clicked docs link them to position 1",
            counts={
                "docs": self.docs,
                "pairs of positions": len(self.pairs),
                "clicks": sum(self.clicks.values()),
            },
        )


def _affordable(tables: LogTables, depth: int) -> tuple[int, int]:
    """Return how deep pairs of positions can be looked at, and the docs with several so far."""
    # pairs grow with the square of the depth: a look at the top is better than none
    for most in (PLACES, _SHALLOW):
        pairs, docs = tables.row(
            "SELECT coalesce(sum(n * n), 0), coalesce(sum(docs) FILTER (n > 1), 0)::BIGINT FROM "
            f"(SELECT bit_count(places & {(2 << most) - 1})::BIGINT AS n, count(*) AS docs "
            "FROM {docs} GROUP BY places, hits)"
        )
        if pairs <= _MOST_PAIRS:
            break
    return min(depth, most), docs
