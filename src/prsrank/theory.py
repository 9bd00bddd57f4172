r"""What a weighting does in expectation, and how far it can stray: exact formulas.

One list is shown; doc i is observed with probability $p_i$, independently of the others, and an
observed doc is clicked with probability $q_i$ (1 - noise if relevant, else noise). A pair loss
$\delta_{ij} \ge 0$ is small when doc i scores above doc j. The estimator of a weighting is
$\sum_{i,j} [c_i = 1][c_j = 0]\, w_{ij}\, \delta_{ij}$ (for weightings that compare with
non-clicked docs).

Reference: Wang, Qin, Wang, Wang, WSDM 2021; the bound here is on the sum, not on the sum / N.
"""

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from prsrank.errors import InputError
from prsrank.types import Floats, Marks
from prsrank.weighting import WeightFunction, Weighting, find_weighting

Rule = str | Weighting | WeightFunction
Parameters = Mapping[str, float] | None

_MOST_DOCS = 16


def click_probabilities(relevance: npt.ArrayLike, *, noise: float = 0.0) -> Floats:
    """Return q, the probability of a click on an observed doc: 1 - noise or noise.

    >>> click_probabilities([1, 0], noise=0.1).tolist()
    [0.9, 0.1]
    """
    if not 0 <= noise <= 1:
        raise InputError(f"noise must be from 0 to 1, not {noise}")
    return np.where(np.asarray(relevance) > 0, 1 - noise, noise)


def pair_weights(
    propensities: npt.ArrayLike,
    relevance: npt.ArrayLike | None = None,
    *,
    weighting: Rule = "prs",
    parameters: Parameters = None,
) -> Floats:
    r"""Return the matrix of weights $w_{ij}$ that a click on i gives the pair (i, j).

    Args:
        propensities: $p$ of each doc.
        relevance: needed by `ips_oracle` and `pns_oracle`.
        weighting: name, Weighting or function.
        parameters: parameters of the weighting.

    Returns:
        docs x docs; 0 on the diagonal, for i that cannot be seen, and (for `ips_oracle`) for
        relevant j.
    """
    rule = find_weighting(weighting, parameters)
    p = np.asarray(propensities, np.float64)
    if rule.needs_labels and relevance is None:
        raise InputError(f"weighting {rule.name} needs relevance")
    if rule.against == "labels":
        r = np.asarray(relevance) > 0
        return np.outer(r, ~r).astype(np.float64)
    seen = p > 0
    others = None if relevance is None else np.asarray(relevance)[None, :]
    weights = np.array(rule(np.where(seen, p, 1.0)[:, None], p[None, :], relevance=others))
    weights[~seen] = 0
    np.fill_diagonal(weights, 0)
    if rule.against == "irrelevant":
        weights *= others == 0
    return weights


def expected_pair_weights(
    propensities: npt.ArrayLike,
    click_given_observed: npt.ArrayLike,
    *,
    weighting: Rule = "prs",
    parameters: Parameters = None,
    relevance: npt.ArrayLike | None = None,
) -> Floats:
    r"""Return $W_{ij}$, the expected weight of each ordered pair in one session.

    $$W_{ij} = p_i q_i (1 - p_j q_j) w_{ij}$$

    (without the factor $1 - p_j q_j$ for weightings that compare with clicked docs too). For
    `prs` clipped at gamma this is $q_i (1 - p_j q_j) \min(\gamma p_i, p_j)$: at gamma 1 the last
    factor is symmetric, so the docs' q alone decide which direction is heavier.

    Args:
        propensities: $p$ of each doc.
        click_given_observed: $q$ of each doc (`click_probabilities`).
        weighting: name, Weighting or function.
        parameters: parameters of the weighting.
        relevance: needed by `ips_oracle`, `pns_oracle` and `labels`.

    >>> expected_pair_weights([1.0, 0.5], [0.9, 0.1]).round(3).tolist()
    [[0.0, 0.428], [0.005, 0.0]]
    """
    rule = find_weighting(weighting, parameters)
    weights = pair_weights(propensities, relevance, weighting=rule)
    if rule.against == "labels":
        return weights
    clicked = np.asarray(propensities, np.float64) * np.asarray(click_given_observed, np.float64)
    weights *= clicked[:, None]
    if rule.against == "non-clicked":
        weights *= 1 - clicked[None, :]
    return weights


