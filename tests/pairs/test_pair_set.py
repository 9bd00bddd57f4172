"""Sets of pairs against sums over single sessions, pair by pair."""

import math
import sys
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prsrank.data.dataset import RankingDataset
from prsrank.errors import DataWarning, InputError
from prsrank.logs.click_log import ClickLog, Context
from prsrank.losses import click_set_lambdas
from prsrank.losses.click_set_lambdas import ClickSetObjective
from prsrank.losses.lambdas import LambdaObjective
from prsrank.losses.logistic import logistic_loss
from prsrank.losses.ranked_objective import tie_order
from prsrank.pairs import log_on_lists as shown_lists
from prsrank.pairs.click_counts import ClickCounts
from prsrank.pairs.click_sets import ClickSets
from prsrank.pairs.fold_kernels import LARGEST, PAIRS, SQUARES, SUM
from prsrank.pairs.outer_pairs import OuterPairs
from prsrank.pairs.pair_set import PairSet
from prsrank.propensity.curve import PowerLaw
from prsrank.weighting import WEIGHTINGS, find_weighting

sys.path.insert(0, str(Path(__file__).parents[1] / "losses"))
from definitions import current_ranks, gaps, lambda_definition, shares

CURVE = PowerLaw(1.0)


def random_log(rng, *, lists=4, longest=7, sessions=30, clicks=0.35, rankings=2, weighted=False):
    """A log with repeated and randomised rankings, some cut short, some with gaps, lists of 1."""
    lengths = rng.integers(1, longest + 1, lists)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    data = RankingDataset(
        rng.normal(size=(offsets[-1], 2)), offsets, labels=rng.integers(0, 3, offsets[-1])
    )
    logged = np.flatnonzero(rng.random(lists) < 0.9) if lists > 1 else np.arange(lists)
    docs, positions, query_of, doc_offsets = [], [], [], [0]
    for number, q in enumerate(logged):
        for _ in range(rng.integers(1, rankings + 1)):
            shown = rng.permutation(lengths[q])[: rng.integers(1, lengths[q] + 1)]
            docs.append(doc_offsets[-1] + shown)
            gaps = rng.integers(0, 2, len(shown)) * (rng.random() < 0.5)
            positions.append(np.arange(1, len(shown) + 1) + np.cumsum(gaps))
            query_of.append(number)
        doc_offsets.append(doc_offsets[-1] + lengths[q])
    shown_in = rng.integers(0, max(len(docs), 1), sessions if docs else 0)
    clicked = [np.flatnonzero(rng.random(len(docs[r])) < clicks) for r in shown_in]
    log = ClickLog(
        query_ids=logged,
        doc_offsets=doc_offsets,
        doc_ids=np.concatenate([np.zeros(0, int), *(np.arange(lengths[q]) for q in logged)]),
        ranking_query=query_of,
        ranking_offsets=np.concatenate([[0], np.cumsum([len(d) for d in docs])]),
        ranking_docs=np.concatenate([np.zeros(0, int), *docs]),
        ranking_positions=np.concatenate([np.zeros(0, int), *positions]),
        session_ranking=shown_in,
        session_clicks=[len(c) for c in clicked],
        clicks=np.concatenate([np.zeros(0, int), *clicked]),
        click_weights=rng.choice([0.3, 1, 12], sum(map(len, clicked))) if weighted else None,
    )
    return data, log


def single_sessions(data, log):
    """Yield list, shown rows, positions and clicked flags of each session."""
    starts = log.click_offsets
    for s, r in enumerate(log.session_ranking):
        q = int(log.query_ids[log.ranking_query[r]])
        slots = slice(log.ranking_offsets[r], log.ranking_offsets[r + 1])
        rows = log.doc_ids[log.ranking_docs[slots]]
        clicked = np.zeros(len(rows), bool)
        clicked[log.clicks[starts[s] : starts[s + 1]]] = True
        yield s, q, rows, log.ranking_positions[slots], clicked


