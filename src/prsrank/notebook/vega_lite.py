"""Figures as Vega-Lite charts: in a notebook, on a page of a report, or as pictures.

A figure is plain data: `prsrank.report.parts.figure` says what is in it. Specs are plain values: a library that builds them copies and checks each step, which took
longer than all else of a report. Tests hold them against Vega-Lite's schema.
"""

import math
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from prsrank.errors import InputError

Part = dict[str, Any]
Spec = dict[str, Any]

_SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
_TYPES = {"N": "nominal", "O": "ordinal", "Q": "quantitative"}
_PICTURE_WIDTH = 330
_LINES_HEIGHT = 270
_MOST_MARKED = 40  # more points in a row than this hide their line
_SHOWN = "indexof(hidden, datum.method) < 0"

# On a page colours are CSS variables, so that light, dark and print need no second drawing.
_PAGE = {
    "text": "var(--text)", "muted": "var(--muted)", "grid": "var(--grid)", "axis": "var(--axis)",
    "font": "system-ui, sans-serif", "background": "transparent",
}  # fmt: skip
_PICTURE = {
    "text": "#1d2227", "muted": "#4d5560", "grid": "#e4e7eb", "axis": "#9aa3ae",
    "font": "sans-serif", "background": "white",
}  # fmt: skip


@dataclass(frozen=True)
class Style:
    """Colour on white and on dark, dash of the line, and shape of the points.

    The shape is an SVG path within -1 to 1, which both Vega and a page can draw.
    """

    light: str
    dark: str
    dash: tuple[int, ...]
    shape: str


_CIRCLE = "M-1,0A1,1,0,1,1,1,0A1,1,0,1,1,-1,0Z"
_SQUARE = "M-.88,-.88H.88V.88H-.88Z"
_UP = "M0,-1.05L1,.75H-1Z"
_DOWN = "M0,1.05L1,-.75H-1Z"
_DIAMOND = "M0,-1.2L1.1,0L0,1.2L-1.1,0Z"
_CROSS = "M-1.1,-.38H-.38V-1.1H.38V-.38H1.1V.38H.38V1.1H-.38V.38H-1.1Z"

# After Okabe and Ito, told apart with any colour vision; every colour has a contrast of at
# least 3 to its background, and neighbours differ in dash and shape too.
STYLES = (
    Style("#0072b2", "#55b0ee", (), _CIRCLE),
    Style("#d55e00", "#f58c4a", (7, 3), _SQUARE),
    Style("#a97100", "#e8b84a", (2, 2), _UP),
    Style("#a5477f", "#e093c0", (9, 3, 2, 3), _DIAMOND),
    Style("#00795a", "#3fc79d", (14, 3), _DOWN),
    Style("#646b75", "#a6aeb9", (1, 3), _CROSS),
    Style("#1d2227", "#e8ebef", (5, 2, 1, 2, 1, 2), _DIAMOND),
    Style("#8a5a2c", "#cfa274", (4, 4), _DOWN),
    Style("#5b45b0", "#a99bf5", (11, 4), _SQUARE),
    Style("#667400", "#b9c54b", (3, 2), _CIRCLE),
    Style("#b3123a", "#ff7d98", (), _UP),
    Style("#007784", "#45c4d3", (6, 2), _CROSS),
)


def plain_number(value: Any) -> Any:
    """Return a value as JSON and pandas know it; a number that is not finite becomes None.

    >>> import numpy as np
    >>> plain_number(np.int64(3)), plain_number(np.float64("nan")), plain_number("a")
    (3, None, 'a')
    """
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def point_text(value: Any) -> str:
    """Return a point of an axis: a name as it is, a number in full.

    >>> [point_text(v) for v in (1_000_000.0, 0.05, float("inf"), "linear")]
    ['1,000,000', '0.05', 'inf', 'linear']
    """
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:g}"


def series_names(figures: Iterable[Part]) -> list[str]:
    """Return the distinct names of series, in order of appearance."""
    names = (s["name"] for f in figures for panel in f["panels"] for s in panel["series"])
    return list(dict.fromkeys(names))


