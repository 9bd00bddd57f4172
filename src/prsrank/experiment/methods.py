"""Training: from a shared log and a job's settings to a ranker."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from prsrank.clicks.position_based import PositionBasedModel
from prsrank.evaluation.counterfactual import CounterfactualMetric
from prsrank.experiment.jobs import Identity
from prsrank.experiment.shared_inputs import Parts, SharedInputs, run_seed
from prsrank.metrics.ranking import average, metric
from prsrank.pairs.doubly_robust import doubly_robust_relevance
from prsrank.pairs.outer_pairs import OuterPairs
from prsrank.pairs.pair_set import PairSet
from prsrank.pairs.posterior import posterior
from prsrank.propensity.counted_clicks import CountedClicks
from prsrank.propensity.curve import PropensityCurve
from prsrank.propensity.tempering import temper, tempered
from prsrank.rankers.base import RANKERS, Quality, Ranker, ranker_class
from prsrank.rankers.search import best_of
from prsrank.weighting import WEIGHTINGS, find_weighting


def uses_torch(ranker: str) -> bool:
    """Tell whether a ranker, if it is one, trains with PyTorch; "production" and "" are none."""
    return ranker in RANKERS and RANKERS[ranker].uses_torch


def trained(
    inputs: SharedInputs, parts: Parts, identity: Identity, setting: Mapping[str, Any]
) -> tuple[Any, Any]:
    """Train the ranker of a job.

    Args:
        inputs: what jobs share.
        parts: the fold.
        identity: of the job.
        setting: `settings` of the ranker and `parameters` of the weighting.

    Returns:
        The ranker, and what it was trained on: a PairSet, or a log's counts.
    """
    ranker = make_ranker(identity, setting["settings"])
    lists, pairs = _pairs(inputs, parts, identity, ranker, setting["parameters"])
    if not identity["stop_on"]:
        return ranker.fit(lists, pairs), pairs
    on_clicks = identity["stop_on"] == "clicks"
    parameters = setting["parameters"]
    quality = click_quality(inputs, parts, identity, parameters) if on_clicks else None
    validation = parts.validation if quality is None else (parts.validation, quality)
    return ranker.fit(lists, pairs, validation=validation), pairs


def make_ranker(identity: Identity, settings: Mapping[str, Any]) -> Any:
    """Make the ranker of a job: its settings, one thread, and its seed."""
    kind = ranker_class(identity["ranker"])
    seed = run_seed(identity, "ranker")
    ours = kind.accepted(missing="impute", threads=1, device="cpu", seed=seed)
    return kind(**{**ours, **settings})


def label_quality(parts: Parts, name: str) -> Quality:
    """Return the function from scores of the validation part to a mean metric on its labels."""
    lists, measure = parts.validation, metric(name)
    return lambda scores: (
        measure.sign * average(measure(lists.relevance, scores, lists.offsets)).mean
    )


def click_quality(
    inputs: SharedInputs,
    parts: Parts,
    identity: Identity,
    parameters: Mapping[str, float],
    name: str = "dcg@10",
) -> Quality:
    """Return the function from scores of the validation part to an estimate from its clicks.

    It weighs clicks by the curve that the learner believes in.
    """
    curve, power = _believed_curve(inputs, parts, identity, parameters)
    held_out = inputs.held_out(parts, identity, "validation")
    key, on = [name, identity["propensity"], power], (held_out.log, held_out.lists, curve)
    estimate = inputs.keep("quality", key, CounterfactualMetric, *on, metric=name)
    return lambda scores: estimate(scores, threads=1)


def tuned(inputs: SharedInputs, parts: Parts, identity: Identity) -> dict[str, Any]:
    """Try the settings of a tuning job; return the value of each, and the best one."""
    name = identity["metric"]
    by_clicks = "wmrr" if name.startswith("wmrr") else "dcg@10"

    def tried(setting: Mapping[str, Any]) -> tuple[float, None]:
        ranker, _ = trained(inputs, parts, identity, setting)
        if identity["tune_on"] == "clicks":
            quality = click_quality(inputs, parts, identity, setting["parameters"], by_clicks)
        else:
            quality = label_quality(parts, name)
        return float(quality(ranker.score(parts.validation.features))), None

    search = best_of(identity["tried"], tried)
    values = [trial.value for trial in search.trials]
    return {"chosen": search.best.candidate, "tried": identity["tried"], "values": values}


def _pairs(
    inputs: SharedInputs,
    parts: Parts,
    identity: Identity,
    ranker: Ranker,
    parameters: Mapping[str, float],
) -> tuple[Any, Any]:
    """Return the lists to train on, and their pairs (or a log's counts), made once per log."""
    weighting, options = identity["weighting"], {**ranker.pair_options, "threads": 1}
    plain = {name: str(value) for name, value in options.items()}
    key = [weighting, dict(parameters), identity["propensity"], plain]
    if weighting == "labels":
        make = PairSet.from_labels
        return parts.train, inputs.keep("pairs", key, make, parts.train, **options)
    logged = inputs.logged(parts, identity)
    log, lists = logged.log, logged.lists
    if not weighting:
        return lists, inputs.keep(f"counts of {ranker.name}", key, ranker.pairs, log, lists)
    if WEIGHTINGS[weighting].of_relevance:
        of = (inputs, parts, identity, ranker, parameters)
        return lists, inputs.keep("pairs", [*key, ranker.prior], _relevance_pairs, *of)
    settings = identity["propensity"]
    curve = None if settings is None else inputs.curve(parts, identity, settings)
    of_log = (log, lists, curve, weighting)
    options["parameters"] = dict(parameters)
    return lists, inputs.keep("pairs", key, PairSet.from_log, *of_log, **options)


def _relevance_pairs(
    inputs: SharedInputs,
    parts: Parts,
    identity: Identity,
    ranker: Ranker,
    parameters: Mapping[str, float],
) -> OuterPairs:
    """Make pairs of what clicks and features say of each doc, which methods of a log share."""
    logged, settings = inputs.logged(parts, identity), identity["propensity"]
    log, lists = logged.log, logged.lists
    curve, power = _believed_curve(inputs, parts, identity, parameters)
    ours = identity["weighting"] == "posterior"
    # doubly robust pairs correct clicks by the curve, so that their prior must be of that model too
    model = None if ours else PositionBasedModel()
    key, options = [settings, power, ranker.prior, ours], {"model": model, "prior": ranker.prior}
    of_docs = inputs.keep("posterior", key, posterior, log, lists, curve, **options, threads=1)
    if ours:
        full = find_weighting("posterior", parameters).parameters
        return of_docs.pairs(own=full["own"], one_way=full["one_way"], **ranker.pair_options)
    evidence = CountedClicks.of_log(log, lists, curve).evidence()
    relevance = doubly_robust_relevance(evidence, of_docs.prior, tau=parameters["tau"])
    return OuterPairs.from_relevance(lists, np.clip(relevance, 0, 1), **ranker.pair_options)


def _believed_curve(
    inputs: SharedInputs, parts: Parts, identity: Identity, parameters: Mapping[str, float]
) -> tuple[PropensityCurve, float]:
    """Return the curve of a method, tempered by the log's clicks where it tempers, and the power."""
    settings = identity["propensity"]
    curve = inputs.curve(parts, identity, settings)
    if not parameters.get("temper"):
        return curve, 1.0
    logged = inputs.logged(parts, identity)
    on = (logged.log, logged.lists, curve)
    tempering = inputs.keep("tempering", settings, temper, *on, threads=1)
    return tempered(curve, tempering.followed), tempering.followed
