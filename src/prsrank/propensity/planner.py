"""How many randomised sessions a wanted precision takes, and what they cost."""

from dataclasses import asdict, dataclass
from math import ceil
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from prsrank.clicks.simulate import DESIGNS
from prsrank.errors import InputError
from prsrank.logs.click_log import ClickLog
from prsrank.propensity.curve import PropensityCurve
from prsrank.types import Floats, Marks


@dataclass(frozen=True)
class ExperimentPlan:
    """What an experiment takes.

    Attributes:
        sessions: number of randomised sessions needed.
        position: the position k whose p_k / p_1 is wanted.
        precision: wanted relative half-width of its interval.
        design: how sessions are randomised.
        k: last position that the design changes; None for "uniform".
        confidence: of the interval.
        clicks_at_position: expected clicks at the position in those sessions that count.
        clicks_per_session: expected clicks of a session as logged.
        clicks_lost: expected clicks that the experiment costs.
        share_lost: the same as a share of the clicks of as many sessions as logged.
    """

    sessions: int
    position: int
    precision: float
    design: str
    k: int | None
    confidence: float
    clicks_at_position: float
    clicks_per_session: float
    clicks_lost: float
    share_lost: float

    @property
    def warning(self) -> str:
        """What it means if randomised sessions would get more clicks than those logged; else ""."""
        if self.clicks_lost >= 0:
            return ""
        return (
            "a gain from randomising means that the order shown today is worse than chance, or "
            "that the curve is wrong (too steep): do not count on it"
        )

    def to_json_dict(self) -> dict[str, Any]:
        """Return the plan as a plain dict."""
        return asdict(self) | {"warning": self.warning}


@dataclass(frozen=True, eq=False)
class _Shown:
    """Rankings as logged: relevance by slot, relative to p_1 = 1, and each one's share.

    Slots are padded to the depth; `present` says where there is one.
    """

    relevance: Floats
    present: Marks
    share: Floats
    p: Floats


class _Session(NamedTuple):
    """What a randomised session brings, on average: clicks at two positions, at both, and lost."""

    here: float
    first: float
    both: float
    lost: float

    @property
    def variance(self) -> float:
        """Variance of log(clicks here / clicks at first) times the number of sessions."""
        if self.here <= 0 or self.first <= 0:
            raise InputError("no clicks are to be expected at that position: no number is enough")
        return 1 / self.here + 1 / self.first - 2 * self.both / (self.here * self.first)


def plan_experiment(
    log_or_ctr: ClickLog | npt.ArrayLike,
    *,
    position: int,
    precision: float,
    design: str = "uniform",
    k: int = 10,
    confidence: float = 0.95,
    curve: PropensityCurve,
) -> ExperimentPlan:
    r"""Return how many randomised sessions give p_k / p_1 a wanted relative precision.

    The estimate is a ratio of clicks, so by the delta method the variance of its logarithm
    over n sessions is $E[(c_k / a_k - c_1 / a_1)^2] / n$, with c the clicks of a session at
    the two positions and a their means; a chain of adjacent swaps adds one such term for
    every link. The means come from the relevance at each position, CTR_k / p_k. Designs:
    "uniform" and "top-k" shuffles, and swaps ("adjacent" or "pivot") of which each session
    draws one of the k - 1 at random.

    Args:
        log_or_ctr: a log (its sessions that were not randomised), or the click-through rate
            at positions 1, 2, ... of lists of that length.
        position: the position k.
        precision: wanted half-width of the interval, as a share of p_k / p_1.
        design: "uniform", "top-k", "adjacent" or "pivot".
        k: last position that the design changes; of no meaning for "uniform".
        confidence: of the interval.
        curve: the propensities as far as known: there is no default, since the cost in clicks
            follows from it.

    >>> from prsrank import PowerLaw
    >>> plan = plan_experiment(
    ...     [0.4, 0.1], position=2, precision=0.1, design="pivot", k=2, curve=PowerLaw(1))
    >>> plan.sessions, round(plan.clicks_lost)
    (3159, 158)
    """
    _check(position, precision, design, k, confidence)
    shown = _shown(log_or_ctr, curve)
    if position > len(shown.p):
        raise InputError(f"position {position} was never shown: the last is {len(shown.p)}")
    last = len(shown.p) if design == "uniform" else min(k, len(shown.p))
    if position > last:
        raise InputError(f"design '{design}' with k={k} does not reach position {position}")
    if design in ("uniform", "top-k"):
        drawn = compared = [_shuffle(shown, position, last)]
    else:
        swaps = [(1 if design == "pivot" else k - 1, k) for k in range(2, last + 1)]
        drawn = [_swap(shown, *pair) for pair in swaps]
        compared = drawn[0 if design == "adjacent" else position - 2 : position - 1]
    # a session draws one of the swaps, and so tells of one of them
    variance = sum(session.variance for session in compared) * len(drawn)
    # half-width = z sqrt(variance / sessions), solved for the sessions
    sessions = ceil((float(ndtri((1 + confidence) / 2)) / precision) ** 2 * variance)
    logged = float(shown.share @ (shown.relevance * shown.p).sum(axis=1))
    lost = float(np.mean([session.lost for session in drawn]))
    return ExperimentPlan(
        sessions=sessions,
        position=position,
        precision=precision,
        design=design,
        k=None if design == "uniform" else k,
        confidence=confidence,
        clicks_at_position=float(sessions * compared[-1].here / len(drawn)),
        clicks_per_session=logged,
        clicks_lost=sessions * lost,
        share_lost=lost / logged if logged else 0.0,
    )


