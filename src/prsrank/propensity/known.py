"""Propensities that are known beforehand."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from prsrank.data.dataset import RankingDataset
from prsrank.logs.click_log import ClickLog
from prsrank.logs.pieces import Extent, Pieces
from prsrank.propensity.curve import PowerLaw, Propensities
from prsrank.propensity.verdict import Status, Verdict
from prsrank.types import LogTables


@dataclass(frozen=True)
class KnownPropensity:
    r"""$(1/k)^\eta$, for all positions of a log.

    Args:
        eta: severity of the position bias.

    >>> KnownPropensity(eta=2).at_depth(2).propensity.tolist()
    [1.0, 0.25]
    """

    method: ClassVar[str] = "known"
    needs: ClassVar[str] = "nothing"
    uses_features: ClassVar[bool] = False
    only_randomised: ClassVar[bool] = False

    eta: float = 1.0

    def __post_init__(self) -> None:
        PowerLaw(self.eta)

    def identify(self, tables: LogTables) -> None:
        """Return None: it is given, whatever the log says."""

    def at_depth(self, depth: int) -> Propensities:
        """Return the curve for positions 1 to `depth`."""
        p = PowerLaw(self.eta).at(np.arange(1, depth + 1))
        return Propensities(
            p, p, p, np.zeros(depth, np.int64), Verdict(Status.IDENTIFIED), self.method
        )

    def estimate(
        self, log: ClickLog, *, dataset: RankingDataset | None = None, seed: int = 0
    ) -> Propensities:
        """Return the curve for the positions of the log; see `Estimator`."""
        return self.at_depth(log.max_position)

    def estimate_pieces(self, pieces: Pieces[ClickLog], *, seed: int = 0) -> Propensities:
        """Return the curve for the positions of a log that lies in pieces."""
        return self.at_depth(pieces.total(Extent.of).depth)


KNOWN = KnownPropensity()
