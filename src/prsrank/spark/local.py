"""The engine of one process: DuckDB for logs, this machine's cores for training."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from prsrank.data.dataset import RankingDataset
from prsrank.files import FileName
from prsrank.logs.event_source import check_columns, check_rows, source_of
from prsrank.logs.features import lists_of_log
from prsrank.logs.log_split import (
    BUCKETS,
    HALF,
    EventParts,
    LogSplit,
    PartCounts,
    half_sql,
    randomised_sql,
)
from prsrank.logs.mapping import LogMapping
from prsrank.logs.reading import click_log
from prsrank.logs.sources import LogSource, open_events
from prsrank.pairs.counted import pairs_of_events
from prsrank.pairs.pair_set import PairSet
from prsrank.propensity.curve import PropensityCurve
from prsrank.rankers.base import Ranker
from prsrank.spark.engine_protocol import VALIDATION_METRIC, check_alike, pairwise_weighting
from prsrank.weighting import Weighting

if TYPE_CHECKING:
    from prsrank.evaluation.log_evaluation import LogEvaluation
    from prsrank.propensity.curve import Propensities
    from prsrank.propensity.estimators import Estimator

_BUCKET = f"('0x' || left(md5(query_id::VARCHAR), 8))::BIGINT % {BUCKETS}"


class LocalEngine:
    """Runs every step in this process; see `prsrank.spark.engine_protocol.Engine`.

    Args:
        memory: how much DuckDB may hold, such as "4GB".
        threads: default: the cores this process may use.
    """

    name = "local"
    ranks = 1

    def __init__(self, *, memory: str | None = None, threads: int | None = None) -> None:
        self.memory = memory
        self.threads = threads

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        pass

    def open_log(
        self, path: FileName | Sequence[FileName], *, mapping: LogMapping | None = None
    ) -> AbstractContextManager[LogSource]:
        """Open a log out of core."""
        return open_events(path, mapping=mapping, memory=self.memory, threads=self.threads)

    def counts(self, events: LogSource) -> Mapping[str, int]:
        """Return the counts of an audit."""
        from prsrank.audit.event_tables import counts_of, open_tables

        with open_tables(events, contexts=(), features=(), base=1) as tables:
            return counts_of(tables)

    def has_propensities(self, events: LogSource) -> bool:
        """Tell whether the log has propensities of its own."""
        return "propensity" in events.types

    def split(self, events: LogSource, how: LogSplit) -> EventParts:
        """Split a log into parts without a common query."""
        check_columns(events, events.contexts)
        check_rows(events)
        marked = randomised_sql(events.types.get("randomised"))
        shared = f"query_id IN (SELECT query_id FROM log WHERE {marked})"  # noqa: S608
        part = how.part(_BUCKET, randomised=marked, shared=shared)
        half = half_sql(_BUCKET)
        columns = f'*, {part} AS log_part, {half} AS "{HALF}"'
        relation: Any = events.relation.query("log", f"SELECT {columns} FROM log")  # noqa: S608
        counted = relation.aggregate(
            f'log_part, "{HALF}", count(DISTINCT (query_id, session_id)), '
            "count(DISTINCT query_id), count_if(click::BOOLEAN)",
            f'log_part, "{HALF}"',
        )

        def where(condition: str, *contexts: str) -> LogSource:
            chosen = relation.filter(condition)
            return replace(
                events, relation=chosen, types=source_of(chosen).types, contexts=contexts
            )

        return EventParts.of(PartCounts(counted.fetchall()), how, where, half=f'"{HALF}"')

    def propensities(
        self,
        events: LogSource,
        estimator: "Estimator",
        *,
        dataset: RankingDataset | None = None,
        seed: int = 0,
    ) -> "Propensities":
        """Return the curve that an estimator finds in a log."""
        return estimator.estimate(click_log(events), dataset=dataset, seed=seed)

    def pairs(
        self,
        events: LogSource,
        dataset: RankingDataset,
        propensities: PropensityCurve | None = None,
        weighting: str | Weighting = "prs",
        **options: Any,
    ) -> PairSet:
        """Fold a log."""
        return pairs_of_events(
            events, dataset, propensities, weighting, threads=self.threads, **options
        )

    def train(
        self,
        ranker: Ranker,
        dataset: RankingDataset,
        pairs: PairSet,
        *,
        validation: Any = None,
    ) -> Ranker:
        """Fit a ranker."""
        options = {} if validation is None else {"validation": validation}
        fitted: Ranker = ranker.fit(dataset, pairs, **options)
        return fitted

    def train_on_log(
        self,
        rankers: Sequence[Ranker],
        events: LogSource,
        propensities: PropensityCurve | None = None,
        weighting: str | None = None,
        *,
        parameters: Mapping[str, float] | None = None,
        validation: LogSource | None = None,
        tau: float = 0.0,
    ) -> list[float | None]:
        """Fit rankers to a log whose columns hold the features."""
        from prsrank.evaluation.counterfactual import CounterfactualMetric

        check_alike(rankers)
        first = rankers[0]
        lists = lists_of_log(events)
        chosen = pairwise_weighting(weighting or first.default_weighting, parameters)
        pairs = self.pairs(events, lists, propensities, chosen, **first.pair_options)
        if validation is None:
            for ranker in rankers:
                self.train(ranker, lists, pairs)
            return [None] * len(rankers)
        judged = lists_of_log(validation)
        metric = CounterfactualMetric(
            click_log(validation), judged, propensities, metric=VALIDATION_METRIC, tau=tau
        )
        values: list[float | None] = []
        for ranker in rankers:
            stops = hasattr(ranker, "patience")
            self.train(ranker, lists, pairs, validation=(judged, metric) if stops else None)
            values.append(metric(ranker.score(judged.features)))
        return values

    def evaluate(
        self,
        events: LogSource,
        propensities: PropensityCurve | None,
        rankers: Mapping[str, Ranker | None],
        *,
        against: Sequence[str],
        context: str | None = None,
        seed: int = 0,
    ) -> "LogEvaluation":
        """Estimate how good rankers are from the clicks of a log."""
        from prsrank.evaluation.log_evaluation import evaluate_on_log

        lists = lists_of_log(events)
        scores = {
            name: np.zeros(lists.docs) if ranker is None else ranker.score(lists.features)
            for name, ranker in rankers.items()
        }
        log = click_log(events)
        return evaluate_on_log(
            log, lists, propensities, scores, against=against, context=context, seed=seed
        )
