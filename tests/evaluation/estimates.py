"""Estimates of a log in one call."""

from prsrank.evaluation.log_evaluation import evaluation_of_sums
from prsrank.evaluation.log_sums import sum_log


def evaluate_counterfactual(
    log,
    dataset,
    propensities,
    rankers,
    *,
    metrics=("dcg@10", "wmrr", "arp"),
    tau=0.0,
    context=None,
    **options,
):
    sums = sum_log(
        log, dataset, propensities, rankers, metrics=metrics, taus=[tau], context=context
    )
    return evaluation_of_sums(sums, **options)