def raw_pairs(data, log, rule, propensity):
    """Yield session, list, rows i and j, number of clicks and weight of every single pair."""
    for s, q, rows, positions, clicked in single_sessions(data, log):
        relevance = data.relevance[data.offsets[q] + rows]
        own = np.ones(len(rows))
        if log.click_weights is not None:
            own[clicked] = log.click_weights[slice(*log.click_offsets[s : s + 2])]
        for a in np.flatnonzero(clicked):
            for b in range(len(rows)):
                if a == b or (rule.against == "non-clicked" and clicked[b]):
                    continue
                if rule.against == "irrelevant" and relevance[b]:
                    continue
                keywords = {"relevance": relevance[b]} if rule.takes_relevance else {}
                w = rule(propensity(s, positions[a]), propensity(s, positions[b]), **keywords)
                yield s, q, rows[a], rows[b], int(clicked.sum()), float(w) * own[a]


def dense(pairs):
    """The weights as one matrix per list."""
    matrices = [np.zeros((n, n)) for n in np.diff(pairs.offsets)]
    for v in range(pairs.winners):
        matrices[pairs.winner_list[v]][pairs.winner_row[v]] = pairs.row(v)
    return matrices


def raw_dense(data, log, rule, propensity, constant=lambda clicks, length: 1.0):
    matrices = [np.zeros((n, n)) for n in data.list_lengths]
    for _, q, i, j, clicks, w in raw_pairs(data, log, rule, propensity):
        matrices[q][i, j] += w * constant(clicks, len(matrices[q]))
    return matrices


def assert_same(got, expected):
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-13)


def ideal(clicks, truncation=None):
    ranks = range(1, min(clicks, truncation or clicks) + 1)
    return sum(1 / math.log2(1 + r) for r in ranks)


CONSTANTS = {
    (None, None): lambda clicks, length: 1.0,
    ("ndcg", None): lambda clicks, length: 1 / ideal(clicks),
    ("ndcg", 2): lambda clicks, length: 1 / ideal(clicks, 2),
    ("arp", None): lambda clicks, length: 1 / length,
}

rngs = st.integers(0, 2**32).map(np.random.default_rng)


def at(s, position):
    return float(CURVE.at(position))


@pytest.mark.parametrize("name", [n for n, one in WEIGHTINGS.items() if one.function])
@settings(max_examples=15)
@given(rng=rngs, constant=st.sampled_from(list(CONSTANTS)), weighted=st.booleans())
def test_weights_equal_single_sessions(name, rng, constant, weighted):
    data, log = random_log(rng, weighted=weighted)
    pairs = PairSet.from_log(log, data, CURVE, name, normalise=constant[0], truncation=constant[1])
    rule = find_weighting(name)
    assert_same(dense(pairs), raw_dense(data, log, rule, at, CONSTANTS[constant]))


@pytest.mark.parametrize("name", ["prs", "pns_oracle"])
def test_lists_longer_than_a_byte_can_count(name):
    docs = 300
    data = RankingDataset(np.eye(docs, 2), [0, docs], labels=np.arange(docs) % 2)
    log = ClickLog(
        query_ids=[0],
        doc_offsets=[0, docs],
        doc_ids=np.arange(docs),
        ranking_query=[0],
        ranking_offsets=[0, docs],
        ranking_docs=np.arange(docs),
        ranking_positions=np.arange(1, docs + 1),
        session_ranking=[0],
        session_clicks=[1],
        clicks=[280],
    )
    weighting = WEIGHTINGS[name]
    relevance = data.relevance.astype(float) if weighting.takes_relevance else None
    p = CURVE.at(np.arange(1, docs + 1))
    expected = np.array(weighting(np.full(docs, p[280]), p, relevance=relevance))
    expected[280] = 0
    assert np.allclose(PairSet.from_log(log, data, CURVE, name).row(0), expected, rtol=1e-12)


