"""What an engine does."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.files import FileName
from prsrank.logs.log_split import EventParts, LogSplit
from prsrank.logs.mapping import LogMapping
from prsrank.pairs.pair_set import PairSet
from prsrank.propensity.curve import PropensityCurve
from prsrank.rankers.base import Ranker
from prsrank.weighting import Weighting, find_weighting

if TYPE_CHECKING:
    from prsrank.evaluation.log_evaluation import LogEvaluation
    from prsrank.propensity.curve import Propensities
    from prsrank.propensity.estimators import Estimator

VALIDATION_METRIC = "dcg@10"
"""What rankers stop early on, and what their settings are chosen by."""

Quality = Any  # a function of the scores of the validation lists; higher is better


class Engine(Protocol):
    """Where logs are counted and rankers trained.

    `events` is what the engine's own `open_log` gives: rows stay where the engine keeps them.
    """

    name: str

    @property
    def ranks(self) -> int:
        """How many tasks train together."""
        ...

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
        """Open a log as `prsrank.logs.sources.open_events` does."""
        ...

    def counts(self, events: Any) -> Mapping[str, int]:
        """Return how many rows, sessions, lists, queries, docs, clicks, ... a log has."""
        ...

    def has_propensities(self, events: Any) -> bool:
        """Tell whether the log has propensities of its own."""
        ...

    def split(self, events: Any, how: LogSplit) -> EventParts:
        """Split a log into parts without a common query; each is opened like the log.

        Raises:
            InputError: if a part has no clicks.
        """
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
        """Fold a log as `prsrank.pairs.counted.pairs_of_events` does, with its options."""
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
        rankers: Sequence[Ranker],
        events: Any,
        propensities: PropensityCurve | None = None,
        weighting: str | None = None,
        *,
        parameters: Mapping[str, float] | None = None,
        validation: Any = None,
        tau: float = 0.0,
    ) -> list[float | None]:
        """Fit rankers to the same pairs of a log whose columns hold the features.

        Args:
            rankers: of one class, which differ in their settings; they are fitted in place.
            events: the log.
            propensities: the curve; None takes the log's own.
            weighting: default: the ranker's.
            parameters: of the weighting.
            validation: events of other queries, on whose clicks rankers that can stop early.
            tau: clip of the weights of those clicks.

        Returns:
            For each ranker the DCG@10 that the clicks of `validation` say it has, as
            `CounterfactualMetric` estimates it; None without validation.
        """
        ...

    def evaluate(
        self,
        events: Any,
        propensities: PropensityCurve | None,
        rankers: Mapping[str, Ranker | None],
        *,
        against: Sequence[str],
        context: str | None = None,
        seed: int = 0,
    ) -> "LogEvaluation":
        """Estimate how good rankers are from the clicks of a log that holds the features.

        Args:
            events: held-out events.
            propensities: the curve; None takes the log's own.
            rankers: by name; None puts docs in random order.
            against: which each is compared with: "logged", or names of rankers.
            context: context whose values are parts, and may have curves of their own.
            seed: of the bootstrap.
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


def check_alike(rankers: Sequence[Ranker]) -> None:
    """Raise an InputError for rankers that cannot be fitted to the same pairs."""
    if not rankers:
        raise InputError("there is no ranker to train")
    first = rankers[0]
    for one in rankers:
        if type(one) is not type(first) or one.pair_options != first.pair_options:
            raise InputError(
                "rankers to train together must be of one class and take the same pairs"
            )
