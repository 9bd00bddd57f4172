"""Checks of what a spec says, with the nearest valid name in every error."""

from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from types import GenericAlias
from typing import Any, get_args, get_origin

from prsrank.errors import InputError, nearest_name
from prsrank.files.schema import check, keys_of


def check_keys(values: Any, valid: Iterable[str], what: str) -> None:
    """Check that a table has no keys but the valid ones."""
    if not isinstance(values, Mapping):
        raise InputError(f"{what}: a table was expected, not {values!r}")
    for key in values:
        one_of(key, valid, what)


def check_types(values: Mapping[str, Any], kind: Any, what: str) -> None:
    """Check the types of those keys of a table that are fields of a dataclass.

    Tables inside are checked by those who read them.
    """
    for key, wanted in keys_of(kind)[0].items():
        if key in values:
            check({key: values[key]}, GenericAlias(dict, (str, _outermost(wanted))), what)


def check_like(values: Mapping[str, Any], defaults: Mapping[str, Any], what: str) -> None:
    """Check that every value is of the type of its default: a whole number may stand for any."""
    for key, value in values.items():
        # what has no default is a number where it is given
        kind: Any = float | None if defaults[key] is None else type(defaults[key])
        check({key: value}, GenericAlias(dict, (str, kind)), what)


def _outermost(wanted: Any) -> Any:
    """Return a type with tables of any content in place of the dataclasses inside."""
    if is_dataclass(wanted):
        return dict[str, Any]
    inside = get_args(wanted)
    if any(is_dataclass(one) for one in inside):
        return GenericAlias(get_origin(wanted), tuple(map(_outermost, inside)))
    return wanted


def one_of(value: Any, valid: Iterable[str], what: str) -> str:
    """Return a name if it is one of the valid ones."""
    names = list(valid)
    if not isinstance(value, str) or value not in names:
        raise InputError(f"no {what} '{value}'{nearest_name(str(value), names)}")
    return value


def whole_number(values: Mapping[str, Any], key: str, *, least: int = 1) -> None:
    """Check a number of a table, if it is there."""
    value = values.get(key, least)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"{key} must be a whole number of at least {least}, not {value!r}")


def is_number(value: Any) -> bool:
    """Whether a value is a number, and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool)
