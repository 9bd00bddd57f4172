"""Shards from rows: what a task of Spark makes of its partition. Knows Arrow, not Spark.

Rows of five kinds lie one behind the other, a query's of one kind together:

- DOC, a doc to learn from: query_id, doc, features, twice (whether sessions saw other features);
- PAIRS, counted pairs: query_id, doc (the winner), loser, pairs and the other columns of
  `prsrank.pairs.pair_counts.pair_counts`;
- CELL, counts of a doc at a position: query_id, doc, position, the propensity if the log has it,
  shown, clicked, and of the weights of clicks, if they have any, weights and squares;
- JUDGED, a doc to judge by: as DOC;
- EVENT, a doc as a session saw it: query_id, doc and the other columns of a log's events.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from prsrank.pairs.counted_kernels import DocIndex, whole_numbers
from prsrank.pairs.outer_pairs import OuterPairs
from prsrank.pairs.posterior import DocClicks, posterior_of_clicks
from prsrank.propensity.counted_clicks import CountedClicks, curve_at
from prsrank.relevance.workers import Workers
from prsrank.spark.shard import QualitySums, Shard
from prsrank.types import IdArray
from prsrank.weighting import Weighting, check_propensities

if TYPE_CHECKING:
    import pyarrow

    from prsrank.propensity.curve import PropensityCurve

DOC, PAIRS, JUDGED, EVENT, CELL = range(5)
_COUNTS = ("pairs", "winner_key", "loser_key", "clicks", "weight")
_CELL = ("position", "propensity", "shown", "clicked", "weights", "squares")
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
        prior: of posterior pairs.
        judges: whether there are rows to judge by.
        judging: the curve to judge by; None: the log's own propensities.
        tau: clip of the weights to judge by.
        threads: of each task.
    """

    feature_names: tuple[str, ...]
    propensities: "PropensityCurve | None"
    weighting: Weighting
    pair_options: Mapping[str, Any] = field(default_factory=dict)
    prior: str = "trees"
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
    counts = CELL if recipe.weighting.against == "posterior" else PAIRS
    kinds = (DOC, counts, JUDGED, EVENT) if recipe.judges else (DOC, counts)
    rows = _Rows(batches, recipe.feature_names, kinds)
    dataset = rows.lists(DOC)
    if counts == CELL:
        found = _doc_clicks(rows.columns(CELL), dataset, recipe)
        shard = Shard(dataset, None, pairs_by=partial(_posterior_pairs, found, dataset, recipe))
    else:
        pairs = pairs_of_counts(
            rows.columns(PAIRS),
            dataset,
            recipe.propensities,
            recipe.weighting,
            threads=recipe.threads,
            **recipe.pair_options,
        )
        shard = Shard(dataset, pairs)
    if not recipe.judges:
        return shard
    judged, log = rows.lists(JUDGED), rows.log(())
    clicks = None if log is None else _quality(log, judged, recipe)
    return replace(shard, judged=judged, clicks=clicks)


def _doc_clicks(cells: "Columns", dataset: RankingDataset, recipe: Recipe) -> DocClicks:
    """Return the counted clicks on each doc; an InputError where the curve has no propensity."""
    queries, query_keys = whole_numbers(cells["query_id"], dataset.query_ids)
    docs, doc_keys = whole_numbers(cells["doc"], dataset.doc_names)
    lists, rows = DocIndex(dataset, query_keys, doc_keys).find(queries, docs)
    doc, positions = dataset.offsets[lists] + rows, cells["position"].astype(np.int64)
    curve = recipe.propensities
    propensity = (
        check_propensities(cells["propensity"]) if curve is None else curve_at(curve, positions)
    )
    shown, clicked = (cells[name].astype(np.float64) for name in ("shown", "clicked"))
    # a doc's cells in the order in which a log in memory has them
    order = np.lexsort((positions, propensity) if curve is None else (positions,))
    counted = CountedClicks.of_columns(
        dataset,
        [(doc[order], positions[order], propensity[order], shown[order], clicked[order])],
    )
    counted.evidence()  # a click where the propensity is 0 must be told before workers meet
    if "weights" not in cells:
        return DocClicks(counted)
    sums = [np.bincount(doc, cells[name], dataset.docs) for name in ("weights", "squares")]
    return DocClicks(counted, np.array(sums))


def _posterior_pairs(
    clicks: DocClicks, dataset: RankingDataset, recipe: Recipe, workers: Workers
) -> OuterPairs:
    found = posterior_of_clicks(
        clicks, dataset, prior=recipe.prior, threads=recipe.threads, workers=workers
    )
    return found.pairs(own=recipe.weighting.parameters["own"], **recipe.pair_options)


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
        take = {DOC: self._docs, JUDGED: self._docs, PAIRS: _pairs, CELL: _cells}
        for batch in batches:
            for kind, parts in self._parts.items():
                part = batch.filter(pc.equal(batch.column("kind"), kind))
                parts.append(take[kind](part) if kind in take else part)

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

    def columns(self, kind: int) -> Columns:
        """Return the columns of counts of a kind."""
        return _joined(self._parts[kind])

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
    found = _numbers(part, _COUNTS)
    found |= {name: ids_of(part.column(name)) for name in ("query_id", "loser")}
    return found | {"winner": ids_of(part.column("doc"))}


def _cells(part: "pyarrow.RecordBatch") -> Columns:
    return _numbers(part, _CELL) | {n: ids_of(part.column(n)) for n in ("query_id", "doc")}


def _numbers(part: "pyarrow.RecordBatch", names: Sequence[str]) -> Columns:
    return {
        name: part.column(name).to_numpy(zero_copy_only=False)
        for name in names
        if name in part.schema.names
    }


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
