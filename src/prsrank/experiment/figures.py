"""The figures of an experiment as plain dicts: means over runs with their deviations."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from prsrank.experiment.claims import Point
from prsrank.experiment.comparisons import Measured, measured
from prsrank.experiment.metric_names import has_direction, lower_is_better, metric_title
from prsrank.experiment.spec import Spec
from prsrank.experiment.statistics import RelativeChange, RunMean, relative_change, run_mean

Figure = dict[str, Any]


def has_axis(spec: Spec) -> bool:
    """Whether the experiment has more than the one point ""."""
    return any(point != "" for point in spec.axis.points)


def titles_of(spec: Spec) -> dict[str, str]:
    """Return the title of each method by its name."""
    return {method.name: method.title or method.name for method in spec.methods}


def method_titles(spec: Spec, panel: str, results: Measured) -> dict[str, str]:
    """Return the methods measured in a panel with their titles, in the spec's order."""
    run = set(results.methods(panel))
    return {name: title for name, title in titles_of(spec).items() if name in run}


def panel_titles(spec: Spec, results: Measured) -> dict[str, str]:
    """Return the panels measured with their titles, in the spec's order."""
    run = set(results.panels())
    return {panel.name: panel.title or panel.name for panel in spec.panels if panel.name in run}


def mean_at(results: Measured, panel: str, method: str, point: Point, metric: str) -> RunMean:
    """Return the mean over runs; NaN where nothing was measured."""
    values = measured(results, panel, method, point, metric)
    return RunMean(math.nan, math.nan, 0) if values is None else run_mean(values)


def change_at(
    spec: Spec, results: Measured, panel: str, method: str, point: Point, metric: str
) -> RelativeChange:
    """Return the change against the method that the spec gives values relative to."""
    if spec.relative_to is None:
        return RelativeChange(math.nan, math.nan, math.nan)
    values = measured(results, panel, method, point, metric)
    base = measured(results, spec.relative_to[0], spec.relative_to[1], point, metric)
    if values is None or base is None:
        return RelativeChange(math.nan, math.nan, math.nan)
    return relative_change(values, base)


def metric_figure(spec: Spec, results: Measured, metric: str) -> Figure:
    """Draw one metric: a panel for each ranker, a series for each method.

    Args:
        spec: the experiment.
        results: its values.
        metric: the metric drawn.

    Returns:
        Lines over the axis, or one interval for each method where there is no axis.
    """
    title = metric_title(metric)
    panels = panel_titles(spec, results)
    relative = spec.relative_to is not None
    draw = _line if has_axis(spec) else _interval
    return {
        "id": identifier(spec.id, metric),
        "title": f"{spec.title}: {title}" if len(spec.metrics) > 1 else spec.title,
        "caption": _caption(spec, results, metric),
        "alt": _alt(spec, results, title, list(panels.values())),
        "x": {
            "title": spec.axis.title if has_axis(spec) else "method",
            "scale": spec.axis.scale if has_axis(spec) else "ordinal",
        },
        "y": {"title": f"{title}, change in %" if relative else title, "zero": metric == "share"},
        "kind": "lines" if has_axis(spec) else "intervals",
        "panels": [
            {
                "title": shown_title,
                "series": [
                    draw(spec, results, panel, method, name, metric)
                    for method, name in method_titles(spec, panel, results).items()
                ],
            }
            for panel, shown_title in panels.items()
        ],
    }


