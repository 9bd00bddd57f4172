"""Counter-based random numbers: every session has its own stream, found from its index.

A stream is splitmix64: a 64-bit counter that grows by a fixed odd number and is mixed for
every draw. Its start is a hash of (key of the seed, index), so any session can be drawn
alone, by any thread, again and again.
"""

import math

import numpy as np
from numba import njit

from prsrank.errors import InputError
from prsrank.hashing import STEP, mixed_in_kernel

_UNIT = 2.0**-52

LONGEST_WAIT = 64.0
"""More than `exponential` can return, which is 53 log 2 = 36.8 at most."""


def stream_key(seed: int, purpose: int = 0) -> np.uint64:
    """Return the 64-bit key of a seed; another purpose gives an unrelated key.

    >>> len({int(stream_key(0)), int(stream_key(0)), int(stream_key(1))})
    2
    """
    if seed < 0:
        raise InputError(f"seed must not be negative: {seed}")
    return np.uint64(np.random.SeedSequence([seed, purpose]).generate_state(1, np.uint64)[0])


@njit(cache=True, nogil=True)
def stream_start(key: np.uint64, index: int) -> np.uint64:
    """Return the state at which the stream of this index begins (Murmur3's finaliser)."""
    z = key + np.uint64(index + 1) * STEP
    z = (z ^ (z >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    z = (z ^ (z >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return z ^ (z >> np.uint64(33))


@njit(cache=True, nogil=True)
def next_state(state: np.uint64) -> np.uint64:
    """Return the state of a stream's next draw."""
    return state + STEP


@njit(cache=True, nogil=True)
def uniform(state: np.uint64) -> float:
    """Return this state's uniform number, strictly between 0 and 1."""
    return (float(np.int64(mixed_in_kernel(state) >> np.uint64(12))) + 0.5) * _UNIT


@njit(cache=True, nogil=True)
def below(state: np.uint64, count: int) -> int:
    """Return this state's integer from 0 to count - 1."""
    return int(uniform(state) * count)


@njit(cache=True, nogil=True)
def exponential(state: np.uint64) -> float:
    """Return this state's standard exponential number, above 0 and below LONGEST_WAIT."""
    return -math.log(uniform(state))