@settings(max_examples=20)
@given(rng=rngs, name=st.sampled_from(["ips", "prs", "pns_oracle", "ips_oracle", "ips_all"]))
def test_many_distinct_propensities(rng, name):
    data, log = random_log(rng)
    slots = rng.uniform(0.1, 1.0, len(log.ranking_docs))
    shared = PairSet.from_log(log, data, slots, name)
    most = shown_lists.MOST_LEVELS
    shown_lists.MOST_LEVELS = 0
    try:
        own = PairSet.from_log(log, data, slots, name)
        sets = ClickSets.from_log(log, data, slots, name)
    finally:
        shown_lists.MOST_LEVELS = most
    np.testing.assert_allclose(own.weights, shared.weights, rtol=1e-13)
    np.testing.assert_allclose(own.totals, shared.totals, rtol=1e-13)
    scores = rng.normal(size=data.docs)
    again = ClickSetObjective(ClickSets.from_log(log, data, slots, name))(scores)
    np.testing.assert_allclose(ClickSetObjective(sets)(scores), again, rtol=1e-6)
    place = {
        (s, int(p)): slots[log.ranking_offsets[r] + k]
        for s, r in enumerate(log.session_ranking)
        for k, p in enumerate(log.ranking_positions[slice(*log.ranking_offsets[r : r + 2])])
    }
    expected = raw_dense(data, log, find_weighting(name), lambda s, p: place[s, int(p)])
    assert_same(dense(shared), expected)


@settings(max_examples=30)
@given(rng=rngs, scale=st.sampled_from([0.0, 1.0, 50.0]))
def test_logistic_loss_equals_single_sessions(rng, scale):
    data, log = random_log(rng)
    scores = np.round(rng.normal(size=data.docs), 1) * scale
    rule = find_weighting("prs")
    loss, gradient, size = 0.0, np.zeros(data.docs), 0.0
    for _, q, i, j, _, w in raw_pairs(data, log, rule, at):
        i, j = data.offsets[q] + i, data.offsets[q] + j
        loss += w * np.logaddexp(0, scores[j] - scores[i])
        rho = np.exp(-np.logaddexp(0, scores[i] - scores[j]))
        size = max(size, w * rho)
        gradient[i] -= w * rho
        gradient[j] += w * rho
    got = logistic_loss(scores, PairSet.from_log(log, data, CURVE, rule))
    assert got[0] == pytest.approx(loss, rel=1e-10)
    assert_close([got[1]], (gradient, size), 1e-10)


def average_precision(relevant):
    ranks = np.flatnonzero(relevant) + 1
    return np.mean(np.arange(1, len(ranks) + 1) / ranks)


METRICS = {
    "ndcg": lambda relevant: (
        (relevant / np.log2(np.arange(2, len(relevant) + 2))).sum() / ideal(int(relevant.sum()))
    ),
    "arp": lambda relevant: (np.flatnonzero(relevant) + 1).sum(),
    "map": average_precision,
    "mrr": lambda relevant: 1 / (np.flatnonzero(relevant)[0] + 1),
}


def raw_lambdas(data, log, rule, scores, metric, *, sigma=1.0, truncation=None, norm=False):
    """Swap the two docs of every single pair in the current ranking and measure the change."""
    ranks = current_ranks(scores, data.offsets, tie_order(data.offsets, data.query_ids, 0))
    clicked_rows = {s: rows[c] for s, _, rows, _, c in single_sessions(data, log)}
    gradient, hessian, size = np.zeros(data.docs), np.zeros(data.docs), 0.0
    sums = np.zeros(data.lists)
    for s, q, row_i, row_j, _, w in raw_pairs(data, log, rule, at):
        begin = data.offsets[q]
        places = ranks[begin : data.offsets[q + 1]] - 1
        relevant = np.zeros(len(places))
        relevant[places[clicked_rows[s]]] = 1
        swapped = relevant.copy()
        a, b = places[row_i], places[row_j]
        swapped[a], swapped[b] = relevant[b], relevant[a]
        if truncation is not None and min(a, b) >= truncation:
            continue
        change = abs(METRICS[metric](swapped) - METRICS[metric](relevant))
        i, j = begin + row_i, begin + row_j
        change /= gaps(scores[begin : data.offsets[q + 1]], row_i, norm)[row_j]
        margin = sigma * (scores[i] - scores[j])
        rho, rest = np.exp(-np.logaddexp(0, margin)), np.exp(-np.logaddexp(0, -margin))
        size = max(size, sigma * w * change * rho)
        sums[q] += 2 * sigma * w * change * rho
        gradient[i] -= sigma * w * change * rho
        gradient[j] += sigma * w * change * rho
        hessian[[i, j]] += sigma**2 * w * change * rho * rest
    of_doc = np.repeat(shares(sums, norm), data.list_lengths)
    return gradient * of_doc, hessian * of_doc, size


