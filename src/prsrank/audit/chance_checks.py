"""Checks against chance: click rates by position and over time, and orders marked as random."""
# ruff: noqa: S608 -- queries hold constants and numbered columns, never a user's text

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from prsrank.audit.event_tables import TOP, EventTables
from prsrank.audit.findings import Finding, Period, Position
from prsrank.audit.position_checks import positions_of
from prsrank.errors import InputError
from prsrank.hashing import chosen_sql
from prsrank.logs.array_checks import check_design
from prsrank.logs.tables import numbers_sql
from prsrank.propensity.identification import SHUFFLED
from prsrank.propensity.verdict import in_words

_EXPECTED = 10
_RISE, _RISE_CHANCE = 1.2, 0.05

_PERIODS = 10
_MINUTE = 60_000_000
_DRIFT, _DRIFT_CHANCE = 0.2, 1e-4
_ENOUGH = 100

_RANDOMISED_ROWS = 200_000
"""About so many randomised rows are looked at: far more than an order that is not random needs."""

_ERRORS, _ORDER = 5.0, 0.05


class _Spread(NamedTuple):
    """How far queries move the click rate of a position; see `check_click_rates`.

    queries: as many of the same size count as much; square: the sum of x^2; product: the sum
    of x times that of the same query at the position above.
    """

    queries: float
    square: float
    product: float


_SPREAD = (
    "WITH each AS (SELECT q, k, sum(shown)::DOUBLE AS n, sum(clicked)::DOUBLE AS c FROM {cells} "
    "GROUP BY q, k), shown AS (SELECT k, sum(n) AS total, sum(c) / sum(n) AS rate, "
    "sum(n) ** 2 / sum(n ** 2) AS queries, row_number() OVER (ORDER BY k) AS step "
    "FROM each GROUP BY k), moves AS (SELECT q, k, step, queries, (c - n * rate) / total AS x "
    "FROM each JOIN shown USING (k)), pairs AS (SELECT k, queries, x, CASE WHEN "
    "step - lag(step) OVER w = 1 THEN lag(x) OVER w ELSE 0 END AS above FROM moves "
    "WINDOW w AS (PARTITION BY q ORDER BY k)) "
    "SELECT k, min(queries), sum(x ** 2), sum(x * above) FROM pairs GROUP BY k"
)


def check_click_rates(tables: EventTables) -> Iterator[Finding]:
    r"""Find positions without clicks, and click rates that rise down the list.

    Sessions of a query show docs of the same relevance, so that a rise has to hold over
    queries: query q moves the rate $C_k / N_k$ of position k by $x_{qk} = (c_{qk} - n_{qk} C_k /
    N_k) / N_k$, and the rise from k to l has the variance $\sum_q (x_{ql} - x_{qk})^2$. With
    the number of queries that would count as much if all had the same rows, $N_k^2 / \sum_q
    n_{qk}^2$, Student's t gives the chance of such a rise, and in all steps together it is
    5 % at most.
    """
    positions = positions_of(tables)
    if len(positions) < 2:
        return
    bare = [
        at
        for step, at in enumerate(positions)
        if not at.clicks and at.shown * _rate_around(positions, step) >= _EXPECTED
    ]
    if bare:
        words = f"no doc at position {in_words([at.position for at in bare])} was ever clicked"
        count, shown = (sum(at.shown for at in some) for some in (bare, positions))
        yield Finding("position-never-clicked", words, count=count, of=shown)
    steps = list(pairwise(positions))
    rises = [(first, second) for first, second in steps if second.ctr > _RISE * first.ctr]
    # how far queries spread takes a grouping of all cells
    spread = {k: _Spread(*row) for k, *row in tables.rows(_SPREAD)} if rises else {}
    rises = [rise for rise in rises if _rise_chance(*rise, spread) * len(steps) < _RISE_CHANCE]
    if rises:
        first, second = max(rises, key=lambda pair: pair[1].ctr / max(pair[0].ctr, 1e-9))
        words = (
            f"the click rate rises from position {first.position} ({first.ctr:.2%}) "
            f"to {second.position} ({second.ctr:.2%})"
        )
        yield Finding("ctr-rises", words, count=len(rises), of=len(steps), unit="steps")


def _rate_around(positions: Sequence[Position], step: int) -> float:
    """Return the click rate of the nearest positions, two above and two below."""
    near = positions[max(step - 2, 0) : step + 3]
    return sum(at.clicks for at in near) / sum(at.shown for at in near)