def _shuffle(shown: _Shown, position: int, last: int) -> _Session:
    """Return what a session brings whose docs down to a position are in random order."""
    present, relevance, p = shown.present[:, :last], shown.relevance[:, :last], shown.p[:last]
    docs, total = present.sum(axis=1), relevance.sum(axis=1)
    mean = total / np.maximum(docs, 1)
    # the mean over ordered pairs of docs, without a loop over them
    both = (total**2 - (relevance**2).sum(axis=1)) / np.maximum(docs * (docs - 1), 1)
    lost = (relevance * p).sum(axis=1) - mean * (present * p).sum(axis=1)
    # only lists with positions 1 and k count
    share = shown.share * present[:, 0] * present[:, position - 1]
    p_k, p_1, clicks = p[position - 1], p[0], share @ mean
    return _Session(p_k * clicks, p_1 * clicks, p_k * p_1 * (share @ both), shown.share @ lost)


def _swap(shown: _Shown, one: int, other: int) -> _Session:
    """Return what a session brings whose docs at two positions change places half of the time."""
    share = shown.share * shown.present[:, one - 1] * shown.present[:, other - 1]
    first, second = shown.relevance[:, one - 1], shown.relevance[:, other - 1]
    p_1, p_2 = shown.p[one - 1], shown.p[other - 1]
    mean = float(share @ (first + second)) / 2
    lost = float(share @ (first - second)) * (p_1 - p_2) / 2
    return _Session(p_2 * mean, p_1 * mean, p_1 * p_2 * float(share @ (first * second)), lost)


def _shown(log_or_ctr: ClickLog | npt.ArrayLike, curve: PropensityCurve) -> _Shown:
    if isinstance(log_or_ctr, ClickLog):
        return _from_log(log_or_ctr, curve)
    ctr = np.asarray(log_or_ctr, dtype=np.float64)
    if ctr.ndim != 1 or not ctr.size or not ((ctr >= 0) & (ctr <= 1)).all():
        raise InputError("click-through rates must be a list of numbers between 0 and 1")
    p = _positive(curve, len(ctr))
    return _Shown((ctr / p)[None, :], np.ones((1, len(ctr)), bool), np.ones(1), p)


def _from_log(log: ClickLog, curve: PropensityCurve) -> _Shown:
    shown, clicked = log.slot_statistics()
    # clicks lost are counted against what is shown today, not against experiments
    used = (np.array(log.designs)[log.ranking_design] == "") & (np.diff(log.ranking_offsets) > 0)
    slot_used = np.repeat(used, np.diff(log.ranking_offsets)) & (shown > 0)
    if not slot_used.any():
        raise InputError("the log has no sessions without randomisation to plan from")
    ranking = np.repeat(np.arange(log.rankings), np.diff(log.ranking_offsets))[slot_used]
    rows, row = np.unique(ranking, return_inverse=True)
    index = log.ranking_positions[slot_used] - 1
    p = _positive(curve, int(index.max()) + 1)
    relevance = np.zeros((len(rows), len(p)))
    present = np.zeros(relevance.shape, bool)
    relevance[row, index] = clicked[slot_used] / shown[slot_used] / p[index]
    present[row, index] = True
    sessions = np.bincount(log.session_ranking, minlength=log.rankings)[rows]
    return _Shown(relevance, present, sessions / sessions.sum(), p)


def _positive(curve: PropensityCurve, depth: int) -> Floats:
    p = curve.at(np.arange(1, depth + 1))
    if (p <= 0).any():
        raise InputError(f"the curve is 0 at position {int((p <= 0).argmax()) + 1}")
    return p


def _check(position: int, precision: float, design: str, k: int, confidence: float) -> None:
    if position < 2:
        raise InputError(f"position must be at least 2, not {position}: p_1 is 1 by definition")
    if not 0 < precision < 1:
        raise InputError(f"precision must be between 0 and 1, not {precision}")
    if not 0 < confidence < 1:
        raise InputError(f"confidence must be between 0 and 1, not {confidence}")
    if design not in DESIGNS:
        raise InputError(f"unknown design '{design}'; there are: {', '.join(DESIGNS)}")
    if k < 2:
        raise InputError(f"k must be at least 2, not {k}")
