"""Training: from a shared log and a job's settings to a ranker."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from prsrank.clicks.position_based import PositionBasedModel
from prsrank.evaluation.counterfactual import CounterfactualMetric
from prsrank.experiment.inputs import Inputs, Parts
from prsrank.metrics.ranking import average, metric
from prsrank.pairs.outer_pairs import OuterPairs
from prsrank.pairs.pair_set import PairSet
from prsrank.pairs.posterior import doubly_robust_relevance, posterior
from prsrank.propensity.counted_clicks import CountedClicks
from prsrank.propensity.curve import PropensityCurve
from prsrank.propensity.tempering import temper, tempered
from prsrank.rankers.base import RANKERS, Quality, Ranker, ranker_class
from prsrank.rankers.search import best_of
from prsrank.weighting import WEIGHTINGS, find_weighting

Parameters = Mapping[str, float]


def uses_torch(ranker: str) -> bool:
    """Tell whether a ranker, if it is one, trains with PyTorch; "production" and "" are none."""
    return ranker in RANKERS and RANKERS[ranker].uses_torch


def trained(inputs: Inputs, setting: Mapping[str, Any]) -> Any:
    """Train the ranker of a job.

    Args:
        inputs: of the job.
        setting: `settings` of the ranker and `parameters` of the weighting.
    """
    ranker, parameters = make_ranker(inputs, setting["settings"]), setting["parameters"]
    lists, pairs = training_pairs(inputs, ranker, parameters)
    stop_on = inputs.identity["stop_on"]
    if not stop_on:
        return ranker.fit(lists, pairs)
    quality = click_quality(inputs, parameters) if stop_on == "clicks" else None
    validation = inputs.parts.validation
    return ranker.fit(
        lists, pairs, validation=validation if quality is None else (validation, quality)
    )


def make_ranker(inputs: Inputs, settings: Mapping[str, Any]) -> Any:
    """Make the ranker of a job: its settings, one thread, and its seed."""
    kind = ranker_class(inputs.identity["ranker"])
    ours = kind.accepted(missing="impute", threads=1, device="cpu", seed=inputs.seed("ranker"))
    return kind(**{**ours, **settings})


def label_quality(parts: Parts, name: str) -> Quality:
    """Return the function from scores of the validation part to a mean metric on its labels."""
    lists, measure = parts.validation, metric(name)
    return lambda scores: (
        measure.sign * average(measure(lists.relevance, scores, lists.offsets)).mean
    )


def click_quality(inputs: Inputs, parameters: Parameters, name: str = "dcg@10") -> Quality:
    """Return the function from scores of the validation part to an estimate from its clicks.

    It weighs clicks by the curve that the learner believes in.
    """
    curve, power = _believed_curve(inputs, parameters)
    held_out = inputs.held_out("validation")
    estimate = inputs.keep(
        "quality",
        [name, inputs.identity["propensity"], power],
        lambda: CounterfactualMetric(held_out.log, held_out.lists, curve, metric=name),
    )
    return lambda scores: estimate(scores, threads=1)


def tuned(inputs: Inputs) -> dict[str, Any]:
    """Try the settings of a tuning job; return the value of each, and the best one."""
    identity = inputs.identity
    name, on_clicks = identity["metric"], identity["tune_on"] == "clicks"
    by_clicks = "wmrr" if name.startswith("wmrr") else "dcg@10"

    def tried(setting: Mapping[str, Any]) -> tuple[float, None]:
        ranker = trained(inputs, setting)
        if on_clicks:
            quality = click_quality(inputs, setting["parameters"], by_clicks)
        else:
            quality = label_quality(inputs.parts, name)
        return float(quality(ranker.score(inputs.parts.validation.features))), None

    search = best_of(identity["tried"], tried)
    values = [trial.value for trial in search.trials]
    return {"chosen": search.best.candidate, "tried": identity["tried"], "values": values}


def training_pairs(inputs: Inputs, ranker: Ranker, parameters: Parameters) -> tuple[Any, Any]:
    """Return the lists to train on, and their pairs (or a log's counts), made once per log."""
    identity, train = inputs.identity, inputs.parts.train
    weighting, settings = identity["weighting"], identity["propensity"]
    options = {**ranker.pair_options, "threads": 1}
    plain = {name: str(value) for name, value in options.items()}
    key = [weighting, dict(parameters), settings, plain]
    if weighting == "labels":
        return train, inputs.keep("pairs", key, lambda: PairSet.from_labels(train, **options))
    logged = inputs.logged()
    log, lists = logged.log, logged.lists
    if not weighting:
        return lists, inputs.keep(f"counts of {ranker.name}", key, lambda: ranker.pairs(log, lists))
    if WEIGHTINGS[weighting].of_relevance:
        key = [*key, ranker.prior]
        pairs = inputs.keep("pairs", key, lambda: _relevance_pairs(inputs, ranker, parameters))
        return lists, pairs
    curve = None if settings is None else inputs.curve(settings)
    options["parameters"] = dict(parameters)
    made = inputs.keep(
        "pairs", key, lambda: PairSet.from_log(log, lists, curve, weighting, **options)
    )
    return lists, made


def _relevance_pairs(inputs: Inputs, ranker: Ranker, parameters: Parameters) -> OuterPairs:
    """Make pairs of what clicks and features say of each doc, which methods of a log share."""
    logged, settings = inputs.logged(), inputs.identity["propensity"]
    curve, power = _believed_curve(inputs, parameters)
    ours = inputs.identity["weighting"] == "posterior"
    # doubly robust pairs correct clicks by the curve, so that their prior must be of that model too
    options: dict[str, Any] = {
        "model": None if ours else PositionBasedModel(),
        "prior": ranker.prior,
        "threads": 1,
    }
    of_docs = inputs.keep(
        "posterior",
        [settings, power, ranker.prior, ours],
        lambda: posterior(logged.log, logged.lists, curve, **options),
    )
    if ours:
        full = find_weighting("posterior", parameters).parameters
        return of_docs.pairs(own=full["own"], one_way=full["one_way"], **ranker.pair_options)
    evidence = CountedClicks.of_log(logged.log, logged.lists, curve).evidence()
    relevance = doubly_robust_relevance(evidence, of_docs.prior, tau=parameters["tau"])
    return OuterPairs.from_relevance(logged.lists, np.clip(relevance, 0, 1), **ranker.pair_options)


def _believed_curve(inputs: Inputs, parameters: Parameters) -> tuple[PropensityCurve, float]:
    """Return the curve of a method, tempered by the log's clicks where it tempers, and the power."""
    settings = inputs.identity["propensity"]
    curve = inputs.curve(settings)
    if not parameters.get("temper"):
        return curve, 1.0
    logged = inputs.logged()
    tempering = inputs.keep(
        "tempering", settings, lambda: temper(logged.log, logged.lists, curve, threads=1)
    )
    return tempered(curve, tempering.followed), tempering.followed
