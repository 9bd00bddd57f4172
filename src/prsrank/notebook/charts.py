"""Figures as plain data, and a small chart of one table for a notebook."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prsrank.notebook.vega_lite import Part, figure_spec, plain_number

Columns = Mapping[str, Any]
"""A table: columns (lists or arrays) of equal length by name."""


def series(name: str, rows: Iterable[Sequence[Any]], **more: Any) -> Part:
    """Return a Series of a figure; numbers that are not finite become None.

    Args:
        name: as the legend says.
        rows: x and y of each point, and the ends of its interval where these are known.
        more: weak: whether each point rests on little, and is drawn so.

    >>> series("a", [(1, 0.5, 0.4, float("inf"))])
    {'name': 'a', 'x': [1], 'y': [0.5], 'low': [0.4], 'high': [None]}
    """
    points = [(x, *map(plain_number, values)) for x, *values in rows]
    columns = [list(column) for column in zip(*points, strict=True)]
    ends = columns[2:] or (None, None)
    x, y = columns[:2] or ([], [])
    return {"name": name, "x": x, "y": y, "low": ends[0], "high": ends[1], **more}


def figure(
    name: str,
    title: str,
    axes: tuple[str, str],
    drawn: Sequence[Part] | Mapping[str, Sequence[Part]],
    *,
    kind: str = "lines",
    scale: str = "linear",
    zero: bool = True,
    caption: str = "",
    alt: str = "",
    **of_values: Any,
) -> Part:
    """Return a Figure.

    Args:
        name: its id.
        title: what stands above.
        axes: titles of the axis of points and of that of values.
        drawn: Series, or those of each panel by its title.
        kind: "lines" over points, or "intervals" or "bars", one row for each name.
        scale: of the points: "linear", "log" or "ordinal".
        zero: whether the values begin at 0.
        caption: what stands below.
        alt: what is read instead of it; default: the title and the names of the series.
        of_values: max: where values are cut off; shared: whether panels share one scale.
    """
    panels = drawn if isinstance(drawn, Mapping) else {"": drawn}
    names = dict.fromkeys(each["name"] for panel in panels.values() for each in panel)
    return {
        "id": name,
        "title": title,
        "caption": caption,
        "alt": alt or f"{title}: {', '.join(names)}.",
        "x": {"title": axes[0], "scale": scale},
        "y": {"title": axes[1], "zero": zero, **of_values},
        "kind": kind,
        "panels": [{"title": panel, "series": list(each)} for panel, each in panels.items()],
    }


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

    def figure(self) -> Part:
        """Return the figure that is drawn; a point whose value is not a number is left out."""
        used = [self.columns[name] for name in (self.x, self.y, self.low, self.high) if name]
        names = self.columns[self.series] if self.series else [self.y] * len(used[0])
        rows: dict[str, list[Any]] = {}
        for name, *row in zip(names, *used, strict=True):
            plain = [plain_number(value) for value in row]
            if plain[1] is not None:
                rows.setdefault(str(name), []).append(plain)
        drawn = [series(name, points) for name, points in rows.items()]
        scale = "linear" if self.kind == "lines" else "ordinal"
        zero = self.kind == "bars" or bool(self.kind == "lines" and self.low)
        axes = (self.x, self.y)
        return figure("", self.title, axes, drawn, kind=self.kind, scale=scale, zero=zero)

    def draw(self) -> Any:
        """Return the chart of altair."""
        import altair

        return altair.ConcatChart.from_dict(figure_spec(self.figure()))
