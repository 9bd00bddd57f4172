"""The families of interchangeable parts, one Protocol each; that of rankers is a base class.

Each family has a table (`prsrank.families.Family`), from which help texts and refusals are made:
`rankers.base.RANKERS`, `propensity.estimators.ESTIMATORS`, `clicks.models.CLICK_MODELS`,
`metrics.ranking.METRICS`, `weighting.WEIGHTINGS`, `export.formats.FORMATS`, `audit.CHECKS`.

Conventions everywhere: a *rank* or *position* is 1-based, an *index* 0-based. Ragged data
is one flat array and `offsets`: list q is the slice offsets[q]:offsets[q + 1].
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from prsrank.audit.event_tables import EventTables
    from prsrank.audit.findings import Finding
    from prsrank.clicks.models import AffineClicks, WalkTables
    from prsrank.data.dataset import RankingDataset
    from prsrank.export.formats import Exportable
    from prsrank.logs.click_log import ClickLog
    from prsrank.logs.pieces import Pieces
    from prsrank.propensity.curve import Propensities
    from prsrank.propensity.identification import Identified

Floats = npt.NDArray[np.float64]
Reals = npt.NDArray[np.float32]
Longs = npt.NDArray[np.int64]
Ints = npt.NDArray[np.int32]
Marks = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
IdArray = npt.NDArray[np.int64] | npt.NDArray[np.str_]
"""Ids of queries, docs or sessions: all integers or all strings; see `prsrank.data.ids`."""


class Metric(Protocol):
    """A measure of ranking quality, one value per list.

    Args:
        labels: label or relevance of each doc, flat.
        scores: score of each doc, flat; a higher score ranks higher. Docs of equal score
            count by the expectation over all orders of them.
        offsets: where each list begins, and the end (lists + 1).

    Returns:
        One value per list; NaN for a list on which the metric has no meaning (for most: a
        list without a relevant doc). `average` skips and counts those.
    """

    @property
    def higher_is_better(self) -> bool:
        """Whether a better ranker has a higher value."""
        ...

    def __call__(
        self, labels: npt.ArrayLike, scores: npt.ArrayLike, offsets: npt.ArrayLike
    ) -> Floats:
        """Return one value per list."""
        ...


WeightFunction = Callable[..., npt.ArrayLike]
"""What pairs of a clicked doc and another one of its session weigh, by broadcasting.

Called with `p_clicked`, the propensity of each clicked doc at the position where it was shown,
`p_non_clicked`, that of each doc that it is compared with (0: it could not be seen), and as
keywords the parameters that the weighting's entry names, such as clips; with `relevance`, the true
relevance of the other docs, where the entry says so. Returns weights, finite and at least 0.
"""


class ClickModel(Protocol):
    """How users click on a ranking. A frozen dataclass, whose fields are its parameters."""

    @property
    def cutoff(self) -> int | None:
        """How many docs are shown at most; None: all."""
        ...

    def tables(self, depth: int) -> "WalkTables":
        """Return what a user does at positions 1 to `depth`, by relevance."""
        ...

    def click_probabilities(self, relevance: npt.ArrayLike, positions: npt.ArrayLike) -> Floats:
        """Return the exact probability of a click at each slot of a ranking.

        Args:
            relevance: 0 or 1 for each slot, in the order shown.
            positions: 1-based position of each slot, rising.
        """
        ...

    def affine(self, positions: Longs, propensity: Floats) -> "AffineClicks":
        """Return P(click) as floor + gain theta, for a likelihood by counts of clicks.

        Args:
            positions: 1-based position of each count.
            propensity: p there, from whatever curve is believed.

        Raises:
            InputError: if clicks of a session depend on one another.
        """
        ...


class LogTables(Protocol):
    """A log as SQL tables: {events}, {sessions}, {lists}, {cells} and {docs} name them.

    `prsrank.audit.event_tables` says what is in each.
    """

    @property
    def features(self) -> Sequence[str]:
        """Columns with features."""
        ...

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        ...

    def row(self, sql: str) -> tuple[Any, ...]:
        """Return the first row of a query."""
        ...


class Estimator(Protocol):
    """A way to find the propensity of each position. A frozen dataclass of its settings.

    Attributes:
        needs: what a log must have for it, in words.
        uses_features: whether `estimate` takes relevance from a data set's features, if given.
        only_randomised: whether it takes the randomised sessions of a log and no others.
    """

    needs: ClassVar[str]
    uses_features: ClassVar[bool]
    only_randomised: ClassVar[bool]

    @property
    def method(self) -> str:
        """Its name in the table, and on the curves that it makes."""
        ...

    def identify(self, tables: LogTables) -> "Identified | None":
        """Say by counts alone what a log can tell; None for what is not estimated."""
        ...

    def estimate(
        self, log: "ClickLog", *, dataset: "RankingDataset | None" = None, seed: int = 0
    ) -> "Propensities":
        """Return the log's curve, with intervals and a verdict.

        Args:
            log: what was shown and clicked.
            dataset: features of the log's docs, for estimators that use them.
            seed: of the bootstrap replicates.

        Raises:
            InputError: if the log has no sessions or no clicks.
        """
        ...

    def estimate_pieces(self, pieces: "Pieces[ClickLog]", *, seed: int = 0) -> "Propensities":
        """Return the curve of a log that lies in pieces; the same, however it is cut."""
        ...


ExportFormat = Callable[["Exportable"], bytes]
"""Writes a ranker as another program reads it; an InputError where that cannot hold it."""

AuditCheck = Callable[["EventTables"], "Iterator[Finding]"]
"""Looks for one kind of trouble in a log, and yields what it finds."""
