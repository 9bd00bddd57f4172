"""Training: from a shared log and a job's settings to a ranker."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from prsrank.experiment.jobs import Identity
from prsrank.experiment.shared_inputs import Parts, SharedInputs, run_seed
from prsrank.metrics.ranking import average, metric
from prsrank.types import Floats

Quality = Callable[[Floats], float]


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
    quality = click_quality(inputs, parts, identity) if on_clicks else None
    validation = parts.validation if quality is None else (parts.validation, quality)
    return ranker.fit(lists, pairs, validation=validation), pairs


def make_ranker(identity: Identity, settings: Mapping[str, Any]) -> Any:
    """Make the ranker of a job: its settings, one thread, and its seed."""
    from prsrank.rankers.base import ranker_class

    kind = ranker_class(identity["ranker"])
    taken = kind().get_params()
    ours = {
        "missing": "impute",
        "threads": 1,
        "device": "cpu",
        "seed": run_seed(identity, "ranker"),
    }
    given = {name: value for name, value in ours.items() if name in taken}
    return kind(**{**given, **settings})


def label_quality(parts: Parts, name: str) -> Quality:
    """Return the function from scores of the validation part to a mean metric on its labels."""
    lists, measure = parts.validation, metric(name)
    sign = -1.0 if name.startswith("arp") else 1.0
    return lambda scores: sign * average(measure(lists.relevance, scores, lists.offsets)).mean


def click_quality(
    inputs: SharedInputs, parts: Parts, identity: Identity, name: str = "dcg@10"
) -> Quality:
    """Return the function from scores of the validation part to an estimate from its clicks."""
    from prsrank.evaluation.counterfactual import CounterfactualMetric

    def make() -> CounterfactualMetric:
        held_out = inputs.held_out(parts, identity, "validation")
        curve = inputs.curve(parts, identity, identity["propensity"])
        return CounterfactualMetric(held_out.log, held_out.lists, curve, metric=name)

    estimate = inputs.keep("quality", [name, identity["propensity"]], make)
    return lambda scores: estimate(scores, threads=1)


def tuned(inputs: SharedInputs, parts: Parts, identity: Identity) -> dict[str, Any]:
    """Try the settings of a tuning job; return the value of each, and the best one."""
    name = identity["metric"]
    if identity["tune_on"] == "clicks":
        quality = click_quality(
            inputs, parts, identity, "wmrr" if name.startswith("wmrr") else "dcg@10"
        )
    else:
        quality = label_quality(parts, name)
    values = []
    for setting in identity["tried"]:
        ranker, _ = trained(inputs, parts, identity, setting)
        values.append(float(quality(ranker.score(parts.validation.features))))
    best = int(np.argmax(values))
    return {"chosen": identity["tried"][best], "tried": identity["tried"], "values": values}


def _pairs(
    inputs: SharedInputs,
    parts: Parts,
    identity: Identity,
    ranker: Any,
    parameters: Mapping[str, float],
) -> tuple[Any, Any]:
    """Return the lists to train on, and their pairs (or a log's counts), made once per log."""
    from prsrank.pairs.pair_set import PairSet

    weighting = identity["weighting"]
    options = ranker.pair_options
    key = [weighting, dict(parameters), identity["propensity"], _plain(options)]
    if weighting == "labels":
        lists = parts.train
        return lists, inputs.keep(
            "pairs", key, lambda: PairSet.from_labels(lists, threads=1, **options)
        )
    logged = inputs.logged(parts, identity)
    if not weighting:
        return logged.lists, inputs.keep(
            f"counts of {ranker.name}", key, lambda: ranker.pairs(logged.log, logged.lists)
        )
    known = identity["propensity"]
    curve = None if known is None else inputs.curve(parts, identity, known)
    pairs = inputs.keep(
        "pairs",
        key,
        lambda: PairSet.from_log(
            logged.log,
            logged.lists,
            curve,
            weighting,
            parameters=dict(parameters),
            threads=1,
            **options,
        ),
    )
    return logged.lists, pairs


def _plain(options: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in options.items()}
