import json

import numpy as np
import pytest
import safetensors.numpy

from prsrank import InputError, RankingDataset
from prsrank.data.storage import StoredCollection, is_stored, read_stored, write_stored


def collection(**changes):
    arrays = {
        "features": np.array([[1, np.nan], [0.1, -3], [5, 6]], np.float32),
        "offsets": [0, 2, 3],
        "labels": [0, 2, 1],
        "query_ids": ["q é", "b"],
        "doc_ids": ["x", "", "longer"],
        "feature_names": ("one", "two <b>"),
        "relevant_from": 2.0,
    }
    data = RankingDataset(**(arrays | changes))
    return StoredCollection("tiny", data, np.array([[0, 2]], np.int8))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"labels": None, "doc_ids": None},
        {"query_ids": [7, -1], "doc_ids": [3, 4, 5]},
        {"query_ids": ["q", "é" * 9_000], "doc_ids": ["x", "", "https://" * 1_000]},
    ],
)
def test_round_trip(tmp_path, changes):
    before = collection(**changes)
    write_stored(before, tmp_path / "copy")
    after = read_stored(tmp_path / "copy")
    assert after.name == "tiny"
    assert np.array_equal(before.splits, after.splits)
    assert after.dataset.feature_names == before.dataset.feature_names
    assert after.dataset.relevant_from == 2
    for name in ("features", "offsets", "labels", "query_ids", "doc_ids"):
        one, other = getattr(before.dataset, name), getattr(after.dataset, name)
        if one is None:
            assert other is None
        else:
            assert one.dtype == other.dtype
            assert np.array_equal(one, other, equal_nan=one.dtype.kind == "f")


def test_features_are_mapped_not_copied(tmp_path):
    write_stored(collection(), tmp_path / "copy")
    base = read_stored(tmp_path / "copy").dataset.features
    while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
        base = base.base if not isinstance(base.base, memoryview) else base.base.obj
    assert isinstance(base, np.memmap)


def test_the_safetensors_library_reads_it(tmp_path):
    write_stored(collection(), tmp_path / "copy")
    arrays = safetensors.numpy.load_file(tmp_path / "copy")
    assert np.array_equal(arrays["features"], collection().dataset.features, equal_nan=True)
    assert arrays["labels"].tolist() == [0, 2, 1]


def test_files_cut_short_or_foreign_are_refused(tmp_path):
    path = tmp_path / "copy"
    write_stored(collection(), path)
    whole = path.read_bytes()
    for size in (0, 5, 8, 30, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(InputError, match="copy: is not"):
            read_stored(path)
    header = json.dumps({"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"\0\0\0\0")
    with pytest.raises(InputError, match="not a collection written by"):
        read_stored(path)
    header = json.dumps([1, 2]).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(InputError, match="is not a whole safetensors file"):
        read_stored(path)


def test_text_is_not_taken_for_a_converted_copy(tmp_path):
    path = tmp_path / "x"
    for text, expected in ((b"1 qid:1 1:0.5\n", False), (b"", False), (b"# {{{{{{{{{{\n", False)):
        path.write_bytes(text)
        assert is_stored(path) == expected
    write_stored(collection(), path)
    assert is_stored(path)
