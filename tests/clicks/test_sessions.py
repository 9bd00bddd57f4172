"""The kernel that draws sessions, against its definition in plain Python."""

from types import SimpleNamespace

import numpy as np
import pytest

from prsrank.clicks import stream
from prsrank.clicks.models import WalkTables, marginal_clicks
from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.sessions import draw_sessions
from prsrank.clicks.simulate import Design, plan_sessions, simulate_clicks
from prsrank.clicks.trust import TrustBiasModel
from prsrank.data.dataset import RankingDataset


def make_plan(model, lengths, relevant=0.3):
    rng = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    labels = rng.random(offsets[-1]) < relevant
    data = RankingDataset(np.zeros((offsets[-1], 1)), offsets, labels=labels)
    scores = rng.normal(size=(2, offsets[-1]))
    return plan_sessions(data, scores, offsets, model, Design(), 0)


def definition(plan, sessions):
    """Compare sums of hazards over the slots with sums of waits."""
    bases, counts, clicks = [], [], []
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
        bases.append(base)
        counts.append(len(clicked))
        clicks.extend(clicked)
    return bases, np.zeros(sessions), counts, clicks


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
    *_, counts, clicks = draw_sessions(plan, 0, 500)
    assert set(counts.tolist()) == {120}
    np.testing.assert_array_equal(clicks, np.tile(np.arange(120), 500))


@pytest.mark.parametrize("shares", [[1.0], [0.3, 0.7]])
def test_users_of_several_states_click_as_their_tables_say(shares):
    """A kind of user drawn for a session, and a state that every click leads to."""
    depth, states = 4, len(shares) + 1
    click = np.random.default_rng(1).uniform(0.1, 0.9, (states, 2, depth))
    stop = np.random.default_rng(2).uniform(0, 0.5, (2, states, 2, depth))
    tables = WalkTables.of(
        click,
        stop_after_click=stop[0],
        stop_after_skip=stop[1],
        start=[*shares, 0.0],
        after_click=np.full((states, depth), states - 1),
    )
    model = SimpleNamespace(cutoff=None, tables=lambda _: tables)
    relevance = np.array([1, 0, 0, 1])
    data = RankingDataset(np.eye(depth), [0, depth], labels=relevance)
    log = simulate_clicks(data, -np.arange(depth), model, sessions=100_000)

    def clicked_at(slot, state, at=0):
        """Return P(a click at the slot) of a user who reaches another one, by all ways there."""
        r = relevance[at]
        p = click[state, r, at]
        if at == slot:
            return p
        after_click = p * (1 - stop[0, state, r, at]) * clicked_at(slot, states - 1, at + 1)
        return after_click + (1 - p) * (1 - stop[1, state, r, at]) * clicked_at(slot, state, at + 1)

    expected = [
        sum(share * clicked_at(slot, state) for state, share in enumerate(shares))
        for slot in range(depth)
    ]
    chances = marginal_clicks(tables, relevance, np.arange(1, depth + 1))
    np.testing.assert_allclose(chances, expected)
    rates = np.bincount(log.clicks, minlength=depth) / log.sessions
    np.testing.assert_allclose(rates, expected, atol=4.5 * np.sqrt(0.25 / log.sessions))
