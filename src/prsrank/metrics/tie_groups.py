"""Kernels of the ranking metrics: one pass over the tie groups of each list.

A kernel fills `out` for the lists `first` to `last` - 1; `prsrank.metrics.ranking` checks the
input, runs them in threads and states the formulas.
"""
# mypy: allow-untyped-defs, allow-untyped-calls

import numpy as np
from numba import njit

from prsrank.sorting import longest_list, sort_with_index

# Up to this depth inserting into a sorted buffer is faster than a full sort of the list.
_INSERTION_DEPTH = 128
# Whole labels below this are counted, not sorted.
_LEVELS = 32


@njit(cache=True, nogil=True)
def _top(values, scores, start, stop, depth, ranked_values, ranked_scores):
    """Put the `depth` docs of highest score into the buffers, in order; return how many."""
    filled = 0
    for i in range(start, stop):
        score = scores[i]
        if filled < depth:
            filled += 1
        elif score <= ranked_scores[depth - 1]:
            continue
        j = filled - 1
        while j > 0 and ranked_scores[j - 1] < score:
            ranked_scores[j] = ranked_scores[j - 1]
            ranked_values[j] = ranked_values[j - 1]
            j -= 1
        ranked_scores[j] = score
        ranked_values[j] = values[i]
    return filled


@njit(cache=True, nogil=True)
def _ranked(values, scores, start, stop, depth, ranked_values, ranked_scores):
    """As `_top`, and behind them every doc tied with the last, so that tie groups are whole."""
    length = stop - start
    if min(length, depth) > _INSERTION_DEPTH:
        _, order = sort_with_index(-scores[start:stop])
        for i in range(length):
            ranked_scores[i] = scores[start + order[i]]
            ranked_values[i] = values[start + order[i]]
        return length
    filled = _top(values, scores, start, stop, depth, ranked_values, ranked_scores)
    if filled == length:
        return filled
    lowest = ranked_scores[filled - 1]
    while filled > 0 and ranked_scores[filled - 1] == lowest:
        filled -= 1
    for i in range(start, stop):
        if scores[i] == lowest:
            ranked_scores[filled] = lowest
            ranked_values[filled] = values[i]
            filled += 1
    return filled


@njit(cache=True, nogil=True)
def _group_end(ranked_scores, start, stop):
    """Return where the tie group that begins at `start` ends."""
    end = start + 1
    while end < stop and ranked_scores[end] == ranked_scores[start]:
        end += 1
    return end


@njit(cache=True, nogil=True)
def _gain(label, exponential):
    """Return 2^label - 1, or the label itself."""
    return 2.0**label - 1.0 if exponential else label


@njit(cache=True, nogil=True)
def _count_levels(labels, start, stop, counts):
    """Count the labels 0, 1, 2, ...; return False if some label is none of them."""
    counts[:] = 0
    for i in range(start, stop):
        if labels[i] >= _LEVELS:
            return False
        level = int(labels[i])
        if level != labels[i]:
            return False
        counts[level] += 1
    return True


@njit(cache=True, nogil=True)
def _ideal_dcg(labels, start, stop, depth, exponential, discounts, counts):
    total, rank = 0.0, 0
    if _count_levels(labels, start, stop, counts):
        for level in range(_LEVELS - 1, 0, -1):
            for _ in range(min(counts[level], depth - rank)):
                total += _gain(float(level), exponential) * discounts[rank]
                rank += 1
        return total
    # a copy, which can be written to as the scores can: else the sort is compiled twice
    ordered, _ = sort_with_index(labels[start:stop].copy())
    for label in ordered[::-1][:depth]:
        total += _gain(label, exponential) * discounts[rank]
        rank += 1
    return total


