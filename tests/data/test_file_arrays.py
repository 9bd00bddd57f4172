"""Features in a file: the same values, and parts of them in files too."""

import gc
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from prsrank.data.dataset import RankingDataset, is_in_file, new_array, rows_of
from prsrank.logs.features import read_table


def table(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(90, 4)), columns=list("wxyz"))
    rows.loc[7, "x"] = np.nan
    rows.insert(0, "query_id", np.arange(90) // 9)
    rows.insert(1, "doc_id", [f"d{i % 9}" for i in range(90)])
    rows.sample(frac=1, random_state=1).to_parquet(folder / "features.parquet", index=False)
    return folder / "features.parquet"


@pytest.mark.parametrize("values_at_once", [1, 50, 8_000_000])
def test_a_table_reads_the_same_whether_memory_is_short_or_not(
    tmp_path, monkeypatch, values_at_once
):
    file = table(tmp_path)
    monkeypatch.setattr("prsrank.logs.features._VALUES_AT_ONCE", values_at_once)
    known = pd.read_parquet(file).sort_values(["query_id", "doc_id"])
    lists = read_table(file, memory="1GB")
    assert not is_in_file(lists.features)
    monkeypatch.setattr("prsrank.logs.features._MATRIX_SHARE", 10**12)
    stored = read_table(file, memory="1GB")
    assert is_in_file(stored.features)
    for one in (lists, stored):
        np.testing.assert_array_equal(one.features, known[list("wxyz")].to_numpy(np.float32))
        assert one.doc_ids.tolist() == known["doc_id"].tolist()
        assert one.query_ids.tolist() == list(range(10))
    some = [4, 0, 9]
    part = stored.select(some)
    assert is_in_file(part.features)
    np.testing.assert_array_equal(part.features, lists.select(some).features)


def test_rows_of_more_than_a_block(monkeypatch):
    monkeypatch.setattr("prsrank.data.dataset._ROWS_AT_ONCE", 4)
    matrix = new_array((10, 2), np.float32, most=0)
    matrix[:] = np.arange(20).reshape(10, 2)
    rows = np.array([9, 0, 3, 3, 7, 1])
    found = rows_of(matrix, rows)
    del matrix
    gc.collect()  # the copy has a file of its own
    np.testing.assert_array_equal(found, np.arange(20).reshape(10, 2)[rows])


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="no room can be asked for")
def test_a_disk_without_room_is_told_before_anything_is_written():
    with pytest.raises(OSError, match=r"No space|too large"):
        new_array((2**40, 2**15), np.float32, most=0)


def test_lists_in_a_file_are_read_only(tmp_path):
    matrix = new_array((3, 1), np.float32, most=0)
    lists = RankingDataset(matrix, np.array([0, 3]))
    with pytest.raises(ValueError, match="read-only"):
        lists.features[0, 0] = 1.0
