"""What an engine does."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.files import FileName
from prsrank.ingest.mapping import LogMapping
from prsrank.pairs import PairSet
from prsrank.propensity.curve import PropensityCurve
from prsrank.rankers.base import Ranker
from prsrank.weighting import Weighting, find_weighting

if TYPE_CHECKING:
    from prsrank.propensity.curve import Propensities
    from prsrank.propensity.estimators import Estimator

Quality = Any  # a function of the scores of the validation lists; higher is better


class Engine(Protocol):
    """Where logs are counted and rankers trained.

    `events` is what the engine's own `open_log` gives: rows stay where the engine keeps them.
    """

    name: str

    def __enter__(self) -> Self:
        """Return the engine."""
        ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End what the engine started."""
        ...

    def open_log(
        self, path: FileName | Sequence[FileName], *, mapping: LogMapping | None = None
    ) -> AbstractContextManager[Any]:
        """Open a log as `prsrank.ingest.sources.open_events` does."""
        ...

    def counts(self, events: Any) -> Mapping[str, int]:
        """Return how many rows, sessions, lists, queries, docs, clicks, ... a log has."""
        ...

    def propensities(
        self,
        events: Any,
        estimator: "Estimator",
        *,
        dataset: RankingDataset | None = None,
        seed: int = 0,
    ) -> "Propensities":
        """Return the curve that an estimator finds in a log."""
        ...

    def pairs(
        self,
        events: Any,
        dataset: RankingDataset,
        propensities: PropensityCurve | None = None,
        weighting: str | Weighting = "prs",
        **options: Any,
    ) -> PairSet:
        """Fold a log as `prsrank.ingest.pairs.pairs_of_events` does, with its options."""
        ...

    def train(
        self,
        ranker: Ranker,
        dataset: RankingDataset,
        pairs: PairSet,
        *,
        validation: RankingDataset | tuple[RankingDataset, Quality] | None = None,
    ) -> Ranker:
        """Fit a ranker to lists and pairs that this process holds; return it."""
        ...

    def train_on_log(
        self,
        ranker: Ranker,
        events: Any,
        propensities: PropensityCurve | None = None,
        weighting: str | None = None,
        *,
        parameters: Mapping[str, float] | None = None,
        held_out: float = 0.0,
    ) -> Ranker:
        """Fit a ranker to a log whose columns hold the features; return it.

        Args:
            ranker: is fitted in place.
            events: the log.
            propensities: the curve; None takes the log's own.
            weighting: default: the ranker's.
            parameters: of the weighting.
            held_out: share of the queries on whose clicks a ranker that can stops early: by
                the DCG@10 of clicks weighted by 1 / propensity.
        """
        ...


def pairwise_weighting(
    weighting: str | Weighting, parameters: Mapping[str, float] | None
) -> Weighting:
    """Return the weighting of a name, which must be one of clicks."""
    chosen = find_weighting(weighting, parameters)
    if chosen.against == "labels":
        raise InputError("weighting labels takes no clicks: use PairSet.from_labels")
    return chosen
