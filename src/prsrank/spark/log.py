"""A log on Spark, with the docs that it shows: what a fit does with it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from prsrank.errors import InputError
from prsrank.evaluation.click_sums import ClickSums, sum_clicks
from prsrank.evaluation.doc_sums import Regression, sum_docs
from prsrank.evaluation.log_evaluation import (
    DEFAULT_METRICS,
    DEFAULT_TAU,
    LogEvaluation,
    evaluation_of,
)
from prsrank.fit.engine import METRIC, Trained, Weighed
from prsrank.fit.parts import (
    HALF,
    HELD_OUT,
    PARTS,
    RANDOMISED,
    TRAIN,
    VALIDATION,
    LogParts,
    Split,
)
from prsrank.logs.click_log import ClickLog, Context
from prsrank.logs.pieces import Extent, Sums
from prsrank.propensity.curve import PropensityCurve
from prsrank.propensity.sampled_clicks import SampledClicks
from prsrank.rankers.base import Ranker, ranker_class
from prsrank.spark.barrier import stage_errors, train_in_barrier
from prsrank.spark.events import SparkEvents
from prsrank.spark.linear_sums import fit_linear
from prsrank.spark.pairs import counted_pairs, judged_rows, log_rows, worker_of
from prsrank.spark.parts import DROPPED, PART, extents, with_parts
from prsrank.spark.pieces import SparkPieces, click_log_of
from prsrank.spark.shard import Shard
from prsrank.spark.shard_rows import Judged, Recipe, judged_of_rows, shard_of_rows
from prsrank.types import Floats
from prsrank.weighting import Weighting, find_weighting

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from prsrank.data.dataset import RankingDataset
    from prsrank.spark.engine import SparkEngine

# Bytes of features and events that a task without a barrier holds at once, about.
_PARTITION = 64 << 20
# About as many bytes has an event that a task makes a log of.
_EVENT = 64

_EMPTY = Extent(0, 0, 0, 0)


@dataclass(frozen=True, eq=False)
class SparkLog:
    """Events on Spark and the docs of their lists; see `prsrank.fit.engine.EngineLog`.

    Attributes:
        engine: whose session it is.
        events: the events, checked.
        features: names of the features.
        docs: docs with features, as `doc_rows` gives them; None: there are no features.
        left_out: sessions that show docs without features.
        known: how large the log is, if it was counted.
    """

    engine: "SparkEngine"
    events: SparkEvents
    features: tuple[str, ...]
    docs: "DataFrame | None"
    left_out: int = 0
    known: Extent | None = field(default=None, repr=False)

    @property
    def posterior(self) -> None:
        """Nothing: workers keep their own."""

    @property
    def has_propensities(self) -> bool:
        """Whether the log has propensities of its own."""
        return "propensity" in self.events.types

    @property
    def pieces(self) -> SparkPieces[ClickLog]:
        """The sessions, in pieces without a common query."""
        frame, kinds = self.events.frame, {"position": "int", "click": "int"}
        names = ["query_id", "session_id", "doc_id", "position", "click"]
        names += [name for name in ("randomised",) if name in frame.columns]
        rows = frame.select(*(frame[n].cast(kinds[n]).alias(n) if n in kinds else n for n in names))
        placed = rows.repartition(self._partitions(0), "query_id")
        ordered = placed.sortWithinPartitions("query_id", "session_id", "position")
        return SparkPieces(ordered, click_log_of, self.engine.kept)

    def extent(self) -> Extent:
        """Return how many sessions, queries, clicks and positions there are."""
        if self.known is not None:
            return self.known
        return next(iter(extents(self.events.frame, self.events).values()), _EMPTY)

    def counted(self, docs: int) -> SampledClicks:
        """Return about so many docs, whole lists of them, with the counts of their clicks."""
        share = docs / max(self._docs().count(), 1)
        return self._judged(()).total(lambda one: SampledClicks.of(one.log, one.lists, share))

    def in_memory(self) -> None:
        """Return nothing: the log stays where it is."""

    def write(self, folder: Path) -> None:
        """Write nothing: the log stays where it is."""

    def covered(self) -> "SparkLog":
        """Return the sessions all of whose docs have features."""
        assert self.docs is not None  # noqa: S101
        keys = ["query_id", "session_id"]
        known = self.docs.select("query_id", self.docs["doc"].alias("doc_id"))
        frame = self.events.frame
        bare = frame.join(known, on=["query_id", "doc_id"], how="left_anti")
        first = bare.select("query_id", "doc_id").head(1)
        if not first:
            return self
        kept = frame.join(bare.select(*keys).distinct(), on=keys, how="left_anti")
        if not kept.head(1):
            query, doc = first[0]
            raise InputError(f"doc {doc} of query {query} is in the log but not in the data set")
        left_out = bare.select(*keys).distinct().count()
        return replace(self, events=replace(self.events, frame=kept), left_out=left_out)

    def split(self, how: Split) -> LogParts:
        """Split the log into parts without a common query; rows stay where they are."""
        frame = with_parts(self.events, how)
        counted = extents(frame, self.events, PART, HALF)
        halves = None
        if how.way == RANDOMISED:
            halves = tuple(
                self._where(
                    frame, f"{PART} = '{HELD_OUT}' AND `{HALF}` = '{half}'",
                    counted.get((HELD_OUT, half), _EMPTY),
                )
                for half in "12"
            )  # fmt: skip
        sizes = {
            part: sum((counted.get((part, half), _EMPTY) for half in "12"), _EMPTY)
            for part in (*PARTS, DROPPED)
        }
        parts = {part: self._where(frame, f"{PART} = '{part}'", sizes[part]) for part in PARTS}
        return LogParts(
            parts[TRAIN],
            parts[VALIDATION],
            parts[HELD_OUT],
            self._where(
                frame, f"{PART} IN ('{TRAIN}', '{VALIDATION}')", sizes[TRAIN] + sizes[VALIDATION]
            ),
            how.way,
            {part: sizes[part] for part in PARTS},
            sizes[DROPPED].sessions,
            halves,  # type: ignore[arg-type]
        )

    def can_train(self, ranker: Ranker) -> bool:
        """Tell whether the workers can train a ranker."""
        return bool(ranker.on_spark) and ranker.takes == "pairs"

    def train(
        self,
        rankers: Sequence[Ranker],
        how: Weighed,
        *,
        validation: "SparkLog | RankingDataset | None" = None,
        progress: object = None,
    ) -> Trained:
        """Fit rankers to the same pairs; lists and pairs never leave the workers."""
        if validation is not None and not isinstance(validation, SparkLog):
            raise InputError("on Spark rankers stop by clicks, not by labels")
        kind = rankers[0].on_spark
        if not self.can_train(rankers[0]):
            takes = f" on {rankers[0].takes}" if kind else ""
            raise InputError(f"Spark does not train {rankers[0].name}{takes}")
        recipe, rows = self._shards(rankers[0], how, validation if kind == "trees" else None)
        if self._at_once(rankers[0], how):
            self._train_at_once(rankers, rows, recipe)
        else:
            pieces = SparkPieces(rows, partial(shard_of_rows, recipe=recipe), self.engine.kept)
            with stage_errors("training"):
                fit_linear(rankers, pieces.map(_itself), recipe.feature_names)  # type: ignore[arg-type]
        if kind == "trees":
            values = [ranker.best_value_ for ranker in rankers]  # type: ignore[attr-defined]
            return Trained(tuple(float("nan") if one is None else one for one in values))
        if validation is None:
            return Trained((float("nan"),) * len(rankers))
        named = {str(number): ranker for number, ranker in enumerate(rankers)}
        [sums] = validation._click_sums(how.curve, named, (METRIC,), (how.tau,), None)
        whole = sums.parts[0]
        found = whole.values.sum(axis=0)[0] / whole.sessions.sum()
        return Trained(tuple(found[1:].tolist()))  # the first is the logged ranking's

    def evaluate(
        self,
        curve: PropensityCurve | None,
        rankers: Mapping[str, Ranker | None],
        *,
        against: Sequence[str],
        context: str | None = None,
        seed: int = 0,
    ) -> LogEvaluation:
        """Estimate how good rankers are; whole queries are scored and summed up in tasks.

        Doubly robust estimates are left out where they need relevance from the features.
        """
        taus = (0.0, DEFAULT_TAU)
        free, clipped, *docs = self._click_sums(
            curve, rankers, DEFAULT_METRICS, taus, context, depth=self.extent().depth
        )
        robust = docs[0] if docs else None
        return evaluation_of(free, clipped, curve, docs=robust, against=against, seed=seed)

    def _click_sums(
        self,
        curve: PropensityCurve | None,
        rankers: Mapping[str, Ranker | None],
        metrics: tuple[str, ...],
        taus: tuple[float, ...],
        context: str | None,
        depth: int | None = None,
    ) -> Sequence[ClickSums]:
        threads = self.engine.task_cores
        saved = {name: one and _saved(one, threads) for name, one in rankers.items()}

        def sums(judged: Judged) -> Sums:
            log = judged.log if context is None else _with_halves(judged.log)
            scores, lists = _scores(saved, judged.lists), judged.lists
            found = [
                sum_clicks(
                    log, lists, curve, scores,
                    metrics=metrics, tau=tau, context=context, by=context, threads=threads,
                )
                for tau in taus
            ]  # fmt: skip
            if depth is None:
                return Sums(found)
            plain = Regression.without_features(lists, curve, depth=depth, tau=DEFAULT_TAU)
            if plain is not None:
                found.append(
                    sum_docs(
                        log, lists, curve, scores, plain,
                        metrics=metrics, context=context, threads=threads,
                    )
                )  # fmt: skip
            return Sums(found)

        return self._judged(() if context is None else (context,)).total(sums)

    def _judged(self, contexts: tuple[str, ...]) -> SparkPieces[Judged]:
        """Return the sessions with their lists, in pieces."""
        names = self.features
        rows = judged_rows(self.events, self._docs(), contexts)
        placed = rows.repartition(self._partitions(len(names)), "query_id")
        ordered = placed.sortWithinPartitions("query_id", "kind", "doc", "session_id")
        return SparkPieces(
            ordered, lambda batches: judged_of_rows(batches, names, contexts), self.engine.kept
        )

    def _shards(
        self, ranker: Ranker, how: Weighed, validation: "SparkLog | None"
    ) -> tuple[Recipe, "DataFrame"]:
        """Return what a task makes a shard by, and the rows of each worker in its partition."""
        chosen, options = _checked_weighting(how), dict(ranker.pair_options)
        counted = counted_pairs(self.events, how.curve, chosen, normalise=options.get("normalise"))
        recipe = Recipe(
            feature_names=self.features,
            propensities=counted.curve,
            weighting=chosen,
            prior=ranker.prior,
            pair_options=options,
            judges=validation is not None,
            judging=how.curve,
            tau=how.tau,
            threads=self.engine.task_cores,
        )
        docs = self._docs()
        judged = None
        if validation is not None:
            judged = judged_rows(validation.events, validation._docs())
        rows = log_rows(docs, counted.frame, judged)
        if self._at_once(ranker, how):
            workers = self.engine.workers
            placed = self._placed(rows, worker_of(docs, workers), workers)
        else:
            placed = rows.repartition(self._partitions(len(self.features)), "query_id")
        return recipe, placed.sortWithinPartitions("query_id", "kind", "doc")

    def _at_once(self, ranker: Ranker, how: Weighed) -> bool:
        """Tell whether training takes all workers at the same time, as trees do."""
        return ranker.on_spark == "trees" or find_weighting(how.weighting).against == "posterior"

    def _train_at_once(self, rankers: Sequence[Any], rows: "DataFrame", recipe: Recipe) -> None:
        kind, settings = rankers[0].on_spark, [ranker.get_params() for ranker in rankers]
        for parameters in settings:
            parameters["threads"] = parameters["threads"] or self.engine.task_cores
        models = train_in_barrier(
            rows,
            partial(shard_of_rows, recipe=recipe),
            settings,
            kind=kind,
            attempts=self.engine.attempts,
        )
        for ranker, model in zip(rankers, models, strict=True):
            if kind == "sums":
                ranker._restore(json.loads(model.text), {})
                continue
            learned = {"feature_names": recipe.feature_names, "history": model.history}
            ranker._restore(learned, {"model.txt": model.text.encode()})

    def _docs(self) -> "DataFrame":
        """Return the docs of the lists of the log's queries."""
        if self.docs is None:
            raise InputError(f"{self.events.name}: no features: name columns of the log or a table")
        queries = self.events.frame.select("query_id").distinct()
        return self.docs.join(queries, on="query_id", how="left_semi")

    def _where(self, frame: "DataFrame", condition: str, known: Extent) -> "SparkLog":
        events = replace(self.events, frame=frame.where(condition))
        return replace(self, events=events, known=known)

    def _partitions(self, features: int) -> int:
        """Return how many partitions tasks without a barrier take the log in."""
        frame = self.events.frame
        size = frame.count() * _EVENT
        if features:
            size += frame.select("query_id", "doc_id").distinct().count() * features * 4
        return max(self.engine.workers, -(-size // _PARTITION))

    def _placed(self, rows: "DataFrame", worker: "Column", workers: int) -> "DataFrame":
        """Put the rows of worker n into partition n."""
        from pyspark.sql import functions as F

        # a partition is the hash of its key: find a key for each
        keys = self.engine.session.range(64 * workers).select(
            F.col("id").cast("int").alias("key"),
            F.expr(f"pmod(hash(cast(id AS int)), {workers})").alias("part"),
        )
        known = {
            row.part: row.key
            for row in keys.groupBy("part").agg(F.min("key").alias("key")).collect()
        }
        chosen = F.array(*(F.lit(known[part]).cast("int") for part in range(workers)))
        key = F.element_at(chosen, worker + 1)
        return rows.withColumn("key", key).repartition(workers, "key").drop("key")


def _checked_weighting(how: Weighed) -> Weighting:
    """Return the weighting; an InputError for one that Spark cannot make pairs by."""
    chosen = find_weighting(how.weighting, how.parameters)
    if chosen.needs_labels:
        raise InputError(f"weighting {chosen.name} needs labels, which a log has not")
    if chosen.function is None and chosen.against != "posterior":
        raise InputError(f"Spark does not make pairs by the weighting {chosen.name}")
    if chosen.parameters.get("temper"):
        raise InputError("on Spark no curve is tempered: give the curve that it should be")
    return chosen


def _itself(shard: Shard) -> Shard:
    """Return a shard as it is, to be kept: its click functions do not travel, nor are there any."""
    return shard


def _saved(ranker: Ranker, threads: int) -> tuple[str, dict[str, Any], Any]:
    """Return a ranker as text and numbers, nothing that can run."""
    return ranker.name, ranker.get_params() | {"threads": threads}, ranker._state()


def _scores(saved: Mapping[str, Any], lists: "RankingDataset") -> dict[str, Floats]:
    scores = {}
    for name, one in saved.items():
        if one is None:  # equal scores count by the expectation over all orders
            scores[name] = np.zeros(lists.docs)
            continue
        kind, parameters, state = one
        ranker = ranker_class(kind)(**parameters)
        ranker._restore(*state)
        scores[name] = ranker.score(lists.features)
    return scores


def _with_halves(log: ClickLog) -> ClickLog:
    """Return a log whose context HALF has both its values, though a task may see one only."""
    context = log.contexts[HALF]
    codes = np.array([int(value) - 1 for value in context.values], np.int32)[context.codes]
    return replace(log, contexts={HALF: Context(("1", "2"), codes)})
