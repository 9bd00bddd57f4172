"""Checks over time: click rates, click rates by position, and the mix of queries."""
# ruff: noqa: S608 -- queries hold constants and numbered columns, never a user's text

from collections.abc import Iterator

import numpy as np

from prsrank.audit.event_tables import TOP, EventTables
from prsrank.audit.findings import Finding, Period
from prsrank.logs.sql_text import numbers_sql

_PERIODS = 10
_SURE = 1e-4
_LARGE = 0.2
_ENOUGH = 100
_MINUTE = 60_000_000


def periods_of(tables: EventTables) -> list[Period]:
    """Return rows and clicks of ten stretches of time of equal length, by the sessions' begin."""
    if "timestamp" not in tables.source.types:
        return []
    first, last = tables.row("SELECT min(t), max(t) FROM {sessions}")
    if first is None or first == last:
        return []
    found = tables.rows(
        f"SELECT floor((t - {first}) * {_PERIODS}.0 / {last - first + 1}) AS p, min(t), "
        "max(t_last), sum(n)::BIGINT, sum(clicks)::BIGINT "
        "FROM {sessions} WHERE t IS NOT NULL GROUP BY p ORDER BY p"
    )
    return [Period(_time(begin), _time(end), *counts) for _, begin, end, *counts in found]


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
    rates = [period.clicks / period.rows for period in periods]
    chance = _chance(np.array([[p.clicks, p.rows - p.clicks] for p in periods]))
    mean = sum(p.clicks for p in periods) / sum(p.rows for p in periods)
    if chance < _SURE and max(rates) - min(rates) > _LARGE * mean:
        low, high = periods[int(np.argmin(rates))], periods[int(np.argmax(rates))]
        what = (
            f"the click rate was {min(rates):.2%} from {low.begin} to {low.end}, "
            f"but {max(rates):.2%} from {high.begin} to {high.end}"
        )
        yield Finding("drift-clicks", what, count=len(periods), of=len(periods), unit="periods")
    middle = _middle(tables)
    yield from _drift_of_positions(tables, middle)
    yield from _drift_of_queries(tables, middle)


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
    found = tables.rows(
        f"SELECT k, count(*) FILTER (t < {middle}), count(*) FILTER (t >= {middle}), "
        f"count(*) FILTER (clicked AND t < {middle}), count(*) FILTER (clicked AND t >= {middle}) "
        "FROM (SELECT k, t, (top_clicked & (1 << k)) > 0 AS clicked "
        f"FROM {{sessions}}, {numbers_sql(TOP, 'r(k)')} WHERE (top & (1 << k)) > 0) "
        "GROUP BY k ORDER BY k"
    )
    counts = np.array(found, dtype=np.float64).reshape(-1, 5)
    clicks = counts[:, 3:]
    usable = clicks.sum(axis=1) > 0
    clicks, shown = clicks[usable], counts[usable, 1:3]
    if len(clicks) < 2 or clicks.sum(axis=0).min() < _ENOUGH or shown.min() == 0:
        return
    # each position's click rate relative to the rate of its half
    shares = clicks / shown / (clicks.sum(axis=0) / shown.sum(axis=0))
    move = float(np.abs(shares[:, 1] - shares[:, 0]).max())
    if _chance(clicks) < _SURE and move > _LARGE:
        k = int(counts[usable, 0][np.abs(shares[:, 1] - shares[:, 0]).argmax()])
        what = f"clicks spread over positions otherwise in the later half, most at position {k}"
        yield Finding("drift-positions", what, unit="positions", count=len(clicks), of=len(counts))


def _drift_of_queries(tables: EventTables, middle: int) -> Iterator[Finding]:
    """Count the sessions of the later half whose query the earlier half does not have."""
    late, new = tables.row(
        "WITH begun AS (SELECT q, min(t) AS t FROM {sessions} GROUP BY q) "
        f"SELECT count(*), count(*) FILTER (b.t >= {middle}) FROM {{sessions}} s "
        f"JOIN begun b ON s.q = b.q WHERE s.t >= {middle}"
    )
    if late >= _ENOUGH and new > 0.5 * late:
        what = "sessions of the later half have queries that the earlier half does not have"
        yield Finding("drift-queries", what, "", new, late, "later sessions")


def _chance(table: np.ndarray) -> float:
    """Return the p-value of the chi-square test that rows have the same shares."""
    from scipy.stats import chi2_contingency

    kept = table[:, table.sum(axis=0) > 0]
    if kept.shape[1] < 2:
        return 1.0
    return float(chi2_contingency(kept).pvalue)
