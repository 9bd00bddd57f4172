"""Units of resampling are known by their ids, in whatever order and pieces they come."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from prsrank.hashing import id_keys
from prsrank.logs.click_log import ClickLog
from prsrank.propensity.bootstrap import MOST_UNITS, UnitSums, session_keys, units_of


def test_few_keys_are_units_of_their_own():
    keys, index = units_of(np.array([9, 7, 9]))
    assert (keys.tolist(), index.tolist()) == ([7, 9], [1, 0, 1])


@pytest.mark.parametrize("count", [MOST_UNITS + 1, 60 * MOST_UNITS])
def test_many_keys_are_joined_by_their_remainder(count):
    entries = id_keys(np.repeat(np.arange(count), 2))
    keys, index = units_of(entries)
    assert len(keys) <= MOST_UNITS
    np.testing.assert_array_equal(keys[index], entries % MOST_UNITS - MOST_UNITS)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(0, 6000), min_size=1, max_size=60),
    st.integers(0, 60),
    st.integers(1, 5),
    st.booleans(),
)
@example([1227, 237, *[0] * 12], 2, 1, True)
def test_sums_of_pieces_are_those_of_the_whole(ids, cut, times, many):
    """However the rows are cut, whether some pieces have many units or all have few."""
    extra = np.arange(10_000, 10_000 + (MOST_UNITS if many else 0))
    keys = id_keys(np.concatenate([np.repeat(ids, times), extra]))
    values = np.arange(2.0 * len(keys)).reshape(-1, 2)
    order = np.random.default_rng(cut).permutation(len(keys))
    whole = UnitSums.of(keys, values)
    one, other = order[: cut * times], order[cut * times :]
    parts = UnitSums.of(keys[one], values[one]) + UnitSums.of(keys[other], values[other])
    np.testing.assert_array_equal(parts.keys, whole.keys)
    np.testing.assert_array_equal(parts.values, whole.values)


def test_columns_meet_by_their_numbers():
    one = UnitSums.of(np.array([1]), np.array([[1.0, 2.0]]), np.array([3, 8]))
    other = UnitSums.of(np.array([1]), np.array([[10.0, 20.0]]), np.array([5, 8]))
    both = one + other
    assert both.columns.tolist() == [3, 5, 8]
    assert both.values.tolist() == [[1.0, 10.0, 22.0]]


def test_sessions_are_told_apart_by_query_and_id():
    frame = {
        "query_id": np.array(["a", "b", "a"]), "session_id": np.array([1, 1, 2]),
        "doc_id": np.array([1, 1, 1]), "position": np.array([1, 2, 1]),
        "click": np.array([1, 0, 0]),
    }  # fmt: skip
    keys = session_keys(ClickLog.from_frame(frame))
    assert len(set(keys.tolist())) == 3
    reverse = {name: values[::-1].copy() for name, values in frame.items()}
    # sessions are sorted by their ids, whatever the order of rows
    assert session_keys(ClickLog.from_frame(reverse)).tolist() == keys.tolist()
