r"""Weightings: what a pair (clicked doc i, other doc j) of one session weighs.

With p_i and p_j the propensities of the positions at which the two docs were shown:

| name          | weight of the pair (i, j)                   | j is                      |
| ------------- | ------------------------------------------- | ------------------------- |
| naive         | 1                                           | non-clicked               |
| ips           | 1 / max(p_i, tau)                           | non-clicked               |
| pns           | p_j                                         | non-clicked               |
| prs           | min(gamma, p_j / max(p_i, tau))             | non-clicked               |
| symmetric     | min(p_i, p_j) (p_i p_j)^power / p_i         | non-clicked               |
| ips_all       | 1 / max(p_i, tau)                           | any other doc             |
| ips_oracle    | 1 / max(p_i, tau)                           | any other irrelevant doc  |
| pns_oracle    | p_j (1 - q_j) / (1 - p_j q_j)               | non-clicked               |
| labels        | 1, i relevant and j irrelevant              | from labels, not clicks   |
| posterior     | θ_i (1 - θ_j), from all clicks and features | any other doc of the list |
| doubly_robust | r_i (1 - r_j), from the same                | any other doc of the list |

q_j is the probability of a click on an observed doc: 1 - noise if it is relevant, else noise.
A weight depends on the logged positions only, never on the scores of the ranker in training.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal

import numpy as np
import numpy.typing as npt

from prsrank.errors import DataWarning, InputError
from prsrank.families import Family
from prsrank.types import Floats, Marks
from prsrank.types import WeightFunction as WeightFunction

Against = Literal["non-clicked", "others", "irrelevant", "labels", "posterior", "doubly robust"]


def naive_weights(p_clicked: npt.ArrayLike, p_non_clicked: npt.ArrayLike) -> Floats:
    """Weigh every pair 1; the propensities only give the shape.

    >>> naive_weights([0.5, 0.2], 1.0).tolist()
    [1.0, 1.0]
    """
    return np.ones(np.broadcast_shapes(np.shape(p_clicked), np.shape(p_non_clicked)))


def ips_weights(
    p_clicked: npt.ArrayLike, p_non_clicked: npt.ArrayLike, *, tau: float = 0.0
) -> Floats:
    r"""Inverse propensity scoring: $w_{ij} = 1 / \max(p_i, \tau)$.

    Args:
        p_clicked: $p_i$, propensity of each clicked doc.
        p_non_clicked: $p_j$; where it is 0 (could not be seen) the weight is 0.
        tau: propensities are raised to at least this; 0 is no clip.

    >>> ips_weights(0.2, 1.0).tolist(), ips_weights(0.2, 1.0, tau=0.5).tolist()
    (5.0, 2.0)

    Reference: Joachims, Swaminathan, Schnabel, WSDM 2017.
    """
    p_i, p_j = _checked(p_clicked, p_non_clicked)
    return np.where(p_j > 0, 1 / np.maximum(p_i, _threshold(tau)), 0.0)


def pns_weights(p_clicked: npt.ArrayLike, p_non_clicked: npt.ArrayLike) -> Floats:
    """Propensity of the negative sample: $w_{ij} = p_j$.

    >>> pns_weights([[0.5], [0.2]], [1.0, 0.25]).tolist()
    [[1.0, 0.25], [1.0, 0.25]]
    """
    p_i, p_j = _checked(p_clicked, p_non_clicked)
    return np.broadcast_to(p_j, np.broadcast_shapes(p_i.shape, p_j.shape)).copy()


def prs_weights(
    p_clicked: npt.ArrayLike,
    p_non_clicked: npt.ArrayLike,
    *,
    gamma: float = 1.0,
    tau: float = 0.0,
) -> Floats:
    r"""Propensity ratio scoring: $w_{ij} = \min(\gamma, p_j / \max(p_i, \tau))$.

    Args:
        p_clicked: $p_i$, propensity of each clicked doc.
        p_non_clicked: $p_j$, propensity of each doc it is compared with.
        gamma: the greatest weight; `math.inf` is no clip. At 1 the expected weights keep the
            order of relevance; above 1 they may lose it (see `prsrank.theory`).
        tau: the other clip: p_clicked is raised to at least this; 0 is no clip.

    >>> prs_weights(1 / 3, [1, 1 / 2, 1 / 4], gamma=math.inf).tolist()
    [3.0, 1.5, 0.75]
    >>> prs_weights(1 / 3, [1, 1 / 2, 1 / 4]).tolist()
    [1.0, 1.0, 0.75]

    Reference: Wang, Qin, Wang, Wang, "Non-clicks mean irrelevant?", WSDM 2021.
    """
    if not gamma > 0:
        raise InputError(f"gamma must be above 0, not {gamma}")
    p_i, p_j = _checked(p_clicked, p_non_clicked)
    return np.minimum(gamma, p_j / np.maximum(p_i, _threshold(tau)))


def symmetric_weights(
    p_clicked: npt.ArrayLike, p_non_clicked: npt.ArrayLike, *, power: float = 0.5
) -> Floats:
    r"""A symmetric factor over $p_i$: $w_{ij} = \min(p_i, p_j) (p_i p_j)^a / p_i$.

    Any symmetric s in $w_{ij} = s(p_i, p_j) / p_i$ has the expected weight
    $q_i (1 - p_j q_j) s(p_i, p_j)$, and so keeps the order of relevance as PRS does. A greater
    power trusts pairs far down less: more bias to the top of lists, less variance.

    Args:
        p_clicked: $p_i$, propensity of each clicked doc.
        p_non_clicked: $p_j$, propensity of each doc it is compared with.
        power: $a$, at least 0; 0 is PRS.

    >>> symmetric_weights(0.25, [1.0, 0.16], power=0.5).round(4).tolist()
    [0.5, 0.128]
    """
    if not (power >= 0 and math.isfinite(power)):
        raise InputError(f"power must be finite and at least 0, not {power}")
    p_i, p_j = _checked(p_clicked, p_non_clicked)
    return np.minimum(1.0, p_j / p_i) * (p_i * p_j) ** power


def pns_oracle_weights(
    p_clicked: npt.ArrayLike,
    p_non_clicked: npt.ArrayLike,
    *,
    relevance: npt.ArrayLike,
    noise: float = 0.1,
) -> Floats:
    r"""P(observed given no click), which `pns_weights` approximates by $p_j$.

    $$w_{ij} = \frac{p_j (1 - q_j)}{1 - p_j q_j}$$

    Args:
        p_clicked: propensity of each clicked doc; only gives the shape.
        p_non_clicked: $p_j$, propensity of each non-clicked doc.
        relevance: true relevance (0 or 1) of each non-clicked doc.
        noise: $q_j$ is 1 - noise for a relevant doc, noise for another.

    >>> pns_oracle_weights(1.0, [0.5, 0.5], relevance=[0, 1], noise=0.0).tolist()
    [0.5, 0.0]
    """
    if not 0 <= noise <= 1:
        raise InputError(f"noise must be from 0 to 1, not {noise}")
    p_i, p_j = _checked(p_clicked, p_non_clicked)
    p_j = np.minimum(p_j, 1.0)
    q_j = np.where(np.asarray(relevance) > 0, 1 - noise, noise)
    no_click = 1 - p_j * q_j
    # a doc that is always clicked is never a non-clicked one: any weight will do
    weights = np.divide(p_j * (1 - q_j), no_click, out=np.zeros(no_click.shape), where=no_click > 0)
    return np.broadcast_to(weights, np.broadcast_shapes(p_i.shape, weights.shape)).copy()


@dataclass(frozen=True)
class Weighting:
    """A weight function, and which docs a clicked doc is compared with.

    Attributes:
        name: as in the table `WEIGHTINGS`.
        function: `function(p_clicked, p_non_clicked, **parameters)`, by broadcasting; None
            for `labels`, which needs no clicks, and for `posterior` and `doubly_robust`, which
            weigh no single session.
        against: "non-clicked", "others" (clicked or not), "irrelevant" (others whose
            relevance is 0), "labels", "posterior" (see `prsrank.pairs.posterior`) or "doubly
            robust" (`prsrank.pairs.posterior`).
        takes_relevance: the function has a keyword `relevance`, that of the other doc.
        needs_propensities: False if the weights do not depend on propensities.
        parameters: values of the function's keywords.
        no_clip: the keyword values at which nothing is clipped.
        search_grid: parameters to try where rankers are tuned, the likeliest first.
        chart_style: index of its style in charts (`prsrank.notebook.vega_lite`); None: the next free.

    >>> WEIGHTINGS["prs"].with_parameters(gamma=3.0)(0.25, 1.0).tolist()
    3.0
    """

    name: str
    function: WeightFunction | None
    against: Against = "non-clicked"
    takes_relevance: bool = False
    needs_propensities: bool = True
    parameters: Mapping[str, float] = field(default_factory=dict)
    no_clip: Mapping[str, float] = field(default_factory=dict)
    search_grid: Sequence[Mapping[str, float]] = ({},)
    chart_style: int | None = None

    @property
    def needs_labels(self) -> bool:
        """Whether true relevance must be known."""
        return self.takes_relevance or self.against in ("irrelevant", "labels")

    @property
    def of_relevance(self) -> bool:
        """Whether pairs come from the relevance of docs, and are no sum over sessions."""
        return self.against in ("posterior", "doubly robust")

    def with_parameters(self, **values: float) -> "Weighting":
        """Return the weighting with other parameter values; unknown names are refused."""
        for name in values:
            if name not in self.parameters:
                known = ", ".join(self.parameters) or "none"
                raise InputError(f"weighting {self.name} has no parameter {name} (it has: {known})")
        return replace(self, parameters={**self.parameters, **values})

    def __call__(
        self,
        p_clicked: npt.ArrayLike,
        p_non_clicked: npt.ArrayLike,
        *,
        relevance: npt.ArrayLike | None = None,
    ) -> Floats:
        """Return the weights, checked to be finite and at least 0."""
        return self._evaluate(p_clicked, p_non_clicked, relevance, self.parameters)

    def clipped(
        self,
        p_clicked: npt.ArrayLike,
        p_non_clicked: npt.ArrayLike,
        *,
        relevance: npt.ArrayLike | None = None,
    ) -> Marks:
        """Return where a clip changes the weight."""
        weights = self(p_clicked, p_non_clicked, relevance=relevance)
        if not self.no_clip:
            return np.zeros(weights.shape, bool)
        free = {**self.parameters, **self.no_clip}
        return np.not_equal(weights, self._evaluate(p_clicked, p_non_clicked, relevance, free))

    def _evaluate(
        self,
        p_clicked: npt.ArrayLike,
        p_non_clicked: npt.ArrayLike,
        relevance: npt.ArrayLike | None,
        parameters: Mapping[str, float],
    ) -> Floats:
        if self.function is None:
            raise InputError(f"weighting {self.name} has no weights for clicks")
        keywords: dict[str, npt.ArrayLike] = dict(parameters)
        if self.takes_relevance:
            if relevance is None:
                raise InputError(f"weighting {self.name} needs labels")
            keywords["relevance"] = relevance
        shape = np.broadcast_shapes(np.shape(p_clicked), np.shape(p_non_clicked))
        values = np.asarray(self.function(p_clicked, p_non_clicked, **keywords), np.float64)
        try:
            weights = np.broadcast_to(values, shape)
        except ValueError:
            raise InputError(
                f"weighting {self.name} gave weights of shape {values.shape}, not {shape}"
            ) from None
        if not np.all((weights >= 0) & np.isfinite(weights)):
            raise InputError(f"weighting {self.name} gave a weight below 0 or not finite")
        return weights


_TAU = MappingProxyType({"tau": 0.0})

WEIGHTINGS: Family[Weighting] = Family(
    "weighting",
    {
        weighting.name: weighting
        for weighting in (
            Weighting("naive", naive_weights, needs_propensities=False, chart_style=2),
            Weighting(
                "ips",
                ips_weights,
                parameters=_TAU,
                no_clip=_TAU,
                search_grid=({"tau": 0.0}, {"tau": 0.05}, {"tau": 0.2}),
                chart_style=1,
            ),
            Weighting("pns", pns_weights, chart_style=3),
            Weighting(
                "prs",
                prs_weights,
                parameters={"gamma": 1.0, "tau": 0.0},
                no_clip={"gamma": math.inf, "tau": 0.0},
                chart_style=0,
            ),
            Weighting("symmetric", symmetric_weights, parameters={"power": 0.5}),
            Weighting("ips_all", ips_weights, "others", parameters=_TAU, no_clip=_TAU),
            Weighting("ips_oracle", ips_weights, "irrelevant", parameters=_TAU, no_clip=_TAU),
            Weighting(
                "pns_oracle",
                pns_oracle_weights,
                takes_relevance=True,
                parameters={"noise": 0.1},
            ),
            Weighting("labels", None, "labels", needs_propensities=False, chart_style=4),
            Weighting(
                "posterior",
                None,
                "posterior",
                parameters={"temper": 0.0, "own": 1.0, "one_way": 0.0},
                search_grid=({"own": 1.0}, {"own": 0.5}, {"own": 0.25}),
                chart_style=10,
            ),
            Weighting("doubly_robust", None, "doubly robust", parameters=_TAU),
        )
    },
)


def find_weighting(
    weighting: str | Weighting | WeightFunction, parameters: Mapping[str, float] | None = None
) -> Weighting:
    """Return the weighting of a name, of a function of one's own, or itself.

    >>> find_weighting("ips", {"tau": 0.1}).parameters
    {'tau': 0.1}
    >>> find_weighting(lambda p_clicked, p_non_clicked: p_non_clicked**2).against
    'non-clicked'
    """
    if isinstance(weighting, str):
        weighting = WEIGHTINGS.find(weighting)
    elif not isinstance(weighting, Weighting):
        if not callable(weighting):
            raise InputError(f"a weighting is a name or a function, not {weighting!r}")
        weighting = Weighting(getattr(weighting, "__name__", "own"), weighting)
    return weighting.with_parameters(**parameters) if parameters else weighting


def bad_propensities(values: npt.NDArray) -> Marks:
    """Mark propensities that are below 0 or not finite; one above 1 can be used, with a warning."""
    return np.asarray(~((values >= 0) & np.isfinite(values)))


def check_propensities(
    propensities: npt.ArrayLike, positions: npt.NDArray | None = None, *, stacklevel: int = 3
) -> Floats:
    """Return propensities as float64 after checking that they are finite and at least 0.

    Args:
        propensities: of any shape.
        positions: where each stands, for the message.
        stacklevel: of the warning.

    Raises:
        InputError: if one is below 0 or not finite.

    Warns:
        DataWarning: if one is above 1, which an estimate can be but a probability cannot.
    """
    values = np.asarray(propensities, np.float64)
    bad = bad_propensities(values)
    if bad.any():
        first = int(bad.argmax())
        name = (
            "a propensity"
            if positions is None
            else f"the propensity at position {positions[first]}"
        )
        raise InputError(f"{name} is {values.ravel()[first]}: it must be finite and at least 0")
    if values.size and values.max() > 1:
        warnings.warn(
            f"a propensity is {values.max():.6g}, above 1: an estimate, not a probability",
            DataWarning,
            stacklevel=stacklevel,
        )
    return values


def _checked(p_clicked: npt.ArrayLike, p_non_clicked: npt.ArrayLike) -> tuple[Floats, Floats]:
    p_i, p_j = check_propensities(p_clicked), check_propensities(p_non_clicked)
    if np.any(p_i == 0):
        index = int(np.argmax(np.ravel(p_i == 0)))
        raise InputError(f"the clicked doc at index {index} has propensity 0: it cannot be seen")
    return p_i, p_j


def _threshold(tau: float) -> float:
    if not (tau >= 0 and math.isfinite(tau)):
        raise InputError(f"tau must be finite and at least 0, not {tau}")
    return tau
