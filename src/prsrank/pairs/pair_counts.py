r"""From events to counts of pairs: one narwhals expression, the same on every engine.

A pair is a clicked doc (the winner) and another doc of the same session (the loser). Equal
pairs of many sessions become one row with a count, and everything that a weight depends on
(the positions of the two docs, the session's number of clicks, the action) is part of the row.
So an engine only joins and counts, which is exact on all of them; weights are looked up after.
"""

from collections.abc import Sequence

import narwhals as nw

from prsrank.errors import InputError

SESSION = ("query_id", "session_id")


def pair_counts(
    events: nw.LazyFrame,
    *,
    key: str | None = "position",
    against: str = "non-clicked",
    count_clicks: bool = False,
    weight: str | None = None,
) -> nw.LazyFrame:
    r"""Count the pairs of all sessions.

    The count of the row $(q, i, j, k_i, k_j)$ is the number of sessions of query q in which
    doc i was clicked at key $k_i$ and doc j, at $k_j$, was not. The row of a doc with itself
    counts its clicks, so that every winner has a row even where all docs were clicked.

    Args:
        events: one row per shown doc: query_id, session_id, doc_id, click (boolean, or 0 and
            1) and the columns named below; other columns are not touched.
        key: the column that decides a doc's propensity: its position, or the logged
            propensity itself; None where weights need none.
        against: "non-clicked", or "others" for losers that may be clicked too.
        count_clicks: keep apart pairs of sessions with different numbers of clicks.
        weight: a column that keeps apart pairs whose winners have different values of it.

    Returns:
        query_id, winner, loser, [winner_key, loser_key], [clicks], [weight], pairs.

    >>> import polars
    >>> events = polars.LazyFrame({
    ...     "query_id": [7, 7, 7, 7], "session_id": [1, 1, 2, 2], "doc_id": [30, 40, 30, 40],
    ...     "position": [1, 2, 1, 2], "click": [1, 0, 1, 0]})
    >>> counts = pair_counts(nw.from_native(events)).collect().sort("loser")
    >>> counts.select("winner", "loser", "winner_key", "loser_key", "pairs").rows()
    [(30, 30, 1, 1, 2), (30, 40, 1, 2, 2)]
    """
    if against not in ("non-clicked", "others"):
        raise InputError(f"pairs are against 'non-clicked' or 'others', not {against!r}")
    shown = _shown(events, key)
    winners = _winners(events, key, count_clicks, weight)
    pairs = shown.join(winners, on=list(SESSION), how="inner")
    if against == "non-clicked":
        pairs = pairs.filter(~nw.col("clicked") | (nw.col("winner") == nw.col("loser")))
    columns = pair_columns(key=key, count_clicks=count_clicks, weight=weight)
    return _counted(pairs, columns, "pairs")


def pair_columns(*, key: str | None, count_clicks: bool, weight: str | None) -> Sequence[str]:
    """Return the columns that tell the rows of `pair_counts` apart."""
    columns = ["query_id", "winner", "loser"]
    columns += ["winner_key", "loser_key"] if key else []
    return columns + ["clicks"] * count_clicks + ["weight"] * (weight is not None)


def _shown(events: nw.LazyFrame, key: str | None) -> nw.LazyFrame:
    columns: list[nw.Expr | str] = [
        *SESSION,
        nw.col("doc_id").alias("loser"),
        nw.col("click").cast(nw.Boolean).alias("clicked"),
    ]
    if key:
        columns.append(nw.col(key).alias("loser_key"))
    return events.select(*columns)


def _winners(
    events: nw.LazyFrame, key: str | None, count_clicks: bool, weight: str | None
) -> nw.LazyFrame:
    columns: list[nw.Expr | str] = [*SESSION, nw.col("doc_id").alias("winner")]
    if key:
        columns.append(nw.col(key).alias("winner_key"))
    if weight:
        columns.append(nw.col(weight).alias("weight"))
    winners = events.filter(nw.col("click").cast(nw.Boolean)).select(*columns)
    if not count_clicks:
        return winners
    counts = _counted(winners, SESSION, "clicks")
    return winners.join(counts, on=list(SESSION), how="inner")


def _counted(frame: nw.LazyFrame, columns: Sequence[str], name: str) -> nw.LazyFrame:
    # engines differ in the type of a count, and Arrow casts only after aggregating
    counts = frame.group_by(*columns).agg(nw.len().alias(name))
    return counts.with_columns(nw.col(name).cast(nw.Int64))
