"""The engine of one process: DuckDB for logs, this machine's cores for training."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from prsrank.data.dataset import RankingDataset
from prsrank.engines.engine import pairwise_weighting
from prsrank.engines.held_out import ClickQuality, find_gains, is_held_out, lists_of_pairs
from prsrank.files import FileName
from prsrank.ingest.features import lists_of_log
from prsrank.ingest.log import click_log
from prsrank.ingest.mapping import LogMapping
from prsrank.ingest.pairs import pairs_of_events
from prsrank.ingest.sources import LogSource, open_events
from prsrank.pairs import PairSet
from prsrank.propensity.curve import PropensityCurve
from prsrank.rankers.base import Ranker
from prsrank.weighting import Weighting

if TYPE_CHECKING:
    from prsrank.propensity.curve import Propensities
    from prsrank.propensity.estimators import Estimator


class LocalEngine:
    """Runs every step in this process; see `prsrank.engines.engine.Engine`.

    Args:
        memory: how much DuckDB may hold, such as "4GB".
        threads: default: the cores this process may use.
    """

    name = "local"

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
        fitted: Ranker = ranker.fit(dataset, pairs, **options)  # type: ignore[attr-defined]
        return fitted

    def train_on_log(
        self,
        ranker: Ranker,
        events: LogSource,
        propensities: PropensityCurve | None = None,
        weighting: str | None = None,
        *,
        parameters: Mapping[str, float] | None = None,
        held_out: float = 0.0,
    ) -> Ranker:
        """Fit a ranker to a log whose columns hold the features."""
        lists = lists_of_log(events)
        chosen = pairwise_weighting(weighting or ranker.default_weighting, parameters)
        pairs = self.pairs(events, lists, propensities, chosen, **ranker.pair_options)
        if not held_out:
            return self.train(ranker, lists, pairs)
        apart = is_held_out(lists.query_ids, held_out)
        judged = lists.select(apart)
        quality = ClickQuality(judged, find_gains(events, judged, propensities, chosen))
        return self.train(
            ranker,
            lists.select(~apart),
            lists_of_pairs(pairs, ~apart),
            validation=(judged, quality),
        )
