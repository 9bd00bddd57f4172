"""Shards of workers that train at once: pieces of a log, cut by worker and joined there."""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from prsrank.data.dataset import RankingDataset, concatenate
from prsrank.data.ids import id_array, indices_of
from prsrank.errors import DataWarning
from prsrank.evaluation.counterfactual import CounterfactualMetric
from prsrank.fit.engine import METRIC
from prsrank.hashing import id_keys
from prsrank.logs.click_log import ClickLog
from prsrank.logs.click_log_parts import merge
from prsrank.pairs.outer_pairs import OuterPairs
from prsrank.pairs.pair_set import PairSet
from prsrank.pairs.posterior import DocClicks, posterior_of_clicks
from prsrank.relevance.workers import Workers
from prsrank.spark.pieces import Batches, parts_of, pieces_of, rows_of
from prsrank.spark.placing import Sessions
from prsrank.spark.shard import QualitySums, Shard
from prsrank.types import IdArray, Longs
from prsrank.weighting import Weighting

if TYPE_CHECKING:
    import pyarrow

    from prsrank.propensity.curve import PropensityCurve

TRAIN, JUDGED = range(2)
SHARDED = "key int, kind int, number int, part int, piece binary"
# A list with more docs than this share of a worker's is placed by hand, not by its hash.
HEAVY = 1 / 8
_BUCKETS = 10_000


@dataclass(frozen=True)
class Recipe:
    """How a shard is made of sessions and lists.

    Attributes:
        feature_names: the features, in their order.
        propensities: the curve; None takes the log's own.
        weighting: of the pairs.
        pair_options: the ranker's.
        prior: of posterior pairs.
        judges: whether there are sessions to judge by.
        tau: clip of the weights to judge by.
        threads: of each task.
    """

    feature_names: tuple[str, ...]
    propensities: "PropensityCurve | None"
    weighting: Weighting
    pair_options: Mapping[str, Any] = field(default_factory=dict)
    prior: str = "trees"
    judges: bool = False
    tau: float = 0.0
    threads: int = 1

    def shard(self, one: Sessions) -> Shard:
        """Return the lists with their pairs, or with what makes them."""
        if self.weighting.against == "posterior":
            clicks = DocClicks.of([one.log], one.lists, self.propensities)
            clicks.counted.evidence()  # a click where the propensity is 0 is told before workers meet
            make = partial(_posterior_pairs, clicks, one.lists, self)
            return Shard(one.lists, None, pairs_by=make)
        curve = self.propensities if self.weighting.needs_propensities else None
        pairs = PairSet.from_log(
            one.log, one.lists, curve, self.weighting, threads=self.threads, **self.pair_options
        )
        return Shard(one.lists, pairs)

    def judged(self, shard: Shard, one: Sessions) -> Shard:
        """Return a shard with lists to judge by, and what their clicks say."""
        return replace(shard, judged=one.lists, clicks=_quality(one, self))


def _posterior_pairs(
    clicks: DocClicks, lists: RankingDataset, recipe: Recipe, workers: Workers
) -> OuterPairs:
    found = posterior_of_clicks(
        clicks, lists, prior=recipe.prior, threads=recipe.threads, workers=workers
    )
    if found.choice is not None and found.choice.cascade:
        warnings.warn(found.choice.sentence, DataWarning, stacklevel=2)
    given = recipe.weighting.parameters
    return found.pairs(own=given["own"], one_way=given["one_way"], **recipe.pair_options)


def _quality(one: Sessions, recipe: Recipe) -> QualitySums:
    if not len(one.log.clicks):
        nothing = (0.0, float(one.log.sessions))
        return lambda scores: nothing
    metric = CounterfactualMetric(
        one.log, one.lists, recipe.propensities, metric=METRIC, tau=recipe.tau
    )
    return partial(metric.sums, threads=recipe.threads)


def shard_of_pieces(batches: Iterable["pyarrow.RecordBatch"], recipe: Recipe) -> Shard:
    """Make the shard of a worker of its pieces.

    Raises:
        InputError: if it has none to learn from, or as `PairSet.from_log` raises.
    """
    rows: dict[int, list[Any]] = {TRAIN: [], JUDGED: []}
    for batch in batches:
        for kind, row in zip(batch.column("kind").to_pylist(), rows_of([batch]), strict=True):
            rows[kind].append(row)
    train = _joined(rows[TRAIN])
    if train is None:
        # told to all when they have met
        none = np.zeros((0, len(recipe.feature_names)), np.float32)
        lists = RankingDataset(none, np.zeros(1, np.int64), feature_names=recipe.feature_names)
        return Shard(lists, None)
    shard = recipe.shard(train)
    judged = _joined(rows[JUDGED]) if recipe.judges else None
    return shard if judged is None else recipe.judged(shard, judged)


