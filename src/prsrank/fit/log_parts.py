"""The parts of a log that a fit trains on, tunes on and judges by: no query is in two."""

from dataclasses import dataclass

import numpy as np

from prsrank.errors import InputError
from prsrank.fit.plan import RANDOMISED, Plan
from prsrank.logs.click_log import ClickLog
from prsrank.logs.held_out import GroupOf, hold_out, in_groups

VALIDATION_SHARE = 0.2


@dataclass(frozen=True, eq=False)
class LogParts:
    """A log in three parts without a common query.

    Attributes:
        train: sessions to learn from.
        validation: sessions to choose settings by.
        held_out: sessions to judge by, once.
        learning: train and validation together.
        way: "query", "time" or "randomised".
        dropped_sessions: sessions of queries that would be in two parts; in none.
    """

    train: ClickLog
    validation: ClickLog
    held_out: ClickLog
    learning: ClickLog
    way: str
    dropped_sessions: int = 0

    def counts(self) -> dict[str, dict[str, int]]:
        """Return sessions, queries and clicks of each part."""
        parts = {"train": self.train, "validation": self.validation, "held out": self.held_out}
        return {
            name: {
                "sessions": part.sessions,
                "queries": part.queries,
                "clicks": len(part.clicks),
            }
            for name, part in parts.items()
        }


def split_log(log: ClickLog, plan: Plan) -> LogParts:
    """Split a log as the plan says; validation is a fifth of the queries that are not held out.

    "randomised" holds out the sessions that showed docs in random order. Lists of one query
    that have ids of their own (`lists` "session") stay together.

    Raises:
        InputError: if a part has no sessions or no clicks.
    """
    way, share = plan.hold_out_by
    if way == RANDOMISED:
        learning, held_out, dropped = _without_randomised(log, plan.group_of)
    else:
        whole = hold_out(log, by=way, share=share, seed=plan.seed, group_of=plan.group_of)
        learning, held_out, dropped = whole.training, whole.held_out, whole.dropped_sessions
    inner = hold_out(
        learning, by="query", share=VALIDATION_SHARE, seed=plan.seed, group_of=plan.group_of
    )
    parts = LogParts(inner.training, inner.held_out, held_out, learning, way, dropped)
    for name, count in parts.counts().items():
        if not count["clicks"]:
            raise InputError(
                f"the {name} part has no clicks ({count['sessions']} sessions): the log is too small"
            )
    return parts


def _without_randomised(log: ClickLog, group_of: GroupOf | None) -> tuple[ClickLog, ClickLog, int]:
    marked = np.array([design != "" for design in log.designs])
    randomised = marked[log.ranking_design][log.session_ranking]
    if not randomised.any():
        raise InputError("no session is marked as randomised: hold out by query or by time")
    held_out = log.select(randomised)
    shared = in_groups(log, held_out, group_of) & ~randomised
    learning = ~randomised & ~shared
    if not learning.any():
        raise InputError("every query has randomised sessions: hold out by query or by time")
    return log.select(learning), held_out, int(shared.sum())
