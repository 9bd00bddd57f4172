"""A sensitivity study of one log: hold a part out, train on the rest, judge."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.evaluation.agreement import kendall_tau, mean_known
from prsrank.evaluation.assumptions import Assumption, slot_propensities
from prsrank.evaluation.click_statistics import ClickStatistics
from prsrank.evaluation.results import ALL
from prsrank.evaluation.sensitivity import Sensitivity, study_sensitivity
from prsrank.evaluation.sensitivity_training import trainer
from prsrank.evaluation.warnings import estimate_warnings
from prsrank.evaluation.weight_diagnostics import weight_diagnostics
from prsrank.logs.click_log import ClickLog
from prsrank.logs.coverage import covered_sessions, known_lists
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
    values: Mapping[str, Sequence[float]] | None = None,
    metric: str = "dcg@10",
    samples: int = 1000,
    seed: int = 0,
    trained_on: str | None = None,
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
        values: the values to try, by kind.
        metric: of values and gains.
        samples: number of bootstrap samples.
        seed: of the hold-out and the bootstrap.
        trained_on: name of the model if it was trained on this log, for the warning.
    """
    covered = covered_sessions(log, dataset)
    if not covered.any():
        log.doc_rows(dataset)  # says which query or doc is missing
        raise InputError("the log has no sessions")
    parts = hold_out(log.select(covered), by=hold_out_by[0], share=hold_out_by[1], seed=seed)
    judged, lists = (known_lists(part, dataset) for part in (parts.held_out, parts.training))
    train = trainer(parts.training, lists, judged, curve, ranker=ranker, settings=settings)
    scores = train(Assumption()) if model is None else model.score(judged.features)
    study = study_sensitivity(
        parts.held_out,
        judged,
        curve,
        scores,
        train=train,
        values=values,
        metric=metric,
        samples=samples,
        seed=seed,
    )
    propensities = slot_propensities(parts.held_out, curve)
    statistics = ClickStatistics.of_log(parts.held_out, judged, propensities)
    diagnostics = weight_diagnostics(statistics, ALL, *statistics.counts())
    left_out = int((~covered).sum())
    warnings = estimate_warnings(
        diagnostics, parts.held_out, curve, left_out=left_out, trained_on=trained_on
    )
    if parts.dropped_sessions:
        warnings += (
            f"{parts.shared_queries} queries come before and after the cut in time: "
            f"{parts.dropped_sessions} of their sessions are dropped from the training part",
        )
    drawn = np.random.default_rng(seed).integers(
        parts.training.sessions, size=parts.training.sessions
    )
    again = trainer(
        parts.training.select(np.sort(drawn)),
        lists,
        judged,
        curve,
        ranker=ranker,
        settings=settings,
    )(Assumption())
    alike = kendall_tau(train(Assumption()), again, judged.offsets)
    return replace(study, warnings=warnings, reference_tau=mean_known(alike))
