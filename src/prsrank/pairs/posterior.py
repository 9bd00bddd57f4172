r"""Posterior pairs: the expected pairs of a session that shows everything, given all the clicks.

If doc d is clicked with probability $\theta_d$ once seen, a session in which all docs of a list
are seen has the pair (i clicked, j not) with probability $\theta_i (1 - \theta_j)$. The posterior
puts in each theta's expectation given the features and the clicks: see docs/posterior.md. Doubly robust
pairs are its rival: the prior plus the importance-weighted rest.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from prsrank.clicks.cascade import Cascade, fit_cascade
from prsrank.clicks.evidence import ClickEvidence
from prsrank.data.dataset import RankingDataset
from prsrank.errors import DataWarning, InputError
from prsrank.logs.click_log import ClickLog
from prsrank.pairs.click_choice import ClickChoice, choose_click_model
from prsrank.pairs.doc_clicks import DocClicks
from prsrank.pairs.outer_pairs import OuterPairs
from prsrank.propensity.counted_clicks import CountedClicks
from prsrank.propensity.tempering import temper_counts
from prsrank.relevance.beta_posterior import BetaPosterior, beta_posterior
from prsrank.relevance.prior import Prior, PriorModel, cross_fitted_prior, cross_fitting, find_prior
from prsrank.types import ClickModel, Floats
from prsrank.weighting import find_weighting

if TYPE_CHECKING:
    from prsrank.pairs.log_on_lists import PropensitySource

Clicking = ClickModel | Literal["cascade"] | None
"""A click model whose clicks are independent, a cascade, or None: what the clicks show."""


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
        choice: which click model the clicks showed; None where it was given.
        learned: what tells the prior of other docs.
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
    choice: ClickChoice | None = None
    learned: Prior | None = None

    def of_others(self, clicks: "DocClicks", lists: RankingDataset) -> "Posterior | None":
        """Return the posterior of other lists, by the same prior; None if it cannot tell."""
        predict = None if self.learned is None else self.learned.predict
        if predict is None or (self.choice is not None and self.choice.cascade):
            return None
        evidence, q = clicks.counted.evidence(), 1 / (1 + np.exp(-predict(lists)))
        beta = beta_posterior(evidence, q, strength=self.strength)
        likelihood = float(evidence.log_likelihood(q).sum())
        return Posterior.of(clicks, lists, evidence, q, beta, likelihood, self.choice, self.learned)

    @classmethod
    def of(
        cls,
        clicks: DocClicks,
        lists: RankingDataset,
        evidence: ClickEvidence,
        q: Floats,
        beta: BetaPosterior,
        log_likelihood: float,
        choice: ClickChoice | None,
        learned: Prior | None,
    ) -> "Posterior":
        """Put together what clicks and a prior q say."""
        weights = clicks.action_weights(evidence)
        expected = beta.mean, beta.low, beta.high, q, beta.strength
        return cls(lists, *expected, log_likelihood, weights, clicks.sessions, choice, learned)

    def pairs(self, *, by_sessions: bool = False, own: float = 1.0, **options: Any) -> OuterPairs:
        r"""Return $W_{ij} = k_q \theta_i (1 - \theta_j)$; pass `**ranker.pair_options`.

        Args:
            by_sessions: a list counts as often as it was shown, as in a sum over sessions;
                else every list counts the same.
            own: how far each doc's own clicks move it from what the features say, from 0 (not
                at all) to 1. Trees fit what a doc's clicks alone tell, which holds for no
                other doc: with less of it they may rank new queries better.
            options: `normalise`, `truncation`, `dtype` and `one_way` of
                `OuterPairs.from_relevance`. With `one_way` 1, each pair counts towards the
                greater theta, by $k_q (\theta_i - \theta_j)$.
        """
        return OuterPairs.from_relevance(
            self.dataset,
            self.prior + own * (self.theta - self.prior),
            action_weights=self.action_weights,
            list_weights=self.sessions if by_sessions else None,
            **options,
        )


def posterior(
    log: Any,
    lists: RankingDataset,
    propensities: "PropensitySource" = None,
    *,
    model: Clicking = None,
    prior: str | PriorModel = "trees",
    context: str | None = None,
    seed: int = 0,
    threads: int | None = None,
) -> Posterior:
    """Return the posterior of each doc of the lists.

    Args:
        log: the clicks, a frame of them, or pieces of them without a common query; their queries
            and docs must be among the lists.
        lists: the data set.
        propensities: a curve, one value per slot of the log, or None for the log's own.
        model: the click model, such as `PositionBasedModel()`; "cascade": users read from the top;
            default: the one of these two that the clicks show.
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
    clicks = DocClicks.of(log, lists, propensities, context=context)
    return posterior_of_clicks(clicks, lists, model=model, prior=prior, seed=seed, threads=threads)


