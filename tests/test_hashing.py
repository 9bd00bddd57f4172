"""Hashes whose values results depend on, against whole numbers of Python, hashlib and DuckDB."""

import hashlib

import duckdb
import numpy as np
import pytest

from prsrank.data.ids import id_array
from prsrank.hashing import (
    chosen_sql,
    id_keys,
    joined_keys,
    mixed,
    mixed_in_kernel,
    sql_hashes,
    text_hashes,
)

TEXTS = ["", "7", "query é", "𐀀" * 100]


def splitmix(bits):
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) % 2**64
    return bits ^ (bits >> 31)


def test_bits_are_mixed_as_splitmix64_does():
    numbers = [0, 1, 2**63, 2**64 - 1, 0x9E3779B97F4A7C15]
    bits = np.array(numbers, np.uint64)
    assert mixed(bits).tolist() == [splitmix(number) for number in numbers]
    assert [mixed_in_kernel(number) for number in bits] == mixed(bits).tolist()


def test_keys_of_integers_and_of_pairs():
    keys = id_keys(np.array([7, -1]))
    assert keys.tolist() == [splitmix(7) >> 1, splitmix(2**64 - 1) >> 1]
    pair = (splitmix(7) >> 1) * 0x9E3779B97F4A7C15 % 2**64 ^ (splitmix(2**64 - 1) >> 1)
    assert joined_keys(keys[:1], keys[1:]).tolist() == [splitmix(pair) >> 1]


def test_keys_of_ids_are_even():
    for ids in (np.arange(100_000), np.array([f"query {i}" for i in range(100_000)])):
        keys = id_keys(ids)
        assert keys.min() >= 0
        assert len(np.unique(keys)) == len(keys)
        sizes = np.bincount(keys % 100, minlength=100)
        # a thousand in each of a hundred, give or take five standard deviations
        assert np.abs(sizes - 1000).max() < 5 * 1000**0.5


def test_padding_does_not_change_the_key_of_a_string():
    alone, beside = id_keys(np.array(["ab"])), id_keys(np.array(["ab", "a long one"]))
    assert alone[0] == beside[0]
    assert alone[0] == id_keys(id_array(["ab", "é" * 100]))[0]


def test_the_key_of_a_text_is_that_of_its_code_points():
    """FNV-1a over code points, then the last steps of splitmix64, in whole numbers of Python."""
    for text in ("query é", "𐀀" * 100):
        key = 0xCBF29CE484222325
        for letter in text:
            key = ((key ^ ord(letter)) * 0x100000001B3) % 2**64
        key = ((key ^ (key >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        key = ((key ^ (key >> 27)) * 0x94D049BB133111EB) % 2**64
        assert id_keys(id_array([text, ""]))[0] == (key ^ (key >> 31)) >> 1


def test_texts_are_hashed_by_blake2b():
    digests = [hashlib.blake2b(text.encode(), digest_size=8).digest() for text in TEXTS]
    assert text_hashes(TEXTS).tolist() == [int.from_bytes(d, "little") for d in digests]


def test_sql_computes_the_same_hashes():
    query = "SELECT ('0x' || substr(md5(t), 1, 8))::BIGINT FROM (SELECT unnest($1) t)"
    rows = duckdb.sql(query, params=[TEXTS]).fetchall()
    assert sql_hashes(TEXTS).tolist() == [number for (number,) in rows]


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_a_share_of_ids_is_chosen(share):
    chosen = chosen_sql("i", share)
    count = duckdb.sql(f"SELECT count_if({chosen}) FROM range(10_000) ids(i)").fetchall()[0][0]  # noqa: S608
    assert count == pytest.approx(10_000 * share, abs=250)
