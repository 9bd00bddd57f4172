"""The figures of an experiment as plain dicts, and what they show in sentences."""

import math
from collections import Counter
from collections.abc import Mapping
from itertools import combinations
from typing import Any

from prsrank.experiment.shown_results import ShownResults
from prsrank.experiment.spec import Point
from prsrank.experiment.words import decimal_text, direction, metric_title, percent_text
from prsrank.notebook.vega_lite import point_text
from prsrank.report.parts import Part, figure, series


def metric_figure(shown: ShownResults, metric: str) -> Part:
    """Draw one metric: a panel for each ranker, a series for each method.

    Returns:
        Lines over the axis, or one interval for each method where there is no axis.
    """
    spec, title = shown.spec, metric_title(metric)
    look = {"kind": "lines", "scale": spec.axis.scale}
    if not shown.has_axis:
        look = {"kind": "intervals", "scale": "ordinal"}
    drawn = [
        {"title": name, "series": [_series(shown, panel, m, metric) for m in shown.methods(panel)]}
        for panel, name in shown.panels.items()
    ]
    whole = figure(
        identifier(spec.id, metric),
        f"{spec.title}: {title}" if len(spec.metrics) > 1 else spec.title,
        (
            spec.axis.title if shown.has_axis else "method",
            f"{title}, change in %" if spec.relative_to else title,
        ),
        [],
        zero=metric == "share",
        caption=_caption(shown, metric),
        alt=_alt(shown, title),
        **look,
    )
    return whole | {"panels": drawn}


def curves_figure(name: str, curves: Mapping[str, Mapping[str, Any]]) -> Part:
    """Draw propensity curves: `positions` and `values` of each, by name."""
    return figure(
        identifier(name, "propensities"),
        "Propensities used in training",
        ("position", "propensity"),
        [
            series(curve_name, zip(curve["positions"], curve["values"], strict=True))
            for curve_name, curve in curves.items()
        ],
        caption="Probability that a position is seen, relative to the first.",
        alt=f"Line chart of propensity over position: {', '.join(curves)}.",
    )


def identifier(*names: str) -> str:
    """Join names to one that files and pages can bear.

    >>> identifier("fig3", "ndcg@10")
    'fig3-ndcg-10'
    """
    text = "-".join(names).lower()
    return "-".join("".join(c if c.isalnum() else " " for c in text).split())


def _series(shown: ShownResults, panel: str, method: str, metric: str) -> Part:
    """Return what was measured of a method: by point, or where there is no axis by its name."""
    name, points = shown.titles[method], shown.results.axis_points
    values = {point: shown.values[panel, method, point, metric].interval for point in points}
    rows: list[Any] = [
        (point if shown.has_axis else name, *interval)
        for point, interval in values.items()
        if not math.isnan(interval[0])
    ]
    if any(math.isnan(row[2]) for row in rows):
        rows = [row[:2] for row in rows]
    return series(name, rows)


def _caption(shown: ShownResults, metric: str) -> str:
    better = {1: " More is better.", -1: " Less is better.", 0: ""}[direction(metric)]
    if shown.spec.relative_to:
        base = " ".join(filter(None, reversed(shown.spec.relative_to)))
        return f"Change against {base} in per cent; 95 % intervals over queries.{better}"
    runs = max((v.mean.runs for key, v in shown.values.items() if key[3] == metric), default=0)
    if runs < 2:
        return f"One run: no deviation is known.{better}"
    around = "shaded" if shown.has_axis else "interval"
    return f"Mean over {runs} runs; {around}: one standard deviation over them.{better}"


def _alt(shown: ShownResults, title: str) -> str:
    names = dict.fromkeys(name for panel in shown.panels for name in shown.methods(panel).values())
    panels = ", ".join(filter(None, shown.panels.values()))
    chart = f"Line chart of {title} over {shown.spec.axis.title}"
    chart = chart if shown.has_axis else f"Chart of {title} by method"
    return f"{chart}{f' for {panels}' if panels else ''}: {', '.join(names)}."