def _joined(rows: Sequence[Any]) -> Sessions | None:
    """Return pieces as one, its lists in the order of their ids; None if there are no rows."""
    logs, lists = [], []
    for _, piece in pieces_of(rows):
        logs.append(piece.log)
        lists.append(piece.lists)
    if not logs:
        return None
    joined = concatenate(lists)
    lists.clear()  # features are what takes most room
    return Sessions(merge(logs), joined.select(np.argsort(joined.query_ids, kind="stable")))


@dataclass(frozen=True)
class Placing:
    """Which worker has which list: by a hash of its query, but lists that weigh much by hand.

    Attributes:
        workers: how many there are.
        heavy: ids of the lists placed by hand, rising.
        placed: the worker of each of them.
        limits: of _BUCKETS buckets of other lists, where those of the next worker begin.
    """

    workers: int
    heavy: IdArray = field(default_factory=lambda: np.zeros(0, np.int64))
    placed: tuple[int, ...] = ()
    limits: tuple[int, ...] = ()

    @classmethod
    def of(cls, heavy: Sequence[tuple[Any, int]], docs: int, workers: int) -> "Placing":
        """Place lists that weigh much, each with its docs, on the emptiest worker.

        Args:
            heavy: query and docs of each long list.
            docs: of all lists.
            workers: how many there are.
        """
        queries = [query for query, _ in sorted(heavy)]
        placed, room = place_heavy(queries, [size for _, size in sorted(heavy)], docs, workers)
        of_query = {query: number for number, some in enumerate(placed) for query in some}
        limits = [round(_BUCKETS * sum(room[: n + 1]) / sum(room)) for n in range(workers)]
        return cls(
            workers, id_array(queries), tuple(of_query[query] for query in queries), tuple(limits)
        )

    def worker(self, queries: IdArray) -> Longs:
        """Return the worker of each query."""
        keys = id_keys(queries)
        if not len(self.heavy):
            return keys % self.workers
        # the other lists go by their hash, to each worker as many as it has room for
        found = np.searchsorted(self.limits[:-1], keys % _BUCKETS, side="right")
        at = indices_of(queries, self.heavy)
        return np.where(at >= 0, np.array(self.placed)[at], found)


def heavy_lists(one: Sessions, share: float) -> tuple[tuple[Any, int], ...]:
    """Return query and docs of each list with more docs than this."""
    long = np.flatnonzero(one.lists.list_lengths > share)
    ids = one.lists.query_ids[long].tolist()
    return tuple(zip(ids, one.lists.list_lengths[long].tolist(), strict=True))


def sharded(
    number: int, one: Sessions, kind: int, placing: Placing, keys: Sequence[int]
) -> Batches:
    """Cut a piece by worker, and pack each part: rows of SHARDED.

    Args:
        number: of the piece.
        one: the piece.
        kind: TRAIN or JUDGED.
        placing: which worker has which list.
        keys: which key brings a row to each worker's partition.
    """
    import pyarrow as pa

    for worker, part in _parts(one, placing):
        for rows in parts_of(number, part):
            yield pa.record_batch(
                {
                    "key": pa.array([keys[worker]], pa.int32()),
                    "kind": pa.array([kind], pa.int32()),
                    **{name: rows.column(name) for name in rows.schema.names},
                }
            )


def _parts(one: Sessions, placing: Placing) -> Iterator[tuple[int, Sessions]]:
    """Yield the part of each worker; what only tells sessions apart stays behind."""
    of_query = placing.worker(one.log.query_ids)
    of_session = of_query[one.log.ranking_query][one.log.session_ranking]
    for worker in np.unique(of_query).tolist():
        part = one.select(of_session == worker)
        if part is not None:
            yield worker, Sessions(_bare(part.log), part.lists)


def _bare(log: ClickLog) -> ClickLog:
    return replace(log, session_ids=None, session_times=None, contexts={})


def place_heavy(
    queries: Sequence[Any], docs: Sequence[int], total: int, workers: int
) -> tuple[list[list[Any]], list[float]]:
    """Put lists, the longest first, on the worker with the fewest docs; warn of one too long.

    Args:
        queries: the long lists.
        docs: how many docs each has.
        total: docs of all lists.
        workers: how many there are.

    Returns:
        The queries of each worker, and how many docs of other lists each has room for.

    >>> place_heavy(["a", "b", "c"], [40, 30, 20], total=200, workers=2)
    ([['a'], ['b', 'c']], [60.0, 50.0])
    """
    placed: list[list[Any]] = [[] for _ in range(workers)]
    filled = [0.0] * workers
    for size, query in sorted(zip(docs, queries, strict=True), key=lambda item: -item[0]):
        if size > total / workers:
            warnings.warn(
                f"the list of query {query} has {size:,} of {total:,} docs, more than the share of "
                f"one of {workers} workers: the others will wait for it",
                DataWarning,
                stacklevel=5,
            )
        number = filled.index(min(filled))
        filled[number] += size
        placed[number].append(query)
    share = total / workers
    return placed, [max(share - taken, share / 100) for taken in filled]
