"""The sessions' random numbers."""

import numpy as np
import pytest
from scipy import stats

from prsrank.clicks import stream
from prsrank.errors import InputError


def splitmix64(state):
    """The published generator, in Python's integers."""
    mask = (1 << 64) - 1
    state = (state + 0x9E3779B97F4A7C15) & mask
    z = state
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return state, z ^ (z >> 31)


def draws(key, streams, length):
    out = np.empty((streams, length))
    for i in range(streams):
        state = stream.stream_start(key, i)
        for j in range(length):
            state = stream.next_state(np.uint64(state))
            out[i, j] = stream.uniform(np.uint64(state))
    return out


def test_is_splitmix64():
    state = 1234567
    for _ in range(5):
        before = state
        state, bits = splitmix64(state)
        assert int(stream.next_state(np.uint64(before))) == state
        assert stream.uniform(np.uint64(state)) == ((bits >> 12) + 0.5) / 2**52


def test_uniform_within_and_across_streams():
    values = draws(stream.stream_key(7), 4000, 4)
    for column in values.T:
        assert stats.kstest(column, "uniform").pvalue > 1e-4
    assert np.abs(np.corrcoef(values.T) - np.eye(4)).max() < 0.08
    assert abs(np.corrcoef(values[1:, 0], values[:-1, 0])[0, 1]) < 0.08
    assert abs(np.corrcoef(values[1:, 0], values[:-1, 1])[0, 1]) < 0.08


def test_exponential_is_within_the_longest_wait():
    assert -np.log(0.5 / 2**52) < stream.LONGEST_WAIT
    assert (2**52 - 0.5) / 2**52 < 1


def test_keys():
    keys = {int(stream.stream_key(seed, purpose)) for seed in range(50) for purpose in range(3)}
    assert len(keys) == 150
    with pytest.raises(InputError, match="negative"):
        stream.stream_key(-1)