def assert_close(got, raw, tolerance):
    """Relative to the largest value or single term: terms of either sign may cancel."""
    *expected, size = raw
    for a, b in zip(got, expected, strict=True):
        # below its smallest number float32 has only 0
        least = np.finfo(a.dtype).tiny if a.dtype.kind == "f" else 0.0
        atol = max(tolerance * max(size, np.abs(b).max(initial=0)), least)
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=atol)


@pytest.mark.parametrize("metric", ["ndcg", "arp"])
@settings(max_examples=15)
@given(
    rng=rngs,
    scale=st.sampled_from([0.0, 1.0, 20.0]),
    sigma=st.sampled_from([1.0, 2.0]),
    truncation=st.sampled_from([None, 1, 3]),
    norm=st.booleans(),
)
def test_lambdas_of_pairs_equal_single_sessions(metric, rng, scale, sigma, truncation, norm):
    data, log = random_log(rng)
    scores = np.round(rng.normal(size=data.docs), 1) * scale
    rule = find_weighting("prs", {"gamma": 2.0})
    options = {"sigma": sigma, "truncation": truncation, "norm": norm}
    raw = raw_lambdas(data, log, rule, scores, metric, **options)
    normalise = "ndcg" if metric == "ndcg" else None
    pairs = PairSet.from_log(log, data, CURVE, rule, normalise=normalise)
    assert_close(lambda_definition(scores, pairs, metric=metric, **options), raw, 1e-10)
    assert_close(LambdaObjective(pairs, metric=metric, **options)(scores), raw, 3e-6)


@pytest.mark.parametrize("metric", ["map", "mrr"])
@settings(max_examples=25)
@given(
    rng=rngs,
    scale=st.sampled_from([0.0, 1.0, 20.0]),
    sigma=st.sampled_from([1.0, 2.0]),
    truncation=st.sampled_from([None, 1, 3]),
    name=st.sampled_from(["prs", "ips_oracle", "ips_all"]),
    norm=st.booleans(),
)
def test_lambdas_of_click_sets_equal_single_sessions(
    metric, rng, scale, sigma, truncation, name, norm
):
    data, log = random_log(rng)
    scores = np.round(rng.normal(size=data.docs), 1) * scale
    rule = find_weighting(name)
    options = {"sigma": sigma, "truncation": truncation, "norm": norm}
    raw = raw_lambdas(data, log, rule, scores, metric, **options)
    sets = ClickSets.from_log(log, data, CURVE, rule)
    for steps in (0, 1e9):  # by click sets, and for MAP by sums over triples of docs
        with patch.object(click_set_lambdas, "STEPS_PER_PAIR", steps):
            objective = ClickSetObjective(sets, metric=metric, **options)
        if metric == "mrr" or not steps:
            assert objective._triples.values.size == 0
        assert_close(objective.exact(scores), raw, 1e-10)
        assert_close(objective(scores), raw, 3e-6)