def _rise_chance(first: Position, second: Position, spreads: dict[int, _Spread]) -> float:
    """Return the probability of such a rise, or a larger one, if the rates are the same."""
    from scipy.special import stdtr

    above, below = spreads[first.position], spreads[second.position]
    freedom = min(above.queries, below.queries) - 1
    if freedom <= 0:
        return 1.0
    rate = (first.clicks + second.clicks) / (first.shown + second.shown)
    rows = rate * (1 - rate) * (1 / first.shown + 1 / second.shown)
    variance = max(above.square + below.square - 2 * below.product, rows)
    return float(stdtr(freedom, (first.ctr - second.ctr) / variance**0.5))


def periods_of(tables: EventTables) -> list[Period]:
    """Return rows and clicks of ten stretches of time of equal length, by the sessions' begin."""
    if "timestamp" not in tables.source.types:
        return []
    first, last = tables.row("SELECT min(t), max(t) FROM {sessions}")
    if first is None or first == last:
        return []
    rows = tables.rows(
        f"SELECT floor((t - {first}) * {_PERIODS}.0 / {last - first + 1}) AS p, min(t), "
        "max(t_last), sum(n)::BIGINT, sum(clicks)::BIGINT "
        "FROM {sessions} WHERE t IS NOT NULL GROUP BY p ORDER BY p"
    )
    return [Period(_time(begin), _time(end), *counts) for _, begin, end, *counts in rows]


def _time(microseconds: int) -> str:
    """Return a time as text.

    >>> _time(1_500_000), _time(60_000_000)
    ('1970-01-01 00:00:01.5', '1970-01-01 00:01:00')
    """
    text = str(np.datetime64(microseconds, "us")).replace("T", " ")
    return text.rstrip("0").rstrip(".")


def check_drift(tables: EventTables) -> Iterator[Finding]:
    """Find click rates that changed over time, by more than chance and by much."""
    periods = [period for period in periods_of(tables) if period.rows >= _ENOUGH]
    if len(periods) < 2:
        return
    low, high = min(periods, key=_rate), max(periods, key=_rate)
    mean = sum(p.clicks for p in periods) / sum(p.rows for p in periods)
    chance = _independence(np.array([[p.clicks, p.rows - p.clicks] for p in periods]))
    if chance < _DRIFT_CHANCE and _rate(high) - _rate(low) > _DRIFT * mean:
        words = (
            f"the click rate was {_rate(low):.2%} from {low.begin} to {low.end}, "
            f"but {_rate(high):.2%} from {high.begin} to {high.end}"
        )
        yield Finding("drift-clicks", words, count=len(periods), of=len(periods), unit="periods")
    middle = _middle(tables)
    yield from _drift_of_positions(tables, middle)
    yield from _drift_of_queries(tables, middle)


def _rate(period: Period) -> float:
    return period.clicks / period.rows


def _middle(tables: EventTables) -> int:
    """Return a time, a whole minute, that about half of the sessions precede."""
    (minute,) = tables.row(
        f"SELECT min(minute) FROM (SELECT minute, 2 * sum(n) OVER (ORDER BY minute) >= "
        f"sum(n) OVER () AS late FROM (SELECT floor(t / {_MINUTE}) AS minute, count(*) AS n "
        "FROM {sessions} WHERE t IS NOT NULL GROUP BY minute)) WHERE late"
    )
    return (int(minute) + 1) * _MINUTE


def _drift_of_positions(tables: EventTables, middle: int) -> Iterator[Finding]:
    """Compare how clicks spread over positions in the earlier and the later half."""
    rows = tables.rows(
        f"SELECT k, count(*) FILTER (t < {middle}), count(*) FILTER (t >= {middle}), "
        f"count(*) FILTER (clicked AND t < {middle}), count(*) FILTER (clicked AND t >= {middle}) "
        "FROM (SELECT k, t, (top_clicked & (1 << k)) > 0 AS clicked "
        f"FROM {{sessions}}, {numbers_sql(TOP, 'r(k)')} WHERE (top & (1 << k)) > 0) "
        "GROUP BY k ORDER BY k"
    )
    counts = np.array(rows, dtype=np.float64).reshape(-1, 5)
    counts, positions = counts[counts[:, 3:].sum(axis=1) > 0], len(counts)
    shown, clicks = counts[:, 1:3], counts[:, 3:]
    if len(clicks) < 2 or clicks.sum(axis=0).min() < _ENOUGH or shown.min() == 0:
        return
    # each position's click rate relative to the rate of its half
    shares = clicks / shown / (clicks.sum(axis=0) / shown.sum(axis=0))
    moves = np.abs(shares[:, 1] - shares[:, 0])
    if _independence(clicks) < _DRIFT_CHANCE and moves.max() > _DRIFT:
        k = int(counts[moves.argmax(), 0])
        words = f"clicks spread over positions otherwise in the later half, most at position {k}"
        yield Finding("drift-positions", words, "", len(clicks), positions, "positions")


