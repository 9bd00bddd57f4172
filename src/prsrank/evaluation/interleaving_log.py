"""The credit of two teams, from the events of an interleaving test."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prsrank.errors import InputError
from prsrank.logs.event_source import EVENTS, LogSource
from prsrank.logs.row_rules import check_columns, check_rows, click_sql
from prsrank.logs.sql_text import quoted_name, quoted_text
from prsrank.types import IdArray, Longs

# A fair coin strays this many standard deviations once in 16,000 tests.
_UNFAIR = 4.0


@dataclass(frozen=True, eq=False)
class Credit:
    """Clicks on the docs of each team, session by session.

    Attributes:
        teams: names of the production ranker and of the new one, as the log has them.
        queries: query of each session.
        production: clicks on docs that the production ranker picked (sessions).
        new: clicks on docs that the new ranker picked (sessions).
        new_first: in how many sessions the new ranker picked the first doc.
        without: sessions that are left out, since none of their docs has a team.
    """

    teams: tuple[str, str]
    queries: IdArray
    production: Longs
    new: Longs
    new_first: int
    without: int

    @property
    def warning(self) -> str:
        """What is wrong if the first pick was no fair coin; else ""."""
        sessions = len(self.new)
        if abs(self.new_first - sessions / 2) <= _UNFAIR * np.sqrt(sessions) / 2:
            return ""
        return (
            f"{self.teams[1]} picked the first doc in {self.new_first / sessions:.1%} of the "
            "sessions, which no fair coin does: position bias may favour a team"
        )


def credit_of(events: LogSource, *, team: str = "team", new: str | None = None) -> Credit:
    """Add up the clicks on the docs of each team.

    Args:
        events: one row per shown doc, `team` among the contexts (see `prsrank.logs.sources`).
        team: the column that says which ranker picked the doc; empty for docs of neither.
        new: the value of it that is the new ranker; default: "new", else the last of the two.

    Raises:
        InputError: if a row cannot be used, a session shows a doc twice, or there are not two
            teams.
    """
    check_columns(events, [team])
    check_rows(events)
    teams = _teams(events, team, new)
    name = f"{quoted_name(team)}::VARCHAR"
    mine, clicked = f"{name} = {quoted_text(teams[1])}", click_sql(events)
    found = events.grouped(
        "query_id, session_id",
        f"any_value(query_id) AS query, count({name}) AS docs, "
        f"count(*) FILTER ({clicked} AND {mine}) AS mine, "
        f"count(*) FILTER ({clicked} AND {name} IS NOT NULL AND NOT {mine}) AS other, "
        f'arg_min({mine}, "position") FILTER ({name} IS NOT NULL) IS TRUE AS first, '
        "count(*) - count(DISTINCT doc_id) AS twice, any_value(session_id) AS session",
    ).arrays("query, session, docs, mine, other, first, twice")
    if found["twice"].any():
        which = int(found["twice"].argmax())
        raise InputError(
            f"session {found['session'][which]} of query {found['query'][which]} shows a doc twice"
        )
    there: npt.NDArray = found["docs"] > 0
    return Credit(
        teams=teams,
        queries=found["query"][there],
        production=found["other"][there].astype(np.int64),
        new=found["mine"][there].astype(np.int64),
        new_first=int(found["first"][there].sum()),
        without=int((~there).sum()),
    )


def _teams(events: LogSource, team: str, new: str | None) -> tuple[str, str]:
    """Return the names of the production ranker and the new one."""
    column = quoted_name(team)
    rows = events.query(
        f"SELECT DISTINCT {column}::VARCHAR FROM {EVENTS} WHERE {column} IS NOT NULL "  # noqa: S608
        "ORDER BY 1 LIMIT 9"
    )
    names = [row[0] for row in rows]
    if len(names) != 2:
        raise InputError(f"column '{team}' must name two teams, not {', '.join(names) or 'none'}")
    if new is not None and new not in names:
        raise InputError(f"no team is called '{new}': there are {' and '.join(names)}")
    second = new or ("new" if "new" in names else names[1])
    return (names[0] if second == names[1] else names[1]), second
