"""Shards from rows: what a task of Spark makes of its partition. Knows Arrow, not Spark.

Rows of four kinds lie one behind the other, a query's of one kind together:

- DOC, a doc to learn from: query_id, doc, features, twice (whether sessions saw other features);
- PAIRS, counted pairs: query_id, doc (the winner), loser, pairs and the other columns of
  `prsrank.pairs.pair_counts.pair_counts`;
- JUDGED, a doc to judge by: as DOC;
- EVENT, a doc as a session saw it: query_id, doc and the other columns of a log's events.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset, id_array
from prsrank.errors import InputError
from prsrank.evaluation.counterfactual import CounterfactualMetric
from prsrank.fit.engine import METRIC
from prsrank.logs.click_log import ClickLog
from prsrank.logs.events import from_frame
from prsrank.pairs.counted import pairs_of_counts
from prsrank.spark.shard import QualitySums, Shard
from prsrank.types import IdArray
from prsrank.weighting import Weighting

if TYPE_CHECKING:
    import pyarrow

    from prsrank.propensity.curve import PropensityCurve

DOC, PAIRS, JUDGED, EVENT = range(4)
_COUNTS = ("pairs", "winner_key", "loser_key", "clicks", "weight")
_EVENT = ("session_id", "position", "click", "propensity", "weight")


@dataclass(frozen=True)
class Recipe:
    """How a shard is made of its rows.

    Attributes:
        feature_names: the features, in their order.
        propensities: the curve of the pairs; None where keys are propensities, or none are
            needed.
        weighting: of the pairs.
        pair_options: the ranker's.
        judges: whether there are rows to judge by.
        judging: the curve to judge by; None: the log's own propensities.
        tau: clip of the weights to judge by.
        threads: of each task.
    """

    feature_names: tuple[str, ...]
    propensities: "PropensityCurve | None"
    weighting: Weighting
    pair_options: Mapping[str, Any] = field(default_factory=dict)
    judges: bool = False
    judging: "PropensityCurve | None" = None
    tau: float = 0.0
    threads: int = 1


def shard_of_rows(batches: Iterable["pyarrow.RecordBatch"], recipe: Recipe) -> Shard:
    """Make a shard of one partition's rows.

    Raises:
        InputError: if a doc has two values of a feature, or as
            `prsrank.pairs.counted.pairs_of_counts` raises.
    """
    kinds = (DOC, PAIRS, JUDGED, EVENT) if recipe.judges else (DOC, PAIRS)
    rows = _Rows(batches, recipe.feature_names, kinds)
    dataset = rows.lists(DOC)
    pairs = pairs_of_counts(
        rows.counts(),
        dataset,
        recipe.propensities,
        recipe.weighting,
        threads=recipe.threads,
        **recipe.pair_options,
    )
    if not recipe.judges:
        return Shard(dataset, pairs)
    judged, log = rows.lists(JUDGED), rows.log(())
    clicks = None if log is None else _quality(log, judged, recipe)
    return Shard(dataset, pairs, judged, clicks)


@dataclass(frozen=True, eq=False)
class Judged:
    """Sessions to judge by, and the lists they show."""

    log: ClickLog
    lists: RankingDataset


def judged_of_rows(
    batches: Iterable["pyarrow.RecordBatch"],
    feature_names: tuple[str, ...],
    contexts: tuple[str, ...] = (),
) -> Judged:
    """Make a log and its lists of one partition's rows."""
    rows = _Rows(batches, feature_names, (JUDGED, EVENT))
    log = rows.log(contexts)
    if log is None:
        raise InputError("a partition has docs, but no sessions")
    return Judged(log, rows.lists(JUDGED))


def _quality(log: ClickLog, judged: RankingDataset, recipe: Recipe) -> QualitySums:
    if not len(log.clicks):
        nothing = (0.0, float(log.sessions))
        return lambda scores: nothing
    metric = CounterfactualMetric(log, judged, recipe.judging, metric=METRIC, tau=recipe.tau)
    return partial(metric.sums, threads=recipe.threads)


Columns = dict[str, npt.NDArray]


class _Rows:
    """The rows of a partition by kind; taken batch by batch, so no Arrow list grows too long."""

    def __init__(
        self,
        batches: Iterable["pyarrow.RecordBatch"],
        feature_names: tuple[str, ...],
        kinds: Sequence[int],
    ) -> None:
        import pyarrow.compute as pc

        self.feature_names = feature_names
        self._parts: dict[int, list[Any]] = {kind: [] for kind in kinds}
        take: dict[int, Callable[[Any], Any]]
        take = {DOC: self._docs, JUDGED: self._docs, PAIRS: _pairs, EVENT: lambda part: part}
        for batch in batches:
            for kind, parts in self._parts.items():
                parts.append(take[kind](batch.filter(pc.equal(batch.column("kind"), kind))))

    def _docs(self, part: "pyarrow.RecordBatch") -> Columns:
        features = part.column("features").flatten().to_numpy()
        return {
            "query_id": ids_of(part.column("query_id")),
            "doc": ids_of(part.column("doc")),
            "features": features.reshape(-1, len(self.feature_names)),
            "twice": part.column("twice").to_numpy(zero_copy_only=False),
        }

    def lists(self, kind: int) -> RankingDataset:
        """Return the lists of docs of a kind."""
        return _dataset(_joined(self._parts[kind]), self.feature_names)

    def counts(self) -> Columns:
        """Return the columns of the counted pairs."""
        return _joined(self._parts[PAIRS])

    def log(self, contexts: tuple[str, ...]) -> ClickLog | None:
        """Return the events as a log; None if there are none."""
        import pyarrow as pa

        parts = [part for part in self._parts[EVENT] if part.num_rows]
        if not parts:
            return None
        table = pa.Table.from_batches(parts)
        names = [name for name in (*_EVENT, *contexts) if name in table.column_names]
        table = table.select(["query_id", "doc", *names])
        return from_frame(
            table.rename_columns(["query_id", "doc_id", *names]), contexts=contexts, whole=False
        )


def _pairs(part: "pyarrow.RecordBatch") -> Columns:
    found = {
        name: part.column(name).to_numpy(zero_copy_only=False)
        for name in _COUNTS
        if name in part.schema.names
    }
    found |= {name: ids_of(part.column(name)) for name in ("query_id", "loser")}
    return found | {"winner": ids_of(part.column("doc"))}


def ids_of(column: "pyarrow.Array") -> IdArray:
    """Return a column of ids as integers or strings."""
    values: npt.NDArray = column.to_numpy(zero_copy_only=False)
    return values.astype(np.int64) if values.dtype.kind in "iu" else values.astype(np.str_)


def _joined(parts: list[Columns]) -> Columns:
    if not parts:
        raise InputError("a worker has no list to learn from: use fewer workers")
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _dataset(docs: Columns, feature_names: tuple[str, ...]) -> RankingDataset:
    if docs["twice"].any():
        at = int(docs["twice"].argmax())
        raise InputError(
            f"doc {docs['doc'][at]} of query {docs['query_id'][at]} has two values of a feature; "
            "give every session a query of its own, or leave the feature out"
        )
    queries = docs["query_id"]
    starts = np.flatnonzero(np.concatenate([[True], queries[1:] != queries[:-1]]))
    starts = starts[: len(queries)]
    return RankingDataset(
        features=docs["features"],
        offsets=np.append(starts, len(queries)),
        query_ids=id_array(queries[starts]),
        doc_ids=id_array(docs["doc"]),
        feature_names=feature_names,
    )