def _drift_of_queries(tables: EventTables, middle: int) -> Iterator[Finding]:
    """Count the sessions of the later half whose query the earlier half does not have."""
    late, new = tables.row(
        "WITH begun AS (SELECT q, min(t) AS t FROM {sessions} GROUP BY q) "
        f"SELECT count(*), count(*) FILTER (b.t >= {middle}) FROM {{sessions}} s "
        f"JOIN begun b ON s.q = b.q WHERE s.t >= {middle}"
    )
    if late >= _ENOUGH and new > 0.5 * late:
        words = "sessions of the later half have queries that the earlier half does not have"
        yield Finding("drift-queries", words, "", new, late, "later sessions")


def _independence(table: np.ndarray) -> float:
    """Return the p-value of the chi-square test that rows have the same shares."""
    from scipy.stats import chi2_contingency

    kept = table[:, table.sum(axis=0) > 0]
    return float(chi2_contingency(kept).pvalue) if kept.shape[1] > 1 else 1.0


_LOOKS = (
    "WITH positions AS (SELECT q, s, d, "
    "row_number() OVER w - (count(*) OVER (PARTITION BY q, s) + 1) / 2 AS x, "
    "count(*) OVER (PARTITION BY q, s) AS length FROM {{events}} SEMI JOIN "
    "(SELECT q, s FROM {{sessions}} WHERE other_design != '' AND {chosen}) USING (q, s) "
    "WHERE shuffled AND k IS NOT NULL AND {shuffled} "
    "WINDOW w AS (PARTITION BY q, s ORDER BY k)), ordinary AS ("
    "SELECT q, d, sum(k::BIGINT * ordinary) / nullif(sum(ordinary), 0) AS k FROM {{cells}} "
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


def _is_design(name: str) -> bool:
    try:
        check_design(name)
    except InputError:
        return False
    return True


def check_randomised(tables: EventTables) -> Iterator[Finding]:
    r"""Find names of designs that mean nothing, and sessions marked whose order is not random.

    In a list of L shuffled docs the position r of each has mean (L + 1) / 2 and variance
    v = (L^2 - 1) / 12. So for docs shown several times $z^2 = (\sum (r - (L+1)/2))^2 / \sum v$
    has mean 1, and positions do not go with the docs' mean positions in ordinary sessions.
    """
    if "randomised" not in tables.source.types:
        return
    designs = tables.rows(
        "SELECT design, other_design, sum(n)::BIGINT, count(*) FROM {sessions} "
        "GROUP BY design, other_design"
    )
    unknown = [row for row in designs if not all(map(_is_design, row[:2]))]
    if unknown:
        name = min(name for row in unknown for name in row[:2] if not _is_design(name))
        words = f"randomised is {name!r}, which names no design"
        count = sum(row[2] for row in unknown)
        yield Finding("randomised-unknown", words, "", count, tables.totals.rows)
    rows, marked = (sum(row[i] for row in designs if row[0]) for i in (2, 3))
    sessions = sum(row[3] for row in designs)
    if not marked:
        return
    # some queries with all their randomised sessions
    chosen = "true" if rows <= _RANDOMISED_ROWS else chosen_sql("q", _RANDOMISED_ROWS / rows)
    sums = tables.row(_LOOKS.format(chosen=chosen, shuffled=SHUFFLED))
    excess, mean = _excess(*sums[:3])
    z, correlation = _agreement(*sums[3:])
    if excess > _ERRORS and mean > 1 + _ORDER:
        words = (
            "docs keep their positions in sessions marked as randomised: "
            f"their mean positions vary {mean:.1f} times as much as chance allows"
        )
    elif abs(z) > _ERRORS and abs(correlation) > _ORDER:
        words = (
            "positions in sessions marked as randomised go with those in ordinary sessions "
            f"(correlation {correlation:.2f})"
        )
    else:
        return
    where = tables.session_example("design != ''")
    yield Finding("randomised-not-random", words, where, marked, sessions, "sessions")


def _excess(docs: int, mean: float | None, deviation: float | None) -> tuple[float, float]:
    """Return by how many standard errors the mean of z^2 is above 1, and that mean."""
    if mean is None or docs < 10 or not deviation:
        # docs that never move: z^2 is the same for mirrored positions
        return (0.0, 1.0) if not mean or mean <= 2 else (2 * _ERRORS, float(mean))
    return float((mean - 1) / (deviation / docs**0.5)), float(mean)


def _agreement(
    product: float | None, variance: float | None, x2: float | None, y2: float | None
) -> tuple[float, float]:
    """Return how positions go with mean positions in ordinary sessions: z value, correlation."""
    if product is None or not variance or not x2 or not y2:
        return 0.0, 0.0
    return float(product / variance**0.5), float(product / (x2 * y2) ** 0.5)
