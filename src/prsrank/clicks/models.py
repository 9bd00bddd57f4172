"""The click models by name, and what they have in common."""

from typing import Any, Protocol

import numpy.typing as npt

from prsrank.clicks.cascade import CascadeModel
from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.trust import TrustBiasModel
from prsrank.clicks.walk import WalkTables
from prsrank.errors import InputError
from prsrank.types import Floats


class ClickModel(Protocol):
    """How users click on a ranking. Immutable; its parameters are checked when it is made."""

    @property
    def cutoff(self) -> int | None:
        """How many docs are shown at most; None: all."""
        ...

    def tables(self, depth: int) -> WalkTables:
        """Return what a user does at positions 1 to `depth`, by relevance."""
        ...

    def click_probabilities(self, relevance: npt.ArrayLike, positions: npt.ArrayLike) -> Floats:
        """Return the exact probability of a click at each slot of a ranking.

        Args:
            relevance: 0 or 1 for each slot, in the order shown.
            positions: 1-based position of each slot, rising.
        """
        ...


CLICK_MODELS: dict[str, type[PositionBasedModel | CascadeModel | TrustBiasModel]] = {
    "position-based": PositionBasedModel,
    "cascade": CascadeModel,
    "trust": TrustBiasModel,
}


def click_model(name: str, **parameters: Any) -> PositionBasedModel | CascadeModel | TrustBiasModel:
    """Make the named click model; underscores serve for hyphens.

    >>> click_model("cascade", mu=0.2).gamma
    0.9
    """
    spelled = name.replace("_", "-")
    if spelled not in CLICK_MODELS:
        raise InputError(f"unknown click model '{name}'; there are: {', '.join(CLICK_MODELS)}")
    try:
        return CLICK_MODELS[spelled](**parameters)
    except TypeError as error:
        raise InputError(f"click model '{name}': {str(error).split(') ', 1)[-1]}") from error
