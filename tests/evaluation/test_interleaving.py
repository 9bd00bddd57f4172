import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom, ttest_1samp

from prsrank.errors import InputError
from prsrank.evaluation.interleaving import compare_credit, draft_by_coins, team_draft

sys.path.insert(0, str(Path(__file__).parent))
from simulated_users import World, interleaved, make_world


def draft_as_published(production, new, coins):
    """Radlinski, Kurup and Joachims (2008), algorithm 2, on one list; coins by position."""
    rows, teams = [], []
    while len(rows) < len(production):
        picks = teams.count(True) - teams.count(False)
        mine = picks < 0 or (picks == 0 and coins[len(rows)])
        rows.append(next(row for row in (new if mine else production) if row not in rows))
        teams.append(mine)
    return rows, teams


def test_drafts_are_those_of_the_paper():
    rng = np.random.default_rng(0)
    lengths = [1, 4, 0, 7]
    offsets = np.cumsum([0, *lengths])
    for _ in range(50):
        orders = [
            np.concatenate([a + rng.permutation(n) for a, n in zip(offsets, lengths, strict=False)])
            for _ in range(2)
        ]
        coins = rng.random(offsets[-1]) < 0.5
        draft = draft_by_coins(*orders, offsets, coins)
        for first, end in pairwise(offsets):
            part = slice(first, end)
            expected = draft_as_published(orders[0][part], orders[1][part], coins[part])
            assert (draft.rows[part].tolist(), draft.new[part].tolist()) == expected


def test_lists_come_from_scores_and_a_seed():
    scores = np.array([0.1, 0.9, 0.5, 2.0, 1.0])
    one, same = (team_draft(scores, -scores, [0, 3, 5], seed=3) for _ in range(2))
    assert one.rows.tolist() == same.rows.tolist()
    for row, new in zip(one.rows[[0, 3]], one.new[[0, 3]], strict=True):
        assert row in ({0, 4} if new else {1, 3})
    with pytest.raises(InputError, match="5 docs need a number each"):
        team_draft(scores[:4], scores[:4], [0, 3, 5])
    with pytest.raises(InputError, match="number each"):
        team_draft(scores, scores * np.nan, [0, 3, 5])


def test_intervals_are_those_of_scipy():
    rng = np.random.default_rng(1)
    one, other = rng.poisson(1.0, 60), rng.poisson(1.4, 60)
    by_session = ttest_1samp(other - one, 0)
    found = compare_credit(one, other, confidence=0.9)
    assert found.p_value == pytest.approx(by_session.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(by_session.confidence_interval(0.9)))
    # queries with 5 sessions each: a t-test over the queries' means
    by_query = ttest_1samp((other - one).reshape(12, 5).mean(axis=1), 0)
    found = compare_credit(one, other, queries=np.repeat(np.arange(12), 5), by="query")
    assert found.queries == 12
    assert found.p_value == pytest.approx(by_query.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(by_query.confidence_interval(0.95)))


def test_verdicts():
    none, some = np.zeros(40), np.tile([0, 1], 20)
    assert compare_credit(none, some).verdict == "better"
    assert compare_credit(some, none).verdict == "worse"
    same = compare_credit(none, none)
    assert (same.verdict, same.p_value, same.to_json_dict()["share"]) == ("no-difference", 1, None)
    assert compare_credit(some, some + some).share == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"new": [1.0]}, "for each session"),
        ({"by": "user"}, "session or query"),
        ({"by": "query"}, "which query"),
        ({"by": "query", "queries": [1, 1, 1]}, "at least 2 queries"),
        ({"confidence": 1}, "confidence"),
        ({"new": [], "production": []}, "at least 2 sessions"),
    ],
)
def test_bad_credit(changes, message):
    with pytest.raises(InputError, match=message):
        compare_credit(**{"production": [0, 1, 0], "new": [1, 1, 0], **changes})


def rejections(world, order, *, runs, sessions, seed):
    """Return in how many of the runs a difference is found, and the mean difference."""
    one, other = (
        c.reshape(runs, sessions) for c in interleaved(world, order, runs * sessions, seed).credit
    )
    found = [compare_credit(a, b).verdict for a, b in zip(one, other, strict=True)]
    return found, (other - one).mean()


def swapped_roles(queries=40, docs=5):
    """Return a world in which two different rankers are equally good, and the second's order."""
    half = make_world(queries=queries // 2, docs=docs)
    order = half.better_order(0.1)
    # the other half: production shows what the new ranker did, and the other way round
    relevance = np.concatenate([half.relevance, np.take_along_axis(half.relevance, order, 1)])
    return World(relevance, half.p), np.concatenate([order, np.argsort(order, axis=1)])


@pytest.mark.parametrize("which", ["the same", "as good"])
def test_equal_rankers_give_5_percent_of_false_alarms(which):
    world, order = swapped_roles()
    if which == "the same":
        order = np.tile(np.arange(order.shape[1]), (len(order), 1))
    runs = 400
    found, _ = rejections(world, order, runs=runs, sessions=300, seed=2)
    alarms = runs - found.count("no-difference")
    assert binom.ppf(0.001, runs, 0.05) <= alarms <= binom.ppf(0.999, runs, 0.05)


def test_the_better_ranker_is_found_whichever_it_is():
    world = make_world(queries=40, docs=5)
    order = world.better_order(0.08)
    found, _ = rejections(world, order, runs=20, sessions=3000, seed=3)
    assert found == ["better"] * 20
    worse = World(np.take_along_axis(world.relevance, order, 1), world.p)
    found, _ = rejections(worse, np.argsort(order, axis=1), runs=20, sessions=3000, seed=4)
    assert found == ["worse"] * 20


def test_position_bias_favours_no_team():
    # equally relevant docs, a steep curve, opposite orders: only luck can tell the teams apart
    world = World(np.full((10, 5), 0.5), np.arange(1, 6) ** -2.0)
    order = np.tile(np.arange(5)[::-1], (10, 1))
    sessions = interleaved(world, order, 200_000, seed=5)
    one, other = sessions.credit
    assert abs(compare_credit(one, other).difference) < 4 * (other - one).std() / np.sqrt(200_000)
    # each team has each position equally often
    assert sessions.new.mean(axis=0) == pytest.approx(np.full(5, 0.5), abs=0.006)
