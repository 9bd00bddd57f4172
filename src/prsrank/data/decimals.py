"""Decimal text to a float64 that rounds to the right float32, inside kernels.

Short numbers (a mantissa below 2^53 and a power of ten within 10^22) are one exact division
or multiplication. Longer ones are off by a few units in the last of 53 bits: where that cannot
change the 24 bits of a float32, they are settled too. The rest (one in a hundred million, and
numbers of more than 19 digits) is reported as unsettled, for the caller to give to `float`.
"""

import math

import numpy as np
from numba import njit

from prsrank.types import Bytes

Word = np.uint64

SETTLED, NOT_A_NUMBER, UNSETTLED = 0, 1, 2

_POWERS_OF_TEN = np.array([float(f"1e{i}") for i in range(309)])
_LARGEST = float(np.finfo(np.float32).max)
# digits, power of ten and product are each rounded to 53 bits: 3 * 2^-53 and some room
_ERROR = 1e-15


@njit(cache=True, nogil=True)
def _long_decimal(digits: Word, power: int) -> tuple[float, int]:
    """Return about digits * 10^power, and whether its float32 is sure."""
    if digits == 0 or power < -308:
        return 0.0, SETTLED
    if power > 308:
        return math.inf, SETTLED
    ten = _POWERS_OF_TEN[abs(power)]
    value = float(digits) / ten if power < 0 else float(digits) * ten
    low, high = value * (1 - _ERROR), value * (1 + _ERROR)
    # numbers above the largest float32 are refused, so the side of it must be sure as well
    sure = np.float32(low) == np.float32(high) and not low <= _LARGEST <= high
    return value, SETTLED if sure else UNSETTLED


@njit(cache=True, nogil=True, inline="always")
def _digits(text: Bytes, at: int, end: int, digits: Word) -> tuple[int, Word]:
    """Append the digits from `at` on to a whole number; return where they end, and it."""
    while at < end:
        digit = text[at] - np.uint8(48)
        if digit > 9:
            break
        digits = digits * np.uint64(10) + np.uint64(digit)
        at += 1
    return at, digits


@njit(cache=True, nogil=True)
def parse_decimal(text: Bytes, at: int, end: int) -> tuple[int, float, int]:
    """Read a number from text[at:end].

    Returns:
        (where it ends, its value to the precision of a float32, SETTLED / NOT_A_NUMBER /
        UNSETTLED).
    """
    negative = False
    if at < end and (text[at] == 45 or text[at] == 43):
        negative = text[at] == 45
        at += 1
    first = at
    at, digits = _digits(text, at, end, np.uint64(0))
    count = at - first
    power = 0
    if at < end and text[at] == 46:
        start = at + 1
        at, digits = _digits(text, start, end, digits)
        power = start - at
        count += at - start
    if count == 0:
        return at, 0.0, NOT_A_NUMBER
    if at < end and (text[at] | 32) == 101:
        at, exponent = _exponent(text, at + 1, end)
        if at < 0:
            return -at, 0.0, NOT_A_NUMBER
        power += exponent
    if count > 19 and count - _zeros_before(text, first) > 19:
        return at, 0.0, UNSETTLED
    status = SETTLED
    if digits < np.uint64(1) << np.uint64(53) and -22 <= power <= 22:
        if power < 0:
            value = float(digits) / _POWERS_OF_TEN[-power]
        else:
            value = float(digits) * _POWERS_OF_TEN[power]
    else:
        value, status = _long_decimal(digits, power)
    return at, -value if negative else value, status


@njit(cache=True, nogil=True)
def _zeros_before(text: Bytes, at: int) -> int:
    """How many zeros stand before the first other digit."""
    zeros = 0
    while at < len(text) and (text[at] == 48 or text[at] == 46):
        zeros += text[at] == 48
        at += 1
    return zeros


@njit(cache=True, nogil=True)
def _exponent(text: Bytes, at: int, end: int) -> tuple[int, int]:
    """Read an exponent: (where it ends, its value); a negative end if there is none."""
    negative = False
    if at < end and (text[at] == 45 or text[at] == 43):
        negative = text[at] == 45
        at += 1
    start = at
    value = 0
    while at < end:
        digit = text[at] - np.uint8(48)
        if digit > 9:
            break
        value = min(value * 10 + int(digit), 99999)
        at += 1
    if at == start:
        return -at, 0
    return at, -value if negative else value
