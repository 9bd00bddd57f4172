"""Counterfactual estimates against enumeration, a plain loop over sessions and known truth."""

import itertools
import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.production import production_scores
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.dataset import RankingDataset
from prsrank.data.synthetic import synthetic_dataset
from prsrank.errors import DataWarning, InputError
from prsrank.evaluation.counterfactual import ClickStatistics, CounterfactualMetric
from prsrank.evaluation.rank_values import COUNTERFACTUAL_METRICS
from prsrank.logs.click_log import ClickLog
from prsrank.metrics import ranking
from prsrank.propensity.curve import PowerLaw, Propensities

sys.path.insert(0, str(Path(__file__).parent))
from estimates import evaluate_counterfactual

METRICS = ("dcg@2", "dcg", "wmrr", "arp", "arp_mean_rank")


def log_of(sessions, **columns):
    """Make a log of sessions (query, docs in order, positions, clicked docs)."""
    rows = [
        (query, number, doc, place, doc in clicked)
        for number, (query, docs, positions, clicked) in enumerate(sessions)
        for doc, place in zip(docs, positions, strict=True)
    ]
    names = ("query_id", "session_id", "doc_id", "position", "click")
    frame = {n: np.array(c) for n, c in zip(names, zip(*rows, strict=True), strict=True)}
    lengths = [len(docs) for _, docs, _, _ in sessions]
    for name, values in columns.items():
        frame[name] = np.repeat(np.array(values), lengths)
    return ClickLog.from_frame(frame, contexts=list(columns))


def lists_of(lengths, labels=None):
    docs = sum(lengths)
    return RankingDataset(
        np.zeros((docs, 1)), np.concatenate([[0], np.cumsum(lengths)]), labels=labels
    )


def rank_value(metric, rank, shown):
    name, _, cutoff = metric.partition("@")
    if cutoff and rank > int(cutoff):
        return 0.0
    return {
        "dcg": 1 / np.log2(1 + rank),
        "wmrr": 1 / rank,
        "arp": (rank - 1) / shown,
        "arp_mean_rank": rank,
    }[name]


def expected_value(metric, doc, docs, score):
    """Average over every order of the docs that the scores allow."""
    above = sum(score[d] > score[doc] for d in docs)
    tied = sum(score[d] == score[doc] for d in docs)
    ranks = range(above + 1, above + tied + 1)
    return np.mean([rank_value(metric, r, len(docs)) for r in ranks])


def plain_estimate(
    sessions, curve, score, metric, estimator="ips", tau=0.0, keep=lambda place: True
):
    """Loop over sessions and clicks; `score` is by (query, doc), None for the shown order."""
    total = weight = 0.0
    for query, docs, positions, clicked in sessions:
        for slot, (doc, place) in enumerate(zip(docs, positions, strict=True)):
            if doc not in clicked or not keep(place):
                continue
            w = 1 / max(curve(place), tau)
            if score is None:
                value = rank_value(metric, slot + 1, len(docs))
            else:
                value = expected_value(metric, doc, docs, score[query])
            total, weight = total + w * value, weight + w
    ratio = estimator == "snips" or metric in ("wmrr", "arp_mean_rank")
    return total / (weight if ratio else len(sessions))


@st.composite
def random_sessions(draw):
    lengths = draw(st.lists(st.integers(2, 6), min_size=1, max_size=3))
    sessions = []
    for _ in range(draw(st.integers(1, 12))):
        query = draw(st.integers(0, len(lengths) - 1))
        order = draw(st.permutations(range(lengths[query])))
        shown = order[: draw(st.integers(1, len(order)))]
        gaps = draw(st.lists(st.integers(1, 3), min_size=len(shown), max_size=len(shown)))
        clicked = draw(st.sets(st.sampled_from(shown)))
        sessions.append((query, shown, np.cumsum(gaps).tolist(), clicked))
    # one session that clicks and one that does not, so that the log can be used
    sessions.append((0, [0, 1], [1, 2], {draw(st.sampled_from([0, 1]))}))
    scores = [[draw(st.integers(0, 2)) for _ in range(n)] for n in lengths]
    return lengths, sessions, scores


