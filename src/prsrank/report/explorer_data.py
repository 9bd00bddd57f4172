"""What the explorer shows of queries, as arrays: orders, evidence, gains, and columns of tables."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.data.ids import texts_of
from prsrank.errors import InputError
from prsrank.evaluation.rank_values import find_rank_value
from prsrank.files import FileName
from prsrank.logs.click_log import ClickLog
from prsrank.logs.features import original_queries
from prsrank.logs.mapping import LogMapping
from prsrank.logs.row_rules import nearest_column
from prsrank.logs.tables import connected, errors_in_one_line, open_table, quoted_name, quoted_text
from prsrank.pairs.doc_clicks import DocClicks
from prsrank.pairs.posterior import Posterior, posterior_of_clicks
from prsrank.ragged import list_of_row, row_in_list
from prsrank.types import Floats, IdArray, Longs

if TYPE_CHECKING:
    from prsrank.pairs.log_on_lists import PropensitySource
    from prsrank.rankers.base import Ranker

METRIC = "dcg@10"
PICKED = ("traffic", "gain", "loss", "random")
"""Why a query is among those shown, where not all of them are."""

_Z = 1.96


Evidence = dict[str, Floats]
"""What a log says about docs, one number each, by name; see `evidence_of`."""


@dataclass(frozen=True, eq=False)
class Explored:
    """Queries to look at, with the docs that their sessions showed.

    Attributes:
        rankers: names of the rankers; the first one picks the queries.
        query_ids: of each query.
        offsets: where the docs of each query begin, and the end (queries + 1).
        rows: row in the data set of each doc.
        doc_ids: of each doc.
        sessions: of each query.
        picked: index into PICKED of each query; None where all queries are shown.
        queries: how many queries there are in all.
        evidence: of each doc.
        logged: rank of each doc in the order of mean positions (docs).
        ranks: rank of each doc by each ranker (rankers x docs).
        gain: DCG@10 of each ranker's order less that of the logged order (rankers x queries).
        deviation: standard deviation of the gain (rankers x queries).
    """

    rankers: tuple[str, ...]
    query_ids: IdArray
    offsets: Longs
    rows: Longs
    doc_ids: IdArray
    sessions: Floats
    picked: Longs | None
    queries: int
    evidence: Evidence
    logged: Longs
    ranks: Longs
    gain: Floats
    deviation: Floats


def explore_log(
    log: ClickLog,
    lists: RankingDataset,
    propensities: "PropensitySource",
    rankers: Mapping[str, "Ranker"],
    *,
    queries: int = 1000,
    seed: int = 0,
    like: Posterior | None = None,
) -> Explored:
    """Lay the orders of several rankers beside that of a log.

    Args:
        log: the clicks.
        lists: the features of its docs, in the order that the rankers know.
        propensities: a curve, one value per slot of the log, or None for the log's own.
        rankers: by name; the first one picks the queries, where there are more than wanted.
        queries: how many to keep at most.
        seed: of the posterior, and of the queries picked at random.
        like: a posterior of other lists whose prior is taken, rather than learned anew.
    """
    evidence, sessions = evidence_of(log, lists, propensities, seed=seed, like=like)
    there = evidence["impressions"] > 0
    scores = {name: np.full(lists.docs, np.nan) for name in rankers}
    for name, ranker in rankers.items():
        scores[name][there] = ranker.score(lists.features[there])
    every = explored(lists, evidence, sessions, scores)
    if every.queries <= queries:
        return every
    why = np.full(lists.lists, -1)
    shown = list_of_row(lists.offsets)[every.rows[every.offsets[:-1]]]
    why[shown] = pick(every.gain[0], every.sessions, queries, seed=seed)
    return replace(explored(lists, evidence, sessions, scores, why=why), queries=every.queries)


def evidence_of(
    log: ClickLog,
    lists: RankingDataset,
    propensities: "PropensitySource",
    *,
    seed: int = 0,
    like: Posterior | None = None,
) -> tuple[Evidence, Floats]:
    """Return the evidence of each doc of the lists, and the sessions of each list.

    Evidence of a doc is how often it was shown (`impressions`) and clicked (`clicks`), its mean
    `position` and `propensity` over its impressions (NaN where there are none), and P(click once
    seen), the expectation given all clicks and features (`theta`) with the ends of its 95 %
    interval (`low`, `high`).
    """
    clicks = DocClicks.of([log], lists, propensities)
    beliefs = None if like is None else like.of_others(clicks, lists)
    beliefs = beliefs or posterior_of_clicks(clicks, lists, seed=seed)
    counts = clicks.counted.evidence()
    impressions = counts.sums(counts.shown)
    shown, _ = log.slot_statistics()
    rows = log.doc_rows(lists)[log.ranking_docs]
    with np.errstate(invalid="ignore"):
        position = np.bincount(rows, shown * log.ranking_positions, lists.docs) / impressions
        propensity = counts.sums(counts.shown * counts.gain) / impressions
    assert clicks.sessions is not None  # noqa: S101
    evidence = {
        "impressions": impressions,
        "clicks": counts.sums(counts.clicked),
        "position": position,
        "propensity": propensity,
        "theta": beliefs.theta,
        "low": beliefs.low,
        "high": beliefs.high,
    }
    return evidence, clicks.sessions


def explored(
    lists: RankingDataset,
    evidence: Evidence,
    sessions: Floats,
    scores: Mapping[str, Floats],
    *,
    why: Longs | None = None,
) -> Explored:
    r"""Return the orders and gains of all lists, of those docs that were shown.

    A gain is $\sum_d \theta_d (v(r_d) - v(l_d))$ over the docs of a query, with v the DCG's
    value of a rank, r the rank by a ranker and l that in the order of mean positions. The thetas
    of docs are independent given the clicks, so its variance is
    $\sum_d \sigma_d^2 (v(r_d) - v(l_d))^2$.

    Args:
        lists: the queries and docs.
        evidence: of each row.
        sessions: of each list.
        scores: of each row by each ranker.
        why: of each list, why it was picked, an index into PICKED, or -1; default: all are shown.

    Raises:
        InputError: if no doc was shown.
    """
    owner, there = list_of_row(lists.offsets), evidence["impressions"] > 0
    rows = np.flatnonzero(there if why is None else there & (why[owner] >= 0))
    if not len(rows):
        raise InputError("the log shows no doc")
    kept, starts = np.unique(owner[rows], return_index=True)
    offsets = np.append(starts, len(rows))
    seen = {name: values[rows] for name, values in evidence.items()}
    values = find_rank_value(METRIC).of_ranks(int(np.diff(offsets).max()))
    logged = ranks_by(offsets, seen["position"], -seen["impressions"])
    # docs of equal score stay in the logged order: a ranker that says nothing gains nothing
    ranks = np.array([ranks_by(offsets, -of_ranker[rows], logged) for of_ranker in scores.values()])
    change = values[ranks - 1] - values[logged - 1]
    spread = (seen["high"] - seen["low"]) / (2 * _Z)
    return Explored(
        rankers=tuple(scores), query_ids=lists.query_ids[kept], offsets=offsets, rows=rows,
        doc_ids=lists.doc_names[rows], sessions=sessions[kept], queries=len(kept),
        picked=None if why is None else why[kept], evidence=seen, logged=logged, ranks=ranks,
        gain=np.add.reduceat(change * seen["theta"], starts, axis=1),
        deviation=np.sqrt(np.add.reduceat((change * spread) ** 2, starts, axis=1)),
    )  # fmt: skip


def ranks_by(offsets: Longs, *keys: npt.NDArray) -> Longs:
    """Return the rank of each doc in its list, from 1, by rising keys, the first before the next.

    >>> ranks_by(np.array([0, 3, 5]), np.array([2.0, 1.0, 1.0, 0.0, -1.0])).tolist()
    [3, 1, 2, 2, 1]
    """
    order = np.lexsort((*reversed(keys), list_of_row(offsets)))
    ranks = np.empty(len(order), np.int64)
    ranks[order] = row_in_list(offsets) + 1
    return ranks


def pick(gain: Floats, sessions: Floats, count: int, *, seed: int = 0) -> Longs:
    """Pick queries worth looking at: a quarter each by traffic, gain and loss, others at random.

    Args:
        gain: of each query.
        sessions: of each query.
        count: how many to pick, fewer than there are.
        seed: of the random ones.

    Returns:
        Why each query was picked, an index into PICKED, or -1.
    """
    why = np.full(len(gain), -1)
    for code, key in enumerate((sessions, gain, -gain)):
        free = np.flatnonzero((why < 0) & (key > 0))
        why[free[np.argsort(-key[free], kind="stable")[: count // 4]]] = code
    free = np.random.default_rng(seed).permutation(np.flatnonzero(why < 0))
    why[free[: count - np.count_nonzero(why >= 0)]] = len(PICKED) - 1
    return why


LONGEST = 200
"""Letters of a text that are shown."""


def text_columns(
    names: Sequence[str],
    files: Sequence[FileName],
    query_ids: IdArray,
    doc_ids: IdArray,
    mapping: LogMapping,
) -> dict[str, list[str]]:
    """Return the text of each doc in each of the columns; "" where there is none.

    Args:
        names: the columns.
        files: tables, the first that has a column and is keyed by query and doc is asked for it.
        query_ids: the query of each doc.
        doc_ids: the docs.
        mapping: which columns of the tables are query and doc.

    Raises:
        InputError: naming a column that none of the tables has.
    """
    queries = texts_of(original_queries(query_ids)).tolist()
    keys = list(zip(queries, texts_of(doc_ids).tolist(), strict=True))
    asked_for = ", ".join(map(quoted_text, sorted(set(queries))))
    texts: dict[str, list[str]] = {}
    columns: dict[str, str] = {}
    for file in files:
        with connected() as connection, errors_in_one_line(str(file)):
            table = open_table(connection, file)
            columns |= dict.fromkeys(table.columns, "")
            here = [name for name in names if name in table.columns and name not in texts]
            pairs = [(mapping.column(name), name) for name in ("query_id", "doc_id")]
            keyed = [next((name for name in pair if name in table.columns), None) for pair in pairs]
            if not here or None in keyed:
                continue
            query, doc = (f"{quoted_name(str(column))}::VARCHAR" for column in keyed)
            # a doc may have another text in another session: the first in order stands for all
            first = [f"left(min({quoted_name(name)}::VARCHAR), {LONGEST})" for name in here]
            rows = table.filter(f"{query} IN ({asked_for})").aggregate(
                f"{query} AS q, {doc} AS d, {', '.join(first)}", f"{query}, {doc}"
            )
            of_docs = {row[:2]: row[2:] for row in rows.fetchall()}
        for i, name in enumerate(here):
            texts[name] = [of_docs[key][i] or "" if key in of_docs else "" for key in keys]
    for name in names:
        if name not in texts:
            raise InputError(f"--show: there is no column {name!r}{nearest_column(name, columns)}")
    return {name: texts[name] for name in names}


def split_columns(
    columns: dict[str, list[str]], offsets: Sequence[int]
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Tell columns of queries, in which all docs of a query have one text, from those of docs.

    Returns:
        The text of each query by column, and that of each doc by column.

    >>> split_columns({"q": ["a", "a", "b"], "d": ["1", "2", "3"]}, [0, 2, 3])
    ({'q': ['a', 'b']}, {'d': ['1', '2', '3']})
    """
    bounds = list(itertools.pairwise(offsets))
    of_queries, of_docs = {}, {}
    for name, texts in columns.items():
        if all(len(set(texts[start:stop])) == 1 for start, stop in bounds):
            of_queries[name] = [texts[start] for start, _ in bounds]
        else:
            of_docs[name] = texts
    return of_queries, of_docs