def test_where_sessions_are_many_no_click_set_is_gone_through():
    for sessions in (300, 30_000):
        rng = np.random.default_rng(3)
        data, log = random_log(rng, lists=12, longest=12, sessions=sessions)
        sets = ClickSets.from_log(log, data, CURVE).arrays
        triples = ClickSetObjective(ClickSets.from_log(log, data, CURVE))._triples
        lengths, used = np.diff(sets.slot_offsets), triples.starts >= 0
        assert triples.values.size == (lengths[used] ** 3).sum()
        # each triple holds its share of the sessions: i and k clicked, j not, over the clicks
        clicks = np.diff(sets.set_offsets)
        left_out = lengths[sets.set_showing] - clicks
        share = (sets.set_counts * clicks * left_out)[used[sets.set_showing]].sum()
        assert triples.values.sum() == pytest.approx(share)
    some = lengths[sets.set_showing] > clicks
    assert used[sets.set_showing[some]].all()
    assert len(sets.set_counts) > 500


def test_click_sets_fold_equal_sessions():
    data, log = random_log(np.random.default_rng(3), sessions=400)
    sets = ClickSets.from_log(log, data, CURVE)
    distinct = {
        (int(log.session_ranking[s]), tuple(np.flatnonzero(c)))
        for s, _, _, _, c in single_sessions(data, log)
        if c.any()
    }
    assert len(sets.arrays.set_counts) == len(distinct)
    assert sets.arrays.set_counts.sum() == (log.session_clicks > 0).sum()


def test_click_sets_of_labels_are_one_session():
    data = RankingDataset(np.zeros((5, 1)), [0, 3, 5], labels=[1, 0, 1, 0, 0])
    sets = ClickSets.from_labels(data)
    assert sets.arrays.set_slots.tolist() == [0, 2]
    gradient, _ = ClickSetObjective(sets, metric="mrr")(np.array([1.0, 3.0, 2.0, 0, 0]))
    # doc 2 of rank 2 or doc 0 of rank 3 to the top: 1 - 1/2 each
    rho = 1 / (1 + np.exp([1.0 - 3.0, 2.0 - 3.0]))
    np.testing.assert_allclose(gradient, [*(-rho * 0.5)[:1], rho.sum() / 2, -rho[1] / 2, 0, 0])


@given(rng=rngs)
@settings(max_examples=10)
def test_constant_propensity_makes_prs_naive(rng):
    data, log = random_log(rng)
    flat = np.full(len(log.ranking_docs), 0.3)
    np.testing.assert_allclose(
        PairSet.from_log(log, data, flat, "prs").weights,
        PairSet.from_log(log, data, None, "naive").weights,
    )


def test_weights_never_depend_on_scores():
    """Position 3 clicked: the weights are the ratios of the positions' propensities."""
    log = ClickLog(
        [0], [0, 4], [0, 1, 2, 3], [0], [0, 4], [0, 1, 2, 3], [1, 2, 3, 4], [0], [1], [2]
    )
    data = RankingDataset(np.zeros((4, 1)), [0, 4])
    for parameters, expected in (({"gamma": math.inf}, [3, 1.5, 0, 0.75]), ({}, [1, 1, 0, 0.75])):
        pairs = PairSet.from_log(log, data, CURVE, "prs", parameters=parameters)
        np.testing.assert_allclose(pairs.weights, expected)


@pytest.mark.parametrize("normalise", [None, "ndcg"])
def test_threads_change_nothing(normalise):
    data, log = random_log(
        np.random.default_rng(5), lists=300, longest=60, sessions=20_000, clicks=0.05, rankings=4
    )
    scores = np.random.default_rng(6).normal(size=data.docs)
    results = []
    for threads in (1, 2, 5):
        pairs = PairSet.from_log(log, data, CURVE, normalise=normalise, threads=threads)
        assert len(pairs.weights) > 40_000
        loss, gradient = logistic_loss(scores, pairs, threads=threads)
        lambdas = LambdaObjective(pairs, threads=threads)(scores)
        sets = ClickSets.from_log(log, data, CURVE)
        set_lambdas = ClickSetObjective(sets, threads=threads)(scores)
        results.append([pairs.weights, pairs.totals, loss, gradient, *lambdas, *set_lambdas])
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


