"""The formulas against enumeration of every observation and click of tiny lists."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prsrank import theory
from prsrank.errors import InputError
from prsrank.weighting import find_weighting

FREE = {"gamma": math.inf}


def lists(least=2, most=5, lowest=0.05):
    return st.integers(least, most).flatmap(
        lambda n: st.tuples(
            st.lists(st.floats(lowest, 1.0), min_size=n, max_size=n).map(np.array),
            st.lists(st.integers(0, 1), min_size=n, max_size=n).map(np.array),
            st.integers(0, 2**32).map(lambda s: np.random.default_rng(s).uniform(0.1, 2, (n, n))),
        )
    )


def outcomes(p, q):
    """Every (observed, clicked) and its probability, by the definition of the click model."""
    n = len(p)
    for observed in itertools.product((0, 1), repeat=n):
        for noise in itertools.product((0, 1), repeat=n):
            chance = 1.0
            for i in range(n):
                chance *= p[i] if observed[i] else 1 - p[i]
                chance *= q[i] if noise[i] else 1 - q[i]
            yield observed, [o and z for o, z in zip(observed, noise, strict=True)], chance


def weight(rule, p, relevance, i, j):
    keywords = {"relevance": relevance[j]} if rule.takes_relevance else {}
    return float(rule(p[i], p[j], **keywords))


def compared(rule, clicks, relevance, i, j):
    if i == j or not clicks[i]:
        return False
    if rule.against == "others":
        return True
    return not relevance[j] if rule.against == "irrelevant" else not clicks[j]


def expected_weights_by_enumeration(rule, p, q, relevance):
    n = len(p)
    total = np.zeros((n, n))
    for _, clicks, chance in outcomes(p, q):
        for i, j in itertools.product(range(n), repeat=2):
            if compared(rule, clicks, relevance, i, j):
                total[i, j] += chance * weight(rule, p, relevance, i, j)
    return total


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("naive", {}),
        ("ips", {}),
        ("ips", {"tau": 0.4}),
        ("pns", {}),
        ("prs", {}),
        ("prs", {"gamma": 3.0}),
        ("prs", {"gamma": math.inf, "tau": 0.3}),
        ("ips_all", {}),
        ("ips_oracle", {}),
        ("pns_oracle", {"noise": 0.2}),
    ],
)
@settings(max_examples=8, deadline=None)
@given(case=lists(most=4), noise=st.floats(0, 0.4))
def test_expected_pair_weights(name, parameters, case, noise):
    p, relevance, _ = case
    q = theory.click_probabilities(relevance, noise=noise)
    rule = find_weighting(name, parameters)
    np.testing.assert_allclose(
        theory.expected_pair_weights(p, q, weighting=rule, relevance=relevance),
        expected_weights_by_enumeration(rule, p, q, relevance),
        rtol=1e-10,
        atol=1e-14,
    )


@given(lists(), st.floats(0, 0.4), st.floats(0.2, 10))
def test_closed_form_of_prs(case, noise, gamma):
    p, relevance, _ = case
    q = theory.click_probabilities(relevance, noise=noise)
    closed = q[:, None] * (1 - p * q)[None, :] * np.minimum(gamma * p[:, None], p[None, :])
    np.fill_diagonal(closed, 0)
    got = theory.expected_pair_weights(p, q, parameters={"gamma": gamma})
    np.testing.assert_allclose(got, closed, rtol=1e-10, atol=1e-14)


@given(lists(most=4))
def test_expected_losses(case):
    """Without noise and clips a relevant doc i wins against j by 1, or by p_j for PRS."""
    p, relevance, losses = case
    np.fill_diagonal(losses, 0)
    unseen = np.where(relevance, 1 - p, 1.0)
    for rule, factor in (
        (find_weighting("ips"), unseen),
        (find_weighting("prs", FREE), p * unseen),
    ):
        q = theory.click_probabilities(relevance)
        found = (theory.expected_pair_weights(p, q, weighting=rule) * losses).sum()
        assert found == pytest.approx((losses[relevance > 0] @ factor).sum())


def order_preserved(weights, q):
    """Return for each pair whether the doc of greater q wins: W_ij > W_ji wherever q_i > q_j."""
    better, won = q[:, None] > q[None, :], weights > weights.T
    return np.where(better, won, np.where(better.T, won.T, True))


@given(lists(lowest=1e-3), st.floats(0, 0.38))
def test_order_preserved_at_gamma_one(case, noise):
    p, relevance, _ = case
    q = theory.click_probabilities(relevance, noise=noise)
    assert order_preserved(theory.expected_pair_weights(p, q), q).all()


@given(lists(), st.floats(0.01, 1), st.floats(0.01, 1))
def test_condition_of_order_at_gamma_one(case, q_high, q_low):
    p = case[0][:2]
    q = np.array([max(q_high, q_low), min(q_high, q_low)])
    margin = q[0] - q[1] - q[0] * q[1] * (p[1] - p[0])
    if abs(margin) > 1e-9 and q[0] > q[1]:
        kept = order_preserved(theory.expected_pair_weights(p, q), q)
        assert kept.all() == (margin > 0)


def test_order_lost_at_gamma_one_only_with_extreme_noise():
    p = [0.01, 1.0]
    for noise, kept in ((0.38, True), (0.40, False)):
        q = theory.click_probabilities([1, 0], noise=noise)
        assert order_preserved(theory.expected_pair_weights(p, q), q).all() == kept


@pytest.mark.parametrize(("noise", "gamma"), [(0.3, 5.0), (0.1, 25.0)])
def test_order_lost_at_larger_gamma(noise, gamma):
    p, q = np.array([0.5, 0.02]), theory.click_probabilities([1, 0], noise=noise)
    assert order_preserved(theory.expected_pair_weights(p, q), q).all()
    larger = theory.expected_pair_weights(p, q, parameters={"gamma": gamma})
    assert not order_preserved(larger, q).all()


def test_larger_gamma_reverses_the_production_order_of_irrelevant_docs():
    p, q = 1 / np.arange(1, 6), np.full(5, 0.1)
    above = np.triu_indices(5, 1)
    at_one = theory.expected_pair_weights(p, q)
    at_three = theory.expected_pair_weights(p, q, parameters={"gamma": 3.0})
    assert (at_three.T[above] / at_three[above] > 1.2).all()
    np.testing.assert_allclose(at_one.T[above] / at_one[above], 1, atol=0.11)


def part_outcomes(p, relevance, losses, rule):
    """Value and probability of the relevant-irrelevant part for every observation."""
    values, chances = [], []
    for observed in itertools.product((0, 1), repeat=len(p)):
        chances.append(np.prod([a if o else 1 - a for a, o in zip(p, observed, strict=True)]))
        values.append(
            sum(
                weight(rule, p, relevance, i, j) * losses[i, j]
                for i, j in itertools.product(range(len(p)), repeat=2)
                if observed[i] and relevance[i] and not relevance[j]
            )
        )
    return np.array(values), np.array(chances)


@settings(max_examples=40, deadline=None)
@given(lists(), st.sampled_from([0.01, 0.05, 0.3]), st.sampled_from(["ips", "prs", "free"]))
def test_bound_and_variance_of_the_part(case, xi, name):
    p, relevance, losses = case
    rule = find_weighting("prs", FREE) if name == "free" else find_weighting(name)
    values, chances = part_outcomes(p, relevance, losses, rule)
    terms = theory.bound_terms(losses, p, relevance, weighting=rule)
    mean = values @ chances
    assert (p * (1 - p) * terms**2).sum() == pytest.approx(chances @ (values - mean) ** 2, abs=1e-9)
    within = np.abs(values - mean) <= theory.tail_bound(terms, xi=xi) + 1e-12
    assert chances[within].sum() >= 1 - xi - 1e-12


@given(lists())
def test_prs_varies_no_more_than_ips(case):
    p, relevance, losses = case
    ips = theory.bound_terms(losses, p, relevance, weighting="ips")
    for parameters in ({}, FREE):
        prs = theory.bound_terms(losses, p, relevance, parameters=parameters)
        assert (prs <= ips * (1 + 1e-12)).all()
        assert theory.tail_bound(prs) <= theory.tail_bound(ips) * (1 + 1e-12)
        assert (p * (1 - p) * (prs**2 - ips**2)).sum() <= 1e-12 * (ips**2).sum()


@settings(max_examples=15, deadline=None)
@given(lists(most=4), st.sampled_from(["ips", "prs"]), st.floats(0, 0.3))
def test_coverage_of_the_full_estimator(case, name, noise):
    p, relevance, losses = case
    rule = find_weighting(name)
    q = theory.click_probabilities(relevance, noise=noise)
    values, chances = [], []
    for _, clicks, chance in outcomes(p, q):
        chances.append(chance)
        values.append(
            sum(
                weight(rule, p, relevance, i, j) * losses[i, j]
                for i, j in itertools.product(range(len(p)), repeat=2)
                if compared(rule, clicks, relevance, i, j)
            )
        )
    values, chances = np.array(values), np.array(chances)
    bound = theory.tail_bound(theory.bound_terms(losses, p, relevance, weighting=rule), xi=0.2)
    gap = np.abs(values - values @ chances)
    if np.abs(gap - bound).min() < 1e-9:
        return
    got = theory.bound_coverage(losses, p, relevance, weighting=rule, noise=noise, xi=0.2)
    assert got == pytest.approx(chances[gap <= bound].sum())


def test_full_estimator_may_break_the_bound():
    # relevant docs only: the part has no pairs, so its bound is 0, yet the estimator varies
    assert theory.bound_coverage(np.ones((2, 2)), [0.5, 0.5], [1, 1]) < 0.95


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: theory.tail_bound([1.0], xi=0), "xi"),
        (lambda: theory.click_probabilities([1], noise=-0.1), "noise"),
        (lambda: theory.click_outcomes(np.ones(40), np.ones(40)), "too many"),
        (lambda: theory.pair_weights([1.0], weighting="ips_oracle"), "needs relevance"),
        (
            lambda: theory.bound_coverage(np.ones((1, 1)), [1], [1], weighting="ips_all"),
            "more than non-clicked",
        ),
    ],
)
def test_bad_arguments(call, match):
    with pytest.raises(InputError, match=match):
        call()