def figure_spec(*figures: Part, styles: Mapping[str, int] | None = None) -> Spec:
    """Return the Vega-Lite spec of whole figures, one below the other, for a picture.

    Args:
        figures: Figures of a report; each has its title and legend, panels side by side.
        styles: number of each series' style, for the same colours in several figures.
    """
    numbers = styles or {name: k % len(STYLES) for k, name in enumerate(series_names(figures))}
    rows = [_titled(figure, numbers) for figure in figures]
    own = dict.fromkeys(("color", "strokeDash", "shape"), "independent")
    chart = rows[0] if len(rows) == 1 else {"vconcat": rows, "resolve": {"scale": own}}
    return {"$schema": _SCHEMA, "config": _config(_PICTURE), **chart}


def _titled(figure: Part, styles: Mapping[str, int]) -> Spec:
    """Return a figure with its title; panels whose values share a scale stand in one row."""
    panels = [_panel(figure, panel, styles, page=False) for panel in figure["panels"]]
    shared = figure["y"].get("shared", False)
    columns = len(panels) if shared else 2 if len(panels) in (2, 4) else 3
    title = {"text": textwrap.wrap(figure["title"], 90) or [""], "fontSize": 15, "offset": 14}
    chart: Spec = {"concat": panels, "columns": columns, "spacing": 28, "title": title}
    return chart | ({"resolve": {"scale": {"y": "shared"}}} if shared else {})


def panel_spec(figure: Part, panel: Part, styles: Mapping[str, int]) -> Spec:
    """Return the Vega-Lite spec of one panel for a page.

    It is as wide as its container. The page sets the signal `hidden` to the names of the
    series that are switched off, and shows `panel_tips` where the pointer is.
    """
    title = f"{panel['title']}: " if panel["title"] else ""
    return {
        "$schema": _SCHEMA,
        "config": _config(_PAGE),
        "description": f"{title}{figure['alt']}",
        "width": "container",
        "params": [{"name": "hidden", "value": []}],
        **_panel(figure, panel, styles, page=True),
    }


def panel_points(panel: Part) -> list[Any]:
    """Return the distinct x of all series of a panel: numbers rising, names as they come."""
    points = list(dict.fromkeys(x for series in panel["series"] for x in series["x"]))
    return points if any(isinstance(x, str) for x in points) else sorted(points)


def series_rows(series: Part) -> Iterable[tuple[Any, ...]]:
    """Return x, y and the ends of the interval of each point of a series."""
    gaps = [None] * len(series["x"])
    ends = (series[name] or gaps for name in ("low", "high"))
    return zip(series["x"], series["y"], *ends, strict=True)


def _rows(figure: Part, panel: Part) -> list[dict[str, Any]]:
    order = {point: key for key, point in enumerate(panel_points(panel))}
    names = figure["kind"] != "lines" or figure["x"]["scale"] == "ordinal"
    rows = []
    for series in panel["series"]:
        weak = series.get("weak") or [False] * len(series["x"])
        for (x, *values), thin in zip(series_rows(series), weak, strict=True):
            y, low, high = map(plain_number, values)
            if None in (low, high):  # a band with one end only would be drawn down to 0
                low, high = None, None
            if y is not None:
                row = {"method": series["name"], "x": point_text(x) if names else x, "y": y}
                rows.append(row | {"low": low, "high": high, "key": order[x], "weak": thin})
    return rows


def _panel(figure: Part, panel: Part, styles: Mapping[str, int], *, page: bool) -> Spec:
    """Draw the marks, and on a page what answers the pointer."""
    rows = _rows(figure, panel)
    draw = _lines if figure["kind"] == "lines" else _across
    layers = draw(figure, panel, rows, _channels(series_names([figure]), styles, page=page))
    chart = {"data": {"values": rows}, "height": _height(figure, panel)}
    if not page:
        return chart | {"title": panel["title"], "width": _PICTURE_WIDTH, "layer": layers}
    shown = [_filtered(layer, _SHOWN) for layer in layers]
    return chart | {"layer": [*_pointer(figure, panel), *shown]}


def _filtered(layer: Spec, condition: str) -> Spec:
    return layer | {"transform": [*layer.get("transform", []), {"filter": condition}]}


