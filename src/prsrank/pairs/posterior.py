r"""Posterior pairs: the expected pairs of a session that shows everything, given all the clicks.

If doc d is clicked with probability $\theta_d$ once seen, a session in which all docs of a list
are seen has the pair (i clicked, j not) with probability $\theta_i (1 - \theta_j)$. The posterior
puts in each theta's expectation given the features and the clicks: see docs/posterior.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from prsrank.clicks.likelihood import ClickLikelihood
from prsrank.data.dataset import RankingDataset
from prsrank.logs.click_log import ClickLog
from prsrank.pairs.outer_pairs import OuterPairs
from prsrank.propensity.counted_clicks import CountedClicks
from prsrank.propensity.tempering import temper, tempered
from prsrank.relevance.beta_posterior import beta_posterior
from prsrank.relevance.prior import PriorModel, cross_fitted_prior
from prsrank.relevance.priors import find_prior
from prsrank.types import Floats
from prsrank.weighting import find_weighting

if TYPE_CHECKING:
    from prsrank.pairs.log_on_lists import PropensitySource


@dataclass(frozen=True, eq=False)
class Posterior:
    """What the clicks and the features say about each doc of a data set.

    Attributes:
        dataset: the lists.
        theta: expectation of P(click given seen) of each doc (docs).
        low: lower end of its 95 % interval (docs).
        high: upper end (docs).
        prior: what the features alone say, from other queries' clicks (docs).
        strength: how many impressions at propensity 1 the prior counts for.
        log_likelihood: of the clicks under the cross-fitted prior: a judge without labels.
        action_weights: what a click on each doc is worth; None where every click counts 1.
        sessions: sessions of each list (lists).
    """

    dataset: RankingDataset
    theta: Floats
    low: Floats
    high: Floats
    prior: Floats
    strength: float
    log_likelihood: float
    action_weights: Floats | None
    sessions: Floats

    def pairs(
        self,
        *,
        normalise: str | None = None,
        truncation: int | None = None,
        dtype: npt.DTypeLike = np.float64,
        by_sessions: bool = False,
        own: float = 1.0,
    ) -> OuterPairs:
        r"""Return $W_{ij} = k_q \theta_i (1 - \theta_j)$; pass `**ranker.pair_options`.

        Args:
            normalise: $k_q$; see `OuterPairs.from_relevance`.
            truncation: likewise.
            dtype: float64 or float32.
            by_sessions: a list counts as often as it was shown, as in a sum over sessions;
                else every list counts the same.
            own: how far each doc's own clicks move it from what the features say, from 0 (not
                at all) to 1. Trees fit what a doc's clicks alone tell, which holds for no
                other doc: with less of it they may rank new queries better.
        """
        return OuterPairs.from_relevance(
            self.dataset,
            self.prior + own * (self.theta - self.prior),
            action_weights=self.action_weights,
            list_weights=self.sessions if by_sessions else None,
            normalise=normalise,
            truncation=truncation,
            dtype=dtype,
        )


def posterior(
    log: ClickLog,
    lists: RankingDataset,
    propensities: "PropensitySource" = None,
    *,
    model: ClickLikelihood | None = None,
    prior: str | PriorModel = "trees",
    context: str | None = None,
    seed: int = 0,
    threads: int | None = None,
) -> Posterior:
    """Return the posterior of each doc of the lists.

    Args:
        log: the clicks; its queries and docs must be among the lists.
        lists: the data set.
        propensities: a curve, one value per slot of the log, or None for the log's own.
        model: the click model; default position-based.
        prior: "trees", "linear" or a PriorModel.
        context: a context column of the log, whose value the curve is asked with.
        seed: of everything random.
        threads: default: the cores this process may use. No effect on the result.

    >>> from prsrank import PositionBasedModel, PowerLaw, simulate_clicks, synthetic_dataset
    >>> data = synthetic_dataset("mq2007", 20)
    >>> log = simulate_clicks(data, data.features[:, 0], PositionBasedModel(eta=1), clicks=200)
    >>> found = posterior(log, data, PowerLaw(1.0))
    >>> bool(((found.low <= found.theta) & (found.theta <= found.high)).all())
    True
    >>> found.pairs(normalise="ndcg").docs == data.docs
    True
    """
    counted = CountedClicks.of_log(log, lists, propensities, context=context)
    evidence = counted.evidence(model)
    fitted = cross_fitted_prior(lists, evidence, find_prior(prior), seed=seed, threads=threads)
    found = beta_posterior(evidence, fitted.q, threads=threads)
    return Posterior(
        dataset=lists,
        theta=found.mean,
        low=found.low,
        high=found.high,
        prior=fitted.q,
        strength=found.strength,
        log_likelihood=float(fitted.log_likelihood.sum()),
        action_weights=action_weights(log, lists),
        sessions=_sessions_of_lists(log, lists),
    )


def _sessions_of_lists(log: ClickLog, lists: RankingDataset) -> Floats:
    sessions = np.bincount(log.session_ranking, minlength=log.rankings)
    filled = np.diff(log.ranking_offsets) > 0
    first = log.ranking_docs[log.ranking_offsets[:-1][filled]]
    owner = np.searchsorted(lists.offsets, log.doc_rows(lists)[first], side="right") - 1
    return np.bincount(owner, sessions[filled], lists.lists).astype(np.float64)


def posterior_pairs(
    log: ClickLog,
    lists: RankingDataset,
    propensities: "PropensitySource" = None,
    *,
    prior: str | PriorModel = "trees",
    parameters: Mapping[str, float] | None = None,
    **options: Any,
) -> OuterPairs:
    """Return posterior pairs of a log: the weighting `posterior` of commands and experiments.

    Args:
        log: the clicks.
        lists: the data set.
        propensities: as `posterior` takes them.
        prior: how relevance comes from the features.
        parameters: "temper" above 0: where the clicks contradict the given curve, take the
            power of it that they look like; see `prsrank.temper`. "own": see
            `Posterior.pairs`.
        options: a ranker's `pair_options`.
    """
    given = find_weighting("posterior", parameters).parameters
    if given["temper"] and hasattr(propensities, "at"):
        propensities = tempered(propensities, temper(log, lists, propensities).followed)
    return posterior(log, lists, propensities, prior=prior).pairs(own=given["own"], **options)


def action_weights(log: ClickLog, lists: RankingDataset) -> Floats | None:
    r"""Return what a click on each doc is worth: the mean weight of its clicks, shrunk.

    Counts of weights are not counts: theta comes from clicks, whatever they weigh, and the
    weight of a doc's clicks is a second quantity, $\omega_d = (\sum w + m \bar w) / (n + m)$.
    $\bar w$ is the mean over all clicks, and m the variance of weights within docs over that
    between docs (Bühlmann and Straub's credibility): a doc with few clicks is worth the mean.
    """
    if log.click_weights is None:
        return None
    rows = log.doc_rows(lists)
    slot = np.repeat(log.ranking_offsets[log.session_ranking], log.session_clicks) + log.clicks
    doc = rows[log.ranking_docs[slot]]
    weights = log.click_weights
    n = np.bincount(doc, minlength=lists.docs).astype(np.float64)
    total = np.bincount(doc, weights, lists.docs)
    squares = np.bincount(doc, weights**2, lists.docs)
    mean, clicks, docs = weights.mean(), n.sum(), np.count_nonzero(n)
    own = np.divide(total, n, out=np.full(lists.docs, mean), where=n > 0)
    within = (squares - n * own**2).sum() / max(clicks - docs, 1)
    spread = clicks - (n**2).sum() / clicks
    between = ((n * (own - mean) ** 2).sum() - max(docs - 1, 0) * within) / max(spread, 1e-12)
    # no difference between docs that chance would not make: every doc is worth the mean
    shrink = within / between if between > 1e-12 * mean**2 else np.inf
    if np.isinf(shrink):
        return np.full(lists.docs, mean)
    shrunk: Floats = np.where(n > 0, (total + shrink * mean) / np.maximum(n + shrink, 1.0), mean)
    return shrunk
