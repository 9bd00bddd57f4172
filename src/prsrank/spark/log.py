"""A log on Spark, with the docs that it shows: what a fit does with it."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from prsrank.errors import InputError
from prsrank.evaluation.doc_sums import DEFAULT_TAU, Regression
from prsrank.evaluation.log_evaluation import LogEvaluation, evaluation_of
from prsrank.evaluation.log_sums import DEFAULT_METRICS, LogSums, sum_log
from prsrank.fit.engine import METRIC, Trained, Weighed
from prsrank.fit.parts import HALF, HELD_OUT, PARTS, RANDOMISED, VALIDATION, LogParts, Split
from prsrank.fit.parts import TRAIN as TRAINING
from prsrank.logs.click_log import ClickLog, Context
from prsrank.logs.coverage import covered_sessions
from prsrank.logs.held_out import SessionMarks
from prsrank.logs.pieces import Extent, Sums
from prsrank.propensity.curve import PropensityCurve
from prsrank.propensity.sampled_clicks import SampledClicks
from prsrank.rankers.base import Ranker, ranker_class
from prsrank.spark.barrier import stage_errors, train_in_barrier
from prsrank.spark.linear_sums import fit_linear
from prsrank.spark.parts import Limits, find_limits
from prsrank.spark.pieces import SparkPieces
from prsrank.spark.placing import Sessions, Size
from prsrank.spark.rows import partition_keys
from prsrank.spark.shards import (
    HEAVY,
    JUDGED,
    SHARDED,
    TRAIN,
    Placing,
    Recipe,
    heavy_lists,
    shard_of_pieces,
    sharded,
)
from prsrank.types import Floats, Marks
from prsrank.weighting import Weighting, find_weighting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from prsrank.data.dataset import RankingDataset
    from prsrank.spark.engine import SparkEngine

_DROPPED = "dropped"


@dataclass(frozen=True, eq=False)
class SparkLog:
    """Sessions on Spark and the lists of their docs; see `prsrank.fit.engine.EngineLog`.

    Attributes:
        engine: whose session it is.
        name: what messages call the log.
        features: names of the features.
        sessions: pieces of the log, each with its lists.
        size: how large it is.
        has_propensities: whether the log has propensities of its own.
        left_out: sessions that show docs without features.
    """

    engine: "SparkEngine"
    name: str
    features: tuple[str, ...]
    sessions: SparkPieces[Sessions]
    size: Size
    has_propensities: bool = False
    left_out: int = 0

    @property
    def posterior(self) -> None:
        """Nothing: workers keep their own."""

    @property
    def pieces(self) -> SparkPieces[ClickLog]:
        """The sessions, in pieces without a common query."""
        return self.sessions.select(_log_of)

    def extent(self) -> Extent:
        """Return how many sessions, queries, clicks and positions there are."""
        return self.size.extent

    def counted(self, docs: int) -> SampledClicks:
        """Return about so many docs, whole lists of them, with the counts of their clicks."""
        share = docs / max(self.size.docs, 1)
        return self.sessions.total(lambda one: SampledClicks.of(one.log, one.lists, share))

    def in_memory(self) -> None:
        """Return nothing: the log stays where it is."""

    def write(self, folder: Path) -> None:
        """Write nothing: the log stays where it is."""

    def covered(self) -> "SparkLog":
        """Return the sessions all of whose docs have features."""
        if not self.size.bare:
            return self
        if self.size.bare == self.size.extent.sessions:
            self.sessions.total(_name_missing)
        kept = self.sessions.select(lambda one: one.select(covered_sessions(one.log, one.lists)))
        return replace(self, sessions=kept, size=kept.total(Size.of), left_out=self.size.bare)

    def split(self, how: Split) -> LogParts:
        """Split the log into parts without a common query; rows stay where they are."""
        limits = find_limits(self.pieces, how)
        chosen = {name: partial(_marked, limits, name) for name in (*PARTS, "", _DROPPED, "1", "2")}
        sizes = self.sessions.total(
            lambda one: Sums(Size.of(mark(one)) for mark in chosen.values())
        )
        parts = {
            name: replace(self, sessions=self.sessions.select(mark), size=size)
            for (name, mark), size in zip(chosen.items(), sizes, strict=True)
        }
        return LogParts(
            parts[TRAINING],
            parts[VALIDATION],
            parts[HELD_OUT],
            parts[""],
            how.way,
            {part: parts[part].extent() for part in PARTS},
            parts[_DROPPED].extent().sessions,
            (parts["1"], parts["2"]) if how.way == RANDOMISED else None,
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
        if self._at_once(rankers[0], how):
            recipe, rows = self._shards(rankers[0], how, validation if kind == "trees" else None)
            self._train_at_once(rankers, rows, recipe)
        else:
            recipe = self._recipe(rankers[0], how)
            with stage_errors("training"):
                fit_linear(rankers, self.sessions.map(recipe.shard), recipe.feature_names)  # type: ignore[arg-type]
        if kind == "trees":
            values = [ranker.best_value_ for ranker in rankers]  # type: ignore[attr-defined]
            return Trained(tuple(float("nan") if one is None else one for one in values))
        if validation is None:
            return Trained((float("nan"),) * len(rankers))
        named = {str(number): ranker for number, ranker in enumerate(rankers)}
        sums = validation._sums(how.curve, named, (METRIC,), (how.tau,), None)
        whole = sums.clicks[0][0]
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
        sums = self._sums(
            curve, rankers, DEFAULT_METRICS, (0.0, DEFAULT_TAU), context, depth=self.extent().depth
        )
        return evaluation_of(sums, curve, against=against, seed=seed)

    def _sums(
        self,
        curve: PropensityCurve | None,
        rankers: Mapping[str, Ranker | None],
        metrics: tuple[str, ...],
        taus: tuple[float, ...],
        context: str | None,
        depth: int | None = None,
    ) -> LogSums:
        threads = self.engine.task_cores
        saved = {name: one and _saved(one, threads) for name, one in rankers.items()}

        def sums(judged: Sessions) -> LogSums:
            lists = judged.lists
            return sum_log(
                judged.log if context is None else _both_halves(judged.log),
                lists,
                curve,
                _scores(saved, lists),
                metrics=metrics,
                taus=taus,
                regression=None
                if depth is None
                else Regression.without_features(lists, curve, depth=depth, tau=DEFAULT_TAU),
                context=context,
                threads=threads,
            )

        return self.sessions.total(sums)

    def _shards(
        self, ranker: Ranker, how: Weighed, validation: "SparkLog | None"
    ) -> tuple[Recipe, "DataFrame"]:
        """Return what a task makes a shard by, and the pieces of each worker in its partition."""
        recipe = replace(self._recipe(ranker, how), judges=validation is not None)
        workers = self.engine.workers
        placing, keys = self._placing(workers), partition_keys(workers)
        rows = self.sessions.made(
            lambda number, one: sharded(number, one, TRAIN, placing, keys), SHARDED
        )
        if validation is not None:
            judged = validation.sessions.made(
                lambda number, one: sharded(number, one, JUDGED, placing, keys), SHARDED
            )
            rows = rows.unionByName(judged)
        return recipe, rows.repartition(workers, "key")

    def _recipe(self, ranker: Ranker, how: Weighed) -> Recipe:
        chosen = _checked_weighting(how)
        if not self.features:
            raise InputError(f"{self.name}: no features: name columns of the log or a table")
        if chosen.needs_propensities and how.curve is None and not self.has_propensities:
            raise InputError(f"weighting {chosen.name} needs propensities; the log has none")
        return Recipe(
            feature_names=self.features,
            propensities=how.curve,
            weighting=chosen,
            prior=ranker.prior,
            pair_options=dict(ranker.pair_options),
            tau=how.tau,
            threads=self.engine.task_cores,
        )

    def _placing(self, workers: int) -> Placing:
        """Place lists on workers; those too long for chance one by one."""
        share = HEAVY * self.size.docs / workers
        if workers == 1 or self.size.longest <= share:
            return Placing(workers)
        heavy = self.sessions.total(lambda one: heavy_lists(one, share))
        return Placing.of(heavy, self.size.docs, workers)

    def _at_once(self, ranker: Ranker, how: Weighed) -> bool:
        """Tell whether training takes all workers at the same time, as trees do."""
        return ranker.on_spark == "trees" or find_weighting(how.weighting).against == "posterior"

    def _train_at_once(self, rankers: Sequence[Any], rows: "DataFrame", recipe: Recipe) -> None:
        kind, settings = rankers[0].on_spark, [ranker.get_params() for ranker in rankers]
        for parameters in settings:
            parameters["threads"] = parameters["threads"] or self.engine.task_cores
        models = train_in_barrier(
            rows,
            partial(shard_of_pieces, recipe=recipe),
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


def _log_of(one: Sessions) -> ClickLog:
    return one.log


def _name_missing(one: Sessions) -> int:
    """Raise an InputError that names a query or doc without features."""
    one.log.doc_rows(one.lists)
    return 0


def _marked(limits: Limits, part: str, one: Sessions) -> Sessions | None:
    """Return the sessions of a part: one of PARTS, "" to learn from, a half, or dropped."""
    log, marks = one.log, limits.marks(one.log)
    held, learning = marks.held_out(log), marks.learning(log)
    chosen: Mapping[str, Callable[[], Marks]] = {
        TRAINING: lambda: learning & ~marks.validation(log),
        VALIDATION: lambda: learning & marks.validation(log),
        HELD_OUT: lambda: held,
        "": lambda: learning,
        _DROPPED: lambda: ~held & ~learning,
        "1": lambda: held & marks.first_half(log),
        "2": lambda: held & ~marks.first_half(log),
    }
    if part == HELD_OUT and limits.how.way == RANDOMISED:
        one = replace(one, log=_with_halves(log, marks))
    return one.select(chosen[part]())


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


def _with_halves(log: ClickLog, marks: SessionMarks) -> ClickLog:
    """Return a log with the half of each session's query as a context."""
    codes = (~marks.first_half(log)).astype(np.int32)
    return replace(log, contexts={**log.contexts, HALF: Context(("1", "2"), codes)})


def _both_halves(log: ClickLog) -> ClickLog:
    """Return a log whose context HALF has both its values, though a task may see one only."""
    context = log.contexts[HALF]
    codes = np.array([int(value) - 1 for value in context.values], np.int32)[context.codes]
    return replace(log, contexts={**log.contexts, HALF: Context(("1", "2"), codes)})
