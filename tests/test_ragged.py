import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsrank.ragged import list_of_row, offsets_of, ragged_rows, row_in_list, runs

sizes = st.lists(st.integers(0, 5), max_size=8)


@given(sizes)
def test_offsets_and_rows_are_those_of_the_lists_written_out(sizes):
    offsets = offsets_of(sizes)
    assert offsets.dtype == np.int64
    assert offsets.tolist() == [sum(sizes[:i]) for i in range(len(sizes) + 1)]
    assert list_of_row(offsets).tolist() == [i for i, size in enumerate(sizes) for _ in range(size)]
    assert row_in_list(offsets).tolist() == [row for size in sizes for row in range(size)]


@given(sizes, st.data())
def test_chosen_lists_come_in_the_order_given(sizes, data):
    numbers = st.integers(0, max(len(sizes) - 1, 0))
    chosen = data.draw(st.lists(numbers, max_size=6 if sizes else 0))
    offsets = offsets_of(sizes)
    rows, new = ragged_rows(offsets, np.array(chosen, np.int64))
    expected = [list(range(offsets[i], offsets[i + 1])) for i in chosen]
    assert rows.tolist() == sum(expected, [])
    assert new.tolist() == offsets_of([len(part) for part in expected]).tolist()
    mask = np.isin(np.arange(len(sizes)), chosen)
    assert (
        ragged_rows(offsets, mask)[0].tolist()
        == np.flatnonzero(np.isin(list_of_row(offsets), chosen)).tolist()
    )


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int32, np.float64])
def test_sizes_of_any_type_are_added_up_as_whole_numbers(dtype):
    offsets = offsets_of(np.ones(300, dtype))
    assert offsets.dtype == np.int64
    assert offsets[-1] == 300


def test_runs_may_overlap():
    assert runs(np.array([3, 2]), np.array([2, 3])).tolist() == [3, 4, 2, 3, 4]