def _field(name: str, **more: Any) -> Spec:
    """Return an encoding by a column and its type.

    >>> _field("y:Q", title="clicks")
    {'field': 'y', 'type': 'quantitative', 'title': 'clicks'}
    """
    column, _, kind = name.partition(":")
    return {"field": column, "type": _TYPES[kind], **more}


def _layer(mark: str, encoding: Spec, **look: Any) -> Spec:
    return {"mark": {"type": mark, **look}, "encoding": encoding}


def _side_by_side(panel: Part) -> bool:
    """Whether some category has values of several series."""
    return sum(len(series["x"]) for series in panel["series"]) > len(panel_points(panel))


def _height(figure: Part, panel: Part) -> int:
    if figure["kind"] == "lines":
        return _LINES_HEIGHT
    series = len(panel["series"]) if _side_by_side(panel) else 1
    thickness = 12 if figure["kind"] == "bars" else 17
    return max(60, len(panel_points(panel)) * (12 + thickness * series))


def _channels(names: list[str], styles: Mapping[str, int], *, page: bool) -> Spec:
    """Return the encodings of colour, dash and shape by method."""
    chosen = [STYLES[styles[name]] for name in names]
    colours = [f"var(--m{styles[name]})" if page else STYLES[styles[name]].light for name in names]
    bare = page or len(names) < 2
    legend = None if bare else {"title": None, "symbolSize": 80, "symbolOpacity": 1}
    ranges: dict[str, list[Any]] = {
        "color": colours,
        "dash": [list(style.dash) or [1, 0] for style in chosen],
        "shape": [style.shape for style in chosen],
    }
    return {
        name: _field("method:N", scale={"domain": names, "range": values}, legend=legend)
        for name, values in ranges.items()
    }


def _value_scale(figure: Part) -> Spec:
    """Return the scale of values; an optional `max` cuts off what would flatten the rest."""
    top = figure["y"].get("max")
    more = {} if top is None else {"domainMax": top, "nice": False}
    return {"zero": bool(figure["y"]["zero"]), **more}


def _has_intervals(rows: list[Any]) -> bool:
    return any(row["low"] is not None for row in rows)


def _lines(figure: Part, panel: Part, rows: list[Any], channels: Spec) -> list[Spec]:
    along = {"scale": _value_scale(figure), "title": figure["y"]["title"]}
    base = {"x": _position(figure, panel), "color": channels["color"]}
    values = base | {"y": _field("y:Q", **along)}
    layers = []
    if _has_intervals(rows):
        band = base | {"y": _field("low:Q", **along), "y2": {"field": "high"}}
        layers.append(_layer("area", band, opacity=0.16, clip=True))
    line = values | {"detail": _field("method:N"), "strokeDash": channels["dash"]}
    layers.append(_layer("line", line, strokeWidth=2, clip=True))
    if len(panel_points(panel)) <= _MOST_MARKED:
        shaped = values | {"shape": channels["shape"]}
        for weak in sorted({row["weak"] for row in rows}):  # few clicks or a wide interval: hollow
            points = _layer("point", shaped, filled=not weak, size=46, opacity=1)
            layers.append(_filtered(points, f"datum.weak === {str(weak).lower()}"))
    return [*_marks(panel), *layers]


def _marks(panel: Part) -> list[Spec]:
    """Return a line at each marked value of a panel, with a line at 0 to read it by."""
    marks = panel.get("marks") or []
    if not marks:
        return []
    drawn = [_layer("rule", {"x": {"datum": mark}}, strokeWidth=1.5) for mark in marks]
    return [_layer("rule", {"y": {"datum": 0}}, strokeDash=[3, 3]), *drawn]


def _position(figure: Part, panel: Part) -> Spec:
    title, scale = figure["x"]["title"], figure["x"]["scale"]
    points = panel_points(panel)
    if scale == "ordinal":
        order = [point_text(point) for point in points]
        return _field("x:O", sort=order, title=title, axis={"labelAngle": 0})
    if scale == "log" and min(points, default=1) <= 0:
        raise InputError(f"{figure['title']}: a log scale takes values above 0, not {points[0]}")
    # "s" turns 100000 into 100k, but 0.1 into 100m; without digits an axis would round 1.25
    style = ".4~s" if min(points, default=1) >= 1 else ".4~g"
    values = points if len(points) <= 12 else None
    axis = {"format": style, "grid": False, **({"values": values} if values else {})}
    zero = {"zero": False} if scale == "linear" else {}
    kind = {"type": scale, "nice": False, "padding": 12, **zero}
    return _field("x:Q", scale=kind, title=title, axis=axis)


