"""Figures of a report as Vega-Lite charts, on a page or as pictures."""

import re
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from prsrank.errors import InputError
from prsrank.files import FileName, atomic_output
from prsrank.report.numbers import interval_text, plain_number, point_text
from prsrank.report.parts import Part, figures_of
from prsrank.report.styles import STYLES, style_numbers

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


def series_names(figures: Iterable[Part]) -> list[str]:
    """Return the distinct names of series, in order of appearance."""
    found = (s["name"] for f in figures for panel in f["panels"] for s in panel["series"])
    return list(dict.fromkeys(found))


def figure_chart(*figures: Part, styles: Mapping[str, int] | None = None) -> Any:
    """Return whole figures, one below the other, as one altair chart.

    Args:
        figures: Figures of a report; each has its title and legend, panels side by side.
        styles: number of each series' style, for the same colours in several figures.
    """
    import altair

    numbers = styles or style_numbers([series_names(figures)])
    rows = [_titled(figure, numbers) for figure in figures]
    own: Any = dict.fromkeys(("color", "strokeDash", "shape"), "independent")
    chart = rows[0] if len(rows) == 1 else altair.vconcat(*rows).resolve_scale(**own)
    return chart.configure(**_config(_PICTURE))


def _titled(figure: Part, styles: Mapping[str, int]) -> Any:
    """Return a figure with its title; panels whose values share a scale stand in one row."""
    import altair

    panels = [_panel(figure, panel, styles, page=False) for panel in figure["panels"]]
    shared = figure["y"].get("shared", False)
    columns = len(panels) if shared else 2 if len(panels) in (2, 4) else 3
    title = altair.TitleParams(textwrap.wrap(figure["title"], 90) or [""], fontSize=15, offset=14)
    chart = altair.concat(*panels, columns=columns, spacing=28)
    return (chart.resolve_scale(y="shared") if shared else chart).properties(title=title)


def panel_spec(figure: Part, panel: Part, styles: Mapping[str, int]) -> dict[str, Any]:
    """Return the Vega-Lite spec of one panel for a page.

    It is as wide as its container. The page sets the signal `hidden` to the names of the
    series that are switched off, and shows `panel_tips` where the pointer is.
    """
    chart = _panel(figure, panel, styles, page=True).configure(**_config(_PAGE))
    title = f"{panel['title']}: " if panel["title"] else ""
    description = f"{title}{figure['alt']}"
    spec: dict[str, Any] = chart.properties(width="container", description=description).to_dict()
    return spec


def panel_points(panel: Part) -> list[Any]:
    """Return the distinct x of all series of a panel: numbers rising, names as they come."""
    found = list(dict.fromkeys(x for series in panel["series"] for x in series["x"]))
    return found if any(isinstance(x, str) for x in found) else sorted(found)


def panel_tips(panel: Part) -> list[list[list[str]]]:
    """Return, for each point of a panel, the name and the value in words of each series."""
    return [
        [
            [series["name"], interval_text(*values)]
            for series in panel["series"]
            for x, *values in _columns(series)
            if x == point
        ]
        for point in panel_points(panel)
    ]


def write_figures(report: Part, folder: FileName) -> list[Path]:
    """Write each figure of a report as PNG and SVG into a folder; return the files' paths."""
    figures = figures_of(report)
    styles = style_numbers(series_names([figure]) for figure in figures)
    written = []
    for figure, name in zip(figures, file_names(f["id"] for f in figures), strict=True):
        for suffix in (".png", ".svg"):
            path = Path(folder) / f"{name}{suffix}"
            with atomic_output(path) as draft:
                draft.write_bytes(figure_picture(figure, suffix=suffix, styles=styles))
            written.append(path)
    return written


def figure_picture(*figures: Part, suffix: str, styles: Mapping[str, int] | None = None) -> bytes:
    """Return whole figures as one picture, drawn without a browser: ".png" or ".svg"."""
    import vl_convert

    spec = figure_chart(*figures, styles=styles).to_dict()
    if suffix == ".svg":
        return str(vl_convert.vegalite_to_svg(spec)).encode()
    return bytes(vl_convert.vegalite_to_png(spec, scale=2))


def file_names(ids: Iterable[str]) -> list[str]:
    """Return a distinct name for each id, of letters, digits, "-" and "_" only.

    >>> file_names(["fig 1", "fig/1", "<b>"])
    ['fig-1', 'fig-1-2', 'b']
    """
    names: list[str] = []
    for text in ids:
        base = re.sub(r"[^A-Za-z0-9_]+", "-", text)[:60].strip("-") or "part"
        name, number = base, 1
        while name in names:
            number += 1
            name = f"{base}-{number}"
        names.append(name)
    return names


def _columns(series: Part) -> Iterable[tuple[Any, ...]]:
    gaps = [None] * len(series["x"])
    ends = (series[name] or gaps for name in ("low", "high"))
    return zip(series["x"], series["y"], *ends, strict=True)


