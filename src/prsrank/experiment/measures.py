"""What is measured, by kind of experiment: one function each, from a job to values and details."""

from collections.abc import Callable
from dataclasses import asdict
from itertools import pairwise
from typing import Any

import numpy as np

from prsrank.clicks.observations import simulate_observations
from prsrank.clicks.position_based import PositionBasedModel
from prsrank.evaluation.counterfactual import ClickStatistics
from prsrank.experiment.jobs import Identity, Job
from prsrank.experiment.methods import trained, tuned
from prsrank.experiment.shared_inputs import Logged, Parts, SharedInputs, run_seed
from prsrank.experiment.spec import KINDS
from prsrank.logs.click_log import ClickLog
from prsrank.metrics.ranking import metric
from prsrank.theory import bound_terms, estimates, pair_weights, tail_bound
from prsrank.types import Floats, Longs

Outcome = tuple[dict[str, Floats], dict[str, Any]]
"""Values by metric, one per test query or a single one; and details, as plain JSON."""

_IMPORTANT = 10
_POSITIONS = 10
XI = 0.05
"""Tail bounds hold with probability 1 - XI."""


def ranking_job(inputs: SharedInputs, parts: Parts, identity: Identity) -> Outcome:
    """Train, and measure the ranking of the test part by its labels."""
    scores, details = _test_scores(inputs, parts, identity)
    test = parts.test
    values = {
        name: metric(name)(test.relevance, scores, test.offsets) for name in identity["metrics"]
    }
    return values, details


def clicks_job(inputs: SharedInputs, parts: Parts, identity: Identity) -> Outcome:
    r"""Train, and estimate WMRR from clicks on the test part.

    WMRR is $\sum_i w_i / rank_i$ over $\sum_i w_i$, a ratio over all sessions. The value of a
    query is its share of the first sum, times the number of queries, over the second sum: their
    mean is the WMRR, and a paired test over queries tests its difference.
    """
    scores, details = _test_scores(inputs, parts, identity)
    held_out = inputs.held_out(parts, identity, "test")
    curve = inputs.curve(parts, identity, identity["test_propensity"])
    statistics = ClickStatistics.of_log(held_out.log, held_out.lists, curve)
    clicks, _ = statistics.counts()
    ranks = 1.0 / np.arange(1.0, statistics.pools.longest + 1)
    expected = statistics.pools.expected_values(ranks, scores, threads=1)[statistics.clicked_doc]
    rows = _test_rows(parts, held_out.log)[statistics.query]
    top = statistics.position == 1
    counted = {"wmrr": clicks, "wmrr top": clicks * top, "wmrr others": clicks * ~top}
    values = {}
    for name in identity["metrics"]:
        weights = statistics.weights * counted[name]
        values[name] = _ratio_by_query(parts, rows, weights * expected, weights)
    return values, details


def observations_job(inputs: SharedInputs, parts: Parts, identity: Identity) -> Outcome:
    """Count which share of the clicks, or of the non-clicks, is relevant and observed, or not.

    On a log of the test part, in which each query is in one fold only: queries are independent,
    training logs of different folds are not.
    """
    shown = inputs.held_out(parts, identity, "test")
    clicks = identity["clicks"]
    model = PositionBasedModel(eta=clicks["eta"], mu=clicks["mu"])
    seen = inputs.keep(
        "observations",
        0,
        lambda: simulate_observations(
            shown.log, shown.lists, model, seed=run_seed(identity, "observations")
        ),
    )
    among = seen.clicked if identity["panel"] == "clicks" else ~seen.clicked
    relevance, observation = identity["method"].split()
    here = (seen.relevant == (relevance == "relevant")) & (
        seen.observed == (observation == "observed")
    )
    query = shown.log.ranking_query[shown.log.session_ranking]
    rows = np.repeat(_test_rows(parts, shown.log)[query], np.diff(seen.offsets))
    return {"share": _ratio_by_query(parts, rows, among & here, among)}, _log_details(shown)


