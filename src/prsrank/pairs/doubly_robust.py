"""Doubly robust pairs: the prior plus the importance-weighted rest, as a rival of the posterior."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from prsrank.clicks.evidence import ClickEvidence
from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.logs.click_log import ClickLog
from prsrank.pairs.outer_pairs import OuterPairs
from prsrank.propensity.counted_clicks import CountedClicks
from prsrank.relevance.prior import PriorModel, cross_fitted_prior, find_prior
from prsrank.types import ClickModel, Floats
from prsrank.weighting import find_weighting

if TYPE_CHECKING:
    from prsrank.pairs.log_on_lists import PropensitySource


def doubly_robust_relevance(
    evidence: ClickEvidence, prior: npt.ArrayLike, *, tau: float = 0.0
) -> Floats:
    r"""Return $r = \mu + (\mathrm{ctr} - \beta - \alpha \mu) / \max(\alpha, \tau)$ of each doc.

    Args:
        evidence: ctr is a doc's clicks over its impressions; alpha and beta are the means of
            gain and floor over its impressions: for the position-based model the mean
            propensity, and 0.
        prior: $\mu$, the cross-fitted prior of each doc.
        tau: alpha is raised to at least this; 0 is no clip.

    A doc without impressions has r = mu. With a right curve and no clip r has the expectation
    theta whatever mu is; it may lie outside [0, 1].

    >>> once = ClickEvidence.of([0, 1], shown=[4], clicked=[1], gain=[0.5], floor=[0.0])
    >>> doubly_robust_relevance(once, [0.3]).round(6).tolist()  # .3 + (.25 - .15) / .5
    [0.5]
    """
    if not (tau >= 0 and np.isfinite(tau)):
        raise InputError(f"tau must be finite and at least 0, not {tau}")
    mu = np.asarray(prior, np.float64)
    shown = evidence.sums(evidence.shown)
    alpha = evidence.sums(evidence.shown * evidence.gain)
    rest = evidence.sums(evidence.clicked - evidence.shown * evidence.floor) - alpha * mu
    raised = np.maximum(alpha, tau * shown)
    return mu + np.divide(rest, raised, out=np.zeros(len(mu)), where=raised > 0)


def doubly_robust_pairs(
    log: ClickLog,
    lists: RankingDataset,
    propensities: "PropensitySource" = None,
    *,
    parameters: Mapping[str, float] | None = None,
    model: ClickModel | None = None,
    prior: str | PriorModel = "trees",
    seed: int = 0,
    **options: Any,
) -> OuterPairs:
    r"""Return $W_{ij} = k_q r_i (1 - r_j)$ with doubly robust r, clipped to [0, 1].

    The outer form is that of posterior pairs, so that the two differ in r alone. Weights of
    pairs cannot be negative, hence the clip, and with it a bias: of a product of two
    estimates that share a list's sessions no estimate of this form would be unbiased anyway.

    Args:
        log: this and the others as in `prsrank.pairs.posterior.posterior`.
        lists: the data set.
        propensities: a curve, one value per slot of the log, or None for the log's own.
        parameters: "tau"; see `doubly_robust_relevance`.
        model: the click model.
        prior: "trees", "linear" or a PriorModel.
        seed: of the prior.
        options: of `OuterPairs.from_relevance`: `**ranker.pair_options`.

    References:
        Oosterhuis: Doubly robust estimation for correcting position bias in click feedback for
        unbiased learning to rank. TOIS 2023.
    """
    tau = find_weighting("doubly_robust", parameters).parameters["tau"]
    evidence = CountedClicks.of_log(log, lists, propensities).evidence(model)
    mu = cross_fitted_prior(lists, evidence, find_prior(prior), seed=seed).q
    relevance = np.clip(doubly_robust_relevance(evidence, mu, tau=tau), 0.0, 1.0)
    return OuterPairs.from_relevance(lists, relevance, **options)
