"""What is measured, by kind of experiment: one function each, from a job to values and details."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.simulate import simulate_observations
from prsrank.evaluation.counterfactual import ClickStatistics
from prsrank.experiment.inputs import Inputs, Logged, Parts
from prsrank.experiment.jobs import Identity, Job
from prsrank.experiment.methods import trained, tuned
from prsrank.experiment.spec import KINDS
from prsrank.logs.click_log import ClickLog
from prsrank.metrics.ranking import metric
from prsrank.theory import bound_terms, estimates, pair_weights, tail_bound
from prsrank.types import Floats, Longs

Outcome = tuple[dict[str, Floats], dict[str, Any]]
"""Values by metric, one per test query or a single one; and details, as plain JSON."""

XI = 0.05
"""Tail bounds hold with probability 1 - XI."""


def ranking_job(inputs: Inputs) -> Outcome:
    """Train, and measure the ranking of the test part by its labels."""
    scores, details = _test_scores(inputs)
    test = inputs.parts.test
    names = inputs.identity["metrics"]
    return {name: metric(name)(test.relevance, scores, test.offsets) for name in names}, details


def clicks_job(inputs: Inputs) -> Outcome:
    r"""Train, and estimate WMRR from clicks on the test part.

    WMRR is $\sum_i w_i / rank_i$ over $\sum_i w_i$, a ratio over all sessions. The value of a
    query is its share of the first sum, times the number of queries, over the second sum: their
    mean is the WMRR, and a paired test over queries tests its difference.
    """
    scores, details = _test_scores(inputs)
    held_out = inputs.held_out("test")
    curve = inputs.curve(inputs.identity["test_propensity"])
    statistics = ClickStatistics.of_log(held_out.log, held_out.lists, curve)
    clicks, _ = statistics.counts()
    ranks = 1.0 / np.arange(1.0, statistics.pools.longest + 1)
    expected = statistics.pools.expected_values(ranks, scores, threads=1)[statistics.clicked_doc]
    rows = _test_rows(inputs.parts, held_out.log)[statistics.query]
    top = statistics.position == 1
    counted = {"wmrr": clicks, "wmrr top": clicks * top, "wmrr others": clicks * ~top}
    values = {}
    for name in inputs.identity["metrics"]:
        weights = statistics.weights * counted[name]
        values[name] = _ratio_by_query(inputs.parts, rows, weights * expected, weights)
    return values, details


def observations_job(inputs: Inputs) -> Outcome:
    """Count which share of the clicks, or of the non-clicks, is relevant and observed, or not.

    On a log of the test part, in which each query is in one fold only: queries are independent,
    training logs of different folds are not.
    """
    identity, shown = inputs.identity, inputs.held_out("test")
    model = PositionBasedModel(eta=identity["clicks"]["eta"], mu=identity["clicks"]["mu"])
    seed = inputs.seed("observations")
    seen = inputs.keep(
        "observations", 0, lambda: simulate_observations(shown.log, shown.lists, model, seed=seed)
    )
    among = seen.clicked if identity["panel"] == "clicks" else ~seen.clicked
    relevance, observation = identity["method"].split()
    here = (seen.relevant == (relevance == "relevant")) & (
        seen.observed == (observation == "observed")
    )
    query = shown.log.ranking_query[shown.log.session_ranking]
    rows = np.repeat(_test_rows(inputs.parts, shown.log)[query], np.diff(seen.offsets))
    share = _ratio_by_query(inputs.parts, rows, among & here, among)
    return {"share": share}, _log_details(shown)


def _test_rows(parts: Parts, log: ClickLog) -> Longs:
    """Return the list of the test part that each query of a log is."""
    rows = {str(query): row for row, query in enumerate(parts.test.query_ids.tolist())}
    return np.array([rows[str(query)] for query in log.query_ids.tolist()], np.int64)


def _ratio_by_query(parts: Parts, rows: Longs, of: Any, among: Any) -> Floats:
    r"""Return one value per query of the test part; their mean is $\sum of / \sum among$."""
    total = among.sum() / parts.test.lists
    share = np.bincount(rows, of, parts.test.lists)
    return share / total if total > 0 else np.full(parts.test.lists, np.nan)


def bounds_job(inputs: Inputs) -> Outcome:
    r"""Compare the tail bound of a weighting with the deviations of simulated sessions.

    On each list of the test part, as the production ranker ranks it, without noise, with
    the logistic loss of its scores (standardised) as pair loss: the bound on
    $|S - \mathrm{E} S|$, and the 1 - xi quantile of that deviation over simulated sessions.
    """
    identity, test = inputs.identity, inputs.parts.test
    scores = inputs.production.score(test.features)
    scores = (scores - scores.mean()) / max(float(scores.std()), 1e-12)
    rng = np.random.default_rng(inputs.seed("bounds"))
    rows = [
        _list_bounds(scores[a:b], test.relevance[a:b], identity, rng)
        for a, b in pairwise(test.offsets)
    ]
    columns = dict(zip(KINDS["bounds"], np.array(rows).T, strict=True))
    return {name: columns[name] for name in identity["metrics"]}, {}


def _list_bounds(
    scores: Floats, relevance: Any, identity: Identity, rng: np.random.Generator
) -> tuple[float, ...]:
    sessions, eta = identity["clicks"]["sessions"], identity["clicks"]["eta"]
    order = np.argsort(-scores, kind="stable")
    s, r = scores[order], relevance[order] > 0
    p = np.arange(1.0, len(s) + 1) ** -eta
    # drawn for every list, so that lists and weightings see the same observations
    observed = rng.random((sessions, len(s))) < p
    if not (r.any() and (~r).any()):
        return (np.nan,) * 6
    losses = np.logaddexp(0, -(s[:, None] - s[None, :]))
    rule: dict[str, Any] = {key: identity[key] or None for key in ("weighting", "parameters")}
    weights = pair_weights(p, r, **rule)
    bound = tail_bound(bound_terms(losses, p, r, **rule), xi=XI)
    rho = (weights * losses)[:, ~r].sum(axis=1) * r
    expected = float(p @ rho)
    if not bound > 0 or not expected > 0:
        return (np.nan,) * 6
    deviation = np.abs(observed @ rho - expected)
    spread = float(np.quantile(deviation, 1 - XI))
    full = estimates(observed & r, weights, losses)
    far = np.abs(full - full.mean())
    coverage = (float((distance <= bound).mean()) for distance in (deviation, far))
    return bound, spread, bound / expected, spread / expected, *coverage


def _test_scores(inputs: Inputs) -> tuple[Floats, dict[str, Any]]:
    identity, features = inputs.identity, inputs.parts.test.features
    if identity["ranker"] == "production":
        return inputs.production.score(features), {}
    ranker = trained(inputs, {key: identity[key] for key in ("settings", "parameters")})
    details = {} if identity["clicks"] is None else _log_details(inputs.logged())
    return ranker.score(features), details


def _log_details(logged: Logged) -> dict[str, Any]:
    return {"clicks_per_query": len(logged.log.clicks) / logged.lists.lists}


MEASURES: dict[str, Callable[[Inputs], Outcome]] = {
    "ranking": ranking_job,
    "clicks": clicks_job,
    "observations": observations_job,
    "bounds": bounds_job,
    "tuning": lambda inputs: ({}, tuned(inputs)),
}


def compute(job: Job) -> Outcome:
    """Compute a job: its values by metric, and its details (for tuning: what was chosen)."""
    return MEASURES[job.identity["kind"]](Inputs(job))
