"""The losses by their formulas in plain NumPy: what the kernels are held against."""

from itertools import pairwise

import numpy as np

from prsrank.losses.hinge import HingeValue
from prsrank.losses.ranked_objective import DISCOUNTS, tie_order


def logistic_loss_definition(scores, pairs):
    """Return what `logistic_loss` returns, by its formula in plain NumPy."""
    s = np.asarray(scores, np.float64)
    loss, gradient = 0.0, np.zeros(pairs.docs)
    for v in range(pairs.winners):
        begin, end = pairs.offsets[pairs.winner_list[v] :][:2]
        margin = s[begin + pairs.winner_row[v]] - s[begin:end]
        pull = pairs.row(v) * np.exp(-np.logaddexp(0, margin))
        loss += float(pairs.row(v) @ np.logaddexp(0, -margin))
        gradient[begin + pairs.winner_row[v]] -= pull.sum()
        gradient[begin:end] += pull
    return loss, gradient


def hinge_loss_definition(scores, pairs, *, smoothing=0.0):
    """Return what `hinge_loss` returns, by its formula in plain NumPy."""
    s = np.asarray(scores, np.float64)
    loss, smoothed, slopes, gradient = 0.0, 0.0, 0.0, np.zeros(pairs.docs)
    for v in range(pairs.winners):
        begin, end = pairs.offsets[pairs.winner_list[v] :][:2]
        i = begin + pairs.winner_row[v]
        u = 1 - (s[i] - s[begin:end])
        z = np.clip(u / smoothing, 0, 1) if smoothing > 0 else (u > 0).astype(float)
        loss += float(pairs.row(v) @ np.maximum(u, 0))
        smoothed += float(pairs.row(v) @ (z * u - smoothing * z**2 / 2))
        slopes += float(pairs.row(v) @ z)
        gradient[i] -= pairs.row(v) @ z
        gradient[begin:end] += pairs.row(v) * z
    return HingeValue(loss, smoothed, slopes, gradient)


def gaps(scores, i, norm):
    """Return what LightGBM's norm divides the changes of Z of doc i of a list by."""
    far = norm and scores.max() > scores.min()
    return 0.01 + np.abs(scores[i] - scores) if far else np.ones(len(scores))


def shares(sums, norm):
    """Return what it multiplies the lambdas of lists by, whose absolute values sum to this."""
    positive = np.where(sums > 0, sums, 1.0)
    return np.where((sums > 0) & norm, np.log2(1 + positive) / positive, 1.0)


def lambda_definition(
    scores, pairs, *, metric="ndcg", sigma=1.0, truncation=None, seed=0, norm=False
):
    """Return what a LambdaObjective returns, by its formula in plain NumPy, in float64."""
    s = np.asarray(scores, np.float64)
    gradient, hessian = np.zeros(pairs.docs), np.zeros(pairs.docs)
    ranks = current_ranks(s, pairs.offsets, tie_order(pairs.offsets, pairs.query_ids, seed))
    discounts = DISCOUNTS[metric](ranks.astype(np.float64))
    sums = np.zeros(pairs.lists)
    for v in range(pairs.winners):
        begin, end = pairs.offsets[pairs.winner_list[v] :][:2]
        i = begin + pairs.winner_row[v]
        margin = sigma * (s[i] - s[begin:end])
        change = np.abs(discounts[i] - discounts[begin:end])
        change /= gaps(s[begin:end], i - begin, norm)
        if truncation is not None:
            change *= np.minimum(ranks[i], ranks[begin:end]) <= truncation
        rho, rest = np.exp(-np.logaddexp(0, margin)), np.exp(-np.logaddexp(0, -margin))
        pull = sigma * pairs.row(v) * change * rho
        sums[pairs.winner_list[v]] += 2 * pull.sum()
        gradient[i] -= pull.sum()
        gradient[begin:end] += pull
        hessian[i] += (sigma * pull * rest).sum()
        hessian[begin:end] += sigma * pull * rest
    of_doc = np.repeat(shares(sums, norm), np.diff(pairs.offsets))
    return gradient * of_doc, hessian * of_doc


