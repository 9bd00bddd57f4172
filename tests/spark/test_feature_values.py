"""Features of an Arrow table as the numbers that rankers see, without Spark."""

import numpy as np
import pytest

from prsrank.spark.reading import feature_values

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")


def test_feature_values():
    table = pa.table(
        {
            "query_id": [1, 1, 1],
            "doc_id": [1, 2, 3],
            "whole": pa.array([2**62 + 2**38 + 1, None, 3], pa.int64()),
            "large": [1e300, -1e300, None],
            "truth": [True, False, None],
            "small": pa.array([None, 7, 8], pa.int8()),
        }
    )
    found = feature_values(table)
    assert found.dtype == np.float32
    nan, infinite = np.nan, np.inf
    # rounded once: by way of a double it would be 2 ** 62
    expected = [[2.0**62 + 2**39, nan, 3], [infinite, -infinite, nan], [1, 0, nan], [nan, 7, 8]]
    np.testing.assert_array_equal(found, np.array(expected, np.float32))
    assert feature_values(table.select([0, 1]).slice(0, 0)).shape == (0, 0)
