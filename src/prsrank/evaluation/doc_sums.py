r"""Doubly robust estimates: relevance from features, corrected by each doc's own clicks.

A doc d of a query was shown in $n_d$ sessions of propensities that sum up to $E_d$, and its clicks
weigh $C_d$ in all. If a model says that a click on it is worth $\mu_d$ once it is seen, then

$$\hat\theta_d = \mu_d + \frac{C_d - \mu_d E_d}{\max(E_d, \tau n_d)}, \quad
V = \frac{1}{N} \sum_d \hat\theta_d \sum_{\text{sessions with } d} v(r_d)$$

estimates a metric of value v(r) over N sessions. Since $\mathrm{E}[C_d] = \theta_d E_d$ whatever
the rankings were, it is unbiased if the model is right ($\mu = \theta$), or if no doc's mean
propensity is below tau: its bias is $(1 - E_d / (\tau n_d)) (\mu_d - \theta_d)$ for the others.
Sessions of a doc share one weight $n_d / E_d$ where ips takes 1/p of each: a click at position 40
on a doc that was mostly shown at position 1 weighs about 1, not 40. With one position per doc it
is ips at tau = 0, for any mu, and clipped ips at mu = 0.

mu is q(x) of posterior pairs, cross-fitted: no query's mu comes from its own clicks.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from prsrank.data.dataset import RankingDataset
from prsrank.logs.features import bare_lists, marked_queries
from prsrank.logs.pieces import Place, SessionPieces, Sessions
from prsrank.pairs.log_on_lists import PropensitySource
from prsrank.propensity.counted_clicks import Columns, CountedClicks, count_clicks
from prsrank.relevance.prior import cross_fitted_prior, find_prior
from prsrank.threads import one_blas_thread
from prsrank.types import Floats

DEFAULT_TAU = 0.05


@dataclass(frozen=True, eq=False)
class Regression:
    """What features say of each doc, and how far its own clicks correct that.

    Attributes:
        relevance: mu, what a click on each doc of the data set is worth once it is seen.
        tau: least mean propensity that a doc's clicks are divided by.
        lists: the data set; None where nothing was learned from one.
        predict: returns mu of the docs of other lists; None where it is 0.
    """

    relevance: Floats
    tau: float = DEFAULT_TAU
    lists: RankingDataset | None = None
    predict: Callable[[RankingDataset], Floats] | None = None

    @classmethod
    @one_blas_thread()
    def of_pieces(
        cls,
        pieces: SessionPieces,
        propensities: PropensitySource,
        *,
        tau: float = DEFAULT_TAU,
        context: str | None = None,
    ) -> "Regression":
        """Learn mu from pieces of a log without a common query, each query's from others.

        Where no propensity is below tau there is nothing to learn: no mu would change anything.
        """
        count = partial(_counted, propensities=propensities, context=context)
        columns, weight, clicks = [], 0.0, 0
        for place, (counts, actions, clicked) in pieces.each(count):
            columns.append((place.rows[counts[0]], *counts[1:]))
            weight, clicks = weight + actions, clicks + clicked
        lists = pieces.lists
        counted = CountedClicks.of_columns(lists, columns)
        if not clicks or counted.propensity.min(initial=1.0) >= tau:
            return cls(np.zeros(0), tau)
        prior = cross_fitted_prior(lists, counted.evidence(), find_prior("trees"))
        worth = weight / clicks
        predict = None if prior.predict is None else partial(_mu, prior.predict, worth)
        return cls(prior.q * worth, tau, lists, predict)

    def on(self, lists: RankingDataset) -> "Regression":
        """Return what features say of each doc of some lists."""
        if self.lists is lists:
            return self
        if self.predict is not None:
            return Regression(self.predict(lists), self.tau)
        if self.lists is None or not marked_queries(self.lists.query_ids, lists).all():
            return Regression(np.zeros(lists.docs), self.tau)
        return Regression(self.relevance[Place.of(lists.query_ids, self.lists).rows], self.tau)

    def apart(self) -> "Regression":
        """Return what is needed to ask `on` of other lists: it is small."""
        if self.predict is not None or self.lists is None:
            return Regression(np.zeros(0), self.tau, predict=self.predict)
        # queries are so few that some part of them is empty
        return replace(self, lists=bare_lists(self.lists))

    def corrected(self, shown: Floats, seen: Floats, clicks: Floats) -> tuple[Floats, Floats]:
        """Return theta of each doc, and by how much a unit of its E moves it down.

        Args:
            shown: n of each doc.
            seen: E.
            clicks: C.

        >>> regression = Regression(np.array([0.5, 0.5]), 0.1)
        >>> theta, _ = regression.corrected(np.array([4, 20]), np.array([2, 1]), np.array([1, 1]))
        >>> theta.tolist()  # 1 / 2; 0.5 + (1 - 0.5) / 2
        [0.5, 0.75]
        """
        mu, least = self.relevance, self.tau * shown
        clipped = seen < least
        divisor = np.where(clipped, least, seen)
        # without clip, a doc that nobody can have seen counts as irrelevant, as by ips
        theta, slope = np.zeros(len(mu)), np.zeros(len(mu))
        np.divide(clicks - mu * seen, divisor, out=theta, where=divisor > 0)
        theta = np.where(divisor > 0, mu + theta, 0.0)
        np.divide(np.where(clipped, mu, theta), divisor, out=slope, where=divisor > 0)
        return theta, slope


def _counted(
    piece: Sessions, propensities: PropensitySource, context: str | None
) -> tuple[Columns, float, int]:
    """Return the counts of a piece, what its clicks weigh, and how many they are."""
    log = piece.log
    columns = count_clicks(log, piece.lists, propensities, context=context)
    weight = len(log.clicks) if log.click_weights is None else log.click_weights.sum()
    return columns, weight, len(log.clicks)


def _mu(logits: Callable[[RankingDataset], Floats], worth: float, lists: RankingDataset) -> Floats:
    return np.asarray(1 / (1 + np.exp(-logits(lists))) * worth)
