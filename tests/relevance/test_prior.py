from dataclasses import replace

import numpy as np
import pytest

from prsrank.clicks.evidence import ClickEvidence
from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.propensity.counted_clicks import CountedClicks
from prsrank.propensity.curve import PowerLaw
from prsrank.relevance.linear_prior import LinearPrior
from prsrank.relevance.prior import (
    FITS,
    PRIORS,
    cross_fitted_prior,
    find_prior,
    query_parts,
    sampled_queries,
)


@pytest.fixture(scope="module")
def lists() -> RankingDataset:
    """Lists whose relevance follows from the first of five features."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2400, 5)).astype(np.float32)
    labels = rng.random(2400) < 1 / (1 + np.exp(1 - 2 * x[:, 0]))
    ids = np.array([f"q{i}" for i in range(200)])
    return RankingDataset(x, np.arange(0, 2401, 12), query_ids=ids, labels=labels)


def evidence_of(lists: RankingDataset, clicks: int = 3000) -> ClickEvidence:
    scores = lists.features[:, 0] + 2 * np.random.default_rng(1).normal(size=lists.docs)
    log = simulate_clicks(lists, scores, PositionBasedModel(eta=1, mu=0.1), clicks=clicks)
    return CountedClicks.of_log(log, lists, PowerLaw(1.0)).evidence()


@pytest.fixture(scope="module")
def evidence(lists: RankingDataset) -> ClickEvidence:
    return evidence_of(lists)


@pytest.mark.parametrize("name", list(PRIORS))
def test_the_prior_finds_what_the_features_say(
    lists: RankingDataset, evidence: ClickEvidence, name: str
) -> None:
    found = cross_fitted_prior(lists, evidence, PRIORS[name])
    chance = 1 / (1 + np.exp(1 - 2 * lists.features[:, 0]))
    expected = 0.1 + 0.8 * chance  # P(click given seen), over the label
    assert np.corrcoef(found.q, expected)[0, 1] > 0.9
    assert found.q.mean() == pytest.approx(expected.mean(), abs=0.06)
    constant = evidence.log_likelihood(np.full(lists.docs, evidence.base_rate()))
    assert found.log_likelihood.sum() > constant.sum() + 50


@pytest.mark.parametrize("name", list(PRIORS))
def test_a_docs_own_query_is_left_out(
    lists: RankingDataset, evidence: ClickEvidence, name: str
) -> None:
    # turning round every click of one part must leave the prior of that part as it is
    part = np.repeat(query_parts(lists.query_ids, 5), lists.list_lengths)
    mine = (part == 2)[evidence.cell_docs]
    turned = replace(
        evidence, clicked=np.where(mine, evidence.shown - evidence.clicked, evidence.clicked)
    )
    model = PRIORS[name]
    # a fixed number of steps: which of them is kept is for the part left out to say
    fixed = (
        replace(model, l2=(30.0,))
        if isinstance(model, LinearPrior)
        else replace(model, trees=1, patience=1, least_clicks=1e-3)
    )
    one, two = (cross_fitted_prior(lists, e, fixed, fits=1).logit for e in (evidence, turned))
    np.testing.assert_allclose(one[part == 2], two[part == 2], atol=1e-6)
    assert len(np.unique(one[part == 2])) > 1
    assert not np.allclose(one[part != 2], two[part != 2])


@pytest.mark.parametrize("name", list(PRIORS))
def test_clicks_of_one_query_hardly_move_its_own_prior(lists: RankingDataset, name: str) -> None:
    """Few clicks: those of one query chose how long its part learned, and now all parts' do."""
    evidence, model = evidence_of(lists, 600), PRIORS[name]
    part = np.repeat(query_parts(lists.query_ids, 5), lists.list_lengths)
    before = cross_fitted_prior(lists, evidence, model, fits=1).q
    moves = []
    for query in range(12):
        own = slice(lists.offsets[query], lists.offsets[query + 1])
        cells = np.flatnonzero(np.isin(evidence.cell_docs, np.arange(lists.docs)[own]))
        clicked = evidence.clicked.copy()
        clicked[cells] = np.minimum(clicked[cells][::-1], evidence.shown[cells])
        permuted = replace(evidence, clicked=clicked)
        after = cross_fitted_prior(lists, permuted, model, fits=1).q
        moves.append(np.abs(after - before)[part == part[own.start]].mean())
    assert np.mean(moves) < 0.011  # .016 (trees) and .007 (linear) where each part chose


