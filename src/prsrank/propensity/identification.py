r"""Which positions a log tells an estimator of, by counts alone.

A position's propensity is known relative to position 1 if comparisons link the two. What
counts as a comparison is each estimator's own: its `identify`. An estimate is called weak if
some positions are not linked, or if the clicks behind them are so few that the interval
$1.96 \sqrt{1/c_1 + 1/c_k}$ of log p is wide.
"""
# ruff: noqa: S608 -- queries hold constants, never a user's text

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from prsrank.propensity.verdict import WIDE, in_words
from prsrank.types import LogTables

_Z = 1.96
_DEPTH, _SHALLOW = 50, 10
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

_PART = (
    "WITH several AS (SELECT q, d, sum(clicked) AS total FROM {{cells}} WHERE k <= {depth} "
    "GROUP BY q, d HAVING count(*) > 1), "
    "part AS (SELECT c.*, total FROM {{cells}} c JOIN several s ON c.q = s.q AND c.d = s.d "
    "WHERE k <= {depth}) "
)


@dataclass(frozen=True)
class Identified:
    """What a log can tell a propensity estimator, by counts.

    Attributes:
        method: name of the estimator.
        status: "identified", "weak" or "not identified".
        reason: why, in a sentence.
        counts: what the log holds for it.
    """

    method: str
    status: str
    reason: str
    counts: Mapping[str, int]


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
    known: set[int],
    clicks: Mapping[int, int],
    *,
    depth: int,
    none: str,
    unlinked: str,
    counts: Mapping[str, int],
) -> Identified:
    """Return a verdict from the positions that are linked to 1 and the clicks behind each."""
    if len(known - {1}) == 0:
        return Identified(method, "not identified", none, counts)
    thin = [k for k in sorted(known - {1}) if not _enough(clicks.get(1, 0), clicks.get(k, 0))]
    unknown = [k for k in range(2, depth + 1) if k not in known]
    parts = []
    if thin:
        parts.append(f"positions {in_words(thin)}: few clicks")
    if unknown:
        parts.append(f"positions {in_words(unknown)}: {unlinked}")
    if parts:
        return Identified(method, "weak", "; ".join(parts), counts)
    total = sum(clicks.values())
    reason = f"{total:,} clicks link positions 1 to {depth}"
    return Identified(method, "identified", reason, counts)


def _enough(one: int, other: int) -> bool:
    # the half-width of a log ratio of two counts
    return one > 0 and other > 0 and _Z * (1 / one + 1 / other) ** 0.5 <= WIDE


class MovedDocs:
    """What docs shown at several positions tell; pairs of positions that share such docs.

    Attributes:
        depth: the last position looked at: all would be too many pairs in a large log.
        docs: number of such docs.
        pairs: two positions, the number of clicked docs shown at both, whether both have clicks.
        clicks: clicks on such docs, by position.
    """

    def __init__(self, tables: LogTables) -> None:
        self.depth, self.docs = _affordable(tables, depth_of(tables))
        found = tables.rows(
            f"{_PART.format(depth=self.depth)} SELECT a.k, b.k, count(*) FILTER (a.total > 0), "
            "sum(a.clicked) > 0 AND sum(b.clicked) > 0, sum(a.clicked)::BIGINT "
            "FROM part a JOIN part b ON a.q = b.q AND a.d = b.d WHERE a.k <= b.k GROUP BY a.k, b.k"
        )
        self.pairs = [row[:4] for row in found if row[0] != row[1]]
        self.clicks = {row[0]: row[4] for row in found if row[0] == row[1]}

    def judged(self, method: str, links: Iterable[tuple[int, int]]) -> Identified:
        """Return the verdict for an estimator that compares these pairs of positions."""
        none = f"every doc was only ever shown at one position; {MOVE}"
        if self.docs:
            none = f"no clicked docs link any position to position 1; {MOVE}"
        return judged(
            method,
            linked_positions(links),
            self.clicks,
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
    for most in (_DEPTH, _SHALLOW):
        pairs, docs = tables.row(
            "SELECT coalesce(sum(n * n), 0), count(*) FILTER (n > 1) FROM "
            f"(SELECT count(*) AS n FROM {{cells}} WHERE k <= {most} GROUP BY q, d)"
        )
        if pairs <= _MOST_PAIRS:
            break
    return min(depth, most), docs
