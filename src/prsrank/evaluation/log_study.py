"""A sensitivity study of one log: hold a part out, train on the rest, judge."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Unpack

import numpy as np

from prsrank.data.dataset import RankingDataset
from prsrank.evaluation.agreement import kendall_tau, mean_known
from prsrank.evaluation.assumptions import Assumption, slot_propensities
from prsrank.evaluation.click_statistics import ClickStatistics
from prsrank.evaluation.results import ALL
from prsrank.evaluation.sensitivity import Sensitivity, StudyOptions, study_sensitivity
from prsrank.evaluation.sensitivity_training import trainer
from prsrank.evaluation.warnings import estimate_warnings
from prsrank.evaluation.weight_diagnostics import WeightSums, diagnostics_of_sums
from prsrank.logs.click_log import ClickLog
from prsrank.logs.coverage import covered_log, known_lists
from prsrank.logs.held_out import hold_out
from prsrank.propensity.curve import PropensityCurve
from prsrank.rankers.base import Ranker


def study_log(
    log: ClickLog,
    dataset: RankingDataset,
    curve: PropensityCurve | None,
    *,
    model: Ranker | None = None,
    ranker: str = "lambdamart",
    settings: Mapping[str, Any] | None = None,
    hold_out_by: tuple[str, float] = ("query", 0.2),
    trained_on: str | None = None,
    **options: Unpack[StudyOptions],
) -> Sensitivity:
    """Study a model, or one trained here, under other assumptions.

    Sessions that show docs which the data set lacks are left out, and a warning says so.

    Args:
        log: the sessions.
        dataset: the lists, with the features of the log's docs.
        curve: the propensities, or None for those in the log.
        model: the model to judge; default: the ranker, trained under the base assumption.
        ranker: name of the ranker to train.
        settings: its parameters.
        hold_out_by: "query" or "time", and the share to hold out.
        trained_on: name of the model if it was trained on this log, for the warning.
        options: those of `study_sensitivity`; the seed is that of the hold-out, too.
    """
    known, seed = covered_log(log, dataset), options.get("seed", 0)
    parts = hold_out(known, by=hold_out_by[0], share=hold_out_by[1], seed=seed)
    judged, lists = (known_lists(part, dataset) for part in (parts.held_out, parts.training))
    train = trainer(parts.training, lists, judged, curve, ranker=ranker, settings=settings)
    scores = train(Assumption()) if model is None else model.score(judged.features)
    study = study_sensitivity(parts.held_out, judged, curve, scores, train=train, **options)
    left_out = log.sessions - known.sessions
    warnings = _warnings(parts.held_out, judged, curve, left_out=left_out, trained_on=trained_on)
    if parts.dropped_sessions:
        warnings += (
            f"{parts.shared_queries} queries come before and after the cut in time: "
            f"{parts.dropped_sessions} of their sessions are dropped from the training part",
        )
    # how far a ranking moves by chance alone: trained alike, on resampled sessions
    sessions = parts.training.sessions
    drawn = np.sort(np.random.default_rng(seed).integers(sessions, size=sessions))
    resampled = parts.training.select(drawn)
    again = trainer(resampled, lists, judged, curve, ranker=ranker, settings=settings)
    alike = kendall_tau(train(Assumption()), again(Assumption()), judged.offsets)
    return replace(study, warnings=warnings, reference_tau=mean_known(alike))


def _warnings(
    held_out: ClickLog, lists: RankingDataset, curve: PropensityCurve | None, **notes: Any
) -> tuple[str, ...]:
    """Return why estimates from the held-out part cannot be trusted."""
    statistics = ClickStatistics.of_log(held_out, lists, slot_propensities(held_out, curve))
    sums = WeightSums.of(statistics, *statistics.counts())
    return estimate_warnings(diagnostics_of_sums(ALL, sums), held_out, curve, **notes)
