"""Simulated click logs: sessions drawn from a data set, a production ranking and a click model."""

from collections.abc import Iterator, Sequence
from contextlib import closing

import numpy as np
import numpy.typing as npt

from prsrank.clicks.plan import (
    Plan,
    cumulative_hazard,
    event_jumps,
    walk_events,
)
from prsrank.clicks.production_order import ranked_docs
from prsrank.clicks.randomise import Design
from prsrank.clicks.sessions import draw_sessions
from prsrank.clicks.shown_rankings import shown_rankings
from prsrank.clicks.stream import stream_key
from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.logs.click_log import ClickLog
from prsrank.ragged import offsets_of
from prsrank.threads import map_in_order
from prsrank.types import ClickModel, Floats, Ints, Longs

_FIRST_BLOCK, _LARGEST_BLOCK = 1 << 10, 1 << 16
_LARGEST_START = 1 << 26
_TRIAL_SESSIONS, _LEAST_RATE = 1 << 20, 1e-5


def simulate_clicks(
    dataset: RankingDataset,
    scores: npt.ArrayLike | Sequence[npt.ArrayLike],
    model: ClickModel,
    *,
    clicks: int | None = None,
    sessions: int | None = None,
    seed: int = 0,
    randomised: float = 0.0,
    design: str = "uniform",
    design_k: int | None = None,
    threads: int | None = None,
) -> ClickLog:
    """Draw sessions until there are enough clicks, or a number of sessions.

    Every session draws a query uniformly, shows its docs by falling score (ties in an order
    that depends on the seed alone) and clicks as the model says. Session i depends only on the
    seed and i: the log is the same for any number of threads, and a longer log begins with
    the shorter one.

    Args:
        dataset: the lists, with labels. Lists without docs are never shown.
        scores: scores of the docs by the production ranker, flat; or several such arrays, of
            which each session takes one at random.
        model: the click model.
        clicks: go on until at least this many clicks; the last session stays whole.
        sessions: or draw this many sessions.
        seed: seed of everything random.
        randomised: share of sessions whose ranking is randomised.
        design: how: "uniform", "top-k", "adjacent" or "pivot"; see `Design`. A list too short
            to swap anything is shown as it is and not marked.
        design_k: last position that the design changes, default 10.
        threads: default: all cores.

    Returns:
        The log. Its docs are those of all lists that could be shown, in the data set's order;
        its rankings those that were shown, in the order of first appearance.

    Raises:
        InputError: among others if the model makes clicks impossible or hopelessly rare.

    >>> from prsrank.clicks.position_based import PositionBasedModel
    >>> data = RankingDataset(np.eye(3), np.array([0, 3]), labels=np.array([0, 0, 1]))
    >>> model = PositionBasedModel(eta=1, mu=0)
    >>> log = simulate_clicks(data, [0.1, 0.2, 0.9], model, sessions=2)
    >>> log.ranking_docs.tolist(), log.session_clicks.tolist(), log.clicks.tolist()
    ([2, 1, 0], [1, 1], [0, 0])
    """
    wanted = _wanted(clicks, sessions)
    plan_design = Design(design, share=randomised, k=design_k)
    shown = np.flatnonzero(dataset.list_lengths)
    if not len(shown):
        raise InputError("the data set has no docs to show")
    # empty lists hold no docs, so leaving their offsets out moves nothing
    doc_offsets = np.append(dataset.offsets[shown], dataset.docs)
    plan = _plan(
        dataset, _score_rows(scores, dataset.docs), doc_offsets, model, plan_design, seed, threads
    )
    if clicks is not None:
        _check_possible(plan)
    codes, counts, clicked = _draw(plan, clicks, sessions, wanted, threads)
    rankings = shown_rankings(
        plan, codes, queries=len(shown), swaps=plan_design.swaps, threads=threads
    )
    return ClickLog(
        query_ids=dataset.query_ids[shown],
        doc_offsets=doc_offsets,
        doc_ids=dataset.doc_names,
        ranking_query=rankings.base % len(shown),
        ranking_offsets=rankings.offsets,
        ranking_docs=rankings.docs,
        ranking_positions=rankings.positions,
        session_ranking=codes,
        session_clicks=counts,
        clicks=clicked,
        ranking_design=rankings.design,
        designs=plan_design.marks,
    )


def _wanted(clicks: int | None, sessions: int | None) -> int:
    if (clicks is None) == (sessions is None):
        raise InputError("give either clicks or sessions")
    wanted = clicks if clicks is not None else sessions
    if wanted is None or wanted < 1:
        raise InputError(f"at least 1 click or session must be asked for, not {wanted}")
    return int(wanted)


