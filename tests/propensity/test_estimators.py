import tracemalloc
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.synthetic import synthetic_dataset
from prsrank.errors import InputError
from prsrank.evaluation.query_bootstrap import CurveDoubt
from prsrank.logs.pieces import LocalPieces
from prsrank.propensity.curve import MOST_POSITIONS, Propensities, covering
from prsrank.propensity.curve_of import KnownPropensity
from prsrank.propensity.estimators import ESTIMATORS, estimator

TRUTH = np.array([1, 0.6, 0.4, 0.3])


# the estimator "likelihood" tells nothing without features: see test_tempering.py
@pytest.mark.parametrize("name", [n for n in ESTIMATORS if n != "likelihood"])
def test_what_all_estimators_share(simulated_log, name):
    swaps = [(1, 2), (2, 3), (3, 4)] if name == "swap" else []
    log = simulated_log(
        TRUTH,
        sessions=20_000,
        rankers=3,
        design="uniform" if name == "randomised" else "",
        swaps=swaps,
    )
    one, two = (estimator(name).estimate(log, seed=7) for _ in range(2))
    assert one.positions == log.max_position == 4
    assert one.propensity[0] == one.low[0] == one.high[0] == 1
    assert (one.low <= one.propensity).all()
    assert (one.propensity <= one.high).all()
    assert one.to_json_dict() == two.to_json_dict()
    assert one.verdict.split(":")[0] in ("identified", "weak", "not identified")
    if name != "known":
        # clicks behind a position are clicks of the log
        assert (one.clicks[1:] > 0).all()
        assert (one.clicks <= log.position_counts()[1]).all()
        other = estimator(name).estimate(log, seed=8)
        assert other.propensity.tolist() == one.propensity.tolist()
        # intervals of an unshaped curve are analytic
        assert other.low.tolist() == one.low.tolist()
    # curves are found again by the name of their method: each form has its own
    assert one.method == estimator(name).method == name
    with pytest.raises((FrozenInstanceError, TypeError)):
        ESTIMATORS[name].positions = 3


def test_unknown_method():
    with pytest.raises(InputError, match="there is no propensity method 'guess'; there are: known"):
        estimator("guess")


def test_known_curves(simulated_log):
    log = simulated_log(TRUTH, sessions=50)
    given = KnownPropensity(eta=2).estimate(log)
    assert given.propensity.tolist() == given.low.tolist() == [1, 1 / 4, 1 / 9, 1 / 16]
    assert given.verdict == "identified"
    with pytest.raises(InputError, match="eta must be finite"):
        KnownPropensity(eta=-1)


@pytest.mark.parametrize(
    "name", ["randomised", "swap", "harvest", "harvest-chain", "regression-em"]
)
def test_a_log_in_pieces_has_the_curve_of_the_whole(name):
    """Curves, intervals and fits to a shape do not depend on how a log is cut by queries."""
    data = synthetic_dataset("mq2007", 60, seed=2)
    rng = np.random.default_rng(0)
    scores = [rng.normal(size=data.docs) + data.labels for _ in range(2)]
    designs = {"swap": "adjacent"}
    log = simulate_clicks(
        data, scores, PositionBasedModel(), clicks=4000, seed=1, randomised=0.4,
        design=designs.get(name, "uniform"),
    )  # fmt: skip
    log = replace(log, session_ids=np.arange(log.sessions))
    third = np.arange(log.queries) % 3
    pieces = [log.select(third[log.ranking_query][log.session_ranking] == n) for n in range(3)]
    chosen = replace(ESTIMATORS[name], shape="monotone")
    whole = chosen.estimate(log, seed=4)
    cut = chosen.estimate_pieces(LocalPieces(pieces), seed=4)
    assert cut.verdict == whole.verdict
    assert cut.method == whole.method == name
    for field in ("propensity", "low", "high", "clicks", "covariance"):
        one, other = getattr(cut, field), getattr(whole, field)
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("method", ["harvest", "harvest-chain", "regression-em", "known"])
def test_one_doc_at_position_a_million_takes_no_square_of_it(method, simulated_log):
    log = simulated_log(np.array([1, 0.5, 0.25]), queries=9, sessions=800, rankers=3)
    deep = log.ranking_positions.copy()
    deep[-1] = 1_000_000
    tracemalloc.start()
    curve = estimator(method).estimate(replace(log, ranking_positions=deep))
    covered = covering(curve, 1_000_000)
    assert CurveDoubt.of_curve(covered).depth <= MOST_POSITIONS
    assert tracemalloc.get_traced_memory()[1] < 1.5e9
    tracemalloc.stop()
    assert covered.at([1_000_000]) > 0
    assert curve.positions == (1_000_000 if method == "known" else MOST_POSITIONS)


def test_errors_are_known_of_the_first_positions():
    p = np.full(MOST_POSITIONS + 5, 0.5)
    p[0] = 1
    curve = Propensities(p, p / 2, p * 2, np.full(len(p), 99), "identified", "swap")
    doubt = CurveDoubt.of_curve(covering(curve, len(p) + 7))
    assert doubt.factors[0].shape == (MOST_POSITIONS, MOST_POSITIONS)
    assert curve.log_covariance[7, 7] == pytest.approx((np.log(4) / 3.92) ** 2)
