"""Simulated click logs: sessions drawn from a data set, a production ranking and a click model."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import count, pairwise

import numpy as np
import numpy.typing as npt

from prsrank.clicks.models import Users, check_share
from prsrank.clicks.production import ranked_docs
from prsrank.clicks.sessions import Plan, draw_sessions, shown_rankings
from prsrank.clicks.stream import LONGEST_WAIT, stream_key
from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.logs.click_log import ClickLog
from prsrank.ragged import offsets_of, ragged_rows, row_in_list
from prsrank.threads import map_in_order
from prsrank.types import ClickModel, Floats, Ints, Longs, Marks

_BLOCK = 1 << 14
# Slots that the sessions of a block show at most: room is made for a click on each.
_MOST_SLOTS = 1 << 24
_TRIAL_SESSIONS, _LEAST_RATE = 1 << 20, 1e-5

DESIGNS = ("uniform", "top-k", "adjacent", "pivot")
"""How the ranking of a randomised session is disturbed; see `Design`."""

_DEFAULT_K = 10


@dataclass(frozen=True)
class Design:
    """How a share of the sessions is randomised.

    Args:
        name: "uniform" shuffles the list, "top-k" its first `k` docs, "adjacent" lets the
            docs at a random position below `k` and the next one change places with
            probability 1/2, "pivot" those at position 1 and at a random one up to `k`.
        share: the share of sessions that are randomised.
        k: default 10; of no meaning for "uniform".

    >>> Design("adjacent", share=0.1, k=3).marks
    ('', 'swap:1:2', 'swap:2:3')
    >>> Design("pivot", share=0.1, k=3).marks
    ('', 'swap:1:2', 'swap:1:3')
    """

    name: str = "uniform"
    share: float = 0.0
    k: int | None = None

    def __post_init__(self) -> None:
        if self.name not in DESIGNS:
            raise InputError(f"unknown design '{self.name}'; there are: {', '.join(DESIGNS)}")
        check_share("the randomised share", self.share)
        if self.k is not None and self.name == "uniform":
            raise InputError("design 'uniform' shuffles whole lists and takes no k")
        if self.reach == 1 or self.reach < 0:
            raise InputError(f"design '{self.name}' needs k of at least 2, not {self.k}")

    @property
    def reach(self) -> int:
        """The last position that the design may change; 0 for all of them."""
        return 0 if self.name == "uniform" else _DEFAULT_K if self.k is None else self.k

    @property
    def swaps(self) -> list[tuple[int, int]]:
        """The pairs of positions of which a session swaps one; none where it shuffles."""
        if self.name == "adjacent":
            return list(pairwise(range(1, self.reach + 1)))
        return [(1, k) for k in range(2, self.reach + 1)] if self.name == "pivot" else []

    @property
    def marks(self) -> tuple[str, ...]:
        """The log's `designs`: "" for sessions left alone, then one mark for each kind."""
        if self.share == 0:
            return ("",)
        shuffle = "uniform" if self.name == "uniform" else f"top-k:{self.reach}"
        return ("", *([f"swap:{a}:{b}" for a, b in self.swaps] or [shuffle]))


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
    if (clicks is None) == (sessions is None):
        raise InputError("give either clicks or sessions")
    wanted = sessions if clicks is None else clicks
    if wanted is None or wanted < 1:
        raise InputError(f"at least 1 click or session must be asked for, not {wanted}")
    randomising = Design(design, share=randomised, k=design_k)
    shown = np.flatnonzero(dataset.list_lengths)
    if not len(shown):
        raise InputError("the data set has no docs to show")
    # empty lists hold no docs, so leaving their offsets out moves nothing
    doc_offsets = np.append(dataset.offsets[shown], dataset.docs)
    rows = _score_rows(scores, dataset.docs)
    plan = plan_sessions(dataset, rows, doc_offsets, model, randomising, seed)
    possible = (plan.hazard * plan.click_share).reshape(-1, 2, plan.cutoff)
    if clicks is not None and not possible[:, np.unique(plan.relevance)].any():
        raise InputError("no click can happen: every click probability is 0 on this data set")
    bases, variants, counts, clicked = _draw(plan, clicks, sessions, threads)
    numbers, firsts, offsets, docs = shown_rankings(
        plan, bases, variants, queries=len(shown), threads=threads
    )
    return ClickLog(
        query_ids=dataset.query_ids[shown],
        doc_offsets=doc_offsets,
        doc_ids=dataset.doc_names,
        ranking_query=bases[firsts] % len(shown),
        ranking_offsets=offsets,
        ranking_docs=docs,
        ranking_positions=(row_in_list(offsets) + 1).astype(np.int32),
        session_ranking=numbers,
        session_clicks=counts,
        clicks=clicked,
        ranking_design=(variants[firsts] + 1) // 2,
        designs=randomising.marks,
    )


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


