import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NotRequired, TypedDict

import pytest

from prsrank.errors import InputError
from prsrank.files.schema import check


class Card(TypedDict):
    name: str
    sizes: NotRequired[list[int]]


@dataclass
class Plan:
    kind: ClassVar[str] = "x"
    log: str
    share: float = 0.5
    names: tuple[str, ...] = ()
    way: Literal["a", "b"] = "a"
    card: Card | None = None
    later: int = field(init=False, default=0)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (1, int), (1, float), (1.5, float), ("", str), (None, None), (True, bool),
        ([1.0, 2], list[float]), ([], list[int]), ({"a": {"b": [1]}}, dict[str, dict[str, list[int]]]),
        ([None, 1.5], list[float | None]), ("x", int | str | None), ({"a": [{"b": None}]}, Any),
        ({"name": "a"}, Card), ({"name": "a", "sizes": [1]}, Card),
        ({"log": "x", "names": ["a"], "way": "b", "card": {"name": "y"}}, Plan),
    ],
)  # fmt: skip
def test_what_is_as_wanted_passes(value, wanted):
    check(value, wanted, "x.json")


@pytest.mark.parametrize(
    ("value", "wanted", "message"),
    [
        (True, int, "it must be a whole number, not True"),
        (1, bool, "true or false"),
        (1.0, int, "a whole number, not 1.0"),
        (2**63, int, "a whole number"),
        ([10**5000], list[int], "a number of thousands of digits"),
        ([10**5000], list[float], "a number of thousands of digits"),
        (math.nan, float, "a finite number, not nan"),
        ([1.0, math.inf], list[float], r"\[1\] must be a finite number, not inf"),
        ([1, 2**63], list[int], r"\[1\] must be a whole number"),
        ([1, True], list[int], r"\[1\] must be a whole number, not True"),
        ("abc", list[str], "a list, not 'abc'"),
        ({"a": 1}, list[int], "a list"),
        ([1], dict[str, int], "a table, not"),
        (None, dict[str, int], "a table, not None"),
        ({"a": [math.nan]}, Any, r"a\[0\] must be a text, a finite number"),
        ({}, Card, "the key 'name' is missing"),
        ({"name": "a", "size": []}, Card, "no key 'size': did you mean 'sizes'"),
        ({"name": 3}, Card, "name must be a text, not 3"),
        ({"log": "x", "card": {"name": 3}}, Plan, "card.name must be a text"),
        ({"log": "x", "later": 3}, Plan, "no key 'later'"),
        ({"log": "x", "way": "c"}, Plan, "way must be one of 'a', 'b'"),
        ("x", int | None, "a whole number or nothing, not 'x'"),
        ("x" * 1000, int, r"x\.\.\.$"),
    ],
)
def test_what_is_not_is_named(value, wanted, message):
    with pytest.raises(InputError, match=message) as raised:
        check(value, wanted, "x.json")
    assert str(raised.value).startswith("x.json: ")


def test_depth_has_an_end():
    value: Any = 1
    for _ in range(100):
        value = [value]
    with pytest.raises(InputError, match="nested more than 40 deep"):
        check(value, Any, "x.json")
