"""A small chart of one table, for a notebook."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prsrank.notebook.vega_lite import figure_spec, plain_number

Columns = Mapping[str, Any]
"""A table: columns (lists or arrays) of equal length by name."""

_CHANNELS = ("x", "y", "low", "high", "series")


@dataclass(frozen=True)
class Chart:
    """What to draw of a table.

    Attributes:
        kind: "lines" (over numbers, with a band where there are intervals), "bars" or "intervals"
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
        columns = [self.columns[column] for column in used.values()]
        rows = [
            {name: plain_number(value) for name, value in zip(used, row, strict=True)}
            for row in zip(*columns, strict=True)
        ]
        return [row for row in rows if row["y"] is not None]

    def figure(self) -> dict[str, Any]:
        """Return the figure that is drawn; `prsrank.report.parts.figure` says what is in one."""
        series: dict[str, dict[str, Any]] = {}
        for row in self.rows():
            name = str(row.get("series", self.y))
            of = series.setdefault(name, {"name": name, "x": [], "y": [], "low": [], "high": []})
            ends = row.get("low"), row.get("high")
            # a band with one end only would be drawn down to 0
            low, high = (None, None) if None in ends else ends
            for key, value in {**row, "low": low, "high": high}.items():
                if key != "series":
                    of[key].append(value)
        scale = "linear" if self.kind == "lines" else "ordinal"
        return {
            "title": self.title,
            "x": {"title": self.x, "scale": scale},
            "y": {
                "title": self.y,
                "zero": self.kind == "bars" or bool(self.kind == "lines" and self.low),
            },
            "kind": self.kind,
            "panels": [{"title": "", "series": list(series.values())}],
        }

    def draw(self) -> Any:
        """Return the chart of altair."""
        import altair

        return altair.ConcatChart.from_dict(figure_spec(self.figure()))
