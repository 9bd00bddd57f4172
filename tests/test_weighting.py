import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsrank.errors import DataWarning, InputError
from prsrank.weighting import (
    WEIGHTINGS,
    Weighting,
    check_propensities,
    find_weighting,
    ips_weights,
    naive_weights,
    pns_oracle_weights,
    pns_weights,
    prs_weights,
)

propensities = st.lists(st.floats(1e-3, 1.0), min_size=1, max_size=6).map(np.array)


def test_ratio_by_hand():
    p_j = [1, 1 / 2, 1 / 4]
    np.testing.assert_allclose(prs_weights(1 / 3, p_j, gamma=math.inf), [3, 1.5, 0.75])
    np.testing.assert_allclose(prs_weights(1 / 3, p_j), [1, 1, 0.75])
    np.testing.assert_allclose(prs_weights(1 / 3, p_j, gamma=math.inf, tau=0.5), [2, 1, 0.5])


@given(propensities, propensities)
def test_naive_and_ips_are_prs_with_other_propensities(p_i, p_j):
    p_i, p_j = p_i[:, None], p_j[None, :]
    free = {"gamma": math.inf}
    same = prs_weights(p_i, np.broadcast_to(p_i, np.broadcast_shapes(p_i.shape, p_j.shape)), **free)
    np.testing.assert_allclose(same, naive_weights(p_i, p_j))
    np.testing.assert_allclose(prs_weights(p_i, np.ones_like(p_j), **free), ips_weights(p_i, p_j))
    np.testing.assert_allclose(prs_weights(np.ones_like(p_i), p_j, **free), pns_weights(p_i, p_j))


@given(propensities, st.floats(1e-3, 1.0), st.floats(0.1, 5), st.floats(0, 0.9))
def test_clips(p_i, p_j, gamma, tau):
    weights = prs_weights(p_i, p_j, gamma=gamma, tau=tau)
    np.testing.assert_allclose(weights, [min(gamma, p_j / max(p, tau)) for p in p_i])
    np.testing.assert_allclose(ips_weights(p_i, p_j, tau=tau), [1 / max(p, tau) for p in p_i])


@given(st.floats(0.01, 1.0))
def test_constant_propensity_makes_prs_naive(p):
    np.testing.assert_allclose(prs_weights(p, p), naive_weights(p, p))


def test_oracle_is_the_chance_of_having_been_seen():
    p, noise, rng = 0.4, 0.2, np.random.default_rng(0)
    for relevance in (0, 1):
        seen = rng.random(400_000) < p
        clicked = seen & (rng.random(400_000) < (1 - noise if relevance else noise))
        weight = pns_oracle_weights(1.0, p, relevance=relevance, noise=noise)
        assert seen[~clicked].mean() == pytest.approx(float(weight), abs=4e-3)


def test_oracle_of_a_doc_that_is_always_clicked():
    assert pns_oracle_weights(1.0, 1.0, relevance=1, noise=0.0) == 0


@pytest.mark.parametrize(
    "name", [n for n, one in WEIGHTINGS.items() if one.function and n != "naive"]
)
def test_unseen_docs_weigh_nothing(name):
    weights = WEIGHTINGS[name](0.5, [0.0, 0.5], relevance=[0, 0])
    assert weights[0] == 0
    assert weights[1] > 0


@pytest.mark.parametrize("function", [ips_weights, pns_weights, prs_weights])
@pytest.mark.parametrize("bad", [-0.1, math.nan, math.inf])
def test_bad_propensities(function, bad):
    with pytest.raises(InputError, match="finite and at least 0"):
        function(bad, 0.5)
    with pytest.raises(InputError, match="finite and at least 0"):
        function(0.5, [0.5, bad])


@pytest.mark.parametrize("function", [ips_weights, pns_weights, prs_weights])
def test_click_that_could_not_be_seen(function):
    with pytest.raises(InputError, match="index 1 has propensity 0"):
        function([0.5, 0.0], 0.5)


