"""Click rates that rise over queries, or only seem to."""

import numpy as np

from prsrank.audit.chance_checks import _SPREAD, check_click_rates
from prsrank.audit.event_tables import open_tables
from prsrank.logs.event_source import open_frame


def rates_found(events):
    with (
        open_frame(events) as source,
        open_tables(source, contexts=(), features=(), base=1) as tables,
    ):
        return [finding.code for finding in check_click_rates(tables)]


def test_good_docs_of_few_queries_are_no_rise(simulate):
    """One ranking a query: below a bad doc may stand a good one, in all its sessions."""
    warned = naive = 0
    for seed in range(20):
        events = simulate(queries=4, rankers=1, sessions=2500, seed=seed)
        shown = np.bincount(events["position"])[1:]
        rate = np.bincount(events["position"], events["click"])[1:] / shown
        deviation = np.sqrt(2 * rate[:-1] * (1 - rate[:-1]) / shown[0])
        naive += (np.diff(rate) > np.maximum(4 * deviation, 0.2 * rate[:-1])).any()
        warned += "ctr-rises" in rates_found(events)
    assert naive >= 5  # rows as if they were independent
    assert warned <= 1


def test_a_rise_is_found_in_a_log_of_many_queries(simulate):
    """Position 3 seen a third as often as it should be."""
    events = simulate(queries=200, rankers=1, sessions=4000)
    kept = np.random.default_rng(0).random(len(events["click"])) < 1 / 3
    assert rates_found(events) == []
    click = np.where((events["position"] == 3) & ~kept, 0, events["click"])
    assert rates_found(events | {"click": click}) == ["ctr-rises"]


def test_the_spread_of_click_rates_is_that_of_the_queries(simulate):
    events = simulate(queries=30, sessions=400, seed=2)
    kept = (events["position"] != 4) & ((events["position"] < 7) | (events["query_id"] % 3 > 0))
    events = {name: values[kept] for name, values in events.items()}
    places, place = np.unique(events["position"], return_inverse=True)
    shown, clicked = np.zeros((2, 30, len(places)))
    np.add.at(shown, (events["query_id"], place), 1)
    np.add.at(clicked, (events["query_id"], place), events["click"])
    moves = (clicked - shown * clicked.sum(axis=0) / shown.sum(axis=0)) / shown.sum(axis=0)
    with (
        open_frame(events) as source,
        open_tables(source, contexts=(), features=(), base=1) as tables,
    ):
        found = {
            k: (queries, square, product) for k, queries, square, product in tables.rows(_SPREAD)
        }
    assert sorted(found) == places.tolist()
    queries, square, product = np.array([found[k] for k in places]).T
    np.testing.assert_allclose(queries, shown.sum(axis=0) ** 2 / (shown**2).sum(axis=0))
    variance = square[1:] + square[:-1] - 2 * product[1:]
    np.testing.assert_allclose(variance, (np.diff(moves, axis=1) ** 2).sum(axis=0))


def test_one_query_shows_no_rise():
    events = {
        "query_id": np.zeros(4000, int), "session_id": np.repeat(np.arange(1000), 4),
        "doc_id": np.tile(np.arange(4), 1000), "position": np.tile(np.arange(1, 5), 1000),
    }  # fmt: skip
    click = events["session_id"] % 10 < events["position"]  # 10, 20, 30 and 40 % of the sessions
    assert rates_found(events | {"click": click}) == []
    queries = events["session_id"] // 10 % 20
    assert rates_found(events | {"click": click, "query_id": queries}) == ["ctr-rises"]


def test_weights_of_clicks_are_told(audited):
    click = np.tile([1, 0, 0, 1], 50)
    events = {
        "query_id": np.zeros(200, int),
        "session_id": np.repeat(np.arange(50), 4),
        "doc_id": np.tile(np.arange(4), 50),
        "position": np.tile(np.arange(1, 5), 50),
        "click": click,
    }

    def found(weight):
        return {f.code: f for f in audited(events | {"weight": weight}).findings}

    note = found(np.where(np.arange(200) % 8 == 0, 2.5, 1.0))["clicks-weighted"]
    assert (note.severity, note.count) == ("note", 100)
    assert note.what == "clicks count by their weight, from 1 to 2.5"
    assert "clicks-weighted" not in found(np.ones(200))
    assert "clicks-weighted" not in found(click.astype(float))  # 0 where there is no click
    error = found(np.where(np.arange(200) == 3, -1.0, 1.0))["weight-invalid"]
    assert (error.severity, error.count, error.of) == ("error", 1, 200)
    assert error.where == "doc 3 of session 0 of query 0"
