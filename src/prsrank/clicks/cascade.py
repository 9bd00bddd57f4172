r"""The cascade click model: users read from the top and may stop. How they click, and a likelihood.

In a cascade (a dynamic Bayesian network) a user sees doc after doc, clicks one that is seen with
probability $\theta_d$, may be satisfied by it, and else reads on. How many docs below the last
click were seen depends on all of that, and an error in it grows with every position. What stands
at or above the last click was seen for certain. Counting impressions only there chooses them
by clicks, so they are judged given that choice:

$$P(\text{click at } k \mid \text{a click at } k \text{ or below})
= \frac{\theta_k}{\theta_k + (1 - \theta_k) B_k}, \quad
B_k = g\,(\theta_{k+1} + (1 - \theta_{k+1}) B_{k+1})$$

B_k is the probability of a click below k for a user who skipped k: one who skips reads on with
probability g, and below the last doc there is nothing. An error in a theta fades with every
step of B. g is the one at which as many sessions have a click as in the log, so satisfaction is
never estimated. The counts are sums over sessions, one number per slot more than clicks.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numba import njit

from prsrank.clicks.evidence import ClickEvidence
from prsrank.clicks.models import Users, WalkTables, check_share
from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.logs.click_log import ClickLog
from prsrank.ragged import offsets_of
from prsrank.types import Floats, Longs

if TYPE_CHECKING:
    from prsrank.relevance.prior import Prior

_FIRST_THETA = 0.2
# g moves by less than .02 in the last of them
_ROUNDS = 3
_BISECTIONS = 30


@dataclass(frozen=True)
class CascadeModel(Users):
    r"""Clicks of users who read from the top until satisfied or tired (a DBN).

    An examined doc is clicked with probability 1 - mu if relevant and mu if not. A clicked
    doc satisfies, and so ends the session, with satisfaction[r]. An unsatisfied user goes on
    to the next position with probability gamma. satisfaction = (1, 1) and gamma = 1 is the
    cascade model of Craswell et al.: one click at most.

    Args:
        mu: noise of the attraction, in [0, 0.5).
        satisfaction: P(satisfied | clicked) of an irrelevant and of a relevant doc.
        gamma: P(going on | not satisfied).
        cutoff: show only the first `cutoff` docs.

    >>> model = CascadeModel(mu=0.1, satisfaction=(1, 1), gamma=1)
    >>> model.click_probabilities([1, 0, 1], [1, 2, 3]).round(3).tolist()
    [0.9, 0.01, 0.081]

    References:
        Chapelle, Zhang: A dynamic Bayesian network click model for web search ranking.
        WWW 2009.
    """

    numbers: ClassVar[tuple[float, ...]] = (2.0, 0.0)

    mu: float = 0.1
    satisfaction: tuple[float, float] = (0.1, 0.9)
    gamma: float = 0.9
    cutoff: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.satisfaction) != 2:
            raise InputError("satisfaction needs two values: of an irrelevant and a relevant doc")
        irrelevant, relevant = self.satisfaction
        check_share("satisfaction of an irrelevant doc", irrelevant)
        check_share("satisfaction of a relevant doc", relevant)
        check_share("gamma", self.gamma)
        object.__setattr__(self, "satisfaction", (float(irrelevant), float(relevant)))

    @classmethod
    def of_numbers(cls, numbers: Sequence[float], curve: Floats) -> Self:
        """Make a model whose clicks are certain for relevant docs: logits of gamma and satisfaction."""
        gamma, satisfied = 1 / (1 + np.exp(-np.asarray(numbers)))
        return cls(mu=0, satisfaction=(satisfied, satisfied), gamma=gamma)

    def tables(self, depth: int) -> WalkTables:
        """Return what a user does at positions 1 to `depth`."""
        unsatisfied = 1 - np.array(self.satisfaction)[:, None]
        return WalkTables.of(
            click=np.repeat([[self.mu], [1 - self.mu]], depth, axis=1),
            stop_after_click=1 - unsatisfied * self.gamma,
            stop_after_skip=1 - self.gamma,
        )


@dataclass(frozen=True)
class DependentClickModel(Users):
    r"""Clicks of users who read on after every skip, and after a click perhaps (DCM).

    An examined doc is clicked with probability 1 - mu if relevant and mu if not. After a click at
    position k a user goes on with probability $\lambda_k = \text{more} \cdot k^{-\text{fading}}$.

    Args:
        mu: noise of the attraction, in [0, 0.5).
        more: P(going on) after a click at position 1.
        fading: how fast that falls with the position, at least 0.
        cutoff: show only the first `cutoff` docs.

    >>> DependentClickModel(mu=0, more=0.6).click_probabilities([1, 0, 1], [1, 2, 3]).tolist()
    [1.0, 0.0, 0.6]

    References:
        Guo, Liu, Wang: Efficient multiple-click models in web search. WSDM 2009.
    """

    numbers: ClassVar[tuple[float, ...]] = (0.0, -2.0)

    mu: float = 0.1
    more: float = 0.6
    fading: float = 0.0
    cutoff: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("more", self.more)
        if not (np.isfinite(self.fading) and self.fading >= 0):
            raise InputError(f"fading must be finite and not negative, not {self.fading}")

    @classmethod
    def of_numbers(cls, numbers: Sequence[float], curve: Floats) -> Self:
        """Make a model whose clicks are certain for relevant docs: logit of `more`, log of `fading`."""
        return cls(mu=0, more=1 / (1 + np.exp(-numbers[0])), fading=np.exp(numbers[1]))

    def tables(self, depth: int) -> WalkTables:
        """Return what a user does at positions 1 to `depth`."""
        more = self.more * np.arange(1, depth + 1) ** -float(self.fading)
        click = np.repeat([[self.mu], [1 - self.mu]], depth, axis=1)
        return WalkTables.of(click, stop_after_click=1 - more)


@dataclass(frozen=True, eq=False)
class CascadeCounts:
    """What a cascade needs of a log: sums over the sessions of each ranking.

    Attributes:
        lengths: number of slots of each ranking (rankings).
        sessions: number of sessions of each ranking (rankings).
        docs: row in the data set of each slot (slots).
        positions: position of each slot (slots).
        certain: sessions with a click at the slot or below it (slots).
        clicked: sessions with a click on it (slots).
    """

    lengths: Longs
    sessions: Floats
    docs: Longs
    positions: Longs
    certain: Floats
    clicked: Floats

    @classmethod
    def of_log(cls, log: ClickLog, lists: RankingDataset) -> "CascadeCounts":
        """Count a log, or a piece of it; its queries and docs must be among the lists.

        >>> log = ClickLog.from_frame({
        ...     "query_id": np.array([7] * 6), "session_id": np.array([1, 1, 1, 2, 2, 2]),
        ...     "doc_id": np.array([0, 1, 2] * 2), "position": np.array([1, 2, 3] * 2),
        ...     "click": np.array([False, True, False, False, False, False])})
        >>> lists = RankingDataset(np.eye(3), np.array([0, 3]), query_ids=np.array([7]))
        >>> counts = CascadeCounts.of_log(log, lists)
        >>> counts.certain.tolist(), counts.clicked.tolist()
        ([1.0, 1.0, 0.0], [0.0, 1.0, 0.0])
        """
        _, clicked = log.slot_statistics()
        starts, slots = log.ranking_offsets, len(log.ranking_docs)
        some = log.session_clicks > 0
        last = log.clicks[log.click_offsets[1:][some] - 1]
        ends = np.bincount(starts[log.session_ranking[some]] + last, minlength=slots)
        # sessions that end at a slot or below it: all from here on, less those of later rankings
        onward = np.append(np.cumsum(ends[::-1])[::-1], 0)
        lengths = np.diff(starts)
        certain = onward[:-1] - np.repeat(onward[starts[1:]], lengths)
        sessions = np.bincount(log.session_ranking, minlength=log.rankings)
        return cls(
            lengths,
            sessions.astype(np.float64),
            log.doc_rows(lists)[log.ranking_docs],
            log.ranking_positions.astype(np.int64),
            certain.astype(np.float64),
            clicked.astype(np.float64),
        )

    @classmethod
    def joined(cls, parts: Iterable["CascadeCounts"]) -> "CascadeCounts":
        """Put counts of pieces of a log without a common query behind one another."""
        every = list(parts)
        names = [field.name for field in fields(cls)]
        return cls(*(np.concatenate([getattr(part, name) for part in every]) for name in names))

    @property
    def with_clicks(self) -> Floats:
        """Sessions of each ranking that have a click."""
        starts = offsets_of(self.lengths)[:-1]
        sessions = np.zeros(len(starts))
        sessions[self.lengths > 0] = self.certain[starts[self.lengths > 0]]
        return sessions

    def evidence(self, docs: int, chance: Floats, below: Floats) -> ClickEvidence:
        """Return the certain impressions as evidence about each doc.

        Args:
            docs: number of docs of the data set.
            chance: P(click) of each slot once theta is 1.
            below: B of each slot.
        """
        used = np.flatnonzero(self.certain > 0)
        used = used[np.argsort(self.docs[used], kind="stable")]
        return ClickEvidence.of(
            offsets_of(np.bincount(self.docs[used], minlength=docs)),
            shown=self.certain[used],
            clicked=self.clicked[used],
            gain=chance[used],
            floor=np.zeros(len(used)),
            below=below[used],
        )


@dataclass(frozen=True, eq=False)
class Cascade:
    """A fitted cascade.

    Attributes:
        go_on: g, the probability of reading on after a skip.
        evidence: the certain impressions, each with its B.
        prior: what the features say of each doc, cross-fitted to them.
    """

    go_on: float
    evidence: ClickEvidence
    prior: "Prior"


def fit_cascade(
    counts: CascadeCounts,
    docs: int,
    fit: "Callable[[ClickEvidence], Prior]",
) -> Cascade:
    """Fit g, B and the prior by turns.

    Args:
        counts: the log.
        docs: number of docs of the data set.
        fit: fits the prior to clicks; see `prsrank.relevance.prior.cross_fitting`.
    """
    q, go_on = np.full(docs, _FIRST_THETA), 1.0
    for _ in range(_ROUNDS):
        chance = q[counts.docs]
        go_on = reading_on(counts, chance)
        below = clicks_below(counts.lengths, chance, go_on)
        evidence = counts.evidence(docs, np.ones(len(below)), below)
        prior = fit(evidence)
        q = prior.q
    return Cascade(go_on, evidence, prior)


def reading_on(counts: CascadeCounts, chance: Floats) -> float:
    """Return the g at which as many sessions have a click as in the log; 1 if no g has as many.

    Args:
        counts: the log.
        chance: P(click) of each slot once it is seen.
    """
    filled = counts.lengths > 0
    first, sessions = offsets_of(counts.lengths)[:-1][filled], counts.sessions[filled]
    clicked = float(counts.with_clicks.sum())

    def expected(go_on: float) -> float:
        below = clicks_below(counts.lengths, chance, go_on)[first]
        return float((sessions * (chance[first] + (1 - chance[first]) * below)).sum())

    low, high = 0.0, 1.0
    if expected(high) <= clicked:
        return high
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if expected(middle) < clicked else (low, middle)
    return (low + high) / 2


def clicks_below(lengths: Longs, chance: Floats, go_on: float) -> Floats:
    """Return B of each slot: P(a click below it) for a user who skipped it.

    With `go_on` 1 and P(click) as the chance of each slot it is that of independent clicks.

    >>> clicks_below(np.array([3]), np.array([0.5, 0.5, 0.2]), 0.9).round(3).tolist()
    [0.531, 0.18, 0.0]
    """
    below = np.empty(len(chance))
    _below_kernel(offsets_of(lengths), np.ascontiguousarray(chance, np.float64), go_on, below)
    return below


@njit(cache=True, nogil=True)
def _below_kernel(offsets, chance, go_on, below):  # type: ignore[no-untyped-def]
    for ranking in range(len(offsets) - 1):
        later = 0.0
        for slot in range(offsets[ranking + 1] - 1, offsets[ranking] - 1, -1):
            below[slot] = later
            later = go_on * (chance[slot] + (1 - chance[slot]) * later)
