"""Numbers of a report in words."""

import json
from typing import Any

from prsrank.notebook.vega_lite import plain_number

MISSING = "–"


def number_text(value: float | None) -> str:
    """Return a number with four digits, as a table shows it.

    >>> [number_text(v) for v in (0.71, 12345.6, 7, 0.00001234, None)]
    ['0.7100', '12,346', '7', '1.234e-05', '–']
    """
    number = plain_number(value)
    if number is None:
        return MISSING
    if isinstance(number, int) or (abs(number) >= 10_000 and abs(number) < 1e12):
        return f"{number:,.0f}"
    return f"{number:#.4g}".rstrip(".")


def interval_text(value: float | None, low: float | None, high: float | None) -> str:
    """Return a number with its interval.

    >>> interval_text(0.5, 0.4, 0.6)
    '0.5000 (0.4000 to 0.6000)'
    """
    if plain_number(low) is None or plain_number(high) is None or plain_number(value) is None:
        return number_text(value)
    return f"{number_text(value)} ({number_text(low)} to {number_text(high)})"


def range_text(low: float, high: float, form: str = ".4f") -> str:
    """Return an interval as lines of text show it: nothing that rounds to -0, and no infinity.

    >>> range_text(-0.00001, 0.25), range_text(-1, 2, "+.1f"), range_text(float("-inf"), float("inf"))
    ('0.0000 to 0.2500', '-1.0 to +2.0', 'no interval')
    """
    if plain_number(low) is None or plain_number(high) is None:
        return "no interval"
    return f"{fixed_text(low, form)} to {fixed_text(high, form)}"


def fixed_text(value: float, form: str = ".4f") -> str:
    """Return a number in a form, without the sign of what rounds to 0.

    >>> fixed_text(-0.00001), fixed_text(-0.00001, "+.4f"), fixed_text(-0.5)
    ('0.0000', '+0.0000', '-0.5000')
    """
    sign, rest = (form[0], form[1:]) if form.startswith("+") else ("", form)
    return format(value, f"{sign}z{rest}")


def cell_text(value: Any) -> str:
    """Return what a table or a detail shows for any plain value.

    >>> cell_text(True), cell_text([1, 2]), cell_text("a"), cell_text(None)
    ('yes', '[1, 2]', 'a', '–')
    """
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return number_text(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
