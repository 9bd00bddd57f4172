r"""Team-draft interleaving: lists made of two rankings, and what their clicks say.

Radlinski, Kurup and Joachims (2008): two rankers pick their best doc that is not yet in the
list, in turns; a coin says who picks first of each two. A click is credit for the team that picked
the doc. By the coin each team has every position equally often, so position bias favours neither.
"""

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from prsrank.errors import InputError
from prsrank.logs.event_source import EVENTS, LogSource
from prsrank.logs.row_rules import check_columns, check_rows, click_sql
from prsrank.logs.tables import quoted_name, quoted_text
from prsrank.ragged import list_of_row
from prsrank.types import Floats, IdArray, Longs, Marks

BY = ("session", "query")
"""What is taken to be independent: sessions, or only queries."""

# A fair coin strays this many standard deviations once in 16,000 tests.
_UNFAIR = 4.0


class Draft(NamedTuple):
    """Interleaved lists, laid out as the lists that they are made of.

    Attributes:
        rows: row of the doc at each position (docs).
        new: whether the new ranker picked it (docs).
    """

    rows: Longs
    new: Marks


@dataclass(frozen=True)
class InterleavingTest:
    """What an interleaving test shows.

    Attributes:
        sessions: number of sessions.
        queries: number of queries; None where nobody said.
        production: clicks on docs that the production ranker picked.
        new: clicks on docs that the new ranker picked.
        difference: credit of the new ranker less that of production, per session.
        low: lower end of its interval.
        high: upper end of it.
        p_value: two-sided, of no difference.
        confidence: of the interval.
        by: what is taken to be independent: "session" or "query".
    """

    sessions: int
    queries: int | None
    production: float
    new: float
    difference: float
    low: float
    high: float
    p_value: float
    confidence: float
    by: str

    @property
    def share(self) -> float:
        """The new ranker's share of the credit; NaN without clicks."""
        total = self.production + self.new
        return self.new / total if total else float("nan")

    @property
    def verdict(self) -> str:
        """Return "better", "worse" or "no-difference"."""
        if self.low > 0:
            return "better"
        return "worse" if self.high < 0 else "no-difference"

    def to_json_dict(self) -> dict[str, Any]:
        """Return the test as a plain dict."""
        share = self.share if self.production + self.new else None
        return {"verdict": self.verdict, **asdict(self), "share": share}


def team_draft(
    production: npt.ArrayLike, new: npt.ArrayLike, offsets: npt.ArrayLike, *, seed: int = 0
) -> Draft:
    """Interleave two rankings of the same lists; whoever shows fewer docs shows the first ones.

    Args:
        production: score of each doc by the production ranker, flat; docs of equal score keep
            their order.
        new: score of each doc by the new ranker.
        offsets: where each list begins, and the end (lists + 1).
        seed: of the coins.

    >>> draft = team_draft([3, 2, 1], [1, 2, 3], [0, 3], seed=1)
    >>> draft.rows.tolist(), draft.new.tolist()
    ([0, 2, 1], [False, True, True])
    """
    starts = np.asarray(offsets, np.int64)
    coins = np.random.default_rng(seed).random(int(starts[-1])) < 0.5
    return draft_by_coins(best_first(production, starts), best_first(new, starts), starts, coins)


def best_first(scores: npt.ArrayLike, offsets: Longs) -> Longs:
    """Return the rows of each list by score, the highest first."""
    values = np.asarray(scores, np.float64)
    if values.shape != (offsets[-1],) or np.isnan(values).any():
        raise InputError(f"{offsets[-1]} docs need a number each as their scores")
    return np.lexsort((-values, list_of_row(offsets)))


def draft_by_coins(production: Longs, new: Longs, offsets: Longs, coins: Marks) -> Draft:
    """Interleave rows in two orders; a coin lets the new ranker pick first of a pair of picks."""
    rows = np.empty(len(production), np.int64)
    team = np.empty(len(production), np.bool_)
    _draft_kernel(production, new, offsets, coins, rows, team)
    return Draft(rows, team)


@njit(cache=True, nogil=True)
def _draft_kernel(production, new, offsets, coins, rows, team):  # type: ignore[no-untyped-def]
    taken = np.zeros(len(rows), np.bool_)
    for ranking in range(len(offsets) - 1):
        first = offsets[ranking]
        here = there = first
        lead = 0  # picks of the new ranker less those of production: -1, 0 or 1
        for slot in range(first, offsets[ranking + 1]):
            team[slot] = lead < 0 or (lead == 0 and coins[slot])
            if team[slot]:
                while taken[new[there]]:
                    there += 1
                rows[slot] = new[there]
                lead += 1
            else:
                while taken[production[here]]:
                    here += 1
                rows[slot] = production[here]
                lead -= 1
            taken[rows[slot]] = True


