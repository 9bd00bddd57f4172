r"""Which propensity estimators a log identifies, by counts alone.

A position's propensity is known relative to position 1 if comparisons link the two. What
counts as a comparison is each estimator's own; see `prsrank.propensity`. An estimate is
called weak if some positions are not linked, or if the clicks behind them are so few that
the interval $1.96 \sqrt{1/c_1 + 1/c_k}$ of log p is wide.
"""
# ruff: noqa: S608 -- queries hold constants and numbered columns, never a user's text

from collections.abc import Iterable, Iterator, Mapping, Sequence

from prsrank.audit.checks_randomised import SHUFFLED
from prsrank.audit.event_tables import EventTables
from prsrank.audit.findings import Finding, Identified
from prsrank.propensity.verdict import WIDE, in_words

_Z = 1.96
_DEPTH, _SHALLOW = 50, 10
_MOST_PAIRS = 200_000_000
_MOVE = "log sessions of a second ranker or randomise a share"


def identify(tables: EventTables) -> list[Identified]:
    """Return what the log can tell each estimator, the best estimator first."""
    depth = int(tables.row("SELECT coalesce(max(hi), 0) FROM {sessions}")[0])
    moved = _Moved(tables, depth)
    return [
        _randomised(tables, depth),
        _swap(tables, depth),
        moved.harvest(),
        moved.chain(),
        moved.regression_em(),
    ]


def none_identified(tables: EventTables, estimators: Sequence[Identified]) -> Iterator[Finding]:
    """Warn of a log that identifies no estimator."""
    if any(one.status != "not identified" for one in estimators):
        return
    docs, several = tables.row(
        "SELECT count(*), count(*) FILTER (n > 1) "
        "FROM (SELECT count(*) AS n FROM {cells} GROUP BY q, d)"
    )
    what = "the log identifies no propensity estimator; docs shown at one position only"
    yield Finding("no-propensities", what, "", docs - several, docs, "docs")


def linked_positions(edges: Iterable[tuple[int, int]]) -> set[int]:
    """Return the positions that comparisons link to position 1, itself included.

    >>> sorted(linked_positions([(1, 3), (3, 4), (5, 6)]))
    [1, 3, 4]
    """
    neighbours: dict[int, set[int]] = {}
    for one, two in edges:
        neighbours.setdefault(one, set()).add(two)
        neighbours.setdefault(two, set()).add(one)
    reached, ahead = {1}, [1]
    while ahead:
        new = neighbours.get(ahead.pop(), set()) - reached
        reached |= new
        ahead += new
    return reached


