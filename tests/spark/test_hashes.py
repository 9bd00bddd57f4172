"""Hashes by their definitions, on Python's integers."""

import numpy as np
import pytest

from prsrank.spark.hashes import buckets_of, feature_hashes, id_hashes, pair_hashes

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

ALL = 2**64 - 1


def mixed(bits):
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9 & ALL
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB & ALL
    return bits ^ (bits >> 31)


def fnv(text):
    bits = 0xCBF29CE484222325
    for byte in text.encode():
        bits = (bits ^ byte) * 0x100000001B3 & ALL
    return mixed(bits)


def unsigned(hashes):
    assert hashes.dtype == np.int64
    return hashes.view(np.uint64).tolist()


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64()])
def test_integers_of_any_width(kind):
    ids = [7, -7, 0, 127, -128]
    expected = [mixed((value + 0x9E3779B97F4A7C15) & ALL) for value in ids]
    assert unsigned(id_hashes(pa.array(ids, kind))) == expected
    assert len(set(expected)) == len(ids)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_texts(kind):
    texts = ["a", "", "query of words", "ü", "7"]
    assert unsigned(id_hashes(pa.array(texts, kind))) == [fnv(text) for text in texts]


def test_parts_of_arrays_and_nothing():
    texts = pa.array(["no", "a", "bc", "no"])
    assert unsigned(id_hashes(texts.slice(1, 2))) == [fnv("a"), fnv("bc")]
    assert unsigned(id_hashes(pa.array([1, None, 0]).slice(1))) == [mixed(0x9E3779B97F4A7C15)] * 2
    assert unsigned(id_hashes(pa.array(["a", None]))) == [fnv("a"), fnv("")]
    for kind in (pa.int64(), pa.string()):
        assert len(id_hashes(pa.array([], kind))) == 0


def test_pairs_are_told_apart_and_their_order():
    ones, others = np.array([1, 2, 1]), np.array([2, 1, 1])
    expected = [
        mixed((one * 0x9E3779B97F4A7C15 + other) & ALL)
        for one, other in zip(ones.tolist(), others.tolist(), strict=True)
    ]
    assert unsigned(pair_hashes(ones, others)) == expected
    assert len(set(expected)) == 3


def test_features_by_their_bits():
    columns = np.array([[1, 2, 1, 1, 0], [2, 1, 2, np.nan, 0]], np.float32)
    expected = []
    for doc in columns.T:
        bits = 0
        for value in doc:
            word = 1 << 32 if np.isnan(value) else int(value.view(np.uint32))
            bits = mixed((bits + word + 0x9E3779B97F4A7C15) & ALL)
        expected.append(bits)
    assert unsigned(feature_hashes(columns)) == expected
    assert len(set(expected)) == 4
    assert expected[0] == expected[2]


def test_all_nan_are_one():
    other = np.array([0x7FC00001], np.uint32).view(np.float32)
    found = feature_hashes(np.array([[np.nan, other[0], -np.nan]], np.float32))
    assert len(set(found.tolist())) == 1


def test_buckets_are_about_even():
    hashes = id_hashes(pa.array(range(30_000)))
    buckets = buckets_of(hashes, 7)
    assert buckets.tolist() == [bits % 7 for bits in unsigned(hashes)]
    assert np.ptp(np.bincount(buckets, minlength=7)) < 5 * 2 * (30_000 / 7) ** 0.5
