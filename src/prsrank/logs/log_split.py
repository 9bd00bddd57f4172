"""Parts of a log without a common query, chosen by the queries' ids: the same on every engine."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prsrank.errors import InputError

BUCKETS = 10_000
"""A query's bucket is the first 32 bits of the MD5 of its id as text, modulo this."""

PARTS = TRAIN, VALIDATION, HELD_OUT = "train", "validation", "held out"
DROPPED = "dropped"
HALF = "cross-fit half"
"""A context of the held-out events where they are randomised: half "1" or "2" of the queries."""


@dataclass(frozen=True)
class LogSplit:
    """How a log is split: which buckets of queries are held out, and which validate.

    Args:
        held_out: share of the queries to hold out; None: the sessions in random order, whose
            queries are in no other part.
        validation: share of the other queries to validate by.

    >>> LogSplit(0.2).limits
    (2000, 3600)
    """

    held_out: float | None = 0.2
    validation: float = 0.2

    def __post_init__(self) -> None:
        for name in ("held_out", "validation"):
            share = getattr(self, name)
            if share is not None and not 0 < share < 1:
                raise InputError(f"{name} must be between 0 and 1, not {share}")

    @property
    def limits(self) -> tuple[int, int]:
        """Buckets below the first are held out, others below the second validate."""
        first = 0 if self.held_out is None else round(self.held_out * BUCKETS)
        return first, first + round(self.validation * (BUCKETS - first))

    def part(self, bucket: str, *, randomised: str, shared: str) -> str:
        """Return the SQL of an event's part.

        Args:
            bucket: SQL of its query's bucket.
            randomised: SQL of whether its session is in random order.
            shared: SQL of whether its query has such a session.
        """
        first, second = self.limits
        cases = f"WHEN {bucket} < {first} THEN '{HELD_OUT}' "
        if self.held_out is None:
            cases = f"WHEN {randomised} THEN '{HELD_OUT}' WHEN {shared} THEN '{DROPPED}' "
        cases += f"WHEN {bucket} < {second} THEN '{VALIDATION}'"
        return f"CASE {cases} ELSE '{TRAIN}' END"


def randomised_sql(kind: str | None) -> str:
    """Return the SQL of whether an event's session is in random order.

    Args:
        kind: type of the column `randomised`; None if there is none.
    """
    if kind is None:
        return "false"
    boolean = kind.lower() == "boolean"
    return "coalesce(randomised, false)" if boolean else "coalesce(randomised, '') <> ''"


def half_sql(bucket: str) -> str:
    """Return the SQL of which half an event's query belongs to, given that of its bucket."""
    return f"CASE WHEN {bucket} < {BUCKETS // 2} THEN '1' ELSE '2' END"


class PartCounts:
    """Sessions, queries and clicks of each part and half of the queries.

    Args:
        rows: part, half and the three numbers.

    >>> counts = PartCounts([("train", "1", 5, 2, 3), ("train", "2", 4, 1, 3)])
    >>> counts.of("train")
    {'sessions': 9, 'queries': 3, 'clicks': 6}
    """

    names = ("sessions", "queries", "clicks")

    def __init__(self, rows: Iterable[Sequence[Any]]) -> None:
        self._rows = {(part, half): numbers for part, half, *numbers in rows}

    def of(self, part: str, halves: str = "12") -> dict[str, int]:
        """Return the counts of a part, or of one half of its queries."""
        found = [self._rows.get((part, half), (0, 0, 0)) for half in halves]
        return {name: sum(row[i] for row in found) for i, name in enumerate(self.names)}


@dataclass(frozen=True, eq=False)
class EventParts:
    """Events in parts without a common query.

    Attributes:
        train: events to learn from.
        validation: events to choose settings by.
        held_out: events to judge by, once; with the context HALF where they are randomised.
        learning: train and validation together.
        halves: the held-out events of each half, where they are randomised; None for a half
            without clicks.
        counts: sessions, queries and clicks of each part.
        dropped_sessions: sessions of queries that would be in two parts; in none.
    """

    train: Any
    validation: Any
    held_out: Any
    learning: Any
    halves: tuple[Any | None, Any | None] | None
    counts: Mapping[str, Mapping[str, int]]
    dropped_sessions: int

    @classmethod
    def of(
        cls, counts: PartCounts, how: LogSplit, where: Callable[..., Any], *, half: str
    ) -> "EventParts":
        """Make the parts of events that are marked.

        Args:
            counts: of the marked events.
            how: they were split.
            where: gives the events for which SQL of `log_part` and the half holds, with the
                contexts named after it.
            half: SQL of the column HALF.
        """
        held_out, halved = f"log_part = '{HELD_OUT}'", how.held_out is None
        one, two = (
            where(f"{held_out} AND {half} = '{number}'")
            if halved and counts.of(HELD_OUT, number)["clicks"]
            else None
            for number in "12"
        )
        return cls(
            train=where(f"log_part = '{TRAIN}'"),
            validation=where(f"log_part = '{VALIDATION}'"),
            held_out=where(held_out, *([HALF] if halved else [])),
            learning=where(f"log_part IN ('{TRAIN}', '{VALIDATION}')"),
            halves=(one, two) if halved else None,
            counts={part: counts.of(part) for part in PARTS},
            dropped_sessions=counts.of(DROPPED)["sessions"],
        )

    def __post_init__(self) -> None:
        if self.halves is not None and not self.counts[HELD_OUT]["sessions"]:
            raise InputError("no session is marked as randomised: hold out by query")
        if self.halves is not None and not self.counts[TRAIN]["sessions"]:
            raise InputError("every query has randomised sessions: hold out by query")
        for name, count in self.counts.items():
            if not count["clicks"]:
                raise InputError(
                    f"the {name} part has no clicks ({count['sessions']} sessions): the log is "
                    "too small"
                )
