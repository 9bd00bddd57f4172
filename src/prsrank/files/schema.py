"""Values from files checked against types, before anything uses them.

One way for JSON and TOML: the wanted shape is a type, a TypedDict or a dataclass, and `check`
names the first value that has another. Numbers are finite and fit 64 bits; truth values are no
numbers.
"""

import math
import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from prsrank.errors import InputError, nearest_name

MOST_DEPTH = 40
_MOST_SHOWN = 40
_WORDS: dict[Any, str] = {
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    float: "a finite number",
    type(None): "nothing",
    list: "a list",
    tuple: "a list",
    Sequence: "a list",
    dict: "a table",
    Mapping: "a table",
}


def check(value: Any, wanted: Any, where: str) -> None:
    """Raise an InputError that names the first part of a value that is not as wanted.

    Args:
        value: what a JSON or TOML file held.
        wanted: bool, int, float, str, None, list[...], tuple[...], dict[str, ...], a union or
            Literal of those, a TypedDict, a dataclass (by the fields that it is made of), or Any:
            then only numbers and depth are checked.
        where: what messages call the value, such as its file.

    >>> check({"a": [1, 2]}, dict[str, list[int]], "x.json")
    >>> check({"a": [1, "2"]}, dict[str, list[int]], "x.json")
    Traceback (most recent call last):
    prsrank.errors.InputError: x.json: a[1] must be a whole number, not '2'
    """
    try:
        _check(value, wanted, "", 0)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _check(value: Any, wanted: Any, name: str, depth: int) -> None:
    if depth > MOST_DEPTH:
        raise InputError(f"{name or 'the value'} is nested more than {MOST_DEPTH} deep")
    kind, inner = get_origin(wanted) or wanted, get_args(wanted)
    if kind is Any:
        if not isinstance(value, Mapping | list | tuple):
            if not any(is_a(value, scalar) for scalar in (str, bool, float, None)):
                _refuse(value, "a text, a finite number, true, false, a list or a table", name)
            return
        kind = dict if isinstance(value, Mapping) else list
    if kind in (Union, types.UnionType):
        _check_union(value, inner, name, depth)
    elif kind is Literal:
        if value not in inner:
            _refuse(value, f"one of {', '.join(map(repr, inner))}", name)
    elif kind in (list, tuple, Sequence):
        if not isinstance(value, list | tuple):
            _refuse(value, "a list", name)
        for index, part in enumerate(value):
            _check(part, (inner or (Any,))[0], f"{name}[{index}]", depth + 1)
    elif kind in (dict, Mapping) or is_typeddict(kind) or is_dataclass(kind):
        if not isinstance(value, Mapping):
            _refuse(value, "a table", name)
        keyed = kind not in (dict, Mapping)
        types_of = _keys(value, kind, name) if keyed else {}
        for key, part in value.items():
            of_key = types_of[key] if keyed else (inner or (str, Any))[1]
            _check(part, of_key, _joined(name, key), depth + 1)
    elif not is_a(value, kind):
        _refuse(value, _WORDS[kind], name)


def is_a(value: Any, kind: type | None) -> bool:
    """Tell whether a value is a bool, int, float, str or None: finite, and within 64 bits."""
    if kind in (None, type(None)):
        return value is None
    if isinstance(value, bool) or kind is bool:
        return isinstance(value, bool) and kind is bool
    if isinstance(value, int):
        return kind in (int, float) and -(2**63) <= value < 2**63
    if isinstance(value, float):
        return kind is float and math.isfinite(value)
    return isinstance(value, kind) if kind is not None else False


def _check_union(value: Any, choices: Sequence[Any], name: str, depth: int) -> None:
    problems = []
    for choice in choices:
        try:
            _check(value, choice, name, depth)
        except InputError as error:
            problems.append(error)
        else:
            return
    # the choice that goes deepest says most: that of the right kind, with something wrong inside
    kinds = [_WORDS.get(get_origin(kind) or kind, "a value of another kind") for kind in choices]
    deeper = [error for error in problems if not str(error).startswith(f"{name or 'it'} must be")]
    if deeper:
        raise deeper[0]
    _refuse(value, " or ".join(dict.fromkeys(kinds)), name)


def _keys(value: Mapping[str, Any], kind: Any, name: str) -> dict[str, Any]:
    """Return the types of the keys of a table, which may have no others and lack none it needs."""
    allowed, required = keys_of(kind)
    for key in value:
        if key not in allowed:
            raise InputError(f"there is no key '{_joined(name, key)}'{nearest_name(key, allowed)}")
    for key in required:
        if key not in value:
            raise InputError(f"the key '{_joined(name, key)}' is missing")
    return allowed


@cache
def keys_of(kind: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the type of each key of a TypedDict or dataclass, and the keys it must have."""
    hints = get_type_hints(kind)
    if is_typeddict(kind):
        return hints, tuple(sorted(kind.__required_keys__))
    own = [key for key in fields(kind) if key.init and get_origin(hints[key.name]) is not ClassVar]
    needed = [key.name for key in own if key.default is key.default_factory is MISSING]
    return {key.name: hints[key.name] for key in own}, tuple(needed)


def _joined(name: str, key: object) -> str:
    return f"{name}.{key}" if name else str(key)


def _refuse(value: Any, wanted: str, name: str) -> None:
    try:
        shown = repr(value)
    except ValueError:  # a number of thousands of digits has no text
        shown = "a number of thousands of digits"
    if len(shown) > _MOST_SHOWN:
        shown = f"{shown[:_MOST_SHOWN]}..."
    raise InputError(f"{name or 'it'} must be {wanted}, not {shown}")