@pytest.mark.parametrize("name", list(PRIORS))
def test_a_prior_of_few_clicks_is_the_mean_of_cross_fits_by_other_parts(
    lists: RankingDataset, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    evidence = evidence_of(lists, 600)
    model = replace(find_prior(name), **({"trees": 5} if name == "trees" else {"l2": (30.0,)}))
    mean = cross_fitted_prior(lists, evidence, model)
    three = cross_fitted_prior(lists, evidence, model, fits=FITS)
    one = cross_fitted_prior(lists, evidence, model, fits=1)
    np.testing.assert_array_equal(mean.logit, three.logit)
    np.testing.assert_allclose(mean.log_likelihood, evidence.log_likelihood(mean.q))
    if name == "linear":  # whose only chance is the parts
        seeds = [1000 * number for number in range(FITS)]
        each = [cross_fitted_prior(lists, evidence, model, fits=1, seed=s).logit for s in seeds]
        np.testing.assert_allclose(mean.logit, np.mean(each, axis=0))
    assert mean.log_likelihood.sum() > one.log_likelihood.sum()
    monkeypatch.setattr("prsrank.relevance.prior.FEW", 599)
    many = cross_fitted_prior(lists, evidence, model)
    np.testing.assert_array_equal(many.logit, one.logit)


@pytest.mark.parametrize("name", list(PRIORS))
def test_seed_and_threads(lists: RankingDataset, evidence: ClickEvidence, name: str) -> None:
    model = PRIORS[name]
    one, two = (cross_fitted_prior(lists, evidence, model, threads=t).logit for t in (1, 2))
    np.testing.assert_allclose(one, two, rtol=0, atol=0 if name == "trees" else 1e-9)
    other = cross_fitted_prior(lists, evidence, model, seed=1).logit
    assert not np.array_equal(one, other)


def test_parts_do_not_depend_on_the_other_queries() -> None:
    ids = np.array([f"query {i}" for i in range(500)])
    whole = query_parts(ids, 5, seed=3)
    order = np.random.default_rng(0).permutation(500)[:100]
    assert np.array_equal(query_parts(ids[order], 5, seed=3), whole[order])
    assert np.bincount(whole).min() > 60
    assert np.array_equal(query_parts(np.arange(9), 5), query_parts(np.arange(9).astype(str), 5))


def test_fewer_clicks_give_a_flatter_prior(lists: RankingDataset) -> None:
    few = cross_fitted_prior(lists, evidence_of(lists, 60), PRIORS["linear"])
    many = cross_fitted_prior(lists, evidence_of(lists, 20_000), PRIORS["linear"])
    assert few.q.std() < many.q.std()


def test_missing_features_are_allowed(lists: RankingDataset, evidence: ClickEvidence) -> None:
    features = lists.features.copy()
    features[::7, 1] = np.nan
    with_gaps = replace(lists, features=features)
    for model in PRIORS.values():
        assert np.isfinite(cross_fitted_prior(with_gaps, evidence, model).logit).all()


def test_bad_settings(lists: RankingDataset, evidence: ClickEvidence) -> None:
    with pytest.raises(InputError, match="there are: trees, linear"):
        find_prior("tree")
    with pytest.raises(InputError, match="falling"):
        LinearPrior(l2=(1.0, 2.0))
    with pytest.raises(InputError, match="no clicks"):
        cross_fitted_prior(
            lists, replace(evidence, clicked=np.zeros_like(evidence.clicked)), PRIORS["linear"]
        )


def test_trees_of_a_large_log_learn_from_some_of_its_queries(
    lists: RankingDataset, evidence: ClickEvidence, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = PRIORS["trees"]
    every = cross_fitted_prior(lists, evidence, model)
    assert not every.saturated
    monkeypatch.setattr("prsrank.relevance.tree_prior.MOST_DOCS", lists.docs / 2)
    few_clicks = cross_fitted_prior(lists, evidence, model)
    np.testing.assert_array_equal(few_clicks.logit, every.logit)
    monkeypatch.setattr("prsrank.relevance.tree_prior.MOST_CLICKS", 1000)
    some = cross_fitted_prior(lists, evidence, model)
    assert some.saturated
    # those that no tree learned from are told by the trees of their part all the same
    used = np.repeat(sampled_queries(lists.query_ids, 0.5), lists.list_lengths)
    assert 0.4 < used.mean() < 0.6
    for docs in (used, ~used):
        assert np.corrcoef(some.q[docs], every.q[docs])[0, 1] > 0.9
    turned = replace(
        evidence,
        clicked=np.where(~used[evidence.cell_docs], evidence.shown, 0) * 1.0
        + np.where(used[evidence.cell_docs], evidence.clicked, 0),
    )
    np.testing.assert_array_equal(cross_fitted_prior(lists, turned, model).logit, some.logit)


@pytest.mark.parametrize("most", [10**9, 1000])
def test_trees_tell_other_lists_by_parts_that_their_query_is_not_in(
    lists: RankingDataset, evidence: ClickEvidence, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prsrank.relevance.tree_prior.MOST_DOCS", most)
    monkeypatch.setattr("prsrank.relevance.tree_prior.MOST_CLICKS", most)
    found = cross_fitted_prior(lists, evidence, PRIORS["trees"])
    assert found.predict is not None
    np.testing.assert_allclose(found.predict(lists), found.logit, atol=1e-12)
    half = lists.select(np.arange(lists.lists) % 2 == 0)
    docs = np.repeat(np.arange(lists.lists) % 2 == 0, lists.list_lengths)
    np.testing.assert_allclose(found.predict(half), found.logit[docs], atol=1e-12)