class ByDevice:
    def at(self, positions, *, context=None):
        return PowerLaw({"phone": 2.0, "desk": 0.5}[context]).at(positions)


@settings(max_examples=15)
@given(rng=rngs)
def test_contexts_have_their_own_curves(rng):
    data, log = random_log(rng)
    codes = rng.integers(0, 2, log.sessions)
    values = ("phone", "desk")
    object.__setattr__(log, "contexts", {"device": Context(values, codes.astype(np.int32))})
    pairs = PairSet.from_log(log, data, ByDevice(), context="device")
    curve = ByDevice()
    expected = raw_dense(
        data, log, find_weighting("prs"), lambda s, p: float(curve.at(p, context=values[codes[s]]))
    )
    assert_same(dense(pairs), expected)


@settings(max_examples=20)
@given(rng=rngs, weighted=st.booleans())
def test_diagnostics(rng, weighted):
    data, log = random_log(rng, weighted=weighted)
    rule = find_weighting("prs")
    found = PairSet.from_log(log, data, CURVE, rule).diagnostics()
    raw = [(q, w) for _, q, _, _, _, w in raw_pairs(data, log, rule, at)]
    w = np.array([x for _, x in raw])
    assert found.pairs == len(w)
    if not len(w):
        return
    assert found.lists == len({q for q, _ in raw})
    assert found.weight_mean == pytest.approx(w.mean())
    assert found.weight_max == pytest.approx(w.max())
    assert found.effective_sample_size == pytest.approx(w.sum() ** 2 / (w**2).sum())
    free = find_weighting("prs", {"gamma": math.inf})
    unclipped = np.array([x for *_, x in raw_pairs(data, log, free, at)])
    assert found.clipped_share == pytest.approx((unclipped != w).mean())


def test_weights_of_one_change_nothing():
    data, log = random_log(np.random.default_rng(3), sessions=200)
    ones = replace(log, click_weights=np.ones(len(log.clicks)))
    plain, same = (PairSet.from_log(one, data, CURVE, normalise="ndcg") for one in (log, ones))
    np.testing.assert_allclose(same.weights, plain.weights, rtol=1e-12)
    np.testing.assert_allclose(same.totals, plain.totals, rtol=1e-12)


def test_objectives_of_whole_sessions_say_that_they_leave_weights_aside():
    data, log = random_log(np.random.default_rng(3), weighted=True)
    with pytest.warns(DataWarning, match="every click alike"):
        ClickSets.from_log(log, data, CURVE)
    with pytest.warns(DataWarning, match="unbiased_lambdamart counts every click alike"):
        ClickCounts(log, data)


def test_labels():
    data = RankingDataset(np.zeros((6, 1)), [0, 3, 4, 6], labels=[0, 2, 1, 3, 1, 1])
    plain = dense(PairSet.from_labels(data))
    np.testing.assert_array_equal(plain[0], [[0, 0, 0], [1, 0, 0], [1, 0, 0]])
    assert not plain[1].any()
    assert not plain[2].any()
    graded = PairSet.from_labels(data, graded=True, normalise="ndcg")
    best = 3 + 1 / math.log2(3)
    expected = np.array([[0, 0, 0], [3, 0, 2], [1, 0, 0]]) / best
    np.testing.assert_allclose(dense(graded)[0], expected)
    cut = PairSet.from_labels(data, graded=True, normalise="ndcg", truncation=1)
    np.testing.assert_allclose(dense(cut)[0], expected * best / 3)


def test_labels_as_a_weighting_leave_the_clicks_aside():
    data, log = random_log(np.random.default_rng(1))
    np.testing.assert_array_equal(
        PairSet.from_log(log, data, weighting="labels").weights, PairSet.from_labels(data).weights
    )