def bound_terms(
    pair_losses: npt.ArrayLike,
    propensities: npt.ArrayLike,
    relevance: npt.ArrayLike,
    *,
    weighting: Rule = "prs",
    parameters: Parameters = None,
) -> Floats:
    r"""Return $\rho_i$ of each doc for the relevant-irrelevant part of an estimator.

    Without noise that part is $S = \sum_{i \in R} o_i \rho_i$ with
    $\rho_i = \sum_{j \in I} w_{ij} \delta_{ij}$, since irrelevant docs are never clicked. For
    docs that are always or never observed, and for irrelevant ones, $\rho_i$ is 0: they do not
    vary.

    Args:
        pair_losses: $\delta$ (docs x docs), at least 0.
        propensities: $p$ of each doc.
        relevance: 1 for relevant docs.
        weighting: name, Weighting or function.
        parameters: parameters of the weighting; unclipped PRS has gamma = infinity.
    """
    p = np.asarray(propensities, np.float64)
    r = np.asarray(relevance) > 0
    weights = pair_weights(p, r, weighting=weighting, parameters=parameters)
    terms = (weights * np.asarray(pair_losses, np.float64))[:, ~r].sum(axis=1)
    return np.where(r & (p > 0) & (p < 1), terms, 0.0)


def tail_bound(terms: npt.ArrayLike, *, xi: float = 0.05) -> float:
    r"""Return the half-width of Hoeffding's interval: $|S - E S|$ is at most that, with 1 - xi.

    $$\sqrt{\frac{\log(2 / \xi)}{2} \sum_i \rho_i^2}$$

    Args:
        terms: $\rho$, as from `bound_terms`.
        xi: probability of being further off.

    >>> round(tail_bound([1.0, 1.0], xi=0.1), 4)
    1.7308
    """
    if not 0 < xi < 1:
        raise InputError(f"xi must be between 0 and 1, not {xi}")
    return math.sqrt(math.log(2 / xi) / 2 * float(np.sum(np.square(terms))))


def click_outcomes(
    propensities: npt.ArrayLike, click_given_observed: npt.ArrayLike
) -> tuple[Marks, Floats]:
    """Return all possible sets of clicks of one session (outcomes x docs) and their probability.

    >>> clicks, chances = click_outcomes([0.5], [1.0])
    >>> clicks.tolist(), chances.tolist()
    ([[False], [True]], [0.5, 0.5])
    """
    chance = np.asarray(propensities, np.float64) * np.asarray(click_given_observed, np.float64)
    if len(chance) > _MOST_DOCS:
        raise InputError(f"{len(chance)} docs have too many outcomes; at most {_MOST_DOCS} can be")
    codes = np.arange(2 ** len(chance))[:, None]
    clicks = (codes >> np.arange(len(chance))) & 1 == 1
    return clicks, np.where(clicks, chance, 1 - chance).prod(axis=1)


def estimates(clicks: npt.ArrayLike, weights: npt.ArrayLike, pair_losses: npt.ArrayLike) -> Floats:
    r"""Return the estimator $\sum_{ij} [c_i = 1][c_j = 0] w_{ij} \delta_{ij}$ of each outcome.

    Args:
        clicks: outcomes x docs.
        weights: $w$ (docs x docs), as from `pair_weights`.
        pair_losses: $\delta$ (docs x docs).
    """
    c = np.asarray(clicks, np.float64)
    terms = np.asarray(weights, np.float64) * np.asarray(pair_losses, np.float64)
    return np.asarray(((c @ terms) * (1 - c)).sum(axis=1))


def bound_coverage(
    pair_losses: npt.ArrayLike,
    propensities: npt.ArrayLike,
    relevance: npt.ArrayLike,
    *,
    weighting: Rule = "prs",
    parameters: Parameters = None,
    noise: float = 0.0,
    xi: float = 0.05,
) -> float:
    """Return the probability that the *full* estimator is within `tail_bound` of its mean.

    The full estimator also holds pairs of two relevant docs, which share observations, and
    with noise further ones; the bound does not cover them, so this can be below 1 - xi. It
    is exact, by enumeration, for a weighting that compares with non-clicked docs.
    """
    rule = find_weighting(weighting, parameters)
    if rule.against != "non-clicked":
        raise InputError(f"weighting {rule.name} compares with more than non-clicked docs")
    q = click_probabilities(relevance, noise=noise)
    clicks, chances = click_outcomes(propensities, q)
    values = estimates(clicks, pair_weights(propensities, relevance, weighting=rule), pair_losses)
    terms = bound_terms(pair_losses, propensities, relevance, weighting=rule)
    near = np.abs(values - values @ chances) <= tail_bound(terms, xi=xi)
    return float(chances[near].sum())