def _across(figure: Part, panel: Part, rows: list[Any], channels: Spec) -> list[Spec]:
    """Bars or intervals: categories down, values across, so that long names stay readable."""
    axis = {"tickCount": 5, "grid": True, "titleAnchor": "end"}
    along = {"scale": _value_scale(figure), "title": figure["y"]["title"], "axis": axis}
    value = {"x": _field("y:Q", **along)}
    base = {"y": _category_axis(figure, panel), "color": channels["color"]}
    names = [series["name"] for series in panel["series"]]
    if _side_by_side(panel):
        base["yOffset"] = _field("method:N", scale={"domain": names})
    if figure["kind"] == "bars":
        return [_layer("bar", base | value, opacity=0.85)]
    shaped = base | value | {"shape": channels["shape"]}
    layers = [_layer("point", shaped, filled=True, size=64, opacity=1)]
    if _has_intervals(rows):
        ends = base | {"x": _field("low:Q", **along), "x2": {"field": "high"}}
        layers.insert(0, _layer("rule", ends, strokeWidth=2))
    lowest = min((r["y"] if r["low"] is None else r["low"] for r in rows), default=0)
    if lowest < 0 or figure["y"]["zero"]:
        layers.insert(0, _layer("rule", {"x": {"datum": 0}}, strokeDash=[3, 3]))
    return layers


def _category_axis(figure: Part, panel: Part) -> Spec:
    order = [point_text(point) for point in panel_points(panel)]
    axis = {"labelLimit": 150, "domain": False, "ticks": False, "labelPadding": 6}
    scale = {"type": "band", "paddingInner": 0.3, "paddingOuter": 0.15}
    return _field("x:N", sort=order, title=figure["x"]["title"] or None, axis=axis, scale=scale)


def _pointer(figure: Part, panel: Part) -> list[Spec]:
    """Return a line at the point nearest to the pointer, and what finds that point."""
    if figure["kind"] == "lines":
        axis = {"x": _position(figure, panel)}
    else:
        axis = {"y": _category_axis(figure, panel)}
    near = {"type": "point", "nearest": True, "fields": ["x"]}
    pointed = {"name": "pointed", "select": near | {"on": "pointerover", "clear": "pointerout"}}
    once = {"aggregate": [{"op": "count", "as": "series"}], "groupby": ["x", "key"]}
    seen = {"condition": {"param": "pointed", "empty": False, "value": 1}, "value": 0}
    tip = {"tooltip": [_field("key:Q")]}
    line = _layer("rule", axis | {"opacity": seen}, strokeWidth=1, color=_PAGE["muted"], aria=False)
    finder = _layer("point", axis | tip, opacity=0, aria=False)
    return [line | {"transform": [once]}, finder | {"transform": [once], "params": [pointed]}]


def _config(look: Mapping[str, str]) -> Spec:
    axis = {
        "labelColor": look["muted"], "titleColor": look["text"], "gridColor": look["grid"],
        "domainColor": look["axis"], "tickColor": look["axis"], "labelFontSize": 12,
        "titleFontSize": 12.5, "titleFontWeight": 500, "titlePadding": 8, "labelOverlap": True,
    }  # fmt: skip
    legend = {"labelFontSize": 12.5, "labelColor": look["text"], "labelLimit": 260}
    return {
        "font": look["font"],
        "axis": axis,
        "axisX": {"grid": False},
        "view": {"continuousWidth": 300, "continuousHeight": 300, "stroke": None},
        "rule": {"color": look["muted"]},
        "background": look["background"],
        "legend": legend | {"symbolStrokeWidth": 2},
        "title": {"color": look["text"], "anchor": "start", "fontSize": 13},
    }
