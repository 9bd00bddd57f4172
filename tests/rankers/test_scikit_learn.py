"""scikit-learn's conventions: its own checks, as far as they apply to rankers."""

import pytest
from sklearn.base import clone
from sklearn.utils import estimator_checks

from prsrank.errors import InputError
from prsrank.rankers.base import RANKERS, ranker_class
from prsrank.rankers.linear import LinearRanker

# the other checks call fit(X, y), which a ranker of lists and pairs does not have
CHECKS = (
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_get_params_invariance",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_set_params",
)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", sorted(RANKERS))
def test_scikit_learns_checks_of_parameters_hold(name, check):
    getattr(estimator_checks, check)(name, ranker_class(name)())


def test_a_clone_has_the_settings_and_nothing_learned():
    ranker = LinearRanker(l2=0.25)
    ranker.weights_ = [1.0]
    copy = clone(ranker)
    assert copy.get_params() == ranker.get_params()
    with pytest.raises(InputError, match="not fitted"):
        copy.check_fitted()


def test_an_unknown_parameter_changes_nothing():
    ranker = LinearRanker(l2=0.25)
    with pytest.raises(InputError, match="no parameter 'depth'"):
        ranker.set_params(l2=0.5, depth=3)
    assert ranker.l2 == 0.25