@settings(max_examples=60)
@given(random_sessions(), st.sampled_from(METRICS), st.sampled_from(["ips", "snips", "clipped"]))
def test_folded_sessions_equal_a_loop_over_sessions(case, metric, estimator):
    tau = 0.2 if estimator == "clipped" else 0.0
    if metric in ("wmrr", "arp_mean_rank") and estimator == "ips":
        estimator = "snips"  # they are self-normalised by definition
    lengths, sessions, scores = case
    log, data = log_of(sessions), lists_of(lengths)
    flat = [s for row in scores for s in row]
    result = evaluate_counterfactual(
        log, data, PowerLaw(1.3), {"new": flat}, metrics=[metric], samples=100, tau=tau
    )
    ours = CounterfactualMetric(log, data, PowerLaw(1.3), metric=metric, tau=tau)

    def curve(place):
        return place**-1.3

    options = {"metric": metric, "estimator": estimator, "tau": tau}
    new = plain_estimate(sessions, curve, scores, **options)
    if estimator != "snips" or metric in ("wmrr", "arp_mean_rank"):
        assert ours(flat) == pytest.approx(new, rel=1e-12)
    value = {r: result.estimate(r, metric, estimator=estimator).value for r in ("new", "logged")}
    assert value["new"] == pytest.approx(new, rel=1e-12)
    logged = plain_estimate(sessions, curve, None, **options)
    assert value["logged"] == pytest.approx(logged, rel=1e-12)
    gain = result.difference("new", metric, estimator=estimator).difference
    assert gain == pytest.approx(new - logged, abs=1e-12)


@pytest.mark.parametrize("metric", ["dcg@2", "dcg", "arp"])
@pytest.mark.parametrize("noise", [0.0, 0.2])
@pytest.mark.parametrize("tau", [0.0, 0.4])
def test_the_expectation_of_ips_is_the_true_value(metric, noise, tau):
    """Enumerate all clicks of a list; a second list keeps a certain click, so no log is empty."""
    relevance, scores = [0, 1, 0, 1], [0.3, 0.3, 0.9, 0.1]
    p = np.array([1.0, 0.5, 0.4, 0.1])
    q = np.where(np.array(relevance) == 1, 1 - noise, noise)
    curve = Propensities(p, p, p, [0] * 4, "identified", "known")
    expected = 0.0
    for clicks in itertools.product([0, 1], repeat=4):
        chance = np.prod(np.where(clicks, p * q, 1 - p * q))
        sessions = [
            (0, range(4), [1, 2, 3, 4], set(np.flatnonzero(clicks))),
            (1, [0, 1], [1, 2], {0}),
        ]
        estimate = CounterfactualMetric(
            log_of(sessions), lists_of([4, 2]), curve, metric=metric, tau=tau
        )
        expected += chance * estimate([*scores, 2.0, 1.0])
    kept = q * p / np.maximum(p, tau)  # what a clip leaves of each doc's weight
    values = [expected_value(metric, doc, range(4), scores) for doc in range(4)]
    truth = (kept @ values + rank_value(metric, 1, 2)) / 2
    assert expected == pytest.approx(truth, rel=1e-12)
    if noise == tau == 0 and metric == "arp":
        assert 2 * truth == pytest.approx(ranking.arp(relevance, scores, [0, 4])[0])


def test_hand_computed():
    # position 2 has p = 1/2: doc 11's click weighs 2, doc 10's weighs 1
    log = log_of([(5, [10, 11, 12], [1, 2, 4], {11}), (5, [10, 11, 12], [1, 2, 4], {10})])
    scores = [1.0, 3.0, 2.0]  # new order 11, 12, 10
    result = evaluate_counterfactual(
        log,
        None,
        PowerLaw(1),
        {"new": scores},
        metrics=["dcg", "dcg@1", "wmrr", "arp"],
        samples=100,
    )
    value = {
        (e.metric, e.estimator, e.ranker): e.value for e in result.estimates if e.part == "all"
    }
    assert value["dcg", "ips", "new"] == pytest.approx((2 * 1 + 1 * 0.5) / 2)
    assert value["dcg", "ips", "logged"] == pytest.approx((2 / np.log2(3) + 1) / 2)
    assert value["dcg", "snips", "new"] == pytest.approx((2 * 1 + 1 * 0.5) / 3)
    assert value["dcg@1", "ips", "new"] == 1.0
    assert value["wmrr", "snips", "new"] == pytest.approx((2 * 1 + 1 / 3) / 3)
    assert value["arp", "ips", "new"] == pytest.approx((2 * 0 + 1 * 2 / 3) / 2)
    assert ("wmrr", "ips", "new") not in value  # it is self-normalised by definition
    all_clicks = result.diagnostics[0]
    assert (all_clicks.sessions, all_clicks.queries, all_clicks.clicks) == (2, 1, 2)
    assert all_clicks.effective_clicks == pytest.approx(3**2 / (2**2 + 1**2))
    assert all_clicks.largest_share == pytest.approx(2 / 3)


