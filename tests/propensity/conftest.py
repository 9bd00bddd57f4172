"""A small simulator of its own, independent of the library's."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from prsrank.logs.click_log import ClickLog, Context


def simulate(
    truth: Sequence[float],
    *,
    queries: int = 60,
    length: int | None = None,
    sessions: int = 60_000,
    rankers: int = 1,
    design: str = "",
    swaps: Sequence[tuple[int, int]] = (),
    relevance: np.ndarray | None = None,
    context: Sequence[Sequence[float]] = (),
    noise: float = 0.4,
    seed: int = 0,
) -> ClickLog:
    """Sessions of a position-based model: P(click of doc d at k) = truth[k - 1] * relevance[d].

    Every ranker sorts by relevance plus its own noise. design "uniform" or "top-k:K" shuffles every
    session, swaps change places with probability 1/2. With `context` each session draws one of
    the given curves instead of `truth`.
    """
    rng = np.random.default_rng(seed)
    length = length or len(truth)
    if relevance is None:
        relevance = rng.beta(0.5, 1.5, size=(queries, length))
    noisy = relevance + rng.normal(scale=noise, size=(rankers, queries, length))
    orders = np.argsort(-noisy, axis=2)
    query = rng.integers(queries, size=sessions)
    docs = orders[rng.integers(rankers, size=sessions), query].copy()
    marks, mark = ("", *[f"swap:{a}:{b}" for a, b in swaps]), np.zeros(sessions, np.int64)
    if design:
        top = length if design == "uniform" else int(design.split(":")[1])
        docs[:, :top] = rng.permuted(docs[:, :top], axis=1)
        marks, mark = ("", design), np.ones(sessions, np.int64)
    elif swaps:
        mark = rng.integers(1, len(swaps) + 1, size=sessions)
        for number, (a, b) in enumerate(swaps, start=1):
            rows = np.flatnonzero((mark == number) & (rng.random(sessions) < 0.5))
            docs[np.ix_(rows, [a - 1, b - 1])] = docs[np.ix_(rows, [b - 1, a - 1])]
    codes = rng.integers(max(len(context), 1), size=sessions)
    seen = np.asarray(context)[codes] if len(context) else np.broadcast_to(truth, docs.shape)
    clicked = rng.random(docs.shape) < seen * relevance[query[:, None], docs]
    columns = np.column_stack([query, mark, docs])
    radix = np.array([queries, len(marks), *[length] * length])
    keys = columns @ np.concatenate([np.cumprod(radix[:0:-1])[::-1], [1]])
    _, first, session_ranking = np.unique(keys, return_index=True, return_inverse=True)
    rankings = columns[first]
    return ClickLog(
        query_ids=np.arange(queries),
        doc_offsets=np.arange(queries + 1) * length,
        doc_ids=np.tile(np.arange(length), queries),
        ranking_query=rankings[:, 0],
        ranking_offsets=np.arange(len(rankings) + 1) * length,
        ranking_docs=(rankings[:, 2:] + rankings[:, :1] * length).ravel(),
        ranking_positions=np.tile(np.arange(1, length + 1), len(rankings)),
        session_ranking=session_ranking,
        session_clicks=clicked.sum(axis=1),
        clicks=np.nonzero(clicked)[1],
        ranking_design=rankings[:, 1],
        designs=marks,
        contexts={"device": Context(tuple(f"d{i}" for i in range(len(context))), codes)}
        if len(context)
        else {},
    )


def tiny(
    rankings: Sequence[tuple[int, Sequence[int], Sequence[int]]],
    sessions: Sequence[tuple[int, Sequence[int]]],
    *,
    designs: Sequence[str] = ("",),
    ranking_design: Sequence[int] | None = None,
    docs_per_query: int = 3,
) -> ClickLog:
    """Return a log written by hand.

    Args:
        rankings: (query, docs, positions) of each, docs numbered within the query.
        sessions: (ranking, clicked positions) of each.
        designs: marks.
        ranking_design: mark of each ranking.
        docs_per_query: number of docs of every query.
    """
    queries = 1 + max(query for query, _, _ in rankings)
    clicked = [
        sorted(list(rankings[ranking][2]).index(k) for k in positions)
        for ranking, positions in sessions
    ]
    return ClickLog(
        query_ids=np.arange(queries),
        doc_offsets=np.arange(queries + 1) * docs_per_query,
        doc_ids=np.tile(np.arange(docs_per_query), queries),
        ranking_query=[query for query, _, _ in rankings],
        ranking_offsets=np.cumsum([0, *(len(docs) for _, docs, _ in rankings)]),
        ranking_docs=[query * docs_per_query + d for query, docs, _ in rankings for d in docs],
        ranking_positions=[k for _, _, positions in rankings for k in positions],
        session_ranking=[ranking for ranking, _ in sessions],
        session_clicks=[len(places) for places in clicked],
        clicks=[place for places in clicked for place in places],
        ranking_design=np.zeros(len(rankings)) if ranking_design is None else ranking_design,
        designs=tuple(designs),
    )


@pytest.fixture
def simulated_log() -> Callable[..., ClickLog]:
    return simulate


@pytest.fixture
def tiny_log() -> Callable[..., ClickLog]:
    return tiny
