"""Sums of a window against the same counted row by row."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import pearsonr, spearmanr

from prsrank import ClickLog, PositionBasedModel, simulate_clicks, synthetic_dataset
from prsrank.monitor.windows import DEPTH, WindowSums, feature_edges, impressions_of


@pytest.fixture(scope="module")
def lists():
    return synthetic_dataset("mq2007", 12, seed=4)


@pytest.fixture(scope="module")
def scores(lists):
    return np.random.default_rng(2).normal(size=lists.docs)


@pytest.fixture(scope="module")
def log(lists):
    made = simulate_clicks(
        lists, lists.features[:, 0], PositionBasedModel(eta=0.7), sessions=300, randomised=0.3
    )
    frame = made.to_frame()
    # a position lost here, the first two there
    frame = frame[~((frame.session_id % 7 == 0) & (frame.position == 3))]
    return ClickLog.from_frame(frame[~((frame.session_id % 11 == 0) & (frame.position < 3))])


@pytest.fixture(scope="module")
def edges(lists, log):
    shown = impressions_of(log, lists)
    return {
        name: feature_edges(lists.features[:, i].astype(float), shown)
        for i, name in enumerate(lists.feature_names[:4])
    }


@pytest.fixture(scope="module")
def sums(log, lists, scores, edges):
    return WindowSums.of(log, lists, scores, edges)


def events(log, lists, scores):
    frame = log.to_frame()
    rows = dict(
        zip(
            zip(np.repeat(lists.query_ids, lists.list_lengths), lists.doc_names, strict=True),
            range(lists.docs),
            strict=True,
        )
    )
    keys = zip(frame.query_id, frame.doc_id, strict=True)
    frame["row"] = [rows[key] for key in keys]
    frame["score"] = scores[frame.row]
    return frame


def test_counts_are_those_of_the_rows(log, lists, scores, sums):
    frame = events(log, lists, scores)
    sessions = frame.groupby(["query_id", "session_id"])
    length, clicks = sessions.size(), sessions.click.sum()
    reach = sessions.position.max() - sessions.position.min() + 1
    totals = {
        "sessions": len(length),
        "docs": len(frame),
        "clicks": frame.click.sum(),
        "randomised": (sessions.randomised.first() != "").sum(),
        "gaps": (reach > length).sum(),
        "late": (sessions.position.min() > 1).sum(),
        "greedy": (clicks >= np.maximum(3, length / 2)).sum(),
        "depth": np.log(frame.position[frame.click > 0]).sum(),
    }
    for name, expected in totals.items():
        assert sums.column(name).sum() == pytest.approx(expected), name
    assert totals["gaps"] > 0 < totals["late"]


def test_sums_are_by_query(log, lists, scores, sums):
    by_query = events(log, lists, scores).groupby("query_id").click.sum()
    assert sorted(sums.column("clicks")) == sorted(by_query)


def test_docs_are_counted_by_position(log, lists, scores, sums):
    frame = events(log, lists, scores)
    shown, clicked = (sums.block(name).sum(axis=0) for name in ("shown", "clicked"))
    assert shown[DEPTH] == (frame.position > DEPTH).sum()
    assert clicked[0] == frame.click[frame.position == 1].sum()


def test_features_are_spread_as_impressions_are(log, lists, scores, sums, edges):
    frame = events(log, lists, scores)
    for index, (name, ends) in enumerate(edges.items()):
        values = lists.features[frame.row, index]
        found = sums.feature_shares()[name]
        assert [one.value for one in found[:-1]] == pytest.approx(
            [(values <= end).mean() for end in ends]
        )
        assert found[-1].value == 0


def test_the_order_is_compared_by_session(log, lists, scores, sums, edges):
    frame = events(log, lists, scores)
    ordinary = frame[frame.randomised == ""]
    tau, by_feature = [], []
    for _, one in ordinary.groupby(["query_id", "session_id"]):
        tau.append(spearmanr(one.position, -one.score).statistic)
        values = lists.features[one.row, 0]
        by_feature.append(pearsonr(one.position.rank(), values).statistic if np.ptp(values) else 0)
    assert sums.ratio("order", "ordinary").value == pytest.approx(np.mean(tau))
    assert sums.feature_orders()[lists.feature_names[0]].value == pytest.approx(np.mean(by_feature))


def test_pieces_add_up(log, lists, scores, edges, sums):
    first = np.isin(log.ranking_query[log.session_ranking], np.arange(5))
    parts = [WindowSums.of(log.select(m), lists, scores, edges) for m in (first, ~first)]
    both = parts[0] + parts[1]
    assert both.units.keys.tolist() == sums.units.keys.tolist()
    assert both.columns == sums.columns
    np.testing.assert_allclose(both.units.values, sums.units.values, atol=1e-12)


def test_missing_values_are_counted_apart(log, lists, scores, edges):
    from dataclasses import replace

    features = lists.features.copy()
    features[:, 0] = np.nan
    found = WindowSums.of(log, replace(lists, features=features), scores, edges)
    shares = found.feature_shares()[lists.feature_names[0]]
    assert [one.value for one in shares] == [0.0] * (len(shares) - 1) + [1.0]


def test_edges_are_deciles_of_impressions():
    rng = np.random.default_rng(1)
    values, weight = rng.normal(size=500), rng.integers(0, 5, 500).astype(float)
    repeated = np.repeat(values, weight.astype(int))
    expected = pd.Series(repeated).quantile(np.arange(1, 10) / 10, interpolation="lower")
    assert feature_edges(values, weight) == pytest.approx(expected.to_numpy(), abs=0.05)
    assert feature_edges(np.full(9, np.nan), np.ones(9)).tolist() == []
    assert feature_edges(np.ones(9), np.ones(9)).tolist() == [1.0]