def current_ranks(scores, offsets, ties):
    """Return the 1-based rank of each doc in its list; `ties` as from `tie_order`."""
    values = np.asarray(scores, np.float64)
    ranks = np.empty(len(values), np.int32)
    for begin, end in pairwise(offsets):
        order = ties[begin:end]
        order = order[np.argsort(-values[begin:end][order], kind="stable")]
        ranks[begin:end][order] = np.arange(1, end - begin + 1)
    return ranks


def unbiased_definition(
    scores,
    log,
    dataset,
    biases,
    *,
    metric="ndcg",
    sigma=1.0,
    truncation=None,
    seed=0,
    norm=False,
):
    """Return what `UnbiasedObjective.exact` returns, session by session in plain NumPy.

    Args:
        scores: score of each doc.
        log: the clicks.
        dataset: the lists.
        biases: t+ and t- of each position.
        metric: "ndcg" or "arp".
        sigma: steepness of the logistic function.
        truncation: as in UnbiasedObjective; IDCG is cut there too.
        seed: of the order of ties.
        norm: as in UnbiasedObjective.
    """
    s = np.asarray(scores, np.float64)
    sums = np.zeros(dataset.lists)
    t_plus, t_minus = biases
    ranks = current_ranks(s, dataset.offsets, tie_order(dataset.offsets, dataset.query_ids, seed))
    discounts = DISCOUNTS[metric](ranks.astype(np.float64))
    rows, click_offsets = log.doc_rows(dataset)[log.ranking_docs], log.click_offsets
    gradient, hessian = np.zeros(dataset.docs), np.zeros(dataset.docs)
    plus, minus = np.zeros(len(t_plus)), np.zeros(len(t_minus))
    for session, ranking in enumerate(log.session_ranking):
        slots = slice(*log.ranking_offsets[ranking : ranking + 2])
        docs, index = rows[slots], log.ranking_positions[slots] - 1
        clicked = np.zeros(len(docs), bool)
        clicked[log.clicks[slice(*click_offsets[session : session + 2])]] = True
        i, j = (axis.ravel() for axis in np.meshgrid(np.where(clicked)[0], np.where(~clicked)[0]))
        a, b, k, m = docs[i], docs[j], index[i], index[j]
        best = DISCOUNTS["ndcg"](np.arange(1.0, clicked.sum() + 1))[:truncation].sum()
        lists = np.searchsorted(dataset.offsets, a, side="right") - 1
        length = np.diff(dataset.offsets)[lists]
        change = np.abs(discounts[a] - discounts[b]) / (best if metric == "ndcg" else length)
        for pair, q in enumerate(lists):
            begin, end = dataset.offsets[q : q + 2]
            change[pair] /= gaps(s[begin:end], a[pair] - begin, norm)[b[pair] - begin]
        if truncation is not None:
            change = change * (np.minimum(ranks[a], ranks[b]) <= truncation)
        margin = sigma * (s[a] - s[b])
        loss = change * np.logaddexp(0, -margin)
        pull = sigma * change * np.exp(-np.logaddexp(0, margin)) / (t_plus[k] * t_minus[m])
        bend = sigma * pull * np.exp(-np.logaddexp(0, -margin))
        np.add.at(sums, lists, 2 * pull)
        np.add.at(gradient, a, -pull)
        np.add.at(gradient, b, pull)
        np.add.at(hessian, a, bend)
        np.add.at(hessian, b, bend)
        np.add.at(plus, k, loss / t_minus[m])
        np.add.at(minus, m, loss / t_plus[k])
    of_doc = np.repeat(shares(sums, norm), dataset.list_lengths)
    return gradient * of_doc, hessian * of_doc, plus, minus