def test_estimates_above_one_warn():
    with pytest.warns(DataWarning, match=r"1\.2, above 1"):
        assert prs_weights(1.0, 1.2).tolist() == 1
    with pytest.warns(DataWarning):
        check_propensities([1.0, 1.01])


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: prs_weights(0.5, 0.5, gamma=0), "gamma"),
        (lambda: prs_weights(0.5, 0.5, gamma=math.nan), "gamma"),
        (lambda: prs_weights(0.5, 0.5, tau=-1), "tau"),
        (lambda: ips_weights(0.5, 0.5, tau=math.inf), "tau"),
        (lambda: pns_oracle_weights(0.5, 0.5, relevance=0, noise=2), "noise"),
        (lambda: find_weighting("prz"), "there are: naive, ips"),
        (lambda: find_weighting(3), "name or a function"),
        (lambda: find_weighting("ips", {"gamma": 1}), "has no parameter gamma"),
        (lambda: WEIGHTINGS["pns_oracle"](0.5, 0.5), "needs labels"),
        (lambda: WEIGHTINGS["labels"](0.5, 0.5), "no weights for clicks"),
        (lambda: Weighting("own", lambda p, r: np.ones(3))(0.5, [1, 1]), "shape"),
        (lambda: Weighting("own", lambda p, r: p - r)(0.5, 1.0), "below 0"),
    ],
)
def test_bad_arguments(call, match):
    with pytest.raises(InputError, match=match):
        call()


def test_clipped():
    prs = WEIGHTINGS["prs"]
    assert prs.clipped(1 / 3, [1, 1 / 2, 1 / 4]).tolist() == [True, True, False]
    assert find_weighting("ips", {"tau": 0.4}).clipped([0.3, 0.5], 1.0).tolist() == [True, False]
    assert not WEIGHTINGS["pns"].clipped([0.3, 0.5], 1.0).any()


def test_symmetric_weights_keep_the_expected_order():
    # E w_ij = q_i (1 - p_j q_j) s(p_i, p_j): with s symmetric the heavier direction is q's to say
    p = np.array([1.0, 0.5, 0.2, 0.05])
    q = np.array([0.1, 0.9, 0.1, 0.9])
    for power in (0.0, 0.3, 1.0):
        weights = WEIGHTINGS["symmetric"].with_parameters(power=power)(p[:, None], p[None, :])
        symmetric = p[:, None] * weights
        np.testing.assert_allclose(symmetric, symmetric.T)
        expected = q[:, None] * (1 - p * q)[None, :] * symmetric
        better = q[:, None] > q[None, :]
        assert (expected[better] > expected.T[better]).all()
    np.testing.assert_allclose(
        WEIGHTINGS["symmetric"].with_parameters(power=0.0)(p[:, None], p[None, :]),
        WEIGHTINGS["prs"](p[:, None], p[None, :]),
    )
    with pytest.raises(InputError, match="power"):
        WEIGHTINGS["symmetric"].with_parameters(power=-1.0)(0.5, 0.5)


def test_which_need_what():
    needs = {name: (w.needs_labels, w.needs_propensities) for name, w in WEIGHTINGS.items()}
    assert needs == {
        "naive": (False, False),
        "ips": (False, True),
        "pns": (False, True),
        "prs": (False, True),
        "symmetric": (False, True),
        "ips_all": (False, True),
        "ips_oracle": (True, True),
        "pns_oracle": (True, True),
        "labels": (True, False),
        "posterior": (False, True),
        "doubly_robust": (False, True),
    }


def test_own_function_with_parameters():
    def power(p_clicked, p_non_clicked, exponent):
        return np.asarray(p_non_clicked) ** exponent

    own = Weighting("power", power, parameters={"exponent": 2.0})
    assert find_weighting(own, {"exponent": 3.0})(1.0, 0.5) == 0.125
