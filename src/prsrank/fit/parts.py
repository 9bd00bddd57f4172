"""The parts of a log that a fit trains on, tunes on and judges by: no query is in two."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prsrank.errors import InputError
from prsrank.logs.pieces import Extent

if TYPE_CHECKING:
    from prsrank.fit.log import PiecedLog

VALIDATION_SHARE = 0.2
PARTS = TRAIN, VALIDATION, HELD_OUT = "train", "validation", "held out"

HALF = "cross-fit half"
"""A context of the held-out sessions where they are randomised: half "1" or "2" of the queries."""


@dataclass(frozen=True, eq=False)
class LogParts:
    """A log in three parts without a common query.

    Attributes:
        train: sessions to learn from.
        validation: sessions to choose settings by.
        held_out: sessions to judge by, once; with the context HALF where they are randomised.
        learning: train and validation together.
        way: how it was held out; see `Split`.
        extents: how large each part is.
        dropped_sessions: sessions of queries that would be in two parts; in none.
        halves: the held-out sessions of each half of their queries, where they are randomised.
    """

    train: "PiecedLog"
    validation: "PiecedLog"
    held_out: "PiecedLog"
    learning: "PiecedLog"
    way: str
    extents: Mapping[str, Extent]
    dropped_sessions: int = 0
    halves: "tuple[PiecedLog, PiecedLog] | None" = None

    def __post_init__(self) -> None:
        if not self.extents[HELD_OUT].sessions:
            raise InputError(f"no session is marked as {self.way}: hold out by query or by time")
        if not self.extents[TRAIN].sessions:
            raise InputError(
                f"every query has sessions to hold out ({self.way}): hold out by query"
            )
        for name, extent in self.extents.items():
            if not extent.clicks:
                raise InputError(
                    f"the {name} part has no clicks ({extent.sessions} sessions): the log is too "
                    "small"
                )

    def counts(self) -> dict[str, dict[str, int]]:
        """Return sessions, queries and clicks of each part."""
        return {
            name: {"sessions": e.sessions, "queries": e.queries, "clicks": e.clicks}
            for name, e in self.extents.items()
        }
