"""Estimates of a log in one call, and the sums of a part of one."""

from prsrank.evaluation.doc_sums import Regression
from prsrank.evaluation.log_evaluation import evaluation_of
from prsrank.evaluation.log_sums import sum_log
from prsrank.logs.pieces import LocalPieces, LocalSessions


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
    sums = sum_log(log, dataset, propensities, rankers, metrics=metrics, tau=tau, context=context)
    return evaluation_of(sums, propensities, **options).evaluation


def learned(logs, lists, curve, tau):
    """Return what features say of the docs of lists, learned from pieces of a log."""
    pieces = LocalSessions(LocalPieces(logs), lists, whole=True)
    return Regression.of_pieces(pieces, curve, tau=tau).on(lists)


def part_sums(sums, kind):
    """Return the sums of one kind: "" by weights, "clipped", or "dr" over docs."""
    return [part for part in sums.parts if part.kind == kind]