@pytest.fixture(scope="module")
def collection():
    data = synthetic_dataset("mq2007", 120, seed=3)
    new = production_scores(data, share=0.2, seed=1).scores
    old = production_scores(data, share=0.02, seed=2).scores
    return data, new, old


@pytest.fixture(scope="module")
def log(collection):
    data, _, old = collection
    return simulate_clicks(
        data, old, PositionBasedModel(eta=1, mu=0.0), sessions=2000, seed=4, randomised=0.2
    )


def test_many_sessions_come_near_the_truth(collection):
    data, new, old = collection
    model = PositionBasedModel(eta=1, mu=0.0)
    log = simulate_clicks(data, old, model, sessions=400_000, seed=5)
    rank = np.concatenate(
        [(-new[a:b]).argsort().argsort() + 1 for a, b in itertools.pairwise(data.offsets)]
    )
    relevance = data.relevance.astype(float)
    discounts = np.where(rank <= 10, 1 / np.log2(1 + rank), 0)
    truth = {
        "dcg@10": (relevance @ discounts) / data.lists,
        "wmrr": (relevance @ (1 / rank)) / relevance.sum(),
        "arp_mean_rank": (relevance @ rank) / relevance.sum(),
        "arp": np.nansum(ranking.arp(relevance, new, data.offsets)) / data.lists,
    }
    for metric, value in truth.items():
        estimate = CounterfactualMetric(log, data, PowerLaw(1), metric=metric)
        assert estimate(new) == pytest.approx(value, rel=0.02), metric
    naive = CounterfactualMetric(log, data, PowerLaw(0), metric="wmrr")
    assert naive(old) > 1.2 * CounterfactualMetric(log, data, PowerLaw(1), metric="wmrr")(old)


def test_wmrr_is_biased_in_small_logs_and_consistent():
    """One list: doc 0 relevant and always seen, doc 1 relevant and seen with p, doc 2 never."""
    p, truth = 0.3, (1 + 1 / 2) / 2
    curve = Propensities([1, p, 0], [1] * 3, [1] * 3, [0] * 3, "identified", "known")

    def expected(sessions):
        total = 0.0
        for seen in range(sessions + 1):
            clicks = [{0, 1}] * seen + [{0}] * (sessions - seen)
            log = log_of([(0, [0, 1, 2], [1, 2, 3], clicked) for clicked in clicks])
            chance = math.comb(sessions, seen) * p**seen * (1 - p) ** (sessions - seen)
            total += chance * CounterfactualMetric(log, None, curve, metric="wmrr")([3, 2, 1])
        return total

    errors = [abs(expected(n) - truth) for n in (1, 4, 16)]
    assert errors[0] > 0.01
    assert errors[0] > 2 * errors[1] > 4 * errors[2]


def test_equal_sets_of_docs_fold_into_one_pool_in_any_order(collection, log):
    data = collection[0]
    statistics = ClickStatistics.of_log(log, data, PowerLaw(1))
    clicked = np.unique(statistics.query)
    assert log.rankings > 2 * log.queries
    assert len(statistics.pools.offsets) - 1 == len(clicked)
    partial = log_of(
        [(0, [0, 1], [1, 2], {0}), (0, [1, 0], [1, 2], {0}), (0, [0, 2], [1, 2], {2}),
         (0, [2, 1, 0], [1, 2, 3], {1})]
    )  # fmt: skip
    pools = ClickStatistics.of_log(partial, None, PowerLaw(1)).pools
    assert sorted(np.diff(pools.offsets)) == [2, 2, 3]