def propensity_figure(spec: Spec, curves: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Draw propensity curves.

    Args:
        spec: the experiment.
        curves: for each name `positions`, `values` and, if known, `low` and `high`.
    """
    series = [
        {
            "name": name,
            "x": [int(position) for position in curve["positions"]],
            "y": [plain(value) for value in curve["values"]],
            "low": _plain_list(curve.get("low")),
            "high": _plain_list(curve.get("high")),
        }
        for name, curve in curves.items()
    ]
    return {
        "id": identifier(spec.id, "propensities"),
        "title": "Propensities used in training",
        "caption": "Probability that a position is seen, relative to the first.",
        "alt": f"Line chart of propensity over position: {', '.join(curves)}.",
        "x": {"title": "position", "scale": "linear"},
        "y": {"title": "propensity", "zero": True},
        "kind": "lines",
        "panels": [{"title": "", "series": series}],
    }


def identifier(*parts: str) -> str:
    """Join names to one that files and pages can bear.

    >>> identifier("fig3", "ndcg@10")
    'fig3-ndcg-10'
    """
    text = "-".join(parts).lower()
    return "-".join("".join(c if c.isalnum() else " " for c in text).split())


def plain(value: float | None) -> float | None:
    """Return a finite number, and None for what JSON has no number for."""
    return float(value) if value is not None and math.isfinite(value) else None


def _line(
    spec: Spec, results: Measured, panel: str, method: str, name: str, metric: str
) -> dict[str, Any]:
    kept: list[tuple[Point, float, float, float]] = []
    for point in results.points():
        value, low, high = _drawn(spec, results, panel, method, point, metric)
        if not math.isnan(value):
            kept.append((point, value, low, high))
    return _series(name, kept)


def _interval(
    spec: Spec, results: Measured, panel: str, method: str, name: str, metric: str
) -> dict[str, Any]:
    value, low, high = _drawn(spec, results, panel, method, "", metric)
    return _series(name, [] if math.isnan(value) else [(name, value, low, high)])


def _drawn(
    spec: Spec, results: Measured, panel: str, method: str, point: Point, metric: str
) -> tuple[float, float, float]:
    if spec.relative_to is not None:
        change = change_at(spec, results, panel, method, point, metric)
        return change.percent, change.low, change.high
    mean = mean_at(results, panel, method, point, metric)
    return mean.mean, mean.mean - mean.sd, mean.mean + mean.sd


def _series(name: str, kept: Sequence[tuple[Point, float, float, float]]) -> dict[str, Any]:
    spread = bool(kept) and not any(math.isnan(one[2]) for one in kept)
    return {
        "name": name,
        "x": [one[0] for one in kept],
        "y": [one[1] for one in kept],
        "low": [one[2] for one in kept] if spread else None,
        "high": [one[3] for one in kept] if spread else None,
    }


def _runs(results: Measured, metric: str) -> str:
    """Return how many runs the means are over, in words."""
    tables = [
        values
        for panel in results.panels()
        for method in results.methods(panel)
        for point in results.points()
        if (values := measured(results, panel, method, point, metric)) is not None
    ]
    runs = max((run_mean(values).runs for values in tables), default=0)
    return f"{runs} runs" if runs > 1 else ""


def _caption(spec: Spec, results: Measured, metric: str) -> str:
    runs = _runs(results, metric)
    better = ""
    if has_direction(metric):
        better = f" {'Less' if lower_is_better(metric) else 'More'} is better."
    if spec.relative_to is not None:
        base = " ".join(filter(None, reversed(spec.relative_to)))
        return f"Change against {base} in per cent; 95 % intervals over queries.{better}"
    if not runs:
        return f"One run: no deviation is known.{better}"
    around = "shaded" if has_axis(spec) else "interval"
    return f"Mean over {runs}; {around}: one standard deviation over them.{better}"


def _alt(spec: Spec, results: Measured, title: str, panels: Sequence[str]) -> str:
    methods = list(
        dict.fromkeys(
            name
            for panel in results.panels()
            for name in method_titles(spec, panel, results).values()
        )
    )
    over = f" over {spec.axis.title}" if has_axis(spec) else " by method"
    where = f" for {', '.join(filter(None, panels))}" if any(panels) else ""
    kind = "Line chart" if has_axis(spec) else "Chart"
    return f"{kind} of {title}{over}{where}: {', '.join(methods)}."


def _plain_list(values: Sequence[float | None] | None) -> list[float | None] | None:
    return None if values is None else [plain(value) for value in values]
