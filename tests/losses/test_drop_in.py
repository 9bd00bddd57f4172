import catboost
import lightgbm
import numpy as np
import pytest
import xgboost
from scipy.stats import spearmanr

from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.production import logging_part, production_scores
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.synthetic import synthetic_dataset
from prsrank.errors import InputError
from prsrank.losses.drop_in import prs_objective
from prsrank.pairs.pair_set import PairSet
from prsrank.propensity.curve import PowerLaw
from prsrank.rankers.lambdamart import LambdaMART, ndcg_of


@pytest.fixture(scope="module")
def lists():
    return synthetic_dataset("mq2007", 150, seed=2).select(np.arange(100))


@pytest.fixture(scope="module")
def held_out():
    return synthetic_dataset("mq2007", 150, seed=2).select(np.arange(100, 150))


@pytest.fixture(scope="module")
def clicked(lists):
    part, scores = logging_part(lists, [production_scores(lists, share=0.02)])
    return part, simulate_clicks(part, scores, PositionBasedModel(), clicks=20_000)


def test_lightgbm_with_our_objective_is_lambdamart(clicked):
    part, log = clicked
    ranker = LambdaMART(trees=10, threads=1)
    pairs = ranker.pairs(log, part, PowerLaw(1.0))
    booster = lightgbm.train(
        ranker._options() | {"objective": prs_objective(pairs)},
        lightgbm.Dataset(part.features),
        num_boost_round=10,
    )
    expected = ranker.fit(part, pairs).score(part.features)
    assert np.allclose(booster.predict(part.features), expected)


def test_xgboost_learns_from_our_objective(clicked, held_out):
    part, log = clicked
    pairs = LambdaMART().pairs(log, part, PowerLaw(1.0))
    booster = xgboost.train(
        {"max_depth": 5, "eta": 0.1, "min_child_weight": 1e-3},
        xgboost.DMatrix(part.features),
        num_boost_round=50,
        obj=prs_objective(pairs),
    )
    ours = LambdaMART(trees=50, learning_rate=0.1).fit(part, pairs)
    quality = ndcg_of(held_out)
    theirs = quality(booster.predict(xgboost.DMatrix(held_out.features)))
    assert theirs == pytest.approx(quality(ours.score(held_out.features)), abs=0.05)


@pytest.mark.parametrize(
    "wrapper",
    [
        lambda objective: lightgbm.LGBMRanker(objective=objective, n_estimators=2, verbose=-1),
        lambda objective: lightgbm.LGBMRegressor(objective=objective, n_estimators=2, verbose=-1),
        lambda objective: xgboost.XGBRegressor(objective=objective, n_estimators=2),
    ],
)
def test_wrappers_that_swap_the_arguments_are_refused(clicked, wrapper):
    part, log = clicked
    model = wrapper(prs_objective(LambdaMART().pairs(log, part, PowerLaw(1.0))))
    groups = {"group": part.list_lengths} if isinstance(model, lightgbm.LGBMRanker) else {}
    with pytest.raises(InputError, match=r"given \(labels, scores\).*use lightgbm.train or xgb"):
        model.fit(part.features, part.labels, **groups)


def test_scores_of_other_rows_are_refused(clicked):
    part, log = clicked
    objective = prs_objective(LambdaMART().pairs(log, part, PowerLaw(1.0)))
    with pytest.raises(InputError, match=f"{part.docs}"):
        objective(np.zeros(part.docs - 1), None)


def test_catboost_pairs_are_the_pairs(clicked):
    part, log = clicked
    pairs = PairSet.from_log(log, part, PowerLaw(1.0), "prs")
    rows, weights = pairs.to_catboost()
    assert (weights > 0).all()
    assert weights.sum() == pytest.approx(pairs.weights.sum())
    winner = 5
    begin = part.offsets[pairs.winner_list[winner]]
    mine = rows[:, 0] == begin + pairs.winner_row[winner]
    dense = np.zeros(part.list_lengths[pairs.winner_list[winner]])
    dense[rows[mine, 1] - begin] = weights[mine]
    assert np.array_equal(dense, pairs.row(winner))


def test_catboost_pair_logit_ranks_a_hold_out_like_ours(clicked, held_out):
    part, log = clicked
    rows, weights = PairSet.from_log(log, part, PowerLaw(1.0), "prs").to_catboost()
    pool = catboost.Pool(
        part.features,
        group_id=np.repeat(np.arange(part.lists), part.list_lengths),
        pairs=rows,
        pairs_weight=weights,
    )
    model = catboost.CatBoostRanker(
        loss_function="PairLogit",
        iterations=150,
        depth=5,
        learning_rate=0.1,
        verbose=0,
        allow_writing_files=False,
    )
    theirs = model.fit(pool).predict(held_out.features)
    ranker = LambdaMART(trees=150, learning_rate=0.1)
    ours = ranker.fit(part, ranker.pairs(log, part, PowerLaw(1.0))).score(held_out.features)
    quality = ndcg_of(held_out)
    assert quality(theirs) == pytest.approx(quality(ours), abs=0.05)
    bounds = zip(held_out.offsets, held_out.offsets[1:], strict=False)
    agreement = [spearmanr(theirs[a:b], ours[a:b]).statistic for a, b in bounds]
    assert np.mean(agreement) > 0.7
