"""The engine that counts and trains on Apache Spark."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.files import FileName
from prsrank.logs.log_split import EventParts, LogSplit
from prsrank.logs.mapping import LogMapping
from prsrank.pairs.counted import pairs_of_counts
from prsrank.pairs.pair_set import PairSet
from prsrank.propensity.curve import PropensityCurve
from prsrank.rankers.base import Ranker
from prsrank.rankers.lambdamart import SET_METRICS, LambdaMART
from prsrank.rankers.lightgbm_library import import_lightgbm
from prsrank.rankers.linear import LinearRanker
from prsrank.spark.barrier import stage_errors, train_in_barrier
from prsrank.spark.counts import arrays_of, check_log, estimate_on_spark, log_counts
from prsrank.spark.engine_protocol import VALIDATION_METRIC, check_alike, pairwise_weighting
from prsrank.spark.events import SparkEvents, open_spark_log
from prsrank.spark.pairs import counted_pairs, judged_rows, log_rows, packed_shards
from prsrank.spark.session import OwnSession, import_pyspark
from prsrank.spark.shard import Shard, cut, join
from prsrank.spark.shard_rows import Recipe, shard_of_rows
from prsrank.spark.split import split_on_spark
from prsrank.spark.training_worker import TrainedModel
from prsrank.weighting import Weighting

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

    from prsrank.evaluation.click_sums import ClickSums
    from prsrank.evaluation.log_evaluation import LogEvaluation
    from prsrank.propensity.curve import Propensities
    from prsrank.propensity.estimators import Estimator
    from prsrank.spark.click_sums import Wanted

# Bytes of features of a partition where no barrier asks for as many partitions as ranks.
_PARTITION = 64 << 20
# About as many bytes has an event that a task makes a log of.
_EVENT = 64


class SparkEngine:
    """Runs every step on Spark; see `prsrank.spark.engine_protocol.Engine`.

    Logs are opened, counted and joined on the executors. `pairs` and `propensities` bring
    aggregates to the driver; `train_on_log` brings nothing but the models, `evaluate` sums over
    at most 2000 groups of queries.

    Args:
        session: a SparkSession to use, which stays open; default: one of our own.
        master: the master URL of our own session.
        options: settings of our own session, by Spark's names.
        ranks: tasks that a LambdaMART is trained by; default: as many as run at once.
        attempts: how often a lost training starts from scratch, the first time included.

    Attributes:
        session: the SparkSession.
        training_seconds: how long the ranks of the last LambdaMARTs grew trees, apart from
            all that brought them their shards.
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

    def has_propensities(self, events: SparkEvents) -> bool:
        """Tell whether the log has propensities of its own."""
        return "propensity" in events.frame.columns

    def split(self, events: SparkEvents, how: LogSplit) -> EventParts:
        """Split a log into parts without a common query; rows stay where they are."""
        return split_on_spark(events, how)

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
            self._train_linear(ranker, dataset, pairs)
            return ranker
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
        self._train_barrier(frame, load, [ranker], dataset.feature_names, judge)
        return ranker

    def train_on_log(
        self,
        rankers: Sequence[Ranker],
        events: SparkEvents,
        propensities: PropensityCurve | None = None,
        weighting: str | None = None,
        *,
        parameters: Mapping[str, float] | None = None,
        validation: SparkEvents | None = None,
        tau: float = 0.0,
    ) -> list[float | None]:
        """Fit rankers to a log; lists and pairs never leave the executors."""
        check_alike(rankers)
        first = rankers[0]
        _check_ranker(first)
        chosen = pairwise_weighting(weighting or first.default_weighting, parameters)
        if chosen.needs_labels:
            raise InputError(f"weighting {chosen.name} needs labels, which a log has not")
        if not events.checked:
            check_log(events)
        options = dict(first.pair_options)
        counted = counted_pairs(events, propensities, chosen, normalise=options.get("normalise"))
        linear = isinstance(first, LinearRanker)
        recipe = Recipe(
            feature_names=events.features,
            propensities=counted.curve,
            weighting=chosen,
            pair_options=options,
            judges=validation is not None and not linear,
            judging=propensities,
            tau=tau,
            threads=self._task_cores,
        )
        parts = self._partitions(events) if linear else self.ranks
        judged = validation if recipe.judges else None
        rows = log_rows(events, counted.frame, parts, judged)
        rows = self._placed(rows, parts, "query_id", "kind", "doc")
        if not linear:
            self._train_barrier(
                rows, lambda batches: shard_of_rows(batches, recipe), rankers, events.features
            )
            return [ranker.best_value_ for ranker in rankers]  # type: ignore[attr-defined]
        self._train_linear_rows(rankers, rows, recipe)
        if validation is None:
            return [None] * len(rankers)
        return self._values(rankers, validation, propensities, tau)

    def evaluate(
        self,
        events: SparkEvents,
        propensities: PropensityCurve | None,
        rankers: Mapping[str, Ranker | None],
        *,
        against: Sequence[str],
        context: str | None = None,
        seed: int = 0,
    ) -> "LogEvaluation":
        """Estimate how good rankers are; whole queries are scored and summed up in tasks."""
        from prsrank.evaluation.log_evaluation import (
            DEFAULT_METRICS,
            DEFAULT_TAU,
            evaluation_of,
        )
        from prsrank.spark.click_sums import Wanted

        if not events.checked:
            check_log(events)
        wanted = Wanted(DEFAULT_METRICS, (0.0, DEFAULT_TAU), context, threads=self._task_cores)
        free, clipped = self._click_sums(events, propensities, rankers, wanted)
        return evaluation_of(free, clipped, propensities, against=against, seed=seed)

    def _values(
        self,
        rankers: Sequence[Ranker],
        events: SparkEvents,
        propensities: PropensityCurve | None,
        tau: float,
    ) -> list[float | None]:
        from prsrank.spark.click_sums import Wanted

        named = {str(number): ranker for number, ranker in enumerate(rankers)}
        wanted = Wanted((VALIDATION_METRIC,), (tau,), most_units=1, threads=self._task_cores)
        [found] = self._click_sums(events, propensities, named, wanted)
        whole = found.parts[0]
        values = whole.values.sum(axis=0)[0] / whole.sessions.sum()
        return [float(value) for value in values[1:]]  # the first is the logged ranking's

    def _click_sums(
        self,
        events: SparkEvents,
        propensities: PropensityCurve | None,
        rankers: Mapping[str, Ranker | None],
        wanted: "Wanted",
    ) -> "list[ClickSums]":
        from prsrank.spark.click_sums import click_sums_on_spark

        parts = self._partitions(events)
        rows = judged_rows(events, parts, wanted.contexts)
        placed = self._placed(rows, parts, "query_id", "kind", "doc")
        with stage_errors("evaluation"):
            return click_sums_on_spark(events, placed, propensities, rankers, wanted)

    def _train_barrier(
        self,
        frame: "DataFrame",
        load: Any,
        rankers: Sequence[Ranker],
        names: tuple[str, ...],
        judge: Any = None,
    ) -> None:
        settings = [ranker.get_params() for ranker in rankers]
        for parameters in settings:
            parameters["threads"] = parameters["threads"] or self._task_cores
        models = train_in_barrier(frame, load, settings, judge=judge, attempts=self.attempts)
        self.training_seconds = sum(model.seconds for model in models)
        for ranker, model in zip(rankers, models, strict=True):
            _finish(ranker, model, names)

    def _train_linear(self, ranker: LinearRanker, dataset: RankingDataset, pairs: PairSet) -> None:
        from prsrank.spark.linear_sums import fit_linear

        parts = max(self.ranks, -(-dataset.features.nbytes // _PARTITION))
        shards = [[piece] for pieces in cut(dataset, pairs, parts) for piece in pieces]
        frame = self._placed(self._packed(shards), len(shards), "part")
        packed = frame.select("shard").rdd.map(lambda row: bytes(row[0]))
        fit_linear([ranker], packed, dataset.feature_names)

    def _train_linear_rows(self, rankers: Sequence[Any], rows: "DataFrame", recipe: Recipe) -> None:
        from prsrank.spark.linear_sums import fit_linear

        shards = packed_shards(rows, recipe)
        try:
            with stage_errors("training"):
                packed = shards.rdd.map(lambda row: bytes(row[0]))
                fit_linear(rankers, packed, recipe.feature_names)
        finally:
            shards.unpersist()

    def _partitions(self, events: SparkEvents) -> int:
        docs = events.frame.select("query_id", "doc_id").distinct().count()
        size = docs * len(events.features) * 4 + events.frame.count() * _EVENT
        return max(self.ranks, -(-size // _PARTITION))

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


def _finish(ranker: Any, model: TrainedModel, names: tuple[str, ...]) -> None:
    """Give an ordinary local ranker what was learned."""
    ranker.booster_ = import_lightgbm().Booster(model_str=model.text)
    ranker.history_ = model.history
    ranker.best_value_ = max(model.history) if model.history else None
    ranker.feature_names_ = names
