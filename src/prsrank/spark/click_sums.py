"""Sums over held-out clicks on Spark: tasks score whole queries, aggregates come to the driver.

A task gives rows of four kinds, each with numbers that add up over tasks:

- UNIT: of a query, or a group of queries, all sums of `PartSums` and its sessions;
- SPREAD: of a clip and a part, the numbers of `WeightSums`, and the largest weight;
- BIN: of a clip, a part and a bin of weights, its clicks and their weight;
- PLACE: of a position, how many docs were shown there, and clicked.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.evaluation.click_sums import ClickSums, PartSums, sum_clicks
from prsrank.evaluation.results import ALL, AT_OTHERS, AT_TOP, LOGGED
from prsrank.evaluation.weight_diagnostics import WeightSums
from prsrank.logs.click_log import ClickLog
from prsrank.propensity.bootstrap import MOST_UNITS
from prsrank.propensity.curve import PropensityCurve
from prsrank.rankers.base import Ranker, ranker_class
from prsrank.spark.counts import arrays_of, lazy
from prsrank.spark.events import SparkEvents
from prsrank.spark.shard_rows import judged_of_rows
from prsrank.types import Floats, IdArray, Longs

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame


UNIT, SPREAD, BIN, PLACE = range(4)
_ROW = "kind int, key bigint, largest double, numbers array<double>"
# A bin's key is that of its clip and part, times this, plus the bin, which may be below 0.
_BINS = 1 << 32
_NUMBERS = tuple(f.name for f in fields(WeightSums) if f.name != "largest" and "bin" not in f.name)


@dataclass(frozen=True)
class Wanted:
    """What to sum up.

    Attributes:
        metrics: names of the metrics.
        taus: clips of the weights.
        context: context whose values are parts, and may have curves of their own.
        most_units: above so many queries they are grouped, by a hash, into as many.
        threads: of each task.
    """

    metrics: tuple[str, ...]
    taus: tuple[float, ...]
    context: str | None = None
    most_units: int = MOST_UNITS
    threads: int = 1

    @property
    def contexts(self) -> tuple[str, ...]:
        """The context in a tuple; empty if there is none."""
        return () if self.context is None else (self.context,)


def click_sums_on_spark(
    events: SparkEvents,
    rows: "DataFrame",
    propensities: PropensityCurve | None,
    rankers: Mapping[str, Ranker | None],
    wanted: Wanted,
) -> list[ClickSums]:
    """Sum up the clicks of held-out events, for each clip.

    With at most `most_units` queries the sums are those of `sum_clicks`, query by query.

    Args:
        events: the events.
        rows: the same as rows of `shard_rows`, a query's in one partition.
        propensities: the curve; None for the log's own propensities.
        rankers: by name; None puts docs in random order.
        wanted: what to sum up.
    """
    from pyspark.sql import functions as F

    parts = _part_names(events, wanted.context)
    units = _Units.of(events, wanted.most_units)
    saved = {name: ranker and _saved(ranker, wanted.threads) for name, ranker in rankers.items()}
    names = events.features

    def task(batches: Iterator["pyarrow.RecordBatch"]) -> Iterator["pyarrow.RecordBatch"]:
        full = (batch for batch in batches if batch.num_rows)
        found = judged_of_rows(full, names, wanted.contexts)
        if found is not None:
            log, lists = found
            scores = _scores(saved, lists)
            sums = [
                _sums(log, lists, propensities, scores, wanted, tau, parts) for tau in wanted.taus
            ]
            yield from _packed(sums, units.numbers(log.query_ids))

    width = len(wanted.taus) * len(parts) * (len(wanted.metrics) * (1 + len(rankers)) + 1)
    width = max(width + len(parts), len(_NUMBERS))
    numbers = [F.sum(F.get("numbers", F.lit(i))).alias(f"n{i}") for i in range(width)]
    summed = rows.mapInArrow(task, _ROW).groupBy("kind", "key")
    found = arrays_of(lazy(summed.agg(F.max("largest").alias("largest"), *numbers)))
    if not len(found["key"]):
        raise InputError(f"{events.name}: no events to judge by")
    return _unpacked(found, wanted, parts, tuple(rankers), width)


@dataclass(frozen=True, eq=False)
class _Units:
    """Which unit a query belongs to: its own, in the order of ids, or that of a hash."""

    ids: IdArray | None
    count: int

    @classmethod
    def of(cls, events: SparkEvents, most: int) -> "_Units":
        if most == 1:
            return cls(None, 1)
        queries = events.frame.select("query_id").distinct().limit(most + 1)
        ids = arrays_of(lazy(queries))["query_id"]
        return cls(np.sort(ids), most) if len(ids) <= most else cls(None, most)

    def numbers(self, query_ids: IdArray) -> Longs:
        """Return the unit of each query."""
        if self.ids is not None:
            return np.searchsorted(self.ids, query_ids).astype(np.int64)
        hashes = (crc32(str(query).encode()) % self.count for query in query_ids)
        return np.fromiter(hashes, np.int64, len(query_ids))


def _part_names(events: SparkEvents, context: str | None) -> tuple[str, ...]:
    if context is None:
        return ALL, AT_TOP, AT_OTHERS
    rows = events.frame.select(f"`{context}`").distinct().collect()
    values = sorted("" if row[0] is None else str(row[0]) for row in rows)
    return ALL, AT_TOP, AT_OTHERS, *(f"{context}={value}" for value in values)


def _saved(ranker: Ranker, threads: int) -> tuple[str, dict[str, Any], Any]:
    """Return a ranker as text and numbers, nothing that can run."""
    return ranker.name, ranker.get_params() | {"threads": threads}, ranker._state()


def _scores(saved: Mapping[str, Any], lists: RankingDataset) -> dict[str, Floats]:
    scores = {}
    for name, one in saved.items():
        if one is None:
            scores[name] = np.zeros(lists.docs)
            continue
        kind, parameters, state = one
        ranker = ranker_class(kind)(**parameters)
        ranker._restore(*state)
        scores[name] = ranker.score(lists.features)
    return scores


def _sums(
    log: ClickLog,
    lists: RankingDataset,
    propensities: PropensityCurve | None,
    scores: Mapping[str, Floats],
    wanted: Wanted,
    tau: float,
    parts: Sequence[str],
) -> ClickSums:
    """Sum up a task's clicks; parts that it has none of are 0."""
    found: dict[str, PartSums] = {}
    if len(log.clicks):
        sums = sum_clicks(
            log,
            lists,
            propensities,
            scores,
            metrics=wanted.metrics,
            tau=tau,
            context=wanted.context,
            by=wanted.context,
            threads=wanted.threads,
        )
        found = {one.part: one for one in sums.parts}
    shape = (log.queries, len(wanted.metrics), 1 + len(scores))
    every = tuple(found.get(part) or _no_clicks(log, lists, part, shape) for part in parts)
    shown, clicked = log.position_counts()
    return ClickSums(wanted.metrics, (LOGGED, *scores), every, shown, clicked, tau)


