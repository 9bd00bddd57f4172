import math
import struct

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from prsrank.data.decimals import NOT_A_NUMBER, SETTLED, UNSETTLED, parse_decimal

LARGEST = float(np.finfo(np.float32).max)


def parse(text):
    data = np.frombuffer(text.encode(), np.uint8)
    return parse_decimal(data, 0, len(data))


def agrees_with_python(text):
    end, value, status = parse(text)
    expected = float(text)
    assert end == len(text)
    if status == UNSETTLED:
        return True
    with np.errstate(over="ignore"):
        same = np.float32(value) == np.float32(expected)
    return status == SETTLED and same and (abs(value) > LARGEST) == (abs(expected) > LARGEST)


@given(st.integers(0, 2**64 - 1))
def test_every_float_reads_back(bits):
    value = struct.unpack("d", struct.pack("Q", bits))[0]
    if math.isfinite(value):
        assert agrees_with_python(repr(value))


@given(st.from_regex(r"[+-]?[0-9]{0,25}\.?[0-9]{1,25}([eE][+-]?[0-9]{1,3})?", fullmatch=True))
@example("9007199254740993")  # halfway between two floats
@example("9007199254740992.5")
@example("0.000000000000000000000000001")
@example("1e400")
@example("340282346638528860000000000000000000000")  # the largest float32
@example("1.4012984643248171e-45")  # the least float32 above 0
@example("7.006492321624085e-46")  # halfway to it
def test_decimal_text_agrees_with_python(text):
    assert agrees_with_python(text)


@given(st.integers(0, 0x7F7FFFFE), st.integers(-40, 40))
def test_what_is_near_the_middle_of_two_float32_agrees_with_python(bits, units):
    low, high = np.array([bits, bits + 1], np.uint32).view(np.float32).astype(np.float64)
    middle = (low + high) / 2
    assert agrees_with_python(repr(float(middle + units * np.spacing(middle))))


def test_of_the_numbers_with_seventeen_digits_nearly_all_are_settled():
    rng = np.random.default_rng(0)
    found = [parse(repr(float(value)))[2] for value in rng.normal(size=20_000)]
    assert found.count(UNSETTLED) < 5
    assert found.count(SETTLED) > 19_990


def test_what_is_no_number():
    for text in ("", "-", ".", "e5", "abc", "+.", "1e", "1e+"):
        assert parse(text)[2] == NOT_A_NUMBER
    assert parse("1.5abc")[:2] == (3, 1.5)
