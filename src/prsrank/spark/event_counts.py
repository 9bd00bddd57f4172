"""Counts of a log by narwhals expressions, the same on every engine."""

import narwhals as nw

SESSION = ("query_id", "session_id")


def cell_counts(events: nw.LazyFrame) -> nw.LazyFrame:
    """Count how often each doc of a query was shown, and clicked, at each position.

    Returns:
        query_id, doc_id, position, shown, clicked.

    >>> import polars
    >>> events = polars.LazyFrame({"query_id": [7, 7], "session_id": [1, 2], "doc_id": [3, 3],
    ...     "position": [1, 1], "click": [1, 0]})
    >>> cell_counts(nw.from_native(events)).collect().rows()
    [(7, 3, 1, 2, 1)]
    """
    counts = events.group_by("query_id", "doc_id", "position").agg(
        nw.len().alias("shown"), nw.col("click").cast(nw.Int64).sum().alias("clicked")
    )
    return counts.with_columns(nw.col("position", "shown", "clicked").cast(nw.Int64))


def moved_cells(cells: nw.LazyFrame, *, depth: int, clicked: bool = False) -> nw.LazyFrame:
    """Keep the cells of docs that were shown at several positions.

    Args:
        cells: the columns of `cell_counts`.
        depth: cells below this position are left out first.
        clicked: keep docs with a click only.
    """
    cells = cells.filter(nw.col("position") <= depth)
    docs = cells.group_by("query_id", "doc_id").agg(
        nw.len().alias("positions"), nw.col("clicked").sum().alias("clicks")
    )
    moved = docs.filter(nw.col("positions") > 1, nw.col("clicks") >= int(clicked))
    return cells.join(moved.select("query_id", "doc_id"), on=["query_id", "doc_id"], how="inner")


def pair_rates(cells: nw.LazyFrame) -> nw.LazyFrame:
    """Add up the rates of clicks at position k of docs that were also shown at another.

    Args:
        cells: the columns of `cell_counts`, and `unit`, the unit of resampling.

    Returns:
        unit, position, other, rate (the sum), docs (behind it).
    """
    here = cells.with_columns((nw.col("clicked") / nw.col("shown")).alias("rate"))
    there = cells.select("query_id", "doc_id", nw.col("position").alias("other"))
    both = here.join(there, on=["query_id", "doc_id"], how="inner")
    both = both.filter(nw.col("position") != nw.col("other"))
    return both.group_by("unit", "position", "other").agg(
        nw.col("rate").sum(), nw.len().alias("docs")
    )
