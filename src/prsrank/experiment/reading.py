"""What the main figure and the paper's numbers show, in sentences made of figures only."""

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

from prsrank.experiment.claims import Point
from prsrank.experiment.comparisons import Measured
from prsrank.experiment.figures import (
    change_at,
    has_axis,
    mean_at,
    method_titles,
    panel_titles,
)
from prsrank.experiment.metric_names import has_direction, lower_is_better, metric_title
from prsrank.experiment.number_texts import number_text, shown
from prsrank.experiment.spec import Spec
from prsrank.experiment.tables import published


def main_reading(spec: Spec, results: Measured) -> list[str]:
    """Say what the main figure shows: the order of the methods, and who leads where."""
    metric, points = spec.metrics[0], list(results.points())
    lines = []
    for panel, title in panel_titles(spec, results).items():
        if len(results.methods(panel)) == 1 and len(points) > 1:
            parts = [_course(spec, results, panel, metric, points)]
        else:
            ends = dict.fromkeys([*points[:1], *points[-1:]])
            parts = [_standing(spec, results, panel, point, metric) for point in ends]
        if len(points) > 2 and len(results.methods(panel)) > 1 and has_direction(metric):
            parts.append(_leaders(spec, results, panel, metric, points))
        if any(parts):
            lines.append(f"{title}{': ' if title else ''}{'. '.join(filter(None, parts))}.")
    return lines


def _course(spec: Spec, results: Measured, panel: str, metric: str, points: Sequence[Point]) -> str:
    """Follow the one method of a panel from point to point."""
    found = [(p, _means(spec, results, panel, p, metric)) for p in points]
    name = next((name for _, means in found for name in means), "")
    values = "; ".join(f"{number_text(means[name])} at {shown(p)}" for p, means in found if means)
    return f"{metric_title(metric)} of {name} by {spec.axis.title}: {values}" if values else ""


def _standing(spec: Spec, results: Measured, panel: str, point: Point, metric: str) -> str:
    means = _means(spec, results, panel, point, metric)
    order = sorted(means, key=lambda name: means[name], reverse=not _less_wins(metric))
    listed = "; ".join(
        f"{name} {means[name]:+.2f} %" if spec.relative_to else f"{name} {number_text(means[name])}"
        for name in order
    )
    where = f" at {spec.axis.title} {shown(point)}" if has_axis(spec) else ""
    return f"{metric_title(metric)}{where}: {listed}" if listed else ""


def _leaders(
    spec: Spec, results: Measured, panel: str, metric: str, points: Sequence[Point]
) -> str:
    pick = min if _less_wins(metric) else max
    leaders: dict[str, int] = {}
    for point in points:
        means = _means(spec, results, panel, point, metric)
        if means:
            leader = pick(means, key=lambda name, means=means: means[name])  # type: ignore[misc]
            leaders[leader] = leaders.get(leader, 0) + 1
    counted = ", ".join(
        f"{name} {count}" for name, count in sorted(leaders.items(), key=lambda x: -x[1])
    )
    return f"Best mean at {sum(leaders.values())} points: {counted}"


def _means(
    spec: Spec, results: Measured, panel: str, point: Point, metric: str
) -> dict[str, float]:
    means = {}
    for method, name in method_titles(spec, panel, results).items():
        if spec.relative_to is not None:
            value = change_at(spec, results, panel, method, point, metric).percent
        else:
            value = mean_at(results, panel, method, point, metric).mean
        if not math.isnan(value):
            means[name] = value
    return means


def _less_wins(metric: str) -> bool:
    return has_direction(metric) and lower_is_better(metric)


def order_reading(spec: Spec, results: Measured) -> list[str]:
    """Hold the order of the methods against the paper's."""
    lines = []
    for metric in spec.metrics:
        ours: dict[str, float] = {}
        theirs: dict[str, float] = {}
        for panel, title in panel_titles(spec, results).items():
            means = _means(spec, results, panel, "", metric)
            for method, name in method_titles(spec, panel, results).items():
                value = published(spec, panel, method, metric)
                if value is not None and name in means:
                    label = name if title in name else f"{name} ({title})"
                    ours[label], theirs[label] = means[name], value
        if len(theirs) > 1:
            lines.append(_order_line(metric, ours, theirs))
    return lines


def _order_line(metric: str, ours: Mapping[str, float], theirs: Mapping[str, float]) -> str:
    pairs = list(combinations(theirs, 2))
    same = sum((ours[a] - ours[b]) * (theirs[a] - theirs[b]) > 0 for a, b in pairs)

    def order(values: Mapping[str, float]) -> str:
        return "; ".join(sorted(values, key=lambda n: values[n], reverse=not _less_wins(metric)))

    return (
        f"{metric_title(metric)}, best first: in the paper {order(theirs)}. Here {order(ours)} "
        f"({same} of {len(pairs)} pairs in the paper's order)."
    )
