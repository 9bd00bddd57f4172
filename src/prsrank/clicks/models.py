"""The click models by name."""

import dataclasses
from typing import Any

from prsrank.errors import InputError
from prsrank.families import Family
from prsrank.types import ClickModel

CLICK_MODELS: Family[type[ClickModel]] = Family(
    "click model",
    {
        "position-based": "prsrank.clicks.position_based:PositionBasedModel",
        "cascade": "prsrank.clicks.cascade:CascadeModel",
        "trust": "prsrank.clicks.trust:TrustBiasModel",
    },
)


def click_model(name: str, **parameters: Any) -> Any:
    """Make the named click model.

    >>> click_model("cascade", mu=0.2).gamma
    0.9
    """
    kind = CLICK_MODELS.find(name)
    known = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    for parameter in parameters:
        if parameter not in known:
            raise InputError(
                f"click model {name} has no parameter {parameter} (it has: {', '.join(known)})"
            )
    return kind(**parameters)
