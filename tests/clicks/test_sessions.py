"""The kernels that draw sessions, against their definition in plain Python."""

import numpy as np
import pytest

from prsrank.clicks import stream
from prsrank.clicks.independent_sessions import draw_independent_kernel
from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.randomise import Design
from prsrank.clicks.sessions import draw_kernel, draw_sessions
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


def drawn(kernel, plan, sessions):
    codes, counts = np.empty(sessions, np.int32), np.empty(sessions, np.int32)
    clicks = np.empty(sessions * 300, np.int32)
    done, used = kernel(0, sessions, plan, codes, counts, clicks)
    assert done == sessions
    return codes, counts, clicks[:used]


def definition(plan, sessions):
    """Walk every session slot by slot."""
    codes, counts, clicks = [], [], []
    for session in range(sessions):
        state = stream.next_state(np.uint64(stream.stream_start(plan.key, session)))
        base = int(stream.uniform(np.uint64(state)) * (len(plan.offsets) - 1))
        start = plan.offsets[base]
        shown = min(plan.offsets[base + 1] - start, plan.cutoff)
        found, passed, slot = [], 0.0, 0
        state = stream.next_state(np.uint64(state))
        wait = -np.log(stream.uniform(np.uint64(state)))
        for slot in range(shown):
            passed += plan.events.hazard[plan.relevance[start + slot], slot]
            if passed > wait:
                found.append(slot)
                state = stream.next_state(np.uint64(state))
                wait = passed - np.log(stream.uniform(np.uint64(state)))
        codes.append(base)
        counts.append(len(found))
        clicks.extend(found)
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
def test_both_kernels_draw_what_the_definition_says(model, lengths):
    plan = make_plan(model, lengths)
    assert plan.events.only_clicks
    expected = definition(plan, 1000)
    for kernel in (draw_kernel, draw_independent_kernel):
        for got, wanted in zip(drawn(kernel, plan, 1000), expected, strict=True):
            np.testing.assert_array_equal(got, wanted)


def test_blocks_that_overflow_their_room_are_continued():
    plan = make_plan(PositionBasedModel(eta=0, mu=0.1), [120, 80], relevant=0.9)
    expected = drawn(draw_kernel, plan, 500)
    assert len(expected[2]) > 500 * 50
    for got, wanted in zip(draw_sessions(plan, 0, 500), expected, strict=True):
        np.testing.assert_array_equal(got, wanted)
