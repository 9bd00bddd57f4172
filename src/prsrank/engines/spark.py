"""The engine that counts and trains on Apache Spark."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from prsrank.data.dataset import RankingDataset
from prsrank.engines.barrier import train_in_barrier
from prsrank.engines.engine import pairwise_weighting
from prsrank.engines.held_out import check_share
from prsrank.engines.shard import Shard, cut, join
from prsrank.engines.shard_rows import Recipe, shard_of_rows
from prsrank.engines.spark_counts import arrays_of, check_log, estimate_on_spark, log_counts
from prsrank.engines.spark_events import SparkEvents, open_spark_log
from prsrank.engines.spark_pairs import counted_pairs, log_rows
from prsrank.engines.spark_session import OwnSession, import_pyspark
from prsrank.engines.training_worker import TrainedModel
from prsrank.errors import InputError
from prsrank.files import FileName
from prsrank.ingest.mapping import LogMapping
from prsrank.ingest.pairs import pairs_of_counts
from prsrank.pairs import PairSet
from prsrank.propensity.curve import PropensityCurve
from prsrank.rankers.base import Ranker
from prsrank.rankers.lambdamart import SET_METRICS, LambdaMART
from prsrank.rankers.lightgbm_library import import_lightgbm
from prsrank.rankers.linear import LinearRanker
from prsrank.weighting import Weighting

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

    from prsrank.propensity.curve import Propensities
    from prsrank.propensity.estimators import Estimator

# Bytes of features of a partition of the linear ranker, which needs no barrier.
_PARTITION = 64 << 20


class SparkEngine:
    """Runs every step on Spark; see `prsrank.engines.engine.Engine`.

    Logs are opened, counted and joined on the executors. `pairs` and `propensities` bring
    aggregates to the driver; `train_on_log` brings nothing but the model.

    Args:
        session: a SparkSession to use, which stays open; default: one of our own.
        master: the master URL of our own session.
        options: settings of our own session, by Spark's names.
        ranks: tasks that a LambdaMART is trained by; default: as many as run at once.
        attempts: how often a lost training starts from scratch, the first time included.

    Attributes:
        session: the SparkSession.
        training_seconds: how long the ranks of the last LambdaMART grew trees, apart from all
            that brought them their shards.
    """

    name = "spark"

    def __init__(
        self,
        session: "SparkSession | None" = None,
        *,
        master: str | None = None,
        options: Mapping[str, str] | None = None,
        ranks: int | None = None,
        attempts: int = 2,
    ) -> None:
        if session is not None and master is not None:
            raise InputError("give a Spark session or a master URL, not both")
        if attempts < 1 or (ranks is not None and ranks < 1):
            raise InputError("ranks and attempts must be at least 1")
        import_pyspark()
        self._own = OwnSession(master, dict(options or {})) if session is None else None
        self.session: Any = session if self._own is None else self._own.session
        self._ranks = ranks
        self.training_seconds = 0.0
        self.attempts = attempts

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the session, if it is our own."""
        if self._own is not None:
            self._own.stop()
            self._own = None

    @property
    def ranks(self) -> int:
        """How many tasks train together."""
        slots = self.session.sparkContext.defaultParallelism // self._task_cores
        return self._ranks or max(slots, 1)

    @property
    def _task_cores(self) -> int:
        return int(self.session.sparkContext.getConf().get("spark.task.cpus", "1"))

    def open_log(
        self, path: FileName | Sequence[FileName], *, mapping: LogMapping | None = None
    ) -> AbstractContextManager[SparkEvents]:
        """Open a log that the cluster can read; rows stay there."""
        return nullcontext(open_spark_log(self.session, path, mapping or LogMapping()))

    def counts(self, events: SparkEvents) -> Mapping[str, int]:
        """Return the counts of an audit."""
        return log_counts(events)

    def propensities(
        self,
        events: SparkEvents,
        estimator: "Estimator",
        *,
        dataset: RankingDataset | None = None,
        seed: int = 0,
    ) -> "Propensities":
        """Return the curve that an estimator finds in a log."""
        return estimate_on_spark(events, estimator, dataset=dataset, seed=seed)

    def pairs(
        self,
        events: SparkEvents,
        dataset: RankingDataset,
        propensities: PropensityCurve | None = None,
        weighting: str | Weighting = "prs",
        *,
        parameters: Mapping[str, float] | None = None,
        context: str | None = None,
        **options: Any,
    ) -> PairSet:
        """Fold a log; the counted pairs come to the driver, the events do not."""
        chosen = pairwise_weighting(weighting, parameters)
        check_log(events)
        counted = counted_pairs(
            events, propensities, chosen, normalise=options.get("normalise"), context=context
        )
        columns = arrays_of(counted.frame)
        return pairs_of_counts(columns, dataset, counted.curve, chosen, **options)

    def train(
        self,
        ranker: Ranker,
        dataset: RankingDataset,
        pairs: PairSet,
        *,
        validation: Any = None,
    ) -> Ranker:
        """Fit a ranker to lists that the driver holds; they travel to the executors once."""
        _check_ranker(ranker)
        if not np.array_equal(dataset.offsets, pairs.offsets):
            raise InputError("the pairs are of other lists than the data set's")
        if isinstance(ranker, LinearRanker):
            return self._train_linear(ranker, dataset, pairs)
        ranker._check(dataset, pairs)  # type: ignore[attr-defined]
        judge = validation if isinstance(validation, tuple) else None
        judged = None if judge is not None else validation
        shards = cut(dataset, pairs, self.ranks, judged)
        normalise, truncation = pairs.normalise, pairs.truncation

        def load(batches: Iterator["pyarrow.RecordBatch"]) -> Shard:
            packed = [value.as_py() for batch in batches for value in batch.column("shard")]
            return join(
                [Shard.unpack(one, normalise=normalise, truncation=truncation) for one in packed]
            )

        frame = self._placed(self._packed(shards), len(shards), "part")
        model = self._train_barrier(frame, load, ranker, judge)
        return _finished(ranker, model, dataset.feature_names)

    def train_on_log(
        self,
        ranker: Ranker,
        events: SparkEvents,
        propensities: PropensityCurve | None = None,
        weighting: str | None = None,
        *,
        parameters: Mapping[str, float] | None = None,
        held_out: float = 0.0,
    ) -> Ranker:
        """Fit a ranker to a log; lists and pairs never leave the executors."""
        _check_ranker(ranker)
        check_share(held_out)
        chosen = pairwise_weighting(weighting or ranker.default_weighting, parameters)
        if chosen.needs_labels:
            raise InputError(f"weighting {chosen.name} needs labels, which a log has not")
        check_log(events)
        options = dict(ranker.pair_options)
        counted = counted_pairs(events, propensities, chosen, normalise=options.get("normalise"))
        linear = isinstance(ranker, LinearRanker)
        parts = self._partitions(events) if linear else self.ranks
        recipe = Recipe(
            feature_names=events.features,
            propensities=counted.curve,
            weighting=chosen,
            pair_options=options,
            held_out=0.0 if linear else held_out,
            threads=self._task_cores,
        )
        rows = self._placed(
            log_rows(events, counted.frame, parts), parts, "query_id", "kind", "doc"
        )
        if isinstance(ranker, LinearRanker):
            return self._train_linear_rows(ranker, rows, recipe)
        model = self._train_barrier(
            rows, lambda batches: shard_of_rows(batches, recipe), ranker, None
        )
        return _finished(ranker, model, events.features)

    def _train_barrier(
        self, frame: "DataFrame", load: Any, ranker: Ranker, judge: Any
    ) -> TrainedModel:
        parameters = ranker.get_params()
        parameters["threads"] = parameters["threads"] or self._task_cores
        model = train_in_barrier(frame, load, parameters, judge=judge, attempts=self.attempts)
        self.training_seconds = model.seconds
        return model

    def _train_linear(
        self, ranker: LinearRanker, dataset: RankingDataset, pairs: PairSet
    ) -> LinearRanker:
        from prsrank.engines.linear_sums import fit_linear

        parts = max(self.ranks, -(-dataset.features.nbytes // _PARTITION))
        shards = [[piece] for pieces in cut(dataset, pairs, parts) for piece in pieces]
        frame = self._placed(self._packed(shards), len(shards), "part")
        packed = frame.select("shard").rdd.map(lambda row: bytes(row[0]))
        return fit_linear(ranker, packed, dataset.feature_names)

    def _train_linear_rows(
        self, ranker: LinearRanker, rows: "DataFrame", recipe: Recipe
    ) -> LinearRanker:
        from prsrank.engines.linear_sums import fit_linear
        from prsrank.engines.spark_pairs import packed_shards

        shards = packed_shards(rows, recipe)
        try:
            packed = shards.rdd.map(lambda row: bytes(row[0]))
            return fit_linear(ranker, packed, recipe.feature_names)
        finally:
            shards.unpersist()

    def _partitions(self, events: SparkEvents) -> int:
        docs = events.frame.select("query_id", "doc_id").distinct().count()
        return max(self.ranks, -(-docs * len(events.features) * 4 // _PARTITION))

    def _packed(self, shards: Sequence[Sequence[Shard]]) -> "DataFrame":
        import pyarrow as pa

        pieces = [
            (rank, part, shard) for rank, own in enumerate(shards) for part, shard in enumerate(own)
        ]
        table = pa.table(
            {
                "rank": pa.array([rank for rank, _, _ in pieces], pa.int32()),
                "part": pa.array([part for _, part, _ in pieces], pa.int32()),
                "shard": pa.array([shard.pack() for _, _, shard in pieces], pa.binary()),
            }
        )
        frame: DataFrame = self.session.createDataFrame(table)
        return frame

    def _placed(self, frame: "DataFrame", parts: int, *order: str) -> "DataFrame":
        """Put the rows of rank r into partition r, in order."""
        from pyspark.sql import functions as F

        # a partition is the hash of its key: find a key for each
        keys = self.session.range(64 * parts).select(
            F.col("id").cast("int").alias("key"),
            F.expr(f"pmod(hash(cast(id AS int)), {parts})").alias("part"),
        )
        known = {
            row.part: row.key
            for row in keys.groupBy("part").agg(F.min("key").alias("key")).collect()
        }
        chosen = F.array(*(F.lit(known[part]).cast("int") for part in range(parts)))
        key = F.element_at(chosen, F.col("rank") + 1)
        placed = frame.withColumn("key", key).repartition(parts, "key").drop("key")
        return placed.sortWithinPartitions(*order)


def _check_ranker(ranker: Ranker) -> None:
    if not isinstance(ranker, (LambdaMART, LinearRanker)):
        raise InputError(f"engine spark trains lambdamart and linear, not {ranker.name}")
    if isinstance(ranker, LambdaMART) and ranker.metric in SET_METRICS:
        raise InputError(f"engine spark trains for ndcg and arp, not {ranker.metric}")


def _finished(ranker: Ranker, model: TrainedModel, names: tuple[str, ...]) -> Ranker:
    """Give an ordinary local ranker what was learned."""
    learned: Any = ranker
    learned.booster_ = import_lightgbm().Booster(model_str=model.text)
    learned.history_ = model.history
    learned.best_value_ = max(model.history) if model.history else None
    learned.feature_names_ = names
    return ranker
