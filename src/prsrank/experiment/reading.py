"""What the main figure and the paper's numbers show, in sentences made of figures only."""

import math
from collections import Counter
from collections.abc import Mapping
from itertools import combinations

from prsrank.experiment.metric_names import has_direction, lower_is_better, metric_title
from prsrank.experiment.number_texts import number_text
from prsrank.experiment.shown_results import ShownResults
from prsrank.experiment.spec import Point
from prsrank.report.numbers import point_text


def main_reading(shown: ShownResults) -> list[str]:
    """Say what the main figure shows: the order of the methods, and who leads where."""
    metric, points = shown.spec.main_metric, shown.results.axis_points
    lines = []
    for panel, title in shown.panels().items():
        means = {point: _means(shown, panel, point, metric) for point in points}
        several = len(shown.results.methods(panel)) > 1
        if several or len(points) == 1:
            ends = dict.fromkeys([points[0], points[-1]])
            said = [_standing(shown, point, metric, means[point]) for point in ends]
        else:
            said = [_course(shown, metric, means)]
        if several and len(points) > 2 and has_direction(metric):
            said.append(_leaders(metric, means))
        if any(said):
            lines.append(f"{title}{': ' if title else ''}{'. '.join(filter(None, said))}.")
    return lines


def _course(shown: ShownResults, metric: str, means: Mapping[Point, Mapping[str, float]]) -> str:
    """Follow the one method of a panel from point to point."""
    values = {
        point: (name, value) for point, found in means.items() for name, value in found.items()
    }
    if not values:
        return ""
    name = next(iter(values.values()))[0]
    listed = "; ".join(f"{number_text(v)} at {point_text(p)}" for p, (_, v) in values.items())
    return f"{metric_title(metric)} of {name} by {shown.spec.axis.title}: {listed}"


def _standing(shown: ShownResults, point: Point, metric: str, means: Mapping[str, float]) -> str:
    form = "{:+.2f} %".format if shown.spec.relative_to else number_text
    listed = "; ".join(f"{name} {form(means[name])}" for name in _best_first(metric, means))
    where = f" at {shown.spec.axis.title} {point_text(point)}" if shown.has_axis else ""
    return f"{metric_title(metric)}{where}: {listed}" if listed else ""


def _leaders(metric: str, means: Mapping[Point, Mapping[str, float]]) -> str:
    leaders = Counter(_best_first(metric, found)[0] for found in means.values() if found)
    counted = ", ".join(f"{name} {count}" for name, count in leaders.most_common())
    return f"Best mean at {leaders.total()} points: {counted}"


def _means(shown: ShownResults, panel: str, point: Point, metric: str) -> dict[str, float]:
    """Return what the figure shows for each method, by its title."""
    found = {
        name: shown.value((panel, method, point, metric))[0]
        for method, name in shown.methods(panel).items()
    }
    return {name: value for name, value in found.items() if not math.isnan(value)}


def _best_first(metric: str, values: Mapping[str, float]) -> list[str]:
    less_wins = has_direction(metric) and lower_is_better(metric)
    return sorted(values, key=lambda name: values[name], reverse=not less_wins)


def order_reading(shown: ShownResults) -> list[str]:
    """Hold the order of the methods against the paper's."""
    lines = []
    for metric in shown.spec.metrics:
        ours: dict[str, float] = {}
        theirs: dict[str, float] = {}
        for panel, title in shown.panels().items():
            means = _means(shown, panel, "", metric)
            for method, name in shown.methods(panel).items():
                value = shown.published(panel, method, metric)
                if value is not None and name in means:
                    label = name if title in name else f"{name} ({title})"
                    ours[label], theirs[label] = means[name], value
        if len(theirs) > 1:
            lines.append(_order_line(metric, ours, theirs))
    return lines


def _order_line(metric: str, ours: Mapping[str, float], theirs: Mapping[str, float]) -> str:
    pairs = list(combinations(theirs, 2))
    same = sum((ours[a] - ours[b]) * (theirs[a] - theirs[b]) > 0 for a, b in pairs)
    paper, here = ("; ".join(_best_first(metric, values)) for values in (theirs, ours))
    return (
        f"{metric_title(metric)}, best first: in the paper {paper}. Here {here} "
        f"({same} of {len(pairs)} pairs in the paper's order)."
    )