def compare_credit(
    production: npt.ArrayLike,
    new: npt.ArrayLike,
    *,
    queries: npt.ArrayLike | None = None,
    by: str = "session",
    confidence: float = 0.95,
) -> InterleavingTest:
    r"""Test whether two teams get the same credit, by Student's t.

    With d_s the difference of session s, n sessions and their mean $\bar d$, the variance of
    $\bar d$ is $G/(G-1) \sum_g (\sum_{s \in g} (d_s - \bar d))^2 / n^2$ over G groups: the
    sessions themselves, or the queries.

    Args:
        production: credit of the production ranker in each session.
        new: credit of the new ranker in each session.
        queries: query of each session; needed to compare by query.
        by: "session": sessions are independent draws of the traffic, and the verdict is about
            that traffic. "query": sessions of a query may move together, and the verdict is
            about queries like these.
        confidence: of the interval.

    >>> compare_credit([0, 1, 0, 0, 0], [1, 0, 1, 1, 2]).verdict
    'no-difference'
    """
    old, credit = np.asarray(production, np.float64), np.asarray(new, np.float64)
    if old.ndim != 1 or old.shape != credit.shape:
        raise InputError("the credit of both teams must be given for each session")
    if not 0 < confidence < 1:
        raise InputError(f"confidence must be between 0 and 1, not {confidence}")
    check_by(by)
    query = None if queries is None else np.unique(np.asarray(queries), return_inverse=True)[1]
    groups = query if by == "query" else np.arange(len(old))
    if groups is None:
        raise InputError("to compare by query, say which query each session had")
    if groups.max(initial=-1) < 1:
        raise InputError(f"a test needs at least 2 {'queries' if by == 'query' else 'sessions'}")
    half, p_value = _student(credit - old, groups, confidence)
    mean = float((credit - old).mean())
    return InterleavingTest(
        sessions=len(old),
        queries=None if query is None else int(query.max()) + 1,
        production=float(old.sum()),
        new=float(credit.sum()),
        difference=mean,
        low=mean - half,
        high=mean + half,
        p_value=p_value,
        confidence=confidence,
        by=by,
    )


def check_by(by: str) -> None:
    """Raise an InputError for what is not in BY."""
    if by not in BY:
        raise InputError(f"by is '{by}': it must be {' or '.join(BY)}")


def _student(differences: Floats, groups: Longs, confidence: float) -> tuple[float, float]:
    """Return half the width of the interval of the mean, and the p value of 0."""
    from scipy.stats import t

    mean = differences.mean()
    sums = np.bincount(groups, differences - mean)
    count = len(sums)
    error = float(np.sqrt(count / (count - 1) * (sums**2).sum())) / len(differences)
    if error == 0:
        return 0.0, float(mean == 0)
    half = error * float(t.ppf((1 + confidence) / 2, count - 1))
    return half, float(2 * t.sf(abs(mean) / error, count - 1))


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
        events: one row per shown doc, `team` among the contexts (see `prsrank.logs.reading`).
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
    sums = events.grouped(
        "query_id, session_id",
        f"any_value(query_id) AS query, count({name}) AS docs, "
        f"count(*) FILTER ({clicked} AND {mine}) AS mine, "
        f"count(*) FILTER ({clicked} AND {name} IS NOT NULL AND NOT {mine}) AS other, "
        f'arg_min({mine}, "position") FILTER ({name} IS NOT NULL) IS TRUE AS first, '
        "count(*) - count(DISTINCT doc_id) AS twice, any_value(session_id) AS session",
    ).arrays("query, session, docs, mine, other, first, twice")
    if sums["twice"].any():
        session = int(sums["twice"].argmax())
        raise InputError(
            f"session {sums['session'][session]} of query {sums['query'][session]} shows a doc twice"
        )
    there: npt.NDArray = sums["docs"] > 0
    return Credit(
        teams=teams,
        queries=sums["query"][there],
        production=sums["other"][there].astype(np.int64),
        new=sums["mine"][there].astype(np.int64),
        new_first=int(sums["first"][there].sum()),
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