def _no_clicks(
    log: ClickLog, lists: RankingDataset, part: str, shape: tuple[int, int, int]
) -> PartSums:
    """Return the sums of a part without clicks, which has sessions none the less."""
    query = log.ranking_query[log.session_ranking]
    if part not in (ALL, AT_TOP, AT_OTHERS):
        [(name, context)] = log.contexts.items()
        codes = [f"{name}={value}" == part for value in context.values]
        query = query[np.array(codes)[context.codes]]
    sessions = np.bincount(query, minlength=log.queries)
    numbers = dict.fromkeys(_NUMBERS, 0.0) | {
        "sessions": float(sessions.sum()),
        "queries": float(np.count_nonzero(sessions)),
        "shown": float(np.diff(log.ranking_offsets)[log.session_ranking].sum()),
        "listed": float(lists.list_lengths[log.ranking_query[log.session_ranking]].sum()),
    }
    none = np.zeros(0)
    spread = WeightSums(
        **numbers, largest=0.0, bins=none.astype(np.int64), bin_clicks=none, bin_weights=none
    )
    return PartSums(part, np.zeros(shape), np.zeros(log.queries), sessions, spread)


def _packed(sums: Sequence[ClickSums], units: Longs) -> Iterator["pyarrow.RecordBatch"]:
    """Yield the rows of a task."""
    columns = [
        np.column_stack([part.values.reshape(len(units), -1), part.weights])
        for one in sums
        for part in one.parts
    ]
    table = np.column_stack([*columns, *(part.sessions for part in sums[0].parts)])
    used, of_query = np.unique(units, return_inverse=True)
    by_unit = np.zeros((len(used), table.shape[1]))
    np.add.at(by_unit, of_query, table)
    yield _batch(UNIT, used, by_unit)
    spreads = [part.spread for one in sums for part in one.parts]
    yield _batch(
        SPREAD,
        np.arange(len(spreads)),
        np.array([[getattr(one, name) for name in _NUMBERS] for one in spreads]),
        np.array([one.largest for one in spreads]),
    )
    for place, one in enumerate(spreads):
        keys = place * _BINS + one.bins + _BINS // 2
        yield _batch(BIN, keys, np.column_stack([one.bin_clicks, one.bin_weights]))
    counts = np.column_stack(sums[0].position_counts())
    yield _batch(PLACE, np.arange(1, len(counts) + 1), counts)


