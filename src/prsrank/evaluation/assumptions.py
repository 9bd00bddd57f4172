r"""What may be assumed of clicks, as a line: P(click) of a doc = floor, plus slope if relevant.

With the propensity p of a slot at position k, raised to the power s (another severity), noise
mu, and trust t, where a user trusts position k blindly with probability t / k:

$$\text{slope} = p^s (1 - 2\mu)(1 - t/k), \qquad
  \text{floor} = p^s (\mu + (1 - \mu)\,t/k).$$

These are the clicks of `PositionBasedModel` (t = 0) and `TrustBiasModel`, for a curve p. An
unbiased estimate of a doc's relevance is then (click - floor) / slope (Vardasbi, Oosterhuis, de
Rijke, CIKM 2020); with mu = t = 0 it is click / p, inverse propensity scoring.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from prsrank.errors import InputError
from prsrank.logs.click_log import ClickLog
from prsrank.propensity.curve import PropensityCurve
from prsrank.types import Floats

KINDS = ("eta", "noise", "trust", "gamma")
DEFAULT_VALUES: dict[str, tuple[float, ...]] = {
    "eta": (0.5, 0.75, 1.25, 1.5),
    "noise": (0.05, 0.1, 0.2),
    "trust": (0.2, 0.5),
    "gamma": (2.0, 5.0),
}


@dataclass(frozen=True)
class Assumption:
    """How users click, and how pairs are clipped in training.

    Attributes:
        eta: power of the propensities: 1 is the curve as it is.
        noise: probability of a wrong judgement, in [0, 0.5).
        trust: probability that position 1 is trusted blindly, in [0, 1).
        gamma: clip of the weighting prs; it changes the training only.

    >>> slope, floor = Assumption(noise=0.1).clicks([1.0, 0.5], [1, 2])
    >>> slope.tolist(), floor.tolist()
    ([0.8, 0.4], [0.1, 0.05])
    """

    eta: float = 1.0
    noise: float = 0.0
    trust: float = 0.0
    gamma: float = 1.0

    def __post_init__(self) -> None:
        for name, fits, rule in (
            ("eta", 0 <= self.eta < np.inf, "finite and at least 0"),
            ("noise", 0 <= self.noise < 0.5, "in [0, 0.5)"),
            ("trust", 0 <= self.trust < 1, "in [0, 1)"),
            ("gamma", 0 < self.gamma < np.inf, "finite and above 0"),
        ):
            if not fits:
                raise InputError(f"{name} must be {rule}, not {getattr(self, name)}")

    def clicks(
        self, propensities: npt.ArrayLike, positions: npt.ArrayLike
    ) -> tuple[Floats, Floats]:
        """Return slope and floor of slots of these propensities and positions."""
        p = np.asarray(propensities, np.float64) ** self.eta
        trusting = self.trust / np.asarray(positions, np.float64)
        return (
            p * (1 - 2 * self.noise) * (1 - trusting),
            p * (self.noise + (1 - self.noise) * trusting),
        )


def alternatives(
    kind: str, values: Sequence[float], *, base: Assumption | None = None
) -> list[tuple[float, Assumption]]:
    """Return the base and its alternatives in one respect, by rising value.

    >>> [value for value, _ in alternatives("eta", [1.5, 0.5])]
    [0.5, 1.0, 1.5]
    """
    if kind not in KINDS:
        raise InputError(f"no assumption '{kind}': one of {', '.join(KINDS)}")
    start = base or Assumption()
    chosen = sorted({float(v) for v in values} | {float(getattr(start, kind))})
    return [(value, replace(start, **{kind: value})) for value in chosen]


def slot_propensities(log: ClickLog, curve: PropensityCurve | None) -> Floats:
    """Return the propensity of each slot of a log, by a curve or by the log itself."""
    if curve is not None:
        # a curve is asked once a position, not once a slot
        positions, index = np.unique(log.ranking_positions, return_inverse=True)
        return np.asarray(np.asarray(curve.at(positions), np.float64)[index])
    if log.ranking_propensities is None:
        raise InputError("the log has no propensities: give --propensity FILE or power:ETA")
    return log.ranking_propensities
