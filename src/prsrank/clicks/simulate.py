"""Simulated click logs: sessions drawn from a data set, a production ranking and a click model."""

from collections.abc import Iterator, Sequence
from contextlib import closing

import numpy as np
import numpy.typing as npt

from prsrank.clicks.production import ranked_docs
from prsrank.clicks.randomise import Design
from prsrank.clicks.sessions import Plan, draw_sessions, shown_rankings
from prsrank.clicks.stream import LONGEST_WAIT, stream_key
from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.logs.click_log import ClickLog
from prsrank.ragged import offsets_of
from prsrank.threads import map_in_order
from prsrank.types import ClickModel, Floats, Ints, Longs

_FIRST_BLOCK, _LARGEST_BLOCK = 1 << 10, 1 << 16
# Slots that the sessions of a block show at most: room is made for a click on each.
_MOST_SLOTS = 1 << 24
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
    _check_wanted(clicks, sessions)
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
    codes, counts, clicked = _draw(plan, clicks, sessions, threads)
    rankings = shown_rankings(plan, codes, queries=len(shown), threads=threads)
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


def _check_wanted(clicks: int | None, sessions: int | None) -> None:
    if (clicks is None) == (sessions is None):
        raise InputError("give either clicks or sessions")
    wanted = clicks if clicks is not None else sessions
    if wanted is None or wanted < 1:
        raise InputError(f"at least 1 click or session must be asked for, not {wanted}")


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
    if (len(base_offsets) - 1) * design.variants >= 1 << 31:
        raise InputError("too many lists, rankers and swaps for one log")
    docs = np.concatenate([ranked_docs(row, offsets, seed=seed, threads=threads) for row in scores])
    tables = model.tables(cutoff)
    # an event is whatever changes the walk: a click, or a stop without one
    event = tables.click + (1 - tables.click) * tables.stop_after_skip
    with np.errstate(divide="ignore", invalid="ignore"):
        # a certain event has an infinite hazard, and no wait outlasts this one
        hazard = np.minimum(-np.log1p(-event), LONGEST_WAIT)
        click_share = np.where(event > 0, tables.click / event, 1.0)
    return Plan(
        key=stream_key(seed),
        offsets=base_offsets,
        docs=docs,
        relevance=dataset.relevance[docs],
        hazard=hazard,
        click_share=click_share,
        stop=np.ascontiguousarray(tables.stop_after_click),
        cutoff=cutoff,
        share=float(design.share),
        design=design.number,
        reach=design.reach,
        variants=design.variants,
    )


def _check_possible(plan: Plan) -> None:
    present = np.unique(plan.relevance)
    if not np.any(plan.hazard[present] * plan.click_share[present] > 0):
        raise InputError("no click can happen: every click probability is 0 on this data set")


def _blocks(sessions: int | None, largest: int) -> Iterator[tuple[int, int]]:
    """Cut the sessions into blocks, small ones first."""
    first, size = 0, min(_FIRST_BLOCK, largest)
    while sessions is None or first < sessions:
        last = first + size if sessions is None else min(first + size, sessions)
        yield first, last
        first, size = last, min(2 * size, largest)


def _draw(
    plan: Plan, clicks: int | None, sessions: int | None, threads: int | None
) -> tuple[Ints, Ints, Ints]:
    codes, counts, clicked = list[Ints](), list[Ints](), list[Ints]()
    total = drawn = 0
    largest = min(max(_MOST_SLOTS // plan.cutoff, 1), _LARGEST_BLOCK)
    blocks = map_in_order(
        lambda block: draw_sessions(plan, *block), _blocks(sessions, largest), threads=threads
    )
    with closing(blocks):  # type: ignore[type-var]
        for block_codes, block_counts, block_clicks in blocks:
            stop, end = len(block_codes), len(block_clicks)
            # the last session stays whole: cut behind the one that reaches the number
            if clicks is not None and total + end >= clicks:
                totals = np.cumsum(block_counts, dtype=np.int64)
                stop = int(np.searchsorted(totals, clicks - total)) + 1
                end = int(totals[stop - 1])
            codes.append(block_codes[:stop])
            counts.append(block_counts[:stop])
            clicked.append(block_clicks[:end])
            drawn, total = drawn + stop, total + end
            if clicks is not None and _enough(drawn, total, clicks):
                break
    return np.concatenate(codes), np.concatenate(counts), np.concatenate(clicked)


def _enough(sessions: int, clicks: int, wanted: int) -> bool:
    if sessions >= _TRIAL_SESSIONS and clicks < sessions * _LEAST_RATE:
        raise InputError(
            f"clicks are too rare: {clicks} in the first {sessions} sessions; "
            "ask for a number of sessions instead"
        )
    return clicks >= wanted
