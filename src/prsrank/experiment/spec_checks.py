"""Checks of what a spec says, with the nearest valid name in every error."""

from collections.abc import Iterable, Mapping
from typing import Any

from prsrank.errors import InputError, nearest_name


def check_keys(values: Any, valid: Iterable[str], what: str) -> None:
    """Check that a table has no keys but the valid ones."""
    if not isinstance(values, Mapping):
        raise InputError(f"{what}: a table was expected, not {values!r}")
    for key in values:
        one_of(key, valid, what)


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