def reading(shown: ShownResults) -> list[str]:
    """Say what the figures show, in sentences made of numbers.

    For each panel the order of the methods and who leads where, by the main metric; then the
    order of the methods beside the paper's, for each metric of which the paper has numbers.
    """
    lines = []
    for panel, title in shown.panels.items():
        sentences = [*filter(None, _panel_reading(shown, panel))]
        if sentences:
            lines.append(f"{title}{': ' if title else ''}{'. '.join(sentences)}.")
    return [*lines, *filter(None, (_order_reading(shown, m) for m in shown.spec.metrics))]


def _panel_reading(shown: ShownResults, panel: str) -> list[str]:
    points, metric = shown.results.axis_points, shown.spec.metrics[0]
    means = {point: _means(shown, panel, point, metric) for point in points}
    if len(shown.methods(panel)) == 1 and len(points) > 1:
        return [_course(shown, metric, means)]
    ends = dict.fromkeys([points[0], points[-1]])
    sentences = [_standing(shown, metric, point, means[point]) for point in ends]
    if len(points) > 2 and direction(metric):
        leaders = Counter(_best_first(metric, values)[0] for values in means.values() if values)
        counts = ", ".join(f"{name} {count}" for name, count in leaders.most_common())
        sentences.append(f"Best mean at {leaders.total()} points: {counts}")
    return sentences


def _course(shown: ShownResults, metric: str, means: Mapping[Point, Mapping[str, float]]) -> str:
    """Follow the one method of a panel from point to point."""
    values = [(p, name, value) for p, of in means.items() for name, value in of.items()]
    if not values:
        return ""
    listed = "; ".join(f"{decimal_text(v)} at {point_text(p)}" for p, _, v in values)
    return f"{metric_title(metric)} of {values[0][1]} by {shown.spec.axis.title}: {listed}"


def _standing(shown: ShownResults, metric: str, point: Point, means: Mapping[str, float]) -> str:
    form = percent_text if shown.spec.relative_to else decimal_text
    listed = "; ".join(f"{name} {form(means[name])}" for name in _best_first(metric, means))
    where = f" at {shown.spec.axis.title} {point_text(point)}" if shown.has_axis else ""
    return f"{metric_title(metric)}{where}: {listed}" if listed else ""


def _order_reading(shown: ShownResults, metric: str) -> str:
    """Hold the order of the methods against the paper's."""
    ours: dict[str, float] = {}
    theirs: dict[str, float] = {}
    for panel, title in shown.panels.items():
        means = _means(shown, panel, "", metric) if not shown.has_axis else {}
        for method, name in shown.methods(panel).items():
            value = shown.published(panel, method, metric)
            if value is not None and name in means:
                label = name if title in name else f"{name} ({title})"
                ours[label], theirs[label] = means[name], value
    if len(theirs) < 2:
        return ""
    pairs = list(combinations(theirs, 2))
    same = sum((ours[a] - ours[b]) * (theirs[a] - theirs[b]) > 0 for a, b in pairs)
    paper, here = ("; ".join(_best_first(metric, values)) for values in (theirs, ours))
    return (
        f"{metric_title(metric)}, best first: in the paper {paper}. Here {here} "
        f"({same} of {len(pairs)} pairs in the paper's order)."
    )


def _means(shown: ShownResults, panel: str, point: Point, metric: str) -> dict[str, float]:
    """Return what the figure shows for each method, by its title."""
    means = {
        name: shown.values[panel, method, point, metric].interval[0]
        for method, name in shown.methods(panel).items()
    }
    return {name: value for name, value in means.items() if not math.isnan(value)}


def _best_first(metric: str, values: Mapping[str, float]) -> list[str]:
    return sorted(values, key=lambda name: values[name], reverse=direction(metric) >= 0)