def test_pools_with_many_clicked_docs():
    rng = np.random.default_rng(0)
    order = rng.permutation(700)
    log = log_of([(0, order, range(1, 701), set(range(0, 700, 2)))])
    scores = rng.integers(0, 90, 700) * 1.0
    pools = ClickStatistics.of_log(log, None, PowerLaw(0.1)).pools
    values = 1 / np.arange(1.0, 701)
    ours = pools.expected_values(values, scores)
    docs = pools.rows[pools.clicked]
    above = (scores[None, :] > scores[docs, None]).sum(axis=1)
    tied = (scores[None, :] == scores[docs, None]).sum(axis=1)
    expected = [values[a : a + t].mean() for a, t in zip(above, tied, strict=True)]
    np.testing.assert_allclose(ours, expected, rtol=1e-12)


def test_the_value_depends_neither_on_threads_nor_on_rows(collection, log):
    data, new, _ = collection
    metric = CounterfactualMetric(log, data, PowerLaw(1), metric="dcg@10")
    assert metric(new, threads=1) == metric(new, threads=3)
    order = np.random.default_rng(0).permutation(data.lists)
    moved = data.select(order)
    rows = np.concatenate([np.arange(data.offsets[q], data.offsets[q + 1]) for q in order])
    other = CounterfactualMetric(log, moved, PowerLaw(1), metric="dcg@10")
    assert other(new[rows]) == pytest.approx(metric(new), rel=1e-12)
    assert metric(np.zeros(data.docs)) == pytest.approx(metric(np.full(data.docs, 5.0)), rel=1e-15)
    assert metric.higher_is_better
    assert not CounterfactualMetric(log, data, PowerLaw(1), metric="arp").higher_is_better


def test_scores_per_doc_of_the_log(collection, log):
    data, new, _ = collection
    by_log = new[log.doc_rows(data)]
    ours = CounterfactualMetric(log, None, PowerLaw(1))(by_log)
    assert ours == pytest.approx(CounterfactualMetric(log, data, PowerLaw(1))(new), rel=1e-12)


def test_parts_add_up_and_wmrr_is_split(collection, log):
    data, new, _ = collection
    result = evaluate_counterfactual(log, data, PowerLaw(1), {"new": new}, samples=100)
    for metric in ("dcg@10", "arp"):
        parts = [
            result.estimate("new", metric, part=p).value
            for p in ("clicked at top", "clicked at others")
        ]
        assert sum(parts) == pytest.approx(result.estimate("new", metric).value)
    top, others, whole = (
        result.estimate("new", "wmrr", part=p).value
        for p in ("clicked at top", "clicked at others", "all")
    )
    assert min(top, others) < whole < max(top, others)
    assert result.estimate("logged", "wmrr", part="clicked at top").value == pytest.approx(1.0)
    clicks = [d.clicks for d in result.diagnostics]
    assert clicks[0] == clicks[1] + clicks[2] == len(log.clicks)


def test_parts_by_context_are_those_of_the_selected_sessions():
    rng = np.random.default_rng(1)
    sessions, devices = [], []
    for i in range(60):
        order = rng.permutation(5)
        sessions.append((i % 7, order, range(1, 6), set(order[: 1 + i % 2])))
        devices.append("phone" if rng.random() < 0.4 else "desk")
    log = log_of(sessions, device=devices)
    scores = rng.random(len(log.doc_ids))
    result = evaluate_counterfactual(
        log, None, PowerLaw(1), {"new": scores}, context="device", samples=100
    )
    context = log.contexts["device"]
    for code, value in enumerate(context.values):
        part = log.select(context.codes == code)
        names = {(q, d): s for q, d, s in zip(_queries(log), log.doc_ids, scores, strict=True)}
        own = [names[q, d] for q, d in zip(_queries(part), part.doc_ids, strict=True)]
        for metric in ("dcg@10", "wmrr", "arp"):
            alone = CounterfactualMetric(part, None, PowerLaw(1), metric=metric)(own)
            found = result.estimate("new", metric, part=f"device={value}")
            assert found.value == pytest.approx(alone)
    with pytest.raises(InputError, match="it has: device"):
        evaluate_counterfactual(log, None, PowerLaw(1), {"new": scores}, context="country")


def _queries(log):
    return np.repeat(log.query_ids, np.diff(log.doc_offsets))


