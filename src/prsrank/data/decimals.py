"""Decimal text to float64, rounded exactly as Python's `float` rounds, inside kernels.

Short numbers (a mantissa below 2^53 and a power of ten within 10^22) are one exact division
or multiplication. Longer ones use the 128-bit products of D. Lemire, "Number parsing at a
gigabyte per second", 2021. What neither settles (more than 19 digits near a rounding
boundary) is reported as unsettled, for the caller to give to `float`.
"""

import math

import numpy as np
import numpy.typing as npt
from numba import njit

from prsrank.types import Bytes

Word = np.uint64

SETTLED, NOT_A_NUMBER, UNSETTLED = 0, 1, 2

_LEAST_POWER, _GREATEST_POWER = -342, 308


def _powers_of_five() -> npt.NDArray[np.uint64]:
    """The 128 leading bits of 5^q, as (high, low) words, for every q a float64 can need."""
    words = np.empty((_GREATEST_POWER - _LEAST_POWER + 1, 2), np.uint64)
    for q in range(_LEAST_POWER, _GREATEST_POWER + 1):
        if q >= 0:
            power = 5**q
            shift = power.bit_length() - 128
            value = power >> shift if shift > 0 else power << -shift
        else:
            power = 5**-q
            value = (1 << (power.bit_length() + 127)) // power + 1
            value >>= max(value.bit_length() - 128, 0)
        words[q - _LEAST_POWER] = value >> 64, value & 0xFFFFFFFFFFFFFFFF
    return words


_POWERS_OF_FIVE = _powers_of_five()
_POWERS_OF_TEN = np.array([10.0**i for i in range(23)])


@njit(cache=True, nogil=True, inline="always")
def _product(a: Word, b: Word) -> tuple[Word, Word]:
    """The 128-bit product of two 64-bit words, as (high, low)."""
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    a_low, a_high, b_low, b_high = a & mask, a >> half, b & mask, b >> half
    low = a_low * b_low
    cross = a_high * b_low + (low >> half)
    middle = a_low * b_high + (cross & mask)
    return a_high * b_high + (cross >> half) + (middle >> half), a * b


@njit(cache=True, nogil=True)
def _leading_zeros(word: Word) -> int:
    count = 0
    for step in (32, 16, 8, 4, 2, 1):
        if word < np.uint64(1) << np.uint64(64 - step):
            word <<= np.uint64(step)
            count += step
    return count


@njit(cache=True, nogil=True)
def _long_decimal(digits: Word, power: int) -> float:
    """The value digits * 10^power as float64; below the least normal number it gives 0."""
    if digits == 0 or power < _LEAST_POWER:
        return 0.0
    if power > _GREATEST_POWER:
        return math.inf
    one = np.uint64(1)
    zeros = _leading_zeros(digits)
    word = digits << np.uint64(zeros)
    row = power - _LEAST_POWER
    high, low = _product(word, _POWERS_OF_FIVE[row, 0])
    if high & np.uint64(0x1FF) == np.uint64(0x1FF):
        carry, _ = _product(word, _POWERS_OF_FIVE[row, 1])
        low += carry
        if carry > low:
            high += one
    upper = high >> np.uint64(63)
    shift = upper + np.uint64(9)
    mantissa = high >> shift
    exponent = ((217706 * power) >> 16) + 63 + int(upper) - zeros
    if exponent <= -1023:
        return 0.0
    halfway = low <= one and -4 <= power <= 23 and mantissa & np.uint64(3) == one
    if halfway and mantissa << shift == high:
        mantissa -= one
    mantissa = (mantissa + (mantissa & one)) >> one
    if exponent > 1023:
        return math.inf
    return math.ldexp(float(mantissa), exponent - 52)


@njit(cache=True, nogil=True)
def parse_decimal(text: Bytes, at: int, end: int) -> tuple[int, float, int]:
    """Read a number from text[at:end].

    Returns:
        (where it ends, its value, SETTLED / NOT_A_NUMBER / UNSETTLED). Values below the
        least normal float64, 2.2e-308, read as 0: they are 0 as float32.
    """
    negative = False
    if at < end and (text[at] == 45 or text[at] == 43):
        negative = text[at] == 45
        at += 1
    digits = np.uint64(0)
    ten = np.uint64(10)
    first = start = at
    while at < end:
        digit = text[at] - np.uint8(48)
        if digit > 9:
            break
        digits = digits * ten + np.uint64(digit)
        at += 1
    count = at - start
    power = 0
    if at < end and text[at] == 46:
        at += 1
        start = at
        while at < end:
            digit = text[at] - np.uint8(48)
            if digit > 9:
                break
            digits = digits * ten + np.uint64(digit)
            at += 1
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
    if digits < np.uint64(1) << np.uint64(53) and -22 <= power <= 22:
        if power < 0:
            value = float(digits) / _POWERS_OF_TEN[-power]
        else:
            value = float(digits) * _POWERS_OF_TEN[power]
    else:
        value = _long_decimal(digits, power)
    return at, -value if negative else value, SETTLED


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
