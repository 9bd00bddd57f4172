"""What a fit asks of an engine: where a step runs, never what it computes."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from prsrank.logs.click_log import ClickLog
from prsrank.logs.pieces import Extent, Pieces

if TYPE_CHECKING:
    from prsrank.data.dataset import RankingDataset
    from prsrank.evaluation.log_evaluation import LogEvaluation
    from prsrank.files import FileName
    from prsrank.fit.parts import LogParts, Split
    from prsrank.fit.plan import Plan
    from prsrank.logs.mapping import LogMapping
    from prsrank.pairs.pair_set import PairDiagnostics
    from prsrank.pairs.posterior import Posterior
    from prsrank.propensity.curve import PropensityCurve
    from prsrank.propensity.sampled_clicks import SampledClicks
    from prsrank.rankers.base import Progress, Ranker

METRIC = "dcg@10"
"""What rankers stop early on, and what their settings are chosen by."""


@dataclass(frozen=True)
class Weighed:
    """How rankers are trained, and by what they are judged on the way.

    Attributes:
        curve: the propensities; None takes the log's own.
        weighting: of the pairs.
        parameters: of the weighting.
        tau: clip of the weights of the clicks that judge.
        like: posterior of a part of the sessions; see `prsrank.pairs.posterior.posterior_pairs`.
    """

    curve: "PropensityCurve | None"
    weighting: str
    parameters: Mapping[str, float]
    tau: float = 0.0
    like: "Posterior | None" = None


@dataclass(frozen=True, eq=False)
class Trained:
    """What came of training rankers on the same pairs.

    Attributes:
        values: METRIC of each ranker, as the clicks of the validation part say; NaN without.
        diagnostics: of the pairs; None where nobody has seen them all.
    """

    values: tuple[float, ...]
    diagnostics: "PairDiagnostics | None" = None


class EngineLog(Protocol):
    """Sessions of a log with the lists that they show, where an engine keeps them."""

    @property
    def left_out(self) -> int:
        """How many sessions show docs without features; they are in no part."""
        ...

    @property
    def pieces(self) -> Pieces[ClickLog]:
        """The sessions, in pieces without a common query."""
        ...

    @property
    def has_propensities(self) -> bool:
        """Whether the log has propensities of its own."""
        ...

    def extent(self) -> Extent:
        """Return how many sessions, queries, clicks and positions there are."""
        ...

    def split(self, how: "Split") -> "LogParts":
        """Split the log into parts without a common query."""
        ...

    def can_train(self, ranker: "Ranker") -> bool:
        """Tell whether a ranker can be trained on this log in its memory."""
        ...

    def train(
        self,
        rankers: Sequence["Ranker"],
        how: Weighed,
        *,
        validation: "Self | RankingDataset | None" = None,
        progress: "Progress | None" = None,
    ) -> Trained:
        """Fit rankers that differ in their settings alone to the same pairs, in place.

        Args:
            rankers: those that stop early do so on the validation part.
            how: they are trained.
            validation: sessions whose clicks judge; or lists with labels, which judge too.
            progress: is told after each tree or epoch, where this process sees them.
        """
        ...

    def evaluate(
        self,
        curve: "PropensityCurve | None",
        rankers: Mapping[str, "Ranker | None"],
        *,
        against: Sequence[str],
        context: str | None = None,
        seed: int = 0,
    ) -> "LogEvaluation":
        """Estimate how good rankers are; None among them puts docs in random order.

        Args:
            curve: the propensities; None takes the log's own.
            rankers: by name.
            against: which each is compared with: "logged", or names of rankers.
            context: context whose values are judged apart, and may have curves of their own.
            seed: of the bootstrap.
        """
        ...

    def counted(self, docs: int) -> "SampledClicks":
        """Return about so many docs, whole lists of them, with the counts of their clicks."""
        ...

    def in_memory(self) -> "tuple[ClickLog, RankingDataset] | None":
        """Return sessions and lists as one log and data set, if this process can hold them."""
        ...

    @property
    def posterior(self) -> "Posterior | None":
        """A posterior that rankers were trained with, if this process has one."""
        ...

    def write(self, folder: Path) -> None:
        """Write sessions and lists for later evaluations, if the engine can."""
        ...


class Engine(Protocol):
    """Where logs are read and rankers trained. Use it in a `with` block."""

    name: str

    @property
    def workers(self) -> int:
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

    def check(self, plan: "Plan") -> None:
        """Raise an InputError for settings that the engine cannot follow, before it starts."""
        ...

    def open_log(
        self, log: Any, *, mapping: "LogMapping", memory: str | None = None
    ) -> AbstractContextManager[Any]:
        """Open a log as `prsrank.logs.sources.open_events` does."""
        ...

    def sessions(self, source: Any) -> Pieces[ClickLog]:
        """Read the sessions of an open log, without features."""
        ...

    def load(
        self,
        source: Any,
        *,
        mapping: "LogMapping",
        data: "RankingDataset | None" = None,
        table: "FileName | None" = None,
        lists: str = "query",
    ) -> EngineLog:
        """Read an open log, and the features of its docs.

        Args:
            source: the log.
            mapping: which columns are features, where they are the log's own.
            data: a data set with the features; or
            table: a table of features keyed by query and doc.
            lists: "query" or "session"; see `prsrank.logs.reading.read_log`.
        """
        ...
