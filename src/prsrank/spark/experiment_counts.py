"""Clicks of randomised sessions, counted by narwhals expressions."""

from collections.abc import Mapping, Sequence

import narwhals as nw
import numpy as np

from prsrank.propensity.swap import swap_pairs
from prsrank.spark.event_counts import SESSION
from prsrank.types import Floats, Longs


def shuffled_counts(events: nw.LazyFrame, designs: Sequence[str], *, depth: int) -> nw.LazyFrame:
    """Count clicks at each position k of shuffled sessions, and at 1 where k was shown.

    Args:
        events: with `design` and `unit`, the group of sessions that each belongs to.
        designs: the designs of the log.
        depth: the last position to count.

    Returns:
        unit, position, here, first: as `prsrank.propensity.randomised.shuffled_clicks` counts.
    """
    reach = _by_design({mark: min(_reach(mark), depth) for mark in designs}, 0)
    shuffled = events.with_columns(reach.alias("reach")).filter(nw.col("reach") > 0)
    clicked = nw.col("click").cast(nw.Int64)
    at_one = nw.when(nw.col("position") == 1).then(clicked).otherwise(0)
    sessions = (
        shuffled.with_columns(at_one.alias("at_one"))
        .group_by(*SESSION)
        .agg(nw.col("position").min().alias("start"), nw.col("at_one").sum())
    )
    rows = shuffled.join(sessions, on=list(SESSION), how="inner").filter(
        nw.col("start") == 1, nw.col("position") <= nw.col("reach")
    )
    return rows.group_by("unit", "position").agg(
        nw.col("click").cast(nw.Int64).sum().alias("here"),
        nw.col("at_one").sum().alias("first"),
    )


def swapped_counts(events: nw.LazyFrame, designs: Sequence[str], *, depth: int) -> nw.LazyFrame:
    """Count clicks at both positions of swaps, of sessions that had docs at both.

    Returns:
        unit, pair (index into `swap_pairs`), position, clicks.
    """
    pairs, pair_of_design = swap_pairs(tuple(designs), depth=depth)
    known = {mark: int(pair) for mark, pair in zip(designs, pair_of_design, strict=True)}
    ends = [{mark: int(pairs[p, end]) for mark, p in known.items() if p >= 0} for end in (0, 1)]
    rows = events.with_columns(
        _by_design(known, -1).alias("pair"),
        _by_design(ends[0], 0).alias("one"),
        _by_design(ends[1], 0).alias("other"),
    ).filter(
        nw.col("pair") >= 0,
        (nw.col("position") == nw.col("one")) | (nw.col("position") == nw.col("other")),
    )
    sessions = rows.group_by(*SESSION).agg(nw.len().alias("found")).filter(nw.col("found") == 2)
    both = rows.join(sessions, on=list(SESSION), how="inner")
    return both.group_by("unit", "pair", "position").agg(
        nw.col("click").cast(nw.Int64).sum().alias("clicks")
    )


def shuffled_arrays(rows: Mapping[str, Longs], *, units: int, depth: int) -> tuple[Floats, Floats]:
    """Return the columns of `shuffled_counts` as (units x depth) arrays."""
    here, first = np.zeros((units, depth)), np.zeros((units, depth))
    np.add.at(here, (rows["unit"], rows["position"] - 1), rows["here"])
    np.add.at(first, (rows["unit"], rows["position"] - 1), rows["first"])
    return here, first


def swapped_arrays(rows: Mapping[str, Longs], pairs: Longs, *, units: int) -> Floats:
    """Return the columns of `swapped_counts` as a (units x pairs x 2) array."""
    counts = np.zeros((units, len(pairs), 2))
    end = (rows["position"] == pairs[rows["pair"], 1]).astype(np.int64)
    np.add.at(counts, (rows["unit"], rows["pair"], end), rows["clicks"])
    return counts


def _by_design(values: Mapping[str, int], default: int) -> nw.Expr:
    chosen: nw.Expr = nw.lit(default)
    for mark, value in values.items():
        chosen = nw.when(nw.col("design") == mark).then(nw.lit(value)).otherwise(chosen)
    return chosen


def _reach(mark: str) -> int:
    if mark == "uniform":
        return int(np.iinfo(np.int32).max)
    return int(mark.removeprefix("top-k:")) if mark.startswith("top-k:") else 0
