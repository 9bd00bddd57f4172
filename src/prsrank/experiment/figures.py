"""The figures of an experiment as plain dicts: means over runs with their deviations."""

import math
from collections.abc import Mapping
from typing import Any

from prsrank.experiment.metric_names import has_direction, lower_is_better, metric_title
from prsrank.experiment.shown_results import ShownResults
from prsrank.experiment.statistics import run_mean
from prsrank.report.numbers import plain_number
from prsrank.report.parts import Part, series


def metric_figure(shown: ShownResults, metric: str) -> Part:
    """Draw one metric: a panel for each ranker, a series for each method.

    Args:
        shown: the experiment and its values.
        metric: the metric drawn.

    Returns:
        Lines over the axis, or one interval for each method where there is no axis.
    """
    spec, title = shown.spec, metric_title(metric)
    panels = shown.panels()
    relative = spec.relative_to is not None
    return {
        "id": identifier(spec.id, metric),
        "title": f"{spec.title}: {title}" if len(spec.metrics) > 1 else spec.title,
        "caption": _caption(shown, metric),
        "alt": _alt(shown, title),
        "x": {
            "title": spec.axis.title if shown.has_axis else "method",
            "scale": spec.axis.scale if shown.has_axis else "ordinal",
        },
        "y": {"title": f"{title}, change in %" if relative else title, "zero": metric == "share"},
        "kind": "lines" if shown.has_axis else "intervals",
        "panels": [
            {
                "title": panel_title,
                "series": [
                    _series(shown, panel, method, name, metric)
                    for method, name in shown.methods(panel).items()
                ],
            }
            for panel, panel_title in panels.items()
        ],
    }


def propensity_figure(name: str, curves: Mapping[str, Mapping[str, Any]]) -> Part:
    """Draw propensity curves.

    Args:
        name: id of the experiment.
        curves: `positions` and `values` of each, by name.
    """
    drawn = [
        series(name, curve["positions"], map(plain_number, curve["values"]))
        for name, curve in curves.items()
    ]
    return {
        "id": identifier(name, "propensities"),
        "title": "Propensities used in training",
        "caption": "Probability that a position is seen, relative to the first.",
        "alt": f"Line chart of propensity over position: {', '.join(curves)}.",
        "x": {"title": "position", "scale": "linear"},
        "y": {"title": "propensity", "zero": True},
        "kind": "lines",
        "panels": [{"title": "", "series": drawn}],
    }


def identifier(*names: str) -> str:
    """Join names to one that files and pages can bear.

    >>> identifier("fig3", "ndcg@10")
    'fig3-ndcg-10'
    """
    text = "-".join(names).lower()
    return "-".join("".join(c if c.isalnum() else " " for c in text).split())


def _series(shown: ShownResults, panel: str, method: str, name: str, metric: str) -> Part:
    """Return what was measured of a method: by point, or where there is no axis by its name."""
    found = [(p, *shown.value((panel, method, p, metric))) for p in shown.results.axis_points]
    kept = [one for one in found if not math.isnan(one[1])]
    x, y, low, high = (list(column) for column in zip(*kept, strict=True)) if kept else [[]] * 4
    spread = bool(kept) and not any(math.isnan(value) for value in low)
    points = x if shown.has_axis else [name] * len(x)
    return series(name, points, y, *((low, high) if spread else ()))


def _runs(shown: ShownResults, metric: str) -> str:
    """Return how many runs the means are over, in words."""
    tables = [
        values
        for key in shown.results.arrays
        if key[3] == metric and (values := shown.results.measured(*key)) is not None
    ]
    runs = max((run_mean(values).runs for values in tables), default=0)
    return f"{runs} runs" if runs > 1 else ""


def _caption(shown: ShownResults, metric: str) -> str:
    runs, relative_to = _runs(shown, metric), shown.spec.relative_to
    better = ""
    if has_direction(metric):
        better = f" {'Less' if lower_is_better(metric) else 'More'} is better."
    if relative_to is not None:
        base = " ".join(filter(None, reversed(relative_to)))
        return f"Change against {base} in per cent; 95 % intervals over queries.{better}"
    if not runs:
        return f"One run: no deviation is known.{better}"
    around = "shaded" if shown.has_axis else "interval"
    return f"Mean over {runs}; {around}: one standard deviation over them.{better}"


def _alt(shown: ShownResults, title: str) -> str:
    panels = shown.panels()
    names = (name for panel in shown.results.panels() for name in shown.methods(panel).values())
    over = f" over {shown.spec.axis.title}" if shown.has_axis else " by method"
    where = f" for {', '.join(filter(None, panels.values()))}" if any(panels.values()) else ""
    kind = "Line chart" if shown.has_axis else "Chart"
    return f"{kind} of {title}{over}{where}: {', '.join(dict.fromkeys(names))}."