def test_propensities_of_a_context():
    sessions = [(0, [0, 1], [1, 2], {1}), (0, [0, 1], [1, 2], {1}), (0, [0, 1], [1, 2], {0})]
    log = log_of(sessions, device=["phone", "desk", "desk"])
    flat = {"low": [1, 1], "high": [1, 1], "clicks": [0, 0], "verdict": "", "method": ""}
    curve = Propensities([1, 0.5], **flat, contexts={"phone": Propensities([1, 0.1], **flat)})
    metric = CounterfactualMetric(log, None, curve, metric="dcg@1", context="device")
    assert metric([0.0, 1.0]) == pytest.approx((1 / 0.1 + 1 / 0.5) / 3)
    assert metric([1.0, 0.0]) == pytest.approx(1 / 3)


def test_logged_propensities_are_used_when_none_are_given():
    frame = {
        "query_id": [1, 1], "session_id": [1, 1], "doc_id": [1, 2], "position": [1, 2],
        "click": [False, True], "propensity": [0.9, 0.2],
    }  # fmt: skip
    log = ClickLog.from_frame({name: np.array(v) for name, v in frame.items()})
    assert CounterfactualMetric(log, None, metric="dcg@1")([0.0, 1.0]) == pytest.approx(5.0)


def test_a_factor_of_all_propensities_cancels_where_it_should(collection, log):
    data, new, _ = collection
    p = PowerLaw(1).at(log.ranking_positions)
    one, half = (
        evaluate_counterfactual(log, data, f * p, {"new": new}, samples=100) for f in (1, 0.5)
    )
    for metric in ("dcg@10", "arp"):
        a, b = one.estimate("new", metric), half.estimate("new", metric)
        assert b.value == pytest.approx(2 * a.value)
        a, b = (r.estimate("new", metric, estimator="snips") for r in (one, half))
        assert (a.value, a.low, a.high) == pytest.approx((b.value, b.low, b.high))
        gains = [
            r.difference("new", metric, estimator=e).relative
            for r in (one, half)
            for e in ("ips", "snips")
        ]
        assert gains == pytest.approx([gains[0]] * 4)


def test_comparisons(collection, log):
    data, new, old = collection
    plain = simulate_clicks(data, old, PositionBasedModel(1, 0.0), sessions=2000, seed=1)
    result = evaluate_counterfactual(
        plain, data, PowerLaw(1), {"new": new, "old": old}, against=["logged", "new"], samples=200
    )
    same = result.difference("old", "dcg@10")
    assert (same.difference, same.low, same.high, same.p_value) == (0, 0, 0, 1)
    for metric in ("dcg@10", "wmrr", "arp"):
        gain, loss = (
            result.difference("new", metric),
            result.difference("old", metric, against="new"),
        )
        assert gain.difference == pytest.approx(-loss.difference)
        assert (gain.low, gain.p_value) == pytest.approx((-loss.high, loss.p_value))
        assert (gain.p_value < 0.05) == (not gain.low <= 0 <= gain.high)
    with pytest.raises(InputError, match="not compared"):
        result.difference("new", "dcg@10", against="new")
    again = evaluate_counterfactual(plain, data, PowerLaw(1), {"new": new}, samples=200)
    one, other = again.difference("new", "arp"), result.difference("new", "arp")
    assert (one.difference, one.low, one.high, one.p_value) == pytest.approx(
        (other.difference, other.low, other.high, other.p_value), rel=1e-12
    )


def test_json(collection, log):
    data, new, _ = collection
    result = evaluate_counterfactual(log, data, PowerLaw(1), {"new": new}, samples=100)
    read = json.loads(json.dumps(result.to_json_dict(), allow_nan=False))
    assert read["samples"] == 100
    assert read["estimates"][0]["ranker"] == "logged"
    assert read["diagnostics"][0]["warnings"] == []
    single = log_of([(0, [0, 1], [1, 2], {1})])
    lonely = evaluate_counterfactual(single, None, PowerLaw(1), {"new": [0, 1]}, samples=100)
    read = json.loads(json.dumps(lonely.to_json_dict(), allow_nan=False))
    assert read["estimates"][0]["low"] is None
    assert lonely.estimate("new", "dcg@10", part="clicked at top").value == 0
    assert np.isnan(lonely.estimate("new", "wmrr", part="clicked at top").value)