def plan_sessions(
    dataset: RankingDataset,
    scores: Floats,
    offsets: Longs,
    model: ClickModel,
    design: Design,
    seed: int,
) -> Plan:
    """Rank the docs and turn the click model into hazards; scores are rankers x docs."""
    lengths = np.diff(offsets)
    longest = int(lengths.max())
    cutoff = longest if model.cutoff is None else min(model.cutoff, longest)
    docs = np.concatenate([ranked_docs(row, offsets, seed=seed) for row in scores])
    tables = model.tables(cutoff)
    # an event is whatever changes the walk: a click, or a stop without one
    event = tables.click + (1 - tables.click) * tables.stop_after_skip
    with np.errstate(divide="ignore", invalid="ignore"):
        # a certain event has an infinite hazard, and no wait outlasts this one
        hazard = np.minimum(-np.log1p(-event), LONGEST_WAIT)
        click_share = np.where(event > 0, tables.click / event, 1.0)
    return Plan(
        key=stream_key(seed),
        offsets=offsets_of(np.tile(lengths, len(scores))),
        docs=docs,
        relevance=dataset.relevance[docs],
        start=np.cumsum(tables.start),
        hazard=hazard.reshape(-1, cutoff),
        click_share=click_share.reshape(-1, cutoff),
        stop=tables.stop_after_click.reshape(-1, cutoff),
        after_click=tables.after_click,
        cutoff=cutoff,
        share=float(design.share),
        reach=design.reach,
        swaps=np.array(design.swaps, np.int64).reshape(-1, 2) - 1,
    )


def _draw(
    plan: Plan, clicks: int | None, sessions: int | None, threads: int | None
) -> Iterator[Ints]:
    """Yield what `draw_sessions` returns, of as many sessions as are wanted."""
    size = min(max(_MOST_SLOTS // plan.cutoff, 1), _BLOCK)
    starts = count(0, size) if sessions is None else range(0, sessions, size)
    wanted = np.inf if clicks is None else clicks
    blocks, total, drawn = [], 0, 0
    drawing = map_in_order(
        lambda first: draw_sessions(plan, first, min(first + size, sessions or first + size)),
        starts,
        threads=threads,
    )
    with closing(drawing):  # type: ignore[type-var]
        for *columns, clicked in drawing:
            totals = total + np.cumsum(columns[-1], dtype=np.int64)
            # the last session stays whole: cut behind the one that reaches the number
            stop = int(np.searchsorted(totals, wanted)) + 1
            cut = (column[:stop] for column in columns)
            blocks.append([*cut, clicked[: totals[:stop][-1] - total]])
            total, drawn = int(totals[-1]), drawn + len(totals)
            if total >= wanted:
                break
            if clicks is not None and drawn >= _TRIAL_SESSIONS and total < drawn * _LEAST_RATE:
                raise InputError(
                    f"clicks are too rare: {total} in the first {drawn} sessions; "
                    "ask for a number of sessions instead"
                )
    return (np.concatenate(column) for column in zip(*blocks, strict=True))


@dataclass(frozen=True, eq=False)
class Observations:
    """One entry for each doc shown, session after session, in the order shown.

    Attributes:
        offsets: where each session's docs begin, and the end (sessions + 1).
        observed: whether the user examined the doc.
        clicked: whether the user clicked it; only if observed.
        relevant: whether the doc is relevant.
        positions: 1-based position at which it was shown.
    """

    offsets: Longs
    observed: Marks
    clicked: Marks
    relevant: Marks
    positions: Ints


def simulate_observations(
    log: ClickLog, dataset: RankingDataset, model: Users, *, seed: int = 0
) -> Observations:
    r"""Draw which docs were observed, given the clicks of a simulated log.

    With p the examination probability of the position and c = p q that of a click, a clicked
    doc was observed, and a non-clicked one with P(observed | no click) = (p - c) / (1 - c).
    Clicks and observations together so have exactly the law of the model. Meant for small
    logs: the result has an entry for every doc shown in every session.

    Args:
        log: a log that `simulate_clicks` drew from this data set with this model.
        dataset: the data set.
        model: the position-based or the trust-bias model.
        seed: seed of the observations.

    >>> from prsrank.clicks.position_based import PositionBasedModel
    >>> data = RankingDataset(np.eye(3), np.array([0, 3]), labels=np.array([0, 0, 1]))
    >>> model = PositionBasedModel(eta=1, mu=0)
    >>> log = simulate_clicks(data, [0.1, 0.2, 0.9], model, sessions=2)
    >>> seen = simulate_observations(log, data, model)
    >>> seen.clicked.tolist(), seen.observed[[0, 3]].tolist()
    ([True, False, False, True, False, False], [True, True])
    """
    slots, offsets = ragged_rows(log.ranking_offsets, log.session_ranking)
    positions = log.ranking_positions[slots]
    relevant = dataset.relevance[log.doc_rows(dataset)[log.ranking_docs[slots]]].astype(np.int64)
    depth = log.max_position
    examined = model.examination(depth)[positions - 1]
    click = model.tables(depth).click[0, relevant, positions - 1]
    missed = np.maximum(1 - click, np.finfo(np.float64).tiny)
    observed = np.random.default_rng(seed).random(len(slots)) < (examined - click) / missed
    clicked = np.zeros(len(slots), bool)
    clicked[np.repeat(offsets[:-1], log.session_clicks) + log.clicks] = True
    return Observations(offsets, observed | clicked, clicked, relevant.astype(bool), positions)