@settings(max_examples=20)
@given(rng=rngs)
def test_merge_adds_weights(rng):
    data, log = random_log(rng)
    parts = [PairSet.from_log(log, data, CURVE, "prs"), PairSet.from_labels(data)]
    merged = PairSet.merge(parts, [0.5, 3.0])
    expected = [0.5 * a + 3 * b for a, b in zip(*map(dense, parts), strict=True)]
    assert_same(dense(merged), expected)
    assert merged.diagnostics().pairs == sum(part.diagnostics().pairs for part in parts)


@pytest.mark.parametrize("scales", [(2.0, 3.0), (5.0, 0.1)])
def test_merged_totals_are_those_of_the_scaled_pairs(scales):
    data, log = random_log(np.random.default_rng(2), sessions=200)
    parts = [PairSet.from_log(log, data, CURVE, "ips"), PairSet.from_labels(data)]
    merged = PairSet.merge(parts, scales).totals
    one, other = (part.totals for part in parts)
    a, b = scales
    np.testing.assert_allclose(merged[:, PAIRS], one[:, PAIRS] + other[:, PAIRS])
    np.testing.assert_allclose(merged[:, SUM], a * one[:, SUM] + b * other[:, SUM])
    squares = a**2 * one[:, SQUARES] + b**2 * other[:, SQUARES]
    np.testing.assert_allclose(merged[:, SQUARES], squares)
    largest = np.maximum(a * one[:, LARGEST], b * other[:, LARGEST])
    np.testing.assert_allclose(merged[:, LARGEST], largest)


def test_merge_of_shards_equals_the_whole():
    data, log = random_log(np.random.default_rng(2), sessions=200)
    parts = []
    for keep in (np.arange(log.sessions) < 90, np.arange(log.sessions) >= 90):
        parts.append(
            ClickLog(
                log.query_ids,
                log.doc_offsets,
                log.doc_ids,
                log.ranking_query,
                log.ranking_offsets,
                log.ranking_docs,
                log.ranking_positions,
                log.session_ranking[keep],
                log.session_clicks[keep],
                log.clicks[np.repeat(keep, log.session_clicks)],
            )
        )
    merged = PairSet.merge([PairSet.from_log(p, data, CURVE, normalise="ndcg") for p in parts])
    whole = PairSet.from_log(log, data, CURVE, normalise="ndcg")
    np.testing.assert_allclose(merged.weights, whole.weights, rtol=1e-12)
    np.testing.assert_allclose(merged.totals, whole.totals, rtol=1e-12)


def test_single_precision_is_the_rounded_double():
    data, log = random_log(np.random.default_rng(2), sessions=200)
    single = PairSet.from_log(log, data, CURVE, dtype=np.float32)
    double = PairSet.from_log(log, data, CURVE)
    np.testing.assert_array_equal(single.weights, double.weights.astype(np.float32))
    assert double.astype(np.float32).weights.dtype == np.float32


def test_no_clicks_no_pairs():
    data, log = random_log(np.random.default_rng(0), clicks=0.0)
    pairs = PairSet.from_log(log, data, CURVE, normalise="ndcg")
    assert pairs.winners == len(pairs.weights) == pairs.diagnostics().pairs == 0
    loss, gradient = logistic_loss(np.zeros(data.docs), pairs)
    assert loss == 0
    assert not gradient.any()
    assert not LambdaObjective(pairs)(np.zeros(data.docs))[0].any()
    assert not ClickSetObjective(ClickSets.from_log(log, data, CURVE))(np.zeros(data.docs))[0].any()


def one_click(**changes):
    fields = {
        "query_ids": ["q"],
        "doc_offsets": [0, 3],
        "doc_ids": ["a", "b", "c"],
        "ranking_query": [0],
        "ranking_offsets": [0, 3],
        "ranking_docs": [2, 0, 1],
        "ranking_positions": [1, 2, 4],
        "session_ranking": [0],
        "session_clicks": [1],
        "clicks": [1],
    }
    return ClickLog(**(fields | changes))


