"""JSON and TOML files that are read and written, and values checked against types before use."""

import json
import math
import os
import stat
import tomllib
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from prsrank.errors import InputError, nearest_name
from prsrank.files.drafts import atomic_output

FileName = str | os.PathLike[str]

MOST_BYTES = 1 << 28
"""No JSON or TOML file that we read is larger: a card, a curve, a manifest, a mapping."""


def existing_file(path: FileName) -> Path:
    """Return `path` as a Path if it is a readable file, else raise an InputError."""
    file = Path(path)
    try:
        mode = os.stat(file).st_mode
    except (OSError, ValueError):  # a name with a NUL, or too long
        raise InputError(f"{file}: no such file") from None
    if stat.S_ISDIR(mode):
        raise InputError(f"{file}: is a folder, not a file")
    if not stat.S_ISREG(mode):  # a device has no end, and a pipe may never begin
        raise InputError(f"{file}: is a device, pipe or socket, not a file")
    if not os.access(file, os.R_OK):
        raise InputError(f"{file}: cannot be read (permission)")
    return file


def read_json(path: FileName, wanted: Any = dict[str, Any]) -> dict[str, Any]:
    """Read a JSON object from a file; InputError where it is cut short, or not as wanted.

    Args:
        path: the file.
        wanted: the type that it must have; see `prsrank.files.json_files.check`.
    """
    value = _parsed(path, "JSON", lambda text: json.loads(text, parse_constant=_no_number))
    if not isinstance(value, dict):
        raise InputError(f"{path}: holds no JSON object")
    check(value, wanted, str(path))
    return value


def read_toml(path: FileName, wanted: Any = dict[str, Any]) -> dict[str, Any]:
    """Read a TOML file; InputError where it is none, or not as wanted."""
    value: dict[str, Any] = _parsed(path, "TOML", tomllib.loads)
    check(value, wanted, str(path))
    return value


def write_json(path: FileName, value: dict[str, Any]) -> None:
    """Write a JSON object to a file, whole or not at all; what is not finite becomes null."""
    with atomic_output(path) as draft:
        text = json.dumps(plain_json(value), indent=2, allow_nan=False)
        draft.write_text(text + "\n", encoding="utf-8")


def plain_json(value: Any) -> Any:
    """Return plain lists and dicts; a number that is not finite becomes None."""
    if isinstance(value, dict):
        return {name: plain_json(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain_json(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _parsed(path: FileName, kind: str, parse: Callable[[str], Any]) -> Any:
    file = existing_file(path)
    size = file.stat().st_size
    if size > MOST_BYTES:
        raise InputError(f"{file}: has {size:,} bytes, more than the {MOST_BYTES:,} that it may")
    try:
        return parse(file.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: is not valid UTF-8: {error}") from error
    except RecursionError:
        raise InputError(f"{path}: is nested too deep") from None
    except ValueError as error:  # also a number of too many digits
        raise InputError(f"{path}: is not valid {kind}: {error}") from error


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number that JSON knows")


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
        _check_list(value, (inner or (Any,))[0], name, depth)
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


def _check_list(value: Any, wanted: Any, name: str, depth: int) -> None:
    if not isinstance(value, list | tuple):
        _refuse(value, "a list", name)
    # a list of weights may hold millions: one pass in C where all is well
    if wanted in (int, float) and _is_numeric(value, wanted):
        return
    for index, part in enumerate(value):
        _check(part, wanted, f"{name}[{index}]", depth + 1)


def _is_numeric(values: Sequence[Any], kind: type) -> bool:
    if not set(map(type, values)) <= {int, kind}:
        return False
    whole = [value for value in values if type(value) is int]
    if whole and not -(2**63) <= min(whole) <= max(whole) < 2**63:
        return False
    return all(map(math.isfinite, values))


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