def _rows(figure: Part, panel: Part) -> list[dict[str, Any]]:
    order = {point: key for key, point in enumerate(panel_points(panel))}
    names = figure["kind"] != "lines" or figure["x"]["scale"] == "ordinal"
    rows = []
    for series in panel["series"]:
        weak = series.get("weak") or [False] * len(series["x"])
        for (x, *values), thin in zip(_columns(series), weak, strict=True):
            y, low, high = map(plain_number, values)
            if y is not None:
                point = point_text(x) if names else x
                row = {"method": series["name"], "x": point, "y": y, "key": order[x]}
                # a line of "firm" values has gaps where they are weak
                rows.append(row | {"low": low, "high": high, "firm": None if thin else y})
    return rows


def _panel(figure: Part, panel: Part, styles: Mapping[str, int], *, page: bool) -> Any:
    """Draw the marks, and on a page what answers the pointer."""
    import altair

    rows = _rows(figure, panel)
    draw = _lines if figure["kind"] == "lines" else _across
    names = series_names([figure])
    chart = draw(altair, figure, panel, rows, _channels(altair, names, styles, page=page))
    layers = chart.layer
    if not page:
        return altair.layer(*layers, data=altair.InlineData(rows)).properties(
            title=panel["title"], width=_PICTURE_WIDTH, height=_height(figure, panel)
        )
    shown = [layer.transform_filter(_SHOWN) for layer in layers]
    chart = altair.layer(*_pointer(altair, figure, panel), *shown, data=altair.InlineData(rows))
    return chart.add_params(altair.param(name="hidden", value=[])).properties(
        height=_height(figure, panel)
    )


def _side_by_side(panel: Part) -> bool:
    """Whether some category has values of several series."""
    return sum(len(series["x"]) for series in panel["series"]) > len(panel_points(panel))


def _height(figure: Part, panel: Part) -> int:
    if figure["kind"] == "lines":
        return _LINES_HEIGHT
    series = len(panel["series"]) if _side_by_side(panel) else 1
    thickness = 12 if figure["kind"] == "bars" else 17
    return max(60, len(panel_points(panel)) * (12 + thickness * series))


def _channels(altair: Any, names: list[str], styles: Mapping[str, int], *, page: bool) -> Any:
    """Return the encodings of colour, dash and shape by method."""
    chosen = [STYLES[styles[name]] for name in names]
    colours = [
        f"var(--m{styles[n]})" if page else s.light for n, s in zip(names, chosen, strict=True)
    ]
    legend = (
        None
        if page or len(names) < 2
        else altair.Legend(title=None, symbolSize=80, symbolOpacity=1)
    )

    def scale(values: list[Any]) -> Any:
        return altair.Scale(domain=names, range=values)

    return {
        "color": altair.Color("method:N", scale=scale(colours), legend=legend),
        "dash": altair.StrokeDash(
            "method:N", scale=scale([list(s.dash) or [1, 0] for s in chosen]), legend=legend
        ),
        "shape": altair.Shape("method:N", scale=scale([s.shape for s in chosen]), legend=legend),
        "ink": (_PAGE if page else _PICTURE)["text"],
    }


def _value_scale(altair: Any, figure: Part) -> Any:
    """Return the scale of values; an optional `max` cuts off what would flatten the rest."""
    top = figure["y"].get("max")
    more = {} if top is None else {"domainMax": top, "nice": False}
    return altair.Scale(zero=bool(figure["y"]["zero"]), **more)


def _lines(altair: Any, figure: Part, panel: Part, rows: list[Any], channels: Any) -> Any:
    x = _position(altair, figure, panel)
    scale = _value_scale(altair, figure)
    y = altair.Y("y:Q", scale=scale, title=figure["y"]["title"])
    base = altair.Chart().encode(x=x, y=y, color=channels["color"])
    layers = []
    if any(row["low"] is not None and row["high"] is not None for row in rows):
        band = base.mark_area(opacity=0.16, clip=True)
        low = altair.Y("low:Q", scale=scale, title=figure["y"]["title"])
        layers.append(band.encode(y=low, y2="high:Q"))
    firm = altair.Y("firm:Q", scale=scale, title=figure["y"]["title"])
    weak = any(row["firm"] is None for row in rows)
    if weak:
        layers.append(
            base.mark_line(strokeWidth=1, opacity=0.7, clip=True).encode(detail="method:N")
        )
    layers.append(
        base.mark_line(strokeWidth=2, clip=True).encode(
            y=firm, strokeDash=channels["dash"], detail="method:N"
        )
    )
    if len(panel_points(panel)) <= _MOST_MARKED:
        layers.append(
            base.transform_filter("datum.firm !== null")
            .mark_point(filled=True, size=46, opacity=1)
            .encode(shape=channels["shape"])
        )
        if weak:
            open_point = base.transform_filter("datum.firm === null").mark_point(
                filled=False, size=36
            )
            layers.append(open_point.encode(shape=channels["shape"]))
    return altair.layer(*_marks(altair, panel), *layers)


def _marks(altair: Any, panel: Part) -> list[Any]:
    """Return a line at each marked value of a panel, with a line at 0 to read it by."""
    marks = panel.get("marks") or []
    if not marks:
        return []
    rule = altair.Chart().mark_rule
    drawn = [rule(strokeWidth=1.5).encode(x=altair.datum(mark)) for mark in marks]
    return [rule(strokeDash=[3, 3]).encode(y=altair.datum(0)), *drawn]