def test_warnings_where_the_weights_cannot_bear_it(collection):
    data, new, old = collection
    model = PositionBasedModel(eta=2.5, mu=0.0)
    log = simulate_clicks(data, old, model, sessions=3000, seed=1)
    steep = evaluate_counterfactual(log, data, PowerLaw(2.5), {"new": new}, samples=100)
    text = " ".join(steep.warnings)
    assert "of equal weight" in text
    assert "consider a clip" in text
    cut = simulate_clicks(data, old, PositionBasedModel(1, 0.0, cutoff=5), sessions=3000, seed=1)
    shallow = evaluate_counterfactual(cut, data, PowerLaw(1), {"new": new}, samples=100)
    assert any("re-ordering the shown docs" in w for w in shallow.warnings)
    assert shallow.diagnostics[0].shown_share == pytest.approx(
        len(cut.ranking_docs[:5]) * cut.sessions
        / np.diff(cut.doc_offsets)[cut.ranking_query[cut.session_ranking]].sum(), rel=0.01
    )  # fmt: skip
    few = log_of([(q, [0, 1], [1, 2], {q % 2}) for q in range(10)] * 30)
    lonely = evaluate_counterfactual(few, None, PowerLaw(0), {"n": np.arange(20)}, samples=100)
    assert any("10 queries" in w for w in lonely.warnings)
    unseen = Propensities([1, 0.5, 0], [1] * 3, [1] * 3, [0] * 3, "", "")
    three = log_of([(q, [0, 1, 2], [1, 2, 3], {q % 2}) for q in range(200)])
    blind = evaluate_counterfactual(three, None, unseen, {"n": np.arange(600)}, samples=100)
    assert any("33.3% of the shown docs have propensity 0" in w for w in blind.warnings)


def test_bad_input(collection, log):
    data, new, _ = collection
    with pytest.raises(InputError, match="query 1 is in the log but not in the data set"):
        CounterfactualMetric(log, data.select(np.arange(1, data.lists)), PowerLaw(1))
    zero = np.ones(len(log.ranking_docs))
    zero[log.ranking_positions == 1] = 0.0
    with pytest.raises(InputError, match="clicked at position 1, whose propensity is 0"):
        CounterfactualMetric(log, data, zero)
    with pytest.raises(InputError, match="needs propensities"):
        CounterfactualMetric(log, data)
    with pytest.warns(DataWarning, match="above 1") as found:
        CounterfactualMetric(log, data, np.full(len(log.ranking_docs), 1.5))
    assert len(found) == 1
    quiet = log_of([(0, [0, 1], [1, 2], {0}), (0, [0, 1], [1, 2], set())]).select([1])
    with pytest.raises(InputError, match="no clicks in 1 sessions"):
        CounterfactualMetric(quiet, None, PowerLaw(1))
    metric = CounterfactualMetric(log, data, PowerLaw(1))
    for scores, message in (
        (new[:-1], "scores have shape"),
        (np.where(np.arange(data.docs) == 7, np.nan, new), "the score of doc 7 is NaN"),
        (["a"] * data.docs, "must be numbers"),
    ):
        with pytest.raises(InputError, match=message):
            metric(scores)
    for options, message in (
        ({"metric": "ndcg@10"}, "did you mean 'dcg'"),
        ({"metric": "dcg@0"}, "cut-off must be"),
        ({"metric": "arp@3"}, "takes no cut-off"),
        ({"tau": -1.0}, "tau must be finite"),
        ({"context": "device"}, "is not in the log"),
    ):
        with pytest.raises(InputError, match=message):
            CounterfactualMetric(log, data, PowerLaw(1), **options)
    for rankers, options, message in (
        ({"logged": new}, {}, "call the ranker otherwise"),
        ({"new": new}, {"against": "other"}, "no ranker 'other'"),
        ({"new": new}, {"samples": 3}, "samples must be at least 100"),
        ({"new": new}, {"confidence": 1.0}, "confidence must be between"),
    ):
        with pytest.raises(InputError, match=message):
            evaluate_counterfactual(log, data, PowerLaw(1), rankers, **options)