def _test_rows(parts: Parts, log: ClickLog) -> Longs:
    """Return the list of the test part that each query of a log is."""
    rows = {str(query): row for row, query in enumerate(parts.test.query_ids.tolist())}
    return np.array([rows[str(query)] for query in log.query_ids.tolist()], np.int64)


def _ratio_by_query(parts: Parts, rows: Longs, of: Any, among: Any) -> Floats:
    r"""Return one value per query of the test part; their mean is $\sum of / \sum among$."""
    total = among.sum() / parts.test.lists
    share = np.bincount(rows, of, parts.test.lists)
    return share / total if total > 0 else np.full(parts.test.lists, np.nan)


def bounds_job(inputs: SharedInputs, parts: Parts, identity: Identity) -> Outcome:
    r"""Compare the tail bound of a weighting with the deviations of simulated sessions.

    On each list of the test part, as the production ranker ranks it, without noise, with
    the logistic loss of its scores (standardised) as pair loss: the bound on
    $|S - \mathrm{E} S|$, and the 1 - xi quantile of that deviation over simulated sessions.
    """
    test = parts.test
    scores = inputs.production(parts, identity).score(test.features)
    scores = (scores - scores.mean()) / max(float(scores.std()), 1e-12)
    rng = np.random.default_rng(run_seed(identity, "bounds"))
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


def _test_scores(
    inputs: SharedInputs, parts: Parts, identity: Identity
) -> tuple[Floats, dict[str, Any]]:
    if identity["ranker"] == "production":
        return inputs.production(parts, identity).score(parts.test.features), {}
    setting = {"settings": identity["settings"], "parameters": identity["parameters"]}
    ranker, pairs = trained(inputs, parts, identity, setting)
    details = {} if identity["clicks"] is None else _log_details(inputs.logged(parts, identity))
    if ranker.trees_ is not None:
        details["trees"] = ranker.trees_
    if identity["fold"] == 1 and (identity["production"] or {}).get("run", 0) == 0:
        details |= _model_details(inputs, parts, identity, ranker, pairs)
    return ranker.score(parts.test.features), details


def _log_details(logged: Logged) -> dict[str, Any]:
    return {
        "clicks": len(logged.log.clicks),
        "sessions": logged.log.sessions,
        "clicks_per_query": len(logged.log.clicks) / logged.lists.lists,
    }


def _model_details(
    inputs: SharedInputs, parts: Parts, identity: Identity, ranker: Any, pairs: Any
) -> dict[str, Any]:
    """Return what the report shows of the first fold's first run."""
    details: dict[str, Any] = {}
    if ranker.trees_ is not None:
        details["importance"] = dict(list(ranker.feature_importance().items())[:_IMPORTANT])
    if hasattr(pairs, "diagnostics"):
        diagnostics = asdict(pairs.diagnostics())
        details["weights"] = {k: v for k, v in diagnostics.items() if isinstance(v, int | float)}
    if identity["propensity"] is not None and identity["weighting"] not in ("", "labels"):
        curve = inputs.curve(parts, identity, identity["propensity"])
        positions = min(_POSITIONS, int(parts.train.list_lengths.max()))
        details["propensities"] = curve.at(np.arange(1, positions + 1)).tolist()
    learned = ranker.propensities()
    if learned is not None:
        values = learned.propensity[:_POSITIONS].tolist()
        details["propensities"] = [v if np.isfinite(v) else None for v in values]
    return details


MEASURES: dict[str, Callable[[SharedInputs, Parts, Identity], Outcome]] = {
    "ranking": ranking_job,
    "clicks": clicks_job,
    "observations": observations_job,
    "bounds": bounds_job,
}


def compute(inputs: SharedInputs, job: Job) -> tuple[dict[str, Floats], Any]:
    """Compute a job: its values by metric, and its details (for tuning: what was chosen)."""
    identity = job.identity
    parts = inputs.parts(job.data, identity["fold"], job.relevant_from)
    if identity["kind"] == "tuning":
        return {}, tuned(inputs, parts, identity)
    return MEASURES[identity["kind"]](inputs, parts, identity)
