import json

import numpy as np
import pytest
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import StandardScaler

from prsrank import InputError
from prsrank.data.preprocess import FeatureScaling


def test_equals_scikit_learn_without_missing_values():
    values = np.random.default_rng(0).normal(3, 2, (200, 4)).astype(np.float32)
    values[:, 2] = 7
    ours = FeatureScaling.fit(values).transform(values)
    assert np.allclose(ours, StandardScaler().fit_transform(values.astype(float)), atol=1e-9)


def test_equals_scikit_learn_with_imputation_and_indicators():
    rng = np.random.default_rng(1)
    values = rng.normal(size=(300, 3))
    values[rng.random((300, 3)) < [0.3, 0.0, 0.1]] = np.nan
    values = values.astype(np.float32)
    test = values[::7].copy()
    test[0, 1] = np.nan  # missing at test time alone: mean, no indicator
    scaling = FeatureScaling.fit(values, missing="impute")
    filled = SimpleImputer().fit_transform(values.astype(float))
    gaps = np.isnan(values[:, [0, 2]])
    present = np.where(np.isnan(values), np.nan, values).astype(float)
    expected = (np.vstack([filled[::7]]) - np.nanmean(present, axis=0)) / np.nanstd(present, axis=0)
    expected[0, 1] = 0
    assert np.allclose(scaling.transform(test)[:, :3], expected, atol=1e-6)
    flags = (np.isnan(test[:, [0, 2]]) - gaps.mean(axis=0)) / gaps.std(axis=0)
    assert np.allclose(scaling.transform(test)[:, 3:], flags)


def test_missing_values_are_refused_by_default_and_named():
    values = np.zeros((5, 2))
    values[3, 1] = np.nan
    with pytest.raises(InputError, match="feature 2 of doc row 3"):
        FeatureScaling.fit(values)
    fitted = FeatureScaling.fit(np.zeros((5, 2)))
    with pytest.raises(InputError, match="feature 2 of doc row 3"):
        fitted.transform(values)


def test_survives_json():
    values = np.array([[1.0, np.nan], [2.0, 3.0], [4.0, 5.0]])
    scaling = FeatureScaling.fit(values, missing="impute")
    again = FeatureScaling.from_dict(json.loads(json.dumps(scaling.to_dict())))
    assert np.array_equal(scaling.transform(values), again.transform(values))


def test_bad_calls():
    with pytest.raises(InputError, match="'error' or 'impute'"):
        FeatureScaling.fit(np.zeros((2, 2)), missing="drop")
    with pytest.raises(InputError, match="2 columns belong"):
        FeatureScaling.fit(np.zeros((2, 2))).transform(np.zeros((2, 3)))