def _position(altair: Any, figure: Part, panel: Part) -> Any:
    title, scale = figure["x"]["title"], figure["x"]["scale"]
    points = panel_points(panel)
    if scale == "ordinal":
        order = [point_text(point) for point in points]
        return altair.X("x:O", sort=order, title=title, axis=altair.Axis(labelAngle=0))
    if scale == "log" and min(points, default=1) <= 0:
        raise InputError(f"{figure['title']}: a log scale takes values above 0, not {points[0]}")
    # "s" turns 100000 into 100k, but 0.1 into 100m; without digits an axis would round 1.25
    style = ".4~s" if min(points, default=1) >= 1 else ".4~g"
    values = points if len(points) <= 12 else None
    axis = altair.Axis(format=style, grid=False, **({"values": values} if values else {}))
    zero = {"zero": False} if scale == "linear" else {}
    kind = altair.Scale(type=scale, nice=False, padding=12, **zero)
    return altair.X("x:Q", scale=kind, title=title, axis=axis)


def _across(altair: Any, figure: Part, panel: Part, rows: list[Any], channels: Any) -> Any:
    """Bars or intervals: categories down, values across, so that long names stay readable."""
    scale = _value_scale(altair, figure)
    axis = altair.Axis(tickCount=5, grid=True, titleAnchor="end")
    value = altair.X("y:Q", scale=scale, title=figure["y"]["title"], axis=axis)
    base = altair.Chart().encode(y=_category_axis(altair, figure, panel), color=channels["color"])
    names = [series["name"] for series in panel["series"]]
    if _side_by_side(panel):
        base = base.encode(yOffset=altair.YOffset("method:N", scale=altair.Scale(domain=names)))
    ends = altair.X("low:Q", scale=scale, title=figure["y"]["title"], axis=axis)
    spans = any(row["low"] is not None and row["high"] is not None for row in rows)
    bars = figure["kind"] == "bars"
    layers = [base.mark_bar(opacity=0.85).encode(x=value)] if bars else []
    if spans:
        whisker = base.mark_rule(strokeWidth=2)
        whisker = whisker.encode(color=altair.value(channels["ink"])) if bars else whisker
        layers.append(whisker.encode(x=ends, x2="high:Q"))
    if not bars:
        lowest = min((r["y"] if r["low"] is None else r["low"] for r in rows), default=0)
        if lowest < 0 or figure["y"]["zero"]:
            zero = altair.Chart().mark_rule(strokeDash=[3, 3]).encode(x=altair.datum(0))
            layers.insert(0, zero)
        point = base.mark_point(filled=True, size=64, opacity=1)
        layers.append(point.encode(x=value, shape=channels["shape"]))
    return altair.layer(*layers)


def _category_axis(altair: Any, figure: Part, panel: Part) -> Any:
    order = [point_text(point) for point in panel_points(panel)]
    axis = altair.Axis(labelLimit=150, domain=False, ticks=False, labelPadding=6)
    scale = altair.Scale(type="band", paddingInner=0.3, paddingOuter=0.15)
    return altair.Y("x:N", sort=order, title=figure["x"]["title"] or None, axis=axis, scale=scale)


def _pointer(altair: Any, figure: Part, panel: Part) -> list[Any]:
    """Return a line at the point nearest to the pointer, and what finds that point."""
    if figure["kind"] == "lines":
        axis = {"x": _position(altair, figure, panel)}
    else:
        axis = {"y": _category_axis(altair, figure, panel)}
    events = {"on": "pointerover", "clear": "pointerout"}
    found = altair.selection_point("pointed", nearest=True, fields=["x"], empty=False, **events)
    seen = altair.condition(found, altair.value(1), altair.value(0))
    once = altair.Chart().transform_aggregate(series="count()", groupby=["x", "key"])
    line = once.mark_rule(strokeWidth=1, color=_PAGE["muted"], aria=False)
    finder = once.mark_point(opacity=0, aria=False)
    return [
        line.encode(**axis, opacity=seen),
        finder.encode(**axis, tooltip=[altair.Tooltip("key:Q")]).add_params(found),
    ]


def _config(look: Mapping[str, str]) -> dict[str, Any]:
    axis = {
        "labelColor": look["muted"], "titleColor": look["text"], "gridColor": look["grid"],
        "domainColor": look["axis"], "tickColor": look["axis"], "labelFont": look["font"],
        "titleFont": look["font"], "labelFontSize": 12, "titleFontSize": 12.5,
        "titleFontWeight": 500, "titlePadding": 8, "labelOverlap": True,
    }  # fmt: skip
    text = {"labelFont": look["font"], "labelFontSize": 12.5, "labelColor": look["text"]}
    return {
        "axis": axis,
        "axisX": {"grid": False},
        "view": {"stroke": None},
        "rule": {"color": look["muted"]},
        "background": look["background"],
        "legend": text | {"labelLimit": 260, "symbolStrokeWidth": 2},
        "title": {"font": look["font"], "color": look["text"], "anchor": "start", "fontSize": 13},
    }
