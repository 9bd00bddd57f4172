"""Propensities that are known beforehand."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.logs.click_log import ClickLog
from prsrank.logs.pieces import Extent, Pieces
from prsrank.propensity.curve import PowerLaw, Propensities
from prsrank.types import LogTables


@dataclass(frozen=True)
class KnownPropensity:
    r"""A given curve, or $(1/k)^\eta$, for all positions of a log.

    Args:
        eta: severity of the position bias; used if there is no curve.
        curve: propensity of positions 1, 2, 3, ...; divided by that of position 1.

    >>> KnownPropensity(curve=[0.8, 0.4]).at_depth(2).propensity.tolist()
    [1.0, 0.5]
    """

    method: ClassVar[str] = "known"
    needs: ClassVar[str] = "nothing"
    uses_features: ClassVar[bool] = False
    only_randomised: ClassVar[bool] = False

    eta: float = 1.0
    curve: Sequence[float] | None = None

    def __post_init__(self) -> None:
        PowerLaw(self.eta)
        if self.curve is None:
            return
        values = np.asarray(self.curve, dtype=np.float64)
        if values.ndim != 1 or not values.size or not np.isfinite(values).all():
            raise InputError("a known curve must be a list of finite numbers")
        if values[0] <= 0 or (values < 0).any():
            raise InputError("a known curve must be positive at position 1, and never negative")
        object.__setattr__(self, "curve", tuple(values.tolist()))

    def identify(self, tables: LogTables) -> None:
        """Return None: it is given, whatever the log says."""

    def at_depth(self, depth: int) -> Propensities:
        """Return the curve for positions 1 to `depth`; an error if the given one is shorter."""
        if self.curve is None:
            p = PowerLaw(self.eta).at(np.arange(1, depth + 1))
        elif len(self.curve) < depth:
            raise InputError(
                f"the known curve ends at position {len(self.curve)}, but {depth} are shown"
            )
        else:
            p = np.asarray(self.curve[:depth]) / self.curve[0]
        return Propensities(p, p, p, np.zeros(depth, np.int64), "identified", self.method)

    def estimate(
        self, log: ClickLog, *, dataset: RankingDataset | None = None, seed: int = 0
    ) -> Propensities:
        """Return the curve for the positions of the log; see `Estimator`."""
        return self.at_depth(log.max_position)

    def estimate_pieces(self, pieces: Pieces[ClickLog], *, seed: int = 0) -> Propensities:
        """Return the curve for the positions of a log that lies in pieces."""
        return self.at_depth(pieces.total(Extent.of).depth)


KNOWN = KnownPropensity()