@njit(cache=True, nogil=True)
def ndcg_kernel(labels, scores, offsets, first, last, out, depth, exponential, discounts):
    """Mean gain of each tie group times the sum of its discounts, over the ideal DCG."""
    longest = longest_list(first, last, offsets)
    values, keys, counts = np.empty(longest), np.empty(longest), np.empty(_LEVELS, np.int64)
    for q in range(first, last):
        start, stop = offsets[q], offsets[q + 1]
        ideal = _ideal_dcg(labels, start, stop, depth, exponential, discounts, counts)
        if ideal == 0.0:
            out[q] = np.nan
            continue
        count = _ranked(labels, scores, start, stop, depth, values, keys)
        total, begin = 0.0, 0
        while begin < min(count, depth):
            end = _group_end(keys, begin, count)
            gains = discount = 0.0
            for i in range(begin, end):
                if values[i] > 0.0:
                    gains += _gain(values[i], exponential)
            for i in range(begin, min(end, depth)):
                discount += discounts[i]
            total += gains / (end - begin) * discount
            begin = end
        out[q] = min(total / ideal, 1.0)


@njit(cache=True, nogil=True)
def average_precision_kernel(relevance, scores, offsets, first, last, out):
    """Expected precision at each rank, times the chance that a relevant doc is there."""
    longest = longest_list(first, last, offsets)
    values, keys = np.empty(longest), np.empty(longest)
    for q in range(first, last):
        count = _ranked(relevance, scores, offsets[q], offsets[q + 1], longest, values, keys)
        total, before, begin = 0.0, 0.0, 0
        while begin < count:
            end = _group_end(keys, begin, count)
            relevant = values[begin:end].sum()
            if relevant > 0.0:
                slope = (relevant - 1.0) / max(end - begin - 1, 1)
                for i in range(begin, end):
                    share = (before + 1.0 + (i - begin) * slope) / (i + 1)
                    total += relevant / (end - begin) * share
            before += relevant
            begin = end
        out[q] = total / before if before > 0.0 else np.nan


@njit(cache=True, nogil=True)
def mrr_kernel(relevance, scores, offsets, first, last, out, depth):
    """Expected 1 / rank of the first relevant doc; needs no sorting."""
    for q in range(first, last):
        best, there = -np.inf, False
        for i in range(offsets[q], offsets[q + 1]):
            if relevance[i] > 0.0 and scores[i] >= best:
                best, there = scores[i], True
        if not there:
            out[q] = np.nan
            continue
        above = tied = relevant = 0
        for i in range(offsets[q], offsets[q + 1]):
            above += scores[i] > best
            tied += scores[i] == best
            relevant += scores[i] == best and relevance[i] > 0.0
        total, none_yet = 0.0, 1.0
        for m in range(min(depth - above, tied - relevant + 1)):
            total += none_yet * relevant / (tied - m) / (above + m + 1)
            none_yet *= (tied - relevant - m) / (tied - m)
        out[q] = total


@njit(cache=True, nogil=True)
def found_kernel(relevance, scores, offsets, first, last, out, depth):
    """Expected number of relevant docs among the first `depth`."""
    longest = longest_list(first, last, offsets)
    values, keys = np.empty(longest), np.empty(longest)
    for q in range(first, last):
        start, stop = offsets[q], offsets[q + 1]
        count = _ranked(relevance, scores, start, stop, depth, values, keys)
        total, begin = 0.0, 0
        while begin < min(count, depth):
            end = _group_end(keys, begin, count)
            total += values[begin:end].sum() * (min(end, depth) - begin) / (end - begin)
            begin = end
        out[q] = total if count > 0 else np.nan


@njit(cache=True, nogil=True)
def arp_kernel(relevance, scores, offsets, first, last, out, mean_rank):
    """Mean rank of each tie group times its relevant docs."""
    longest = longest_list(first, last, offsets)
    values, keys = np.empty(longest), np.empty(longest)
    for q in range(first, last):
        count = _ranked(relevance, scores, offsets[q], offsets[q + 1], longest, values, keys)
        ranks, relevant, begin = 0.0, 0.0, 0
        while begin < count:
            end = _group_end(keys, begin, count)
            ranks += values[begin:end].sum() * (begin + end - 1) / 2.0
            relevant += values[begin:end].sum()
            begin = end
        if relevant == 0.0:
            out[q] = np.nan
        else:
            out[q] = ranks / relevant + 1.0 if mean_rank else ranks / count
