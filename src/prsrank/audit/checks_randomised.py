"""Checks of sessions marked as randomised: known designs, and orders that look random."""
# ruff: noqa: S608 -- queries hold constants and numbered columns, never a user's text

from collections.abc import Iterator

from prsrank.audit.event_tables import EventTables, chosen_sql
from prsrank.audit.findings import Finding
from prsrank.errors import InputError
from prsrank.logs.click_log_checks import check_design
from prsrank.propensity.identification import SHUFFLED

_ROWS = 200_000
"""About so many randomised rows are looked at: far more than an order that is not random needs."""

_SURE = 5.0
_LARGE = 0.05

_POSITIONS = (
    "SELECT q, s, d, row_number() OVER w - (count(*) OVER (PARTITION BY q, s) + 1) / 2 AS x, "
    "count(*) OVER (PARTITION BY q, s) AS length FROM {events} "
    "SEMI JOIN (SELECT q, s FROM {sessions} WHERE other_design != '' AND CHOSEN) USING (q, s) "
    f"WHERE shuffled AND k IS NOT NULL AND {SHUFFLED} "
    "WINDOW w AS (PARTITION BY q, s ORDER BY k)"
)
_LOOKS = (
    f"WITH positions AS ({_POSITIONS}), "
    "ordinary AS (SELECT q, d, sum(k::BIGINT * ordinary) / nullif(sum(ordinary), 0) AS k FROM {cells} "
    "SEMI JOIN positions USING (q) GROUP BY q, d HAVING sum(ordinary) > 0), "
    "kept AS (SELECT sum(x) ** 2 / sum((length ** 2 - 1) / 12) AS z FROM positions "
    "WHERE length > 1 GROUP BY q, d HAVING count(*) > 1), "
    "matched AS (SELECT x, (length ** 2 - 1) / 12 AS v, "
    "k - avg(k) OVER (PARTITION BY p.q, p.s) AS y FROM positions p "
    "JOIN ordinary o ON p.q = o.q AND p.d = o.d WHERE length > 1) "
    "SELECT * FROM (SELECT count(*), avg(z), stddev_samp(z) FROM kept), "
    "(SELECT sum(x * y), sum(v * y ** 2), sum(x ** 2), sum(y ** 2) FROM matched)"
)
"""SQL: how far docs keep their positions, and how positions go with those in ordinary sessions."""


def check_designs(tables: EventTables) -> Iterator[Finding]:
    """Find names of designs that mean nothing."""
    if "randomised" not in tables.source.types:
        return
    found = tables.rows(
        "SELECT design, other_design, sum(n)::BIGINT FROM {sessions} GROUP BY design, other_design ORDER BY design, other_design"
    )
    bad = {row: next((name for name in row[:2] if not _known(name)), None) for row in found}
    names = sorted(name for name in bad.values() if name is not None)
    if names:
        count = sum(row[2] for row, name in bad.items() if name is not None)
        what = f"randomised is {names[0]!r}, which names no design"
        yield Finding("randomised-unknown", what, "", count, tables.totals().rows)


def _known(design: str) -> bool:
    try:
        check_design(design)
    except InputError:
        return False
    return True


def check_randomised(tables: EventTables) -> Iterator[Finding]:
    r"""Find sessions marked as randomised whose order does not look random.

    In a list of L shuffled docs the position r of each has mean (L + 1) / 2 and variance
    v = (L^2 - 1) / 12. So for docs shown several times $z^2 = (\sum (r - (L+1)/2))^2 / \sum v$
    has mean 1, and positions do not go with the docs' mean positions in ordinary sessions.
    """
    if "randomised" not in tables.source.types:
        return
    sessions, marked = tables.row("SELECT count(*), count(*) FILTER (design != '') FROM {sessions}")
    if not marked:
        return
    found = tables.row(_LOOKS.replace("CHOSEN", _chosen(tables)))
    excess, mean = _excess(*found[:3])
    z, correlation = _agreement(*found[3:])
    if excess > _SURE and mean > 1 + _LARGE:
        what = (
            "docs keep their positions in sessions marked as randomised: "
            f"their mean positions vary {mean:.1f} times as much as chance allows"
        )
    elif abs(z) > _SURE and abs(correlation) > _LARGE:
        what = (
            "positions in sessions marked as randomised go with those in ordinary sessions "
            f"(correlation {correlation:.2f})"
        )
    else:
        return
    where = tables.session_example("design != ''")
    yield Finding("randomised-not-random", what, where, marked, sessions, "sessions")


def _chosen(tables: EventTables) -> str:
    """Return SQL that is true for some queries, with all their randomised sessions."""
    (rows,) = tables.row("SELECT sum(n)::BIGINT FROM {sessions} WHERE design != ''")
    return "true" if rows <= _ROWS else chosen_sql("q", _ROWS / rows)


def _excess(docs: int, mean: float | None, deviation: float | None) -> tuple[float, float]:
    """Return by how many standard errors the mean of z^2 is above 1, and that mean."""
    if mean is None or docs < 10 or not deviation:
        # docs that never move: z^2 is the same for mirrored positions
        return (0.0, 1.0) if not mean or mean <= 2 else (2 * _SURE, float(mean))
    return float((mean - 1) / (deviation / docs**0.5)), float(mean)


def _agreement(
    product: float | None, variance: float | None, x2: float | None, y2: float | None
) -> tuple[float, float]:
    """Return how positions go with mean positions in ordinary sessions: z value, correlation."""
    if product is None or not variance or not x2 or not y2:
        return 0.0, 0.0
    return float(product / variance**0.5), float(product / (x2 * y2) ** 0.5)