def posterior_of_clicks(
    clicks: DocClicks,
    lists: RankingDataset,
    *,
    model: Clicking = None,
    power: float = 1.0,
    prior: str | PriorModel = "trees",
    seed: int = 0,
    threads: int | None = None,
    every_model: bool = False,
) -> Posterior:
    """Return the posterior of each doc.

    Args:
        clicks: the clicks on the lists.
        lists: the data set.
        model: this and others as in `posterior`.
        power: propensities are raised to it.
        prior: how relevance comes from the features.
        seed: of everything random.
        threads: default: the cores this process may use.
        every_model: whether the choice has all click models, to show how good they are.
    """
    options = {"seed": seed, "threads": threads}
    evidence, fitted, choice = _explained(
        clicks, lists, find_prior(prior), model, power, every_model, options
    )
    keys = clicks.counted.cells.doc_key
    beta = beta_posterior(evidence, fitted.q, keys=keys, threads=threads)
    likelihood = float(fitted.log_likelihood.sum())
    return Posterior.of(clicks, lists, evidence, fitted.q, beta, likelihood, choice, fitted)


def _explained(
    clicks: DocClicks,
    lists: RankingDataset,
    prior: PriorModel,
    model: Clicking,
    power: float,
    every_model: bool,
    options: Mapping[str, Any],
) -> tuple[ClickEvidence, Prior, ClickChoice | None]:
    """Return the clicks as evidence by a click model, with its prior, and why this model."""

    def cascade() -> Cascade:
        reading = clicks.reading()
        fit = cross_fitting(lists, float(reading.with_clicks.sum()), prior, **options)
        return fit_cascade(reading, lists.docs, fit)

    taken: Cascade | None
    choice: ClickChoice | None = None
    if model == "cascade":
        taken = cascade()
    else:
        evidence = clicks.counted.evidence(model, power=power)
        fitted = cross_fitted_prior(lists, evidence, prior, **options)
        if model is not None:
            return evidence, fitted, None
        choice, taken = choose_click_model(
            clicks.whole, lists, clicks.counted, fitted, cascade, power=power, every=every_model
        )
        if taken is None:
            return evidence, fitted, choice
    return taken.evidence, taken.prior, choice


def posterior_pairs(
    log: Any,
    lists: RankingDataset,
    propensities: "PropensitySource" = None,
    *,
    prior: str | PriorModel = "trees",
    parameters: Mapping[str, float] | None = None,
    known: dict[Any, Posterior] | None = None,
    like: Posterior | None = None,
    **options: Any,
) -> OuterPairs:
    """Return posterior pairs of a log: the weighting `posterior` of commands and experiments.

    Args:
        log: the clicks, or pieces of them without a common query; `SessionPieces` have their lists.
        lists: the data set.
        propensities: as `posterior` takes them.
        prior: how relevance comes from the features.
        parameters: "temper" above 0: where the clicks contradict the given curve, take the
            power of it that they look like; see `prsrank.temper`. "own" and
            "one_way": see `Posterior.pairs`.
        known: keeps the posteriors of this log by curve, prior and temper, which pairs of
            another `own` or `one_way` share.
        like: the posterior of a part of this log with the same propensities and prior: where
            that part was enough to learn the prior from, it is taken from there.
        options: a ranker's `pair_options`.
    """
    given = find_weighting("posterior", parameters).parameters
    key = (propensities, prior, given["temper"])
    found = known.get(key) if known is not None else None
    if found is None:
        clicks = DocClicks.of(log, lists, propensities)
        power = 1.0
        if given["temper"] and hasattr(propensities, "at"):
            power = temper_counts(clicks.counted, lists).followed
        enough = like is not None and like.learned is not None and like.learned.saturated
        found = like.of_others(clicks, lists) if like is not None and enough else None
        found = found or posterior_of_clicks(clicks, lists, power=power, prior=prior)
        if found.choice is not None and found.choice.cascade:
            warnings.warn(found.choice.sentence, DataWarning, stacklevel=2)
    if known is not None:
        known[key] = found
    return found.pairs(own=given["own"], one_way=given["one_way"], **options)


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
        log: this and the others as in `posterior`.
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
