"""When clicks are taken for those of users who read from the top."""

from dataclasses import replace

import numpy as np
import pytest

from prsrank.clicks.cascade import CascadeModel, fit_cascade
from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.dataset import RankingDataset
from prsrank.pairs.click_sets import (
    DEPENDENT,
    WORSE,
    clicks_may_be_a_cascade,
    compared,
    slot_propensities,
)
from prsrank.pairs.doc_clicks import DocClicks
from prsrank.propensity.curve import PowerLaw
from prsrank.relevance.dependence import dependence_of_clicks, dependence_statistic
from prsrank.relevance.linear_prior import LinearPrior
from prsrank.relevance.prior import cross_fitted_prior, cross_fitting

PRIOR = LinearPrior(l2=(10.0,))


@pytest.fixture(scope="module")
def lists():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(800, 2)).astype(np.float32)
    labels = rng.random(800) < 1 / (1 + np.exp(1.5 - 2 * x[:, 0]))
    return RankingDataset(x, np.arange(0, 801, 8), labels=labels)


def clicks_of(lists, model):
    log = simulate_clicks(lists, lists.features[:, 0], model, sessions=4000, seed=1)
    return DocClicks.of([log], lists, PowerLaw(1.0)), dependence_of_clicks(log, lists)


@pytest.mark.parametrize(
    ("model", "cascade"), [(PositionBasedModel(eta=1), False), (CascadeModel(mu=0.1), True)]
)
def test_only_clicks_that_depend_on_one_another_may_be_a_cascade_s(lists, model, cascade):
    clicks, by_list = clicks_of(lists, model)
    choice = clicks_may_be_a_cascade(by_list, clicks.sessions.sum(), clicks.with_click)
    assert choice.dependence == dependence_statistic(by_list)
    assert (choice.dependence > DEPENDENT) == choice.cascade == cascade


def test_a_cascade_that_is_much_the_worse_at_the_clicks_is_not_chosen(lists):
    clicks, by_list = clicks_of(lists, CascadeModel(mu=0.1))
    choice, reading = clicks_may_be_a_cascade(by_list, 4000, clicks.with_click), clicks.reading()
    fit = cross_fitting(lists, float(reading.with_clicks.sum()), PRIOR)
    cascade = fit_cascade(reading, lists.docs, fit)
    prior = cross_fitted_prior(lists, clicks.counted.evidence(), PRIOR)
    other = prior, slot_propensities(reading, clicks.counted)
    found = compared(choice, cascade, reading, lists, other)
    assert found.cascade
    assert found.advantage > 0
    # so much less likely in every list that chance cannot have done it
    less = cascade.prior.log_likelihood - 1.0
    worse = replace(cascade, prior=replace(cascade.prior, log_likelihood=less))
    found = compared(choice, worse, reading, lists, other)
    assert found.advantage < WORSE
    assert not found.cascade
