"""The kernel that draws sessions, against its definition in plain Python."""

import numpy as np
import pytest

from prsrank.clicks import stream
from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.randomise import Design
from prsrank.clicks.sessions import draw_sessions
from prsrank.clicks.simulate import _plan
from prsrank.clicks.trust import TrustBiasModel
from prsrank.data.dataset import RankingDataset


def make_plan(model, lengths, relevant=0.3):
    rng = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    labels = rng.random(offsets[-1]) < relevant
    data = RankingDataset(np.zeros((offsets[-1], 1)), offsets, labels=labels)
    scores = rng.normal(size=(2, offsets[-1]))
    return _plan(data, scores, offsets, model, Design(), 0, 1)


def definition(plan, sessions):
    """Compare sums of hazards over the slots with sums of waits."""
    codes, counts, clicks = [], [], []
    for session in range(sessions):
        state = stream.next_state(np.uint64(stream.stream_start(plan.key, session)))
        base = int(stream.uniform(np.uint64(state)) * (len(plan.offsets) - 1))
        start = plan.offsets[base]
        shown = min(plan.offsets[base + 1] - start, plan.cutoff)
        clicked, passed = [], 0.0
        state = stream.next_state(np.uint64(state))
        wait = -np.log(stream.uniform(np.uint64(state)))
        for slot in range(shown):
            passed += plan.hazard[plan.relevance[start + slot], slot]
            if passed > wait:
                clicked.append(slot)
                state = stream.next_state(np.uint64(state))
                wait = passed - np.log(stream.uniform(np.uint64(state)))
        codes.append(base)
        counts.append(len(clicked))
        clicks.extend(clicked)
    return codes, counts, clicks


@pytest.mark.parametrize(
    ("model", "lengths"),
    [
        (PositionBasedModel(), [1, 2, 3, 7, 40, 130]),
        (PositionBasedModel(mu=0), [5, 17, 60]),
        (PositionBasedModel(eta=0, mu=0), [5, 17, 60]),
        (PositionBasedModel(eta=0, mu=0.3), [1, 250]),
        (PositionBasedModel(eta=0.2, cutoff=6), [3, 6, 90]),
        (TrustBiasModel(trust=1), [1, 4, 33]),
    ],
)
def test_the_kernel_draws_what_the_definition_says(model, lengths):
    plan = make_plan(model, lengths)
    for got, wanted in zip(draw_sessions(plan, 0, 1000), definition(plan, 1000), strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_there_is_room_for_a_click_on_every_doc():
    plan = make_plan(PositionBasedModel(eta=0, mu=0), [120], relevant=1)
    _, counts, clicks = draw_sessions(plan, 0, 500)
    assert set(counts.tolist()) == {120}
    np.testing.assert_array_equal(clicks, np.tile(np.arange(120), 500))
