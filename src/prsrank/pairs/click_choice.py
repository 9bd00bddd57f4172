r"""Which click model a log shows: position-based, or users who read from the top.

Clicks are position-based unless a cascade makes whole sessions (`prsrank.clicks.whole_sessions`)
clearly likelier than both that model and a mixture of two kinds of users, who read to different
depths. Each model has a few numbers of its own, fitted to the same sessions, and its own theta of
each doc: what the features say by its likelihood, from clicks of other queries. Where lists have
several sessions it is the posterior from the other half of them, so that logs without features, or
of a few queries, can tell, too.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from prsrank.clicks.cascade import Cascade, clicks_below
from prsrank.clicks.evidence import ClickEvidence
from prsrank.clicks.whole_sessions import DEPTH, SessionFit, WholeSessions, fit_sessions
from prsrank.data.dataset import RankingDataset
from prsrank.propensity.counted_clicks import CountedClicks
from prsrank.ragged import offsets_of
from prsrank.relevance.beta_posterior import beta_posterior
from prsrank.relevance.prior import Prior
from prsrank.types import Floats, Ints

# A cascade is taken where it is so many standard errors ahead of the best other model.
CLEARLY = 2.0
# It is not even fitted where it is so far behind with the others' theta.
_HOPELESS = -3.0
LEAST_LISTS = 10
# With fewer of a list, the other half of its sessions adds noise to what the features say.
_SESSIONS_OF_LIST = 5
# A log without the sessions that have no click looks like a cascade's.
LEAST_WITHOUT_CLICK = 0.01
_LEAST_PROPENSITY = 1e-3

INDEPENDENT = ("position-based", "depth-mixture")
"""The models that a cascade has to beat; the second has independent clicks for each kind of user."""


@dataclass(frozen=True, eq=False)
class ClickChoice:
    """Which click model was taken, and why.

    Attributes:
        cascade: whether clicks are taken for a cascade's, and not for position-based ones.
        advantage: how much likelier the cascade makes whole sessions than the best other model,
            in standard errors over lists; NaN where there was too little to tell.
        go_on: probability of reading on after a skip; NaN where no cascade was fitted.
        fits: each model that was fitted to the sessions, by its name.
        positions: position of each slot of these sessions.
    """

    cascade: bool
    advantage: float = float("nan")
    go_on: float = float("nan")
    fits: Mapping[str, SessionFit] = field(default_factory=dict)
    positions: Ints = field(default_factory=lambda: np.zeros(0, np.int32))

    @property
    def sentence(self) -> str:
        """The click model and the reason in plain words."""
        far = f"{abs(self.advantage):.1f} standard errors"
        if self.cascade:
            return (
                "click model: a cascade, users who read from the top, and on with probability "
                f"{self.go_on:.2f}: it makes whole sessions likelier than independent clicks by "
                f"{far}; docs at or above the last click count as seen, and the curve is not used"
            )
        if np.isnan(self.advantage):
            return (
                "click model: position-based, without a check: too few lists, or sessions without "
                "a click, tell it from a cascade"
            )
        if self.advantage < 0:
            return f"click model: position-based; a cascade is behind by {far}"
        return f"click model: position-based; a cascade is ahead by {far} only"

    def perplexities(self, positions: int = 10) -> list[dict[str, Any]]:
        """Return how well each model predicts clicks and skips, from what is above them.

        The thetas are of other sessions, the few numbers of a model of these. A model that knew
        nothing has perplexity 2.

        Args:
            positions: how many have a perplexity of their own.
        """
        rows: list[dict[str, Any]] = []
        for name, fit in self.fits.items():
            logs = np.log(fit.chances)
            total = np.bincount(self.positions, logs)[1 : positions + 1]
            mean = total / np.maximum(np.bincount(self.positions)[1 : positions + 1], 1)
            by_position = np.exp(-mean).tolist()
            row = {"click_model": name, "log_likelihood": float(logs.mean())}
            rows.append(
                {**row, "perplexity": float(np.exp(-logs.mean())), "by_position": by_position}
            )
        return rows


def choose_click_model(
    sessions: WholeSessions,
    lists: RankingDataset,
    counted: CountedClicks,
    prior: Prior,
    fit_cascade: Callable[[], Cascade],
    *,
    power: float = 1.0,
    every: bool = False,
) -> tuple[ClickChoice, Cascade | None]:
    """Let click models predict whole sessions; return the choice, and a cascade if one was taken.

    Args:
        sessions: some sessions of the log.
        lists: the data set.
        counted: impressions and clicks, with the propensities.
        prior: what the features say of each doc by position-based clicks.
        fit_cascade: fits one to the whole log.
        power: propensities are raised to it.
        every: whether to fit models that cannot be taken, too, to show how good they are.
    """
    curve = mean_curve(counted, power)
    owners = sessions.owners(lists)
    without = sessions.sums(sessions.clicked) == 0
    enough = len(np.unique(owners)) >= LEAST_LISTS
    if not enough or np.mean(without) < LEAST_WITHOUT_CLICK:
        return ClickChoice(False), None
    crossed, theta = crossed_theta(sessions, lists, prior, curve)
    fits = {name: fit_sessions(name, crossed, theta, curve) for name in INDEPENDENT}
    if every:
        fits["user-browsing"] = fit_sessions("user-browsing", crossed, theta, curve)
    heights = {name: sessions.sums(np.log(fits[name].chances)) for name in INDEPENDENT}
    best = max(heights.values(), key=np.sum)

    def advantage(theta: Floats) -> float:
        fits["cascade"] = fit_sessions("cascade", crossed, theta, curve)
        gain = np.bincount(owners, sessions.sums(np.log(fits["cascade"].chances)) - best)
        gain = gain[np.unique(owners)]
        error = np.sqrt(max((gain**2).sum() - gain.sum() ** 2 / len(gain), 1e-12))
        return float(gain.sum() / error)

    ahead = advantage(theta)
    if ahead < _HOPELESS and not every:
        return ClickChoice(False, ahead, fits=fits), None
    cascade = fit_cascade()
    _, theta = crossed_theta(sessions, lists, cascade.prior, curve, go_on=cascade.go_on)
    ahead = advantage(theta)
    if every:
        fits["dependent"] = fit_sessions("dependent", crossed, theta, curve)
    taken = ahead > CLEARLY
    choice = ClickChoice(taken, ahead, cascade.go_on, fits, crossed.positions)
    return choice, cascade if taken else None


def mean_curve(counted: CountedClicks, power: float = 1.0) -> Floats:
    """Return the mean propensity of each position; contexts and sessions may differ in theirs."""
    cells, p = counted.cells, np.minimum(counted.propensity**power, 1.0)
    shown = np.bincount(cells.positions, cells.shown)
    mean = np.bincount(cells.positions, cells.shown * p) / np.maximum(shown, 1e-9)
    return np.maximum(np.where(shown > 0, mean, 1.0)[1:], _LEAST_PROPENSITY)


def crossed_theta(
    sessions: WholeSessions,
    lists: RankingDataset,
    prior: Prior,
    curve: Floats,
    *,
    go_on: float | None = None,
) -> tuple[WholeSessions, Floats]:
    """Return each doc's theta by each half of the sessions, and the sessions with the other half's.

    Where a list has few sessions the theta is the prior's alone.

    Args:
        sessions: the sessions.
        lists: the data set.
        prior: what the features say of its docs.
        curve: propensities of the positions.
        go_on: g of a cascade, whose impressions are those at or above a click; None:
            position-based.
    """
    if len(sessions.half) < _SESSIONS_OF_LIST * len(np.unique(sessions.owners(lists))):
        return sessions, prior.q
    docs, half = lists.docs, np.repeat(sessions.half, np.diff(sessions.offsets))
    owner, clicked = sessions.docs + half * docs, sessions.clicked.astype(np.float64)
    below, shown = np.ones(len(owner)), np.ones(len(owner))
    gain = curve[sessions.positions - 1]
    if go_on is not None:
        below = clicks_below(np.diff(sessions.offsets), prior.q[sessions.docs], go_on)
        onward = np.append(np.cumsum(clicked[::-1])[::-1], 0)
        ends = np.repeat(onward[sessions.offsets[1:]], np.diff(sessions.offsets))
        shown, gain = (onward[:-1] > ends).astype(np.float64), np.ones(len(owner))
    used = np.flatnonzero(shown)
    # one ranking of a list is most of its sessions: B hardly differs between those of a cell
    key = owner[used] * (DEPTH + 1) + sessions.positions[used]
    cells, cell = np.unique(key, return_inverse=True)
    several = np.bincount(cell)
    evidence = ClickEvidence.of(
        offsets_of(np.bincount(cells // (DEPTH + 1), minlength=2 * docs)),
        shown=several,
        clicked=np.bincount(cell, clicked[used]),
        gain=np.bincount(cell, gain[used]) / several,
        floor=np.zeros(len(several)),
        below=np.bincount(cell, below[used]) / several,
    )
    theta = beta_posterior(evidence, np.tile(prior.q, 2)).mean
    crossed = WholeSessions(
        sessions.offsets,
        sessions.docs + (1 - half) * docs,
        sessions.positions,
        sessions.clicked,
        sessions.half,
    )
    return crossed, theta