DATA = RankingDataset(np.zeros((3, 1)), [0, 3], ["q"], doc_ids=["a", "b", "c"])


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (
            lambda: PairSet.from_log(one_click(), DATA, [1.0, 0.0, 0.5]),
            "query q, doc a: clicked at position 2, whose propensity is 0",
        ),
        (lambda: PairSet.from_log(one_click(), DATA, [1.0, 0.5, -1]), "position 4 is -1.0"),
        (lambda: PairSet.from_log(one_click(), DATA, [1.0, 0.5]), "3 shown docs"),
        (lambda: PairSet.from_log(one_click(), DATA), "the log has none"),
        (lambda: PairSet.from_log(one_click(), DATA, CURVE, "ips_oracle"), "no labels"),
        (lambda: PairSet.from_log(one_click(), DATA, CURVE, "labels"), "no labels"),
        (lambda: PairSet.from_log(one_click(), DATA, CURVE, context="x"), "'x' is not in the log"),
        (lambda: PairSet.from_log(one_click(), DATA, CURVE, normalise="map"), "normalise"),
        (lambda: PairSet.from_log(one_click(), DATA, CURVE, truncation=0), "truncation"),
        (lambda: PairSet.from_log(one_click(), DATA, CURVE, dtype=np.int32), "float32"),
        (
            lambda: PairSet.from_log(one_click(doc_ids=["a", "b", "z"]), DATA, CURVE),
            "doc z of query q is in the log but not in the data set",
        ),
        (lambda: ClickSets.from_labels(DATA), "no labels"),
        (lambda: PairSet.merge([]), "no sets"),
        (lambda: LambdaObjective(PairSet.from_log(one_click(), DATA, CURVE), metric="map"), "map"),
        (
            lambda: ClickSetObjective(ClickSets.from_log(one_click(), DATA, CURVE), metric="arp"),
            "arp",
        ),
    ],
)
def test_bad_input(call, match):
    with pytest.raises(InputError, match=match):
        call()


def test_merge_refuses_what_does_not_fit():
    pairs = PairSet.from_log(one_click(), DATA, CURVE)
    other = PairSet.from_labels(RankingDataset(np.zeros((2, 1)), [0, 2], labels=[0, 1]))
    with pytest.raises(InputError, match="same lists"):
        PairSet.merge([pairs, other])
    with pytest.raises(InputError, match="same normalisation"):
        PairSet.merge([pairs, PairSet.from_log(one_click(), DATA, CURVE, normalise="ndcg")])
    with pytest.raises(InputError, match="one finite weight"):
        PairSet.merge([pairs, pairs], [1.0])


def test_logged_propensities_and_unseen_docs():
    log = one_click(ranking_propensities=[0.0, 0.5, 0.25])
    pairs = PairSet.from_log(log, DATA)
    np.testing.assert_allclose(pairs.weights, [0, 0.5, 0])
    assert pairs.diagnostics().pairs == 1


def test_estimates_above_one_warn_once():
    with pytest.warns(DataWarning, match="above 1") as warned:
        PairSet.from_log(one_click(), DATA, [1.0, 0.5, 1.5])
    assert len(warned) == 1


def test_own_function():
    pairs = PairSet.from_log(one_click(), DATA, CURVE, lambda p_i, p_j: p_i * p_j)
    np.testing.assert_allclose(pairs.weights, [0, 0.5 * 0.25, 0.5])


def test_weights_that_overflow_what_rankers_hold_are_refused():
    data, log = random_log(np.random.default_rng(5))
    assert PairSet.from_log(log, data, CURVE, "ips").winners
    heavy = replace(log, click_weights=np.full(len(log.clicks), 1e38))
    with pytest.raises(
        InputError, match=r"add up to .*e\+\d+, and rankers hold numbers up to 3\.4e"
    ):
        PairSet.from_log(heavy, data, CURVE, "ips")
    theta = np.full(data.docs, 0.5)
    with pytest.raises(InputError, match="rankers hold numbers up to"):
        OuterPairs.from_relevance(data, theta, action_weights=np.full(data.docs, 1e39))
