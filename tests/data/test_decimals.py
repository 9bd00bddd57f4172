import math
import struct

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from prsrank.data.decimals import NOT_A_NUMBER, SETTLED, UNSETTLED, parse_decimal


def parse(text):
    data = np.frombuffer(text.encode(), np.uint8)
    return parse_decimal(data, 0, len(data))


def agrees_with_python(text):
    end, value, status = parse(text)
    expected = float(text)
    if abs(expected) < 2.2250738585072014e-308:  # documented: below the least normal number
        expected = 0.0
    assert end == len(text)
    return status == UNSETTLED or (status == SETTLED and value == expected)


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
@example("7450580596923828125e-27")  # 2^-27 exactly: a power of five at the table's edge
def test_decimal_text_agrees_with_python(text):
    assert agrees_with_python(text)


@given(st.integers(0, 10**19 - 1), st.integers(-30, 30))
def test_nineteen_digits_are_always_settled(digits, power):
    _, value, status = parse(f"{digits}e{power}")
    assert status == SETTLED
    assert value == float(f"{digits}e{power}")


def test_what_is_no_number():
    for text in ("", "-", ".", "e5", "abc", "+.", "1e", "1e+"):
        assert parse(text)[2] == NOT_A_NUMBER
    assert parse("1.5abc")[:2] == (3, 1.5)
