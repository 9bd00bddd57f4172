"""Estimates of a log in one call."""

from prsrank.evaluation.click_sums import sum_clicks
from prsrank.evaluation.counterfactual import evaluation_of_sums


def evaluate_counterfactual(
    log,
    dataset,
    propensities,
    rankers,
    *,
    metrics=("dcg@10", "wmrr", "arp"),
    tau=0.0,
    context=None,
    by=None,
    **options,
):
    summed = {"metrics": metrics, "tau": tau, "context": context, "by": by}
    return evaluation_of_sums(sum_clicks(log, dataset, propensities, rankers, **summed), **options)
