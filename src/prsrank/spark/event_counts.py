"""Counts of a log by narwhals expressions, the same on every engine."""

import narwhals as nw

from prsrank.errors import InputError
from prsrank.logs.event_source import MAX_POSITION, REQUIRED

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


def session_counts(events: nw.LazyFrame) -> nw.LazyFrame:
    """Gather each session: rows, clicks, first and last position, design, sum of its slots.

    Args:
        events: with `design` (text, "" for none) and `slot`, a whole number that stands for
            doc and position.
    """
    return events.group_by(*SESSION).agg(
        nw.len().alias("rows"),
        nw.col("click").cast(nw.Int64).sum().alias("clicks"),
        nw.col("position").min().alias("first"),
        nw.col("position").max().alias("last"),
        nw.col("design").max().alias("design"),
        nw.col("slot").sum().alias("ranking"),
    )


def repeating_sessions(events: nw.LazyFrame) -> nw.LazyFrame:
    """Return the sessions with a doc, or a position, in several rows.

    >>> import polars
    >>> events = polars.LazyFrame({"query_id": [7, 7, 8, 8], "session_id": [1, 1, 1, 1],
    ...     "doc_id": [3, 3, 3, 4], "position": [1, 2, 1, 2]})
    >>> repeating_sessions(nw.from_native(events)).collect().rows()
    [(7, 1, 2, 1, 2)]
    """
    sessions = events.group_by(*SESSION).agg(
        nw.len().alias("rows"),
        nw.col("doc_id").n_unique().alias("docs"),
        nw.col("position").n_unique().alias("places"),
    )
    return sessions.filter((nw.col("docs") < nw.col("rows")) | (nw.col("places") < nw.col("rows")))


def totals(events: nw.LazyFrame) -> nw.LazyFrame:
    """Return one row: rows, clicks, and how many rows each of `row_problems` concerns."""
    whole = nw.col("click").cast(nw.Int64).sum().alias("clicks")
    problems = [
        condition.cast(nw.Int64).sum().alias(f"problem_{i}")
        for i, (condition, _) in enumerate(row_problems(events))
    ]
    return events.select(nw.len().alias("rows"), whole, *problems)


def row_problems(events: nw.LazyFrame) -> list[tuple[nw.Expr, str]]:
    """Return the conditions under which a row cannot be used, and what to say of it."""
    schema = events.collect_schema()
    position, click = nw.col("position"), nw.col("click")
    found = [
        (nw.col(name).is_null(), f"{name} is missing (null)")
        for name in (*REQUIRED, "propensity")
        if name in schema
    ]
    if schema["position"].is_float():
        found.append(
            (position != position.cast(nw.Int64), "position {position} is not a whole number")
        )
    found.append(
        (
            position < 1,
            "position {position}, but positions start at 1 (add 1 if the log counts from 0),",
        )
    )
    found.append((position > MAX_POSITION, f"position {{position}} is above {MAX_POSITION:,}"))
    if schema["click"] != nw.Boolean:
        found.append(((click != 0) & (click != 1), "click {click}, but a click is 0 or 1,"))
    if "weight" in schema:
        weight = nw.col("weight").cast(nw.Float64)
        usable = ~weight.is_null() & (weight > 0) & weight.is_finite()
        clicked = click.cast(nw.Int64) == 1
        found.append((clicked & ~usable, "the weight of a click is not a number above 0"))
    return found


def busiest_query(events: nw.LazyFrame) -> nw.LazyFrame:
    """Return the query with the most rows, and how many: one row."""
    counts = events.group_by("query_id").agg(nw.len().alias("rows"))
    return counts.sort("rows", descending=True).head(1)


def check_types(events: nw.LazyFrame) -> None:
    """Raise an InputError for a missing column, or one of the wrong type."""
    schema = events.collect_schema()
    for name in REQUIRED:
        if name not in schema:
            raise InputError(f"the log has no column {name!r}; it has {', '.join(schema)}")
    for name in ("query_id", "session_id", "doc_id"):
        if not (schema[name].is_integer() or schema[name] == nw.String):
            raise InputError(f"column {name!r} must hold integers or strings, not {schema[name]}")
    for name, wanted in (("position", "whole numbers"), ("click", "0 and 1, or booleans")):
        if not (schema[name].is_numeric() or (name == "click" and schema[name] == nw.Boolean)):
            raise InputError(f"column {name!r} must hold {wanted}, not {schema[name]}")
