"""Checks of clicks: how many, at which positions, and whether they can teach."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from prsrank.audit.event_tables import EventTables
from prsrank.audit.findings import Finding, Position
from prsrank.logs.row_rules import click_sql, number_sql, weight_sql
from prsrank.propensity.verdict import in_words

_FEW = 1000
_EXPECTED = 10
_SURE = 0.05
_RISE = 1.2


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


def positions_of(tables: EventTables) -> list[Position]:
    """Return how often docs were shown, and clicked, at each position."""
    found = tables.rows(
        "SELECT k, sum(shown)::BIGINT, sum(clicked)::BIGINT FROM {cells} GROUP BY k ORDER BY k"
    )
    return [Position(*row) for row in found]


def check_clicks(tables: EventTables) -> Iterator[Finding]:
    """Find logs with too few clicks, or with nothing but clicks."""
    rows, clicks, unclicked, *_ = tables.totals()
    if not rows:
        return
    if not clicks:
        yield Finding("no-clicks", "the log has no clicks", count=rows, of=rows)
    elif not unclicked:
        what = "the log holds clicked rows only"
        yield Finding("clicked-rows-only", what, count=clicks, of=rows)
    else:
        yield from _pairs(tables)
        if clicks < _FEW:
            what = f"the log has only {clicks:,} clicks; {_FEW:,} are few"
            yield Finding("few-clicks", what, count=clicks, of=rows)


def check_weights(tables: EventTables) -> Iterator[Finding]:
    """Find clicks of different weights; `check_rows` finds weights that cannot be used."""
    if "weight" not in tables.source.types or not tables.source.is_number("weight"):
        return
    weight, usable = number_sql(tables.source, "weight"), weight_sql(tables.source)
    clicks, least, most = tables.source.where(f"{click_sql(tables.source)} AND {usable}").total(
        f"count(*), min({weight}), max({weight})"
    )
    if clicks and least != most:
        what = f"clicks count by their weight, from {least:g} to {most:g}"
        yield Finding("clicks-weighted", what, "", clicks, clicks)


def _pairs(tables: EventTables) -> Iterator[Finding]:
    sessions, both = tables.row(
        "SELECT count(*), count(*) FILTER (clicks > 0 AND clicks < n) FROM {sessions}"
    )
    if sessions and not both:
        what = "no session has both a clicked doc and one that was not clicked"
        yield Finding("no-pairs", what, count=sessions, of=sessions, unit="sessions")


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
    shown = sum(at.shown for at in positions)
    if len(positions) < 2:
        return
    bare = [
        at
        for step, at in enumerate(positions)
        if not at.clicks and at.shown * _rate_around(positions, step) >= _EXPECTED
    ]
    if bare:
        where = in_words([at.position for at in bare])
        what = f"no doc at position {where} was ever clicked"
        count = sum(at.shown for at in bare)
        yield Finding("position-never-clicked", what, count=count, of=shown)
    steps = list(pairwise(positions))
    rises = [(one, two) for one, two in steps if two.ctr > _RISE * one.ctr]
    # how far queries spread takes a grouping of all cells
    spread = {k: _Spread(*row) for k, *row in tables.rows(_SPREAD)} if rises else {}
    rises = [
        (one, two)
        for one, two in rises
        if _chance(one, two, spread[one.position], spread[two.position]) * len(steps) < _SURE
    ]
    if rises:
        one, two = max(rises, key=lambda pair: pair[1].ctr / max(pair[0].ctr, 1e-9))
        what = (
            f"the click rate rises from position {one.position} ({one.ctr:.2%}) "
            f"to {two.position} ({two.ctr:.2%})"
        )
        yield Finding("ctr-rises", what, count=len(rises), of=len(steps), unit="steps")


def _rate_around(positions: Sequence[Position], step: int) -> float:
    """Return the click rate of the nearest positions, two above and two below."""
    near = positions[max(step - 2, 0) : step + 3]
    return sum(at.clicks for at in near) / sum(at.shown for at in near)


def _chance(one: Position, two: Position, first: _Spread, second: _Spread) -> float:
    """Return the probability of such a rise, or a larger one, if the rates are the same."""
    from scipy.special import stdtr

    freedom = min(first.queries, second.queries) - 1
    if freedom <= 0:
        return 1.0
    rate = (one.clicks + two.clicks) / (one.shown + two.shown)
    rows = rate * (1 - rate) * (1 / one.shown + 1 / two.shown)
    variance = max(first.square + second.square - 2 * second.product, rows)
    return float(stdtr(freedom, (one.ctr - two.ctr) / variance**0.5))
