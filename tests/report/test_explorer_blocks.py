"""Packed numbers and texts."""

import re

import numpy as np
from explorer_pages import unpacked

from prsrank.report.explorer_blocks import packed, rounded


def test_what_is_packed_comes_back():
    meta = {"ids": ["</script>", "\u2028", "\"'&", "Zürich"], "none": None}
    arrays = {
        "whole": np.array([0, 7, 2**32 - 1]),
        "real": np.array([[0.5, -1.25], [3.0, np.pi]]),
        "empty": np.zeros(0, np.int64),
    }
    block = packed(meta, arrays)
    assert re.fullmatch(r"[A-Za-z0-9+/=]+", block)
    found, numbers = unpacked(block)
    assert found == meta
    assert numbers["whole"].tolist() == [0, 7, 2**32 - 1]
    np.testing.assert_array_equal(numbers["real"], arrays["real"].astype(np.float32).ravel())
    assert numbers["empty"].size == 0
    assert packed(meta, arrays) == block


def test_rounded_numbers_are_near_and_pack_smaller():
    rng = np.random.default_rng(0)
    values = rng.lognormal(0, 5, 10_000) * rng.choice([-1.0, 1.0], 10_000)
    found = rounded(values)
    assert np.abs(found / values - 1).max() <= 1 / 4096
    assert len(packed({}, {"v": found})) < 0.8 * len(packed({}, {"v": values}))
    assert rounded([0.0, 1.0, -2.0]).tolist() == [0.0, 1.0, -2.0]