def _judged(
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
    return one > 0 and other > 0 and _Z * (1 / one + 1 / other) ** 0.5 <= WIDE


def _randomised(tables: EventTables, depth: int) -> Identified:
    found = tables.rows(_SHUFFLED_CLICKS) if _marked(tables, "NOT") else []
    sessions = max((shown for _, _, _, shown in found), default=0)
    known = {k for k, _, first, _ in found if first}
    clicks = {k: clicked for k, clicked, _, _ in found}
    none = "no session is marked as shuffled (randomised 'uniform' or 'top-k:K')"
    if sessions:
        none = "no shuffled session has a click at position 1 and further docs"
    counts = {"sessions": sessions, "clicks": sum(clicks.values())}
    unlinked = "no shuffled list reaches them with clicks at position 1"
    return _judged(
        "randomised", known, clicks, depth=depth, none=none, unlinked=unlinked, counts=counts
    )


def _swap(tables: EventTables, depth: int) -> Identified:
    found = tables.rows(_SWAPPED_CLICKS) if _marked(tables, "") else []
    known = linked_positions((one, two) for one, two, _, c1, c2 in found if c1 and c2)
    clicks: dict[int, int] = {}
    for one, two, _, at_one, at_two in found:
        clicks[one] = clicks.get(one, 0) + at_one
        clicks[two] = clicks.get(two, 0) + at_two
    sessions = sum(row[2] for row in found)
    none = "no session is marked as a swap (randomised 'swap:A:B')"
    if sessions:
        none = "no swaps with clicks at both positions link any position to position 1"
    counts = {"sessions": sessions, "swaps": len(found), "clicks": sum(clicks.values())}
    unlinked = "no swaps with clicks link them to position 1"
    return _judged("swap", known, clicks, depth=depth, none=none, unlinked=unlinked, counts=counts)


def _marked(tables: EventTables, which: str) -> bool:
    """Tell whether sessions are marked as swaps, or as anything else (which: "NOT")."""
    (count,) = tables.row(
        "SELECT count(*) FROM {sessions} "
        f"WHERE other_design != '' AND {which} starts_with(other_design, 'swap:')"
    )
    return bool(count)


_SHUFFLED_CLICKS = (
    "WITH shuffled AS (SELECT q, s, k, c FROM {events} "
    "SEMI JOIN (SELECT q, s FROM {sessions} WHERE lo = 1) USING (q, s) "
    f"WHERE NOT starts_with(design, 'swap:') AND {SHUFFLED}), "
    "firsts AS (SELECT q, s, bool_or(c AND k = 1) AS first FROM shuffled GROUP BY q, s) "
    "SELECT k, count(*) FILTER (c), count(*) FILTER (first), count(*) FROM shuffled x "
    "JOIN firsts f ON x.q = f.q AND x.s = f.s GROUP BY k ORDER BY k"
)
_SWAPPED_CLICKS = (
    "WITH swapped AS (SELECT *, TRY_CAST(split_part(design, ':', 2) AS INTEGER) AS a, "
    "TRY_CAST(split_part(design, ':', 3) AS INTEGER) AS b FROM {events} "
    "WHERE starts_with(design, 'swap:')), "
    "pairs AS (SELECT least(a, b) AS one, greatest(a, b) AS two, count(*) AS n, "
    "count(*) FILTER (c AND k = least(a, b)) AS at_one, "
    "count(*) FILTER (c AND k = greatest(a, b)) AS at_two "
    "FROM swapped WHERE k IN (a, b) GROUP BY q, s, a, b) "
    "SELECT one, two, count(*), sum(at_one)::BIGINT, sum(at_two)::BIGINT FROM pairs "
    "WHERE n = 2 GROUP BY one, two ORDER BY one, two"
)
_PART = (
    "WITH several AS (SELECT q, d, sum(clicked) AS total FROM {{cells}} WHERE k <= {depth} "
    "GROUP BY q, d HAVING count(*) > 1), "
    "part AS (SELECT c.*, total FROM {{cells}} c JOIN several s ON c.q = s.q AND c.d = s.d "
    "WHERE k <= {depth}) "
)


def _affordable(tables: EventTables, depth: int) -> tuple[int, int]:
    """Return how deep pairs of positions can be looked at, and the docs with several so far."""
    for most in (_DEPTH, _SHALLOW):
        pairs, docs = tables.row(
            "SELECT coalesce(sum(n * n), 0), count(*) FILTER (n > 1) FROM "
            f"(SELECT count(*) AS n FROM {{cells}} WHERE k <= {most} GROUP BY q, d)"
        )
        if pairs <= _MOST_PAIRS:
            break
    return min(depth, most), docs


class _Moved:
    """What docs shown at several positions tell; pairs of positions that share such docs."""

    def __init__(self, tables: EventTables, depth: int) -> None:
        self.features = bool(tables.features)
        self.depth, self.docs = _affordable(tables, depth)
        found = tables.rows(
            f"{_PART.format(depth=self.depth)} SELECT a.k, b.k, count(*) FILTER (a.total > 0), "
            "sum(a.clicked) > 0 AND sum(b.clicked) > 0, sum(a.clicked)::BIGINT "
            "FROM part a JOIN part b ON a.q = b.q AND a.d = b.d WHERE a.k <= b.k GROUP BY a.k, b.k"
        )
        self.pairs = [row[:4] for row in found if row[0] != row[1]]
        self.clicks = {row[0]: row[4] for row in found if row[0] == row[1]}
        at_first = tables.row("SELECT coalesce(sum(clicked), 0) FROM {cells} WHERE k = 1")
        self.clicks_at_first = int(at_first[0])

    def _verdict(self, method: str, known: set[int]) -> Identified:
        counts = {"docs": self.docs, "pairs of positions": len(self.pairs)}
        counts["clicks"] = sum(self.clicks.values())
        none = f"every doc was only ever shown at one position; {_MOVE}"
        if self.docs:
            none = f"no clicked docs link any position to position 1; {_MOVE}"
        unlinked = "no clicked docs link them to position 1"
        return _judged(
            method,
            known,
            self.clicks,
            depth=self.depth,
            none=none,
            unlinked=unlinked,
            counts=counts,
        )

    def harvest(self) -> Identified:
        """All pairs of positions with clicks at both."""
        return self._verdict(
            "harvest", linked_positions((k, other) for k, other, _, both in self.pairs if both)
        )

    def chain(self) -> Identified:
        """Neighbouring positions with clicks at both."""
        return self._verdict(
            "harvest-chain",
            linked_positions(
                (k, other) for k, other, _, both in self.pairs if both and other == k + 1
            ),
        )

    def regression_em(self) -> Identified:
        """Clicked docs at both positions, or features."""
        has = {k for k, clicked in self.clicks.items() if clicked}
        known = linked_positions(
            (k, other)
            for k, other, clicked, _ in self.pairs
            if clicked and k in has and other in has
        )
        found = self._verdict("regression-em", known)
        if found.status == "not identified" and self.features and self.clicks_at_first:
            reason = f"only the features tell relevance from position; {_MOVE}"
            return Identified("regression-em", "weak", reason, found.counts)
        return found