def _batch(
    kind: int, keys: Longs, numbers: npt.NDArray, largest: Floats | None = None
) -> "pyarrow.RecordBatch":
    import pyarrow as pa

    flat = pa.array(numbers.astype(np.float64).ravel())
    offsets = pa.array(np.arange(len(keys) + 1, dtype=np.int32) * numbers.shape[1])
    return pa.record_batch(
        {
            "kind": pa.array(np.full(len(keys), kind, np.int32)),
            "key": pa.array(keys.astype(np.int64)),
            "largest": pa.array(np.zeros(len(keys)) if largest is None else largest),
            "numbers": pa.ListArray.from_arrays(offsets, flat),
        }
    )


def _unpacked(
    found: Mapping[str, npt.NDArray],
    wanted: Wanted,
    parts: Sequence[str],
    rankers: tuple[str, ...],
    width: int,
) -> list[ClickSums]:
    """Put the rows of all tasks together again."""
    numbers = np.column_stack([found[f"n{i}"] for i in range(width)])
    order = np.lexsort((found["key"], found["kind"]))
    of_kind = {kind: order[found["kind"][order] == kind] for kind in range(4)}
    units, places = numbers[of_kind[UNIT]], numbers[of_kind[PLACE]]
    shape = (len(units), len(wanted.metrics), 1 + len(rankers))
    size = shape[1] * shape[2] + 1
    first_session = len(wanted.taus) * len(parts) * size
    at = found["key"][of_kind[PLACE]] - 1
    counts = np.zeros((2, int(at.max()) + 1), np.int64)
    counts[:, at] = places[:, :2].T
    sums = []
    for number, tau in enumerate(wanted.taus):
        every = []
        for place, part in enumerate(parts):
            key = number * len(parts) + place
            own = units[:, key * size : (key + 1) * size]
            sessions = np.round(units[:, first_session + place]).astype(np.int64)
            spread = _spread(found, numbers, of_kind, key)
            every.append(PartSums(part, own[:, :-1].reshape(shape), own[:, -1], sessions, spread))
        names = (LOGGED, *rankers)
        sums.append(ClickSums(wanted.metrics, names, tuple(every), counts[0], counts[1], tau))
    return sums


def _spread(
    found: Mapping[str, npt.NDArray], numbers: Floats, of_kind: Mapping[int, Longs], key: int
) -> WeightSums:
    row = of_kind[SPREAD][key]
    bins = of_kind[BIN][found["key"][of_kind[BIN]] // _BINS == key]
    return WeightSums(
        **dict(zip(_NUMBERS, numbers[row].tolist(), strict=False)),
        largest=float(found["largest"][row]),
        bins=found["key"][bins] % _BINS - _BINS // 2,
        bin_clicks=numbers[bins, 0],
        bin_weights=numbers[bins, 1],
    )
