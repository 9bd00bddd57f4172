from dataclasses import replace

import numpy as np
import pytest

from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.dataset import RankingDataset
from prsrank.data.synthetic import synthetic_dataset
from prsrank.logs.click_log import ClickLog
from prsrank.propensity.cells import Cells, count_cells
from prsrank.propensity.counted_clicks import CountedClicks, count_clicks
from prsrank.propensity.curve import PowerLaw, Propensities


@pytest.fixture(scope="module")
def lists() -> RankingDataset:
    return synthetic_dataset("mq2007", 12)


@pytest.fixture(scope="module")
def log(lists: RankingDataset) -> ClickLog:
    scores = [lists.features[:, 0], lists.features[:, 1]]
    return simulate_clicks(lists, scores, PositionBasedModel(eta=1), clicks=600, seed=3)


def brute_force(log: ClickLog, lists: RankingDataset) -> dict[tuple[int, int], list[int]]:
    counts: dict[tuple[int, int], list[int]] = {}
    rows, click = log.doc_rows(lists), 0
    for session in range(log.sessions):
        ranking = log.session_ranking[session]
        clicked = set(log.clicks[click : click + log.session_clicks[session]].tolist())
        click += log.session_clicks[session]
        begin, end = log.ranking_offsets[ranking : ranking + 2]
        for index, slot in enumerate(range(begin, end)):
            key = int(rows[log.ranking_docs[slot]]), int(log.ranking_positions[slot])
            count = counts.setdefault(key, [0, 0])
            count[0] += 1
            count[1] += index in clicked
    return counts


def as_dict(cells: Cells) -> dict[tuple[int, int], list[int]]:
    rows = zip(cells.cell_docs, cells.positions, cells.shown, cells.clicked, strict=True)
    return {(int(d), int(k)): [int(n), int(c)] for d, k, n, c in rows}


def test_counts_are_those_of_single_sessions(log: ClickLog, lists: RankingDataset) -> None:
    assert as_dict(count_cells(log, lists)) == brute_force(log, lists)


@pytest.mark.parametrize("logged", [False, True])
def test_pieces_of_a_log_are_the_whole(log: ClickLog, lists: RankingDataset, logged: bool) -> None:
    log = replace(log, ranking_propensities=log.ranking_positions**-0.5)
    curve = None if logged else PowerLaw(0.5)
    third = (log.ranking_query % 3)[log.session_ranking]
    pieces = [count_clicks(log.select(third == i), lists, curve) for i in (2, 0, 1)]
    whole, merged = (
        CountedClicks.of_log(log, lists, curve),
        CountedClicks.of_columns(lists, pieces),
    )
    for name in ("offsets", "positions", "shown", "clicked", "query_key", "doc_key"):
        np.testing.assert_array_equal(getattr(merged.cells, name), getattr(whole.cells, name))
    np.testing.assert_array_equal(merged.propensity, whole.propensity)


def test_propensities_by_curve_and_by_slot_say_the_same(
    log: ClickLog, lists: RankingDataset
) -> None:
    by_curve = CountedClicks.of_log(log, lists, PowerLaw(0.7))
    by_slot = CountedClicks.of_log(log, lists, log.ranking_positions**-0.7)
    theta = np.linspace(0.1, 0.9, lists.docs)
    np.testing.assert_allclose(
        by_curve.evidence().log_likelihood(theta), by_slot.evidence().log_likelihood(theta)
    )
    assert np.array_equal(np.sort(by_curve.cells.positions), np.sort(by_slot.cells.positions))


def test_contexts_have_curves_of_their_own(lists: RankingDataset) -> None:
    frame = {
        "query_id": np.repeat(lists.query_ids[:1], 4),
        "session_id": np.array([1, 1, 2, 2]),
        "doc_id": lists.doc_names[[0, 1, 0, 1]],
        "position": np.array([1, 2, 1, 2]),
        "click": np.array([True, False, False, True]),
        "device": np.array(["phone", "phone", "desk", "desk"]),
    }
    log = ClickLog.from_frame(frame, contexts=["device"])

    def curve(p: float) -> Propensities:
        return Propensities([1, p], [1, p], [1, p], [0, 0], "given", "known")

    shared = Propensities(
        [1, 0.5],
        [1, 0.5],
        [1, 0.5],
        [0, 0],
        "given",
        "known",
        contexts={"phone": curve(0.2), "desk": curve(0.8)},
    )
    counted = CountedClicks.of_log(log, lists, shared, context="device")
    assert sorted(counted.propensity.tolist()) == [0.2, 0.8, 1.0, 1.0]
    clicked_at_two = (counted.cells.positions == 2) & (counted.cells.clicked > 0)
    assert counted.propensity[clicked_at_two].tolist() == [0.8]


def test_a_power_tempers_the_curve(log: ClickLog, lists: RankingDataset) -> None:
    counted = CountedClicks.of_log(log, lists, PowerLaw(1.0))
    np.testing.assert_allclose(counted.evidence(power=0.5).gain, counted.cells.positions**-0.5)