def coverage(logs, lists, sessions):
    """Return how often intervals hold the truth of a fixed ranker, with fresh lists each time."""
    population = synthetic_dataset("mq2007", (logs + 60) * lists, seed=0)
    trained = population.select(np.arange(60 * lists))
    new = production_scores(trained, share=0.1, seed=1).score(population.features)
    old = production_scores(trained, share=0.01, seed=2).score(population.features)
    relevance = population.relevance.astype(float)

    def truth(scores):
        ideal = ranking.ndcg(relevance, scores, population.offsets, k=10, gain="linear")
        counts = np.add.reduceat(relevance, population.offsets[:-1]).astype(int)
        sums = np.concatenate([[0], np.cumsum(1 / np.log2(np.arange(2, 12)))])
        return np.mean(np.nan_to_num(ideal) * sums[np.minimum(counts, 10)])

    true_new, true_old = truth(new), truth(old)
    covered = np.zeros(2)
    for number in range(logs):
        chosen = np.arange((60 + number) * lists, (61 + number) * lists)
        rows = slice(population.offsets[chosen[0]], population.offsets[chosen[-1] + 1])
        data = population.select(chosen)
        log = simulate_clicks(
            data, old[rows], PositionBasedModel(1, 0.0), sessions=sessions, seed=number
        )
        result = evaluate_counterfactual(
            log, data, PowerLaw(1), {"new": new[rows]}, metrics=["dcg@10"]
        )
        value, gain = result.estimate("new", "dcg@10"), result.difference("new", "dcg@10")
        covered += [
            value.low <= true_new <= value.high,
            gain.low <= true_new - true_old <= gain.high,
        ]
    return covered / logs


def test_intervals_cover_the_truth():
    value, gain = coverage(logs=30, lists=40, sessions=150)
    assert value >= 0.8
    assert gain >= 0.8


@pytest.mark.slow
@pytest.mark.parametrize(("lists", "sessions"), [(100, 300), (200, 2000)])
def test_intervals_cover_the_truth_as_promised(lists, sessions):
    value, gain = coverage(logs=100, lists=lists, sessions=sessions)
    assert 0.90 <= value <= 0.99
    assert 0.88 <= gain <= 1.0


def test_every_metric_is_tested():
    assert {m.partition("@")[0] for m in METRICS} == set(COUNTERFACTUAL_METRICS)


@pytest.mark.parametrize("tau", [0.0, 0.4])
def test_clicks_count_by_their_weights(tau):
    rng = np.random.default_rng(5)
    sessions = [
        (q, list(rng.permutation(4)), [1, 2, 3, 4], list(np.flatnonzero(rng.random(4) < 0.5)))
        for q in rng.integers(0, 6, 80)
    ]
    log = log_of(sessions)
    weights = rng.choice([1.0, 3.0, 0.5], len(log.clicks))
    weighted = replace(log, click_weights=weights)
    score = rng.normal(size=(6, 4))
    value, total, click = 0.0, 0.0, 0
    for query, docs, positions, clicked in sessions:
        for doc, place in zip(docs, positions, strict=True):
            if doc in clicked:
                w = weights[click] / max(1 / place, tau)
                value += w * expected_value("dcg@2", doc, docs, score[query])
                total += w
                click += 1
    assert np.array_equal(log.query_ids, np.arange(6))
    options = {"metric": "dcg@2", "tau": tau}
    ips = CounterfactualMetric(weighted, None, PowerLaw(1), **options)
    assert ips(score.ravel()) == pytest.approx(value / len(sessions))
    found = evaluate_counterfactual(
        weighted, None, PowerLaw(1), {"new": score.ravel()}, metrics=["dcg@2"], tau=tau
    )
    clipped = found.estimate("new", "dcg@2", estimator="clipped" if tau else "ips")
    assert clipped.value == pytest.approx(value / len(sessions))
    whole = found.diagnostics[0]
    assert whole.clicks == click
    free = (weights / PowerLaw(1).at(_clicked_positions(log))).sum()
    assert whole.cut_weight == pytest.approx(1 - total / free, abs=1e-12)


def _clicked_positions(log):
    slots = np.repeat(log.ranking_offsets[log.session_ranking], log.session_clicks) + log.clicks
    return log.ranking_positions[slots]
