"""A small chart of one table, for a notebook."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Columns = Mapping[str, Any]
"""A table: columns (lists or arrays) of equal length by name."""

_WIDTH, _HEIGHT, _STEP = 420, 240, 22
_CHANNELS = ("x", "y", "low", "high", "series")


@dataclass(frozen=True)
class Chart:
    """What to draw of a table.

    Attributes:
        kind: "line" (over numbers, with a band where there are intervals), "bars" or "intervals"
            (one row for each name).
        columns: the table.
        x: name of the column with positions or names.
        y: name of the column with values.
        low: name of the column with lower ends; "" for none.
        high: name of the column with upper ends.
        series: name of the column that tells lines apart; "" for none.
        title: what stands above.
    """

    kind: str
    columns: Columns
    x: str
    y: str
    low: str = ""
    high: str = ""
    series: str = ""
    title: str = ""

    def rows(self) -> list[dict[str, Any]]:
        """Return the points; one whose value is not a number is left out."""
        used = {name: getattr(self, name) for name in _CHANNELS if getattr(self, name)}
        found = [self.columns[column] for column in used.values()]
        rows = [
            {name: plain(value) for name, value in zip(used, row, strict=True)}
            for row in zip(*found, strict=True)
        ]
        return [row for row in rows if row["y"] is not None]

    def draw(self) -> Any:
        """Return the chart of altair."""
        import altair

        base = altair.Chart(altair.InlineData(self.rows()))
        if self.series:
            base = base.encode(color=altair.Color("series:N", title=self.series))
        return _KINDS[self.kind](altair, self, base).properties(title=self.title, width=_WIDTH)


def plain(value: Any) -> Any:
    """Return a value as JSON and pandas know it; a number that is not finite becomes None.

    >>> import numpy as np
    >>> plain(np.int64(3)), plain(np.float64("nan")), plain("a")
    (3, None, 'a')
    """
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _line(altair: Any, chart: Chart, base: Any) -> Any:
    x = altair.X("x:Q", title=chart.x, scale=altair.Scale(nice=False, zero=False))
    base = base.encode(x=x)
    layers = []
    if chart.low:
        ends = {"y": altair.Y("low:Q", title=chart.y), "y2": "high:Q"}
        # a band with one end only would be drawn down to 0
        whole = "isValid(datum.low) && isValid(datum.high)"
        layers.append(base.mark_area(opacity=0.2).transform_filter(whole).encode(**ends))
    layers.append(base.mark_line(point=True).encode(y=altair.Y("y:Q", title=chart.y)))
    return altair.layer(*layers).properties(height=_HEIGHT)


def _across(altair: Any, chart: Chart, base: Any) -> Any:
    """Draw names down and values across, so that long names stay readable."""
    base = base.encode(y=altair.Y("x:N", sort=None, title=chart.x))
    value = altair.X("y:Q", title=chart.y)
    if chart.kind == "bars":
        layers = [base.mark_bar().encode(x=value)]
    else:
        zero = altair.X("y:Q", title=chart.y, scale=altair.Scale(zero=False))
        layers = [base.mark_point(filled=True, size=60).encode(x=zero)]
    if chart.low:
        layers.append(base.mark_rule().encode(x=altair.X("low:Q", title=chart.y), x2="high:Q"))
    return altair.layer(*layers).properties(height=altair.Step(_STEP))


_KINDS: Mapping[str, Callable[[Any, Chart, Any], Any]] = {
    "line": _line,
    "bars": _across,
    "intervals": _across,
}
