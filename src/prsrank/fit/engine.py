"""What a fit asks of an engine: to open a log and to cut it into pieces."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from prsrank.logs.click_log import ClickLog
from prsrank.logs.pieces import Pieces

if TYPE_CHECKING:
    from prsrank.data.dataset import RankingDataset
    from prsrank.files import FileName
    from prsrank.fit.log import PiecedLog
    from prsrank.fit.plan import Plan
    from prsrank.logs.mapping import LogMapping
    from prsrank.pairs.posterior import Posterior
    from prsrank.pairs.weighted_pairs import PairDiagnostics
    from prsrank.propensity.curve import PropensityCurve

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


class Engine(Protocol):
    """Where a log is read and cut into pieces. Use it in a `with` block."""

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
    ) -> "PiecedLog":
        """Read an open log, and the features of its docs.

        Args:
            source: the log.
            mapping: which columns are features, where they are the log's own.
            data: a data set with the features; or
            table: a table of features keyed by query and doc.
            lists: "query" or "session"; see `prsrank.logs.reading.read_log`.
        """
        ...