def _score_rows(scores: npt.ArrayLike | Sequence[npt.ArrayLike], docs: int) -> Floats:
    """Return the scores as rankers x docs."""
    try:
        rows = np.atleast_2d(np.asarray(scores, dtype=np.float64))
    except ValueError as error:
        raise InputError("scores must be numbers, one for each doc of the data set") from error
    if rows.ndim != 2 or rows.shape[1] != docs or not len(rows):
        raise InputError(f"scores have shape {rows.shape}, but the data set has {docs} docs")
    if np.isnan(rows).any():
        raise InputError(f"the score of doc {int(np.isnan(rows).any(axis=0).argmax())} is NaN")
    return rows


def _plan(
    dataset: RankingDataset,
    scores: Floats,
    offsets: Longs,
    model: ClickModel,
    design: Design,
    seed: int,
    threads: int | None,
) -> Plan:
    lengths = np.diff(offsets)
    longest = int(lengths.max())
    cutoff = longest if model.cutoff is None else min(model.cutoff, longest)
    base_offsets = offsets_of(np.tile(lengths, len(scores)))
    # the codes of rankings are int32
    if (len(base_offsets) - 1) * (1 + 2 * design.swaps) >= 1 << 31:
        raise InputError("too many lists, rankers and swaps for one log")
    docs = np.concatenate([ranked_docs(row, offsets, seed=seed, threads=threads) for row in scores])
    relevance = dataset.relevance[docs]
    events = walk_events(model.tables(cutoff))
    hazard = cumulative_hazard(base_offsets, relevance, events.hazard, cutoff)
    return Plan(
        key=stream_key(seed),
        offsets=base_offsets,
        docs=docs,
        relevance=relevance,
        hazard=hazard,
        cutoff=cutoff,
        share=float(design.share),
        design=design.number,
        reach=design.reach,
        events=events,
        jumps=event_jumps(base_offsets, hazard, cutoff),
    )


def _check_possible(plan: Plan) -> None:
    present = np.unique(plan.relevance)
    if not np.any(plan.events.hazard[present] * plan.events.click_share[present] > 0):
        raise InputError("no click can happen: every click probability is 0 on this data set")


def _blocks(sessions: int | None) -> Iterator[tuple[int, int]]:
    """Cut the sessions into blocks, small ones first, the same for any number of threads."""
    first, size = 0, _FIRST_BLOCK
    while sessions is None or first < sessions:
        last = first + size if sessions is None else min(first + size, sessions)
        yield first, last
        first, size = last, min(2 * size, _LARGEST_BLOCK)


def _draw(
    plan: Plan, clicks: int | None, sessions: int | None, wanted: int, threads: int | None
) -> tuple[Ints, Ints, Ints]:
    codes, counts, clicked = _Growing(wanted), _Growing(wanted), _Growing(wanted)
    blocks = map_in_order(
        lambda block: draw_sessions(plan, *block), _blocks(sessions), threads=threads
    )
    with closing(blocks):  # type: ignore[type-var]
        for block_codes, block_counts, block_clicks in blocks:
            stop, end = len(block_codes), len(block_clicks)
            # the last session stays whole: cut behind the one that reaches the number
            if clicks is not None and clicked.size + end >= clicks:
                totals = np.cumsum(block_counts, dtype=np.int64)
                stop = int(np.searchsorted(totals, clicks - clicked.size)) + 1
                end = int(totals[stop - 1])
            codes.append(block_codes[:stop])
            counts.append(block_counts[:stop])
            clicked.append(block_clicks[:end])
            if clicks is not None and _enough(codes.size, clicked.size, clicks):
                break
    return codes.whole(), counts.whole(), clicked.whole()


def _enough(sessions: int, clicks: int, wanted: int) -> bool:
    if sessions >= _TRIAL_SESSIONS and clicks < sessions * _LEAST_RATE:
        raise InputError(
            f"clicks are too rare: {clicks} in the first {sessions} sessions; "
            "ask for a number of sessions instead"
        )
    return clicks >= wanted


class _Growing:
    """An int32 array that grows in place, so that it is never held twice."""

    def __init__(self, expected: int) -> None:
        self._array = np.empty(min(max(expected, 1), _LARGEST_START), np.int32)
        self.size = 0

    def append(self, values: Ints) -> None:
        end = self.size + len(values)
        if end > len(self._array):
            self._array.resize(max(end, len(self._array) * 5 // 4), refcheck=False)
        self._array[self.size : end] = values
        self.size = end

    def whole(self) -> Ints:
        self._array.resize(self.size, refcheck=False)
        return self._array
