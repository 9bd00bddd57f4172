"""The tables of an experiment as plain dicts: means, deviations and significance marks."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from prsrank.experiment.claims import Point, read_test, same_point
from prsrank.experiment.comparisons import SIGNIFICANT, Judged, Measured, measured
from prsrank.experiment.evidence import sides
from prsrank.experiment.figures import (
    change_at,
    has_axis,
    identifier,
    mean_at,
    method_titles,
    panel_titles,
    plain,
    titles_of,
)
from prsrank.experiment.metric_names import has_direction, lower_is_better, metric_title
from prsrank.experiment.number_texts import number_text, p_text, shown, signed_text
from prsrank.experiment.spec import Spec
from prsrank.experiment.statistics import Comparison, RelativeChange, RunMean, compare
from prsrank.experiment.verdicts import Verdict
from prsrank.metrics.significance import holm

Table = dict[str, Any]

WORSE, BETTER = "▼", "▲"

STATISTICS = (
    *("experiment", "panel", "method", "point", "metric", "mean", "sd", "runs"),
    *("percent", "percent_low", "percent_high", "reference", "difference", "low", "high"),
    *("p", "p_holm", "d", "queries"),
)
"""Columns of a table's `data`, one row for each cell: what the CSV file holds."""


@dataclass(frozen=True)
class _Cell:
    panel: str
    method: str
    point: Point
    metric: str
    mean: RunMean
    change: RelativeChange
    reference: tuple[str, Point] | None
    comparison: Comparison | None
    corrected: float = math.nan


def result_tables(spec: Spec, results: Measured) -> list[Table]:
    """Return a table of each metric over the points, or one of all metrics without an axis.

    A mark says that a method is significantly worse or better than the reference, the method
    that the claim is about, at the same point; p values are corrected after Holm over the
    table.

    Args:
        spec: the experiment.
        results: its values.
    """
    if not has_axis(spec):
        columns: list[tuple[Point, str]] = [("", metric) for metric in spec.metrics]
        return [_table(spec, results, columns, "results", spec.title)]
    return [
        _table(
            spec,
            results,
            [(point, metric) for point in results.points()],
            metric,
            f"{metric_title(metric)} by {spec.axis.title}",
        )
        for metric in spec.metrics
    ]


def claim_table(spec: Spec, verdict: Verdict) -> Table:
    """Return every comparison that a verdict rests on."""
    columns = [
        "claim",
        _panel_header(spec),
        spec.axis.title if has_axis(spec) else "point",
        "difference",
    ]
    columns += ["95 % interval", "d", "p (Holm)", "outcome"]
    return {
        "id": identifier(spec.id, "claim"),
        "title": "The claim, comparison by comparison",
        "caption": "Paired t-tests over queries, each query averaged over the runs; p values "
        "corrected after Holm for all of them.",
        "columns": columns,
        "rows": [_claim_row(spec, one) for one in verdict.comparisons],
    }


def reference_of(spec: Spec, point: Point) -> tuple[str, Point] | None:
    """Return the method, and its point, that marks compare with: the claim's first winner."""
    if not spec.test:
        return None
    claim = read_test(spec.test[0], metrics=spec.metrics)
    return claim.winner, point if claim.at is None else claim.at


def published(spec: Spec, panel: str, method: str, metric: str) -> float | None:
    """Return the paper's number, if it has one."""
    for number in spec.paper:
        place = (number.get("panel", ""), number["method"], number["metric"])
        if place == (panel, method, metric):
            return float(number["value"])
    return None


def value_text(mean: RunMean, change: RelativeChange) -> str | None:
    """Return what a cell shows: mean (deviation), or the change in per cent (interval).

    >>> nothing = RelativeChange(math.nan, math.nan, math.nan)
    >>> value_text(RunMean(0.72264, 0.0038, 5), nothing)
    '0.7226 (0.0038)'
    >>> value_text(RunMean(0.5, 0.1, 5), RelativeChange(0.391, 0.1, 0.682))
    '+0.39 % (+0.10 to +0.68)'
    """
    if not math.isnan(change.percent):
        interval = "" if math.isnan(change.low) else f" ({change.low:+.2f} to {change.high:+.2f})"
        return f"{change.percent:+.2f} %{interval}"
    if math.isnan(mean.mean):
        return None
    spread = "" if math.isnan(mean.sd) else f" ({number_text(mean.sd)})"
    return number_text(mean.mean) + spread


def _table(
    spec: Spec,
    results: Measured,
    columns: Sequence[tuple[Point, str]],
    name: str,
    title: str,
) -> Table:
    cells = _compared(list(_cells(spec, results, columns)))
    by_place = {(c.panel, c.method, c.point, c.metric): c for c in cells}
    panels = panel_titles(spec, results)
    rows = []
    for panel, panel_title in panels.items():
        for method, method_title in method_titles(spec, panel, results).items():
            row: list[Any] = [panel_title] if len(panels) > 1 else []
            row.append(method_title)
            for point, metric in columns:
                row.append(_shown_cell(spec, by_place[panel, method, point, metric]))
                if _has_paper(spec, metric):
                    row.append(_paper_text(spec, published(spec, panel, method, metric)))
            rows.append(row)
    return {
        "id": identifier(spec.id, name, "table"),
        "title": title,
        "caption": _caption(spec, cells),
        "columns": _headers(spec, columns, panels=len(panels)),
        "rows": rows,
        "data": {"columns": list(STATISTICS), "rows": [_data_row(spec, c) for c in cells]},
    }


def _headers(spec: Spec, columns: Sequence[tuple[Point, str]], *, panels: int) -> list[str]:
    headers = [_panel_header(spec), "method"] if panels > 1 else ["method"]
    for point, metric in columns:
        headers.append(shown(point) if has_axis(spec) else metric_title(metric))
        if _has_paper(spec, metric):
            headers.append(f"paper: {metric_title(metric)}")
    return headers


def _panel_header(spec: Spec) -> str:
    return "ranker" if any(panel.ranker for panel in spec.panels) else "part"


def _has_paper(spec: Spec, metric: str) -> bool:
    return not has_axis(spec) and any(number["metric"] == metric for number in spec.paper)


def _paper_text(spec: Spec, value: float | None) -> str | None:
    if value is None:
        return None
    return f"{value:+.2f} %" if spec.relative_to is not None else number_text(value)


def _cells(spec: Spec, results: Measured, columns: Sequence[tuple[Point, str]]) -> Iterator[_Cell]:
    for panel in panel_titles(spec, results):
        for method in method_titles(spec, panel, results):
            for point, metric in columns:
                reference = reference_of(spec, point)
                yield _Cell(
                    panel,
                    method,
                    point,
                    metric,
                    mean_at(results, panel, method, point, metric),
                    change_at(spec, results, panel, method, point, metric),
                    reference,
                    _against(results, panel, method, point, metric, reference),
                )


def _against(
    results: Measured,
    panel: str,
    method: str,
    point: Point,
    metric: str,
    reference: tuple[str, Point] | None,
) -> Comparison | None:
    if reference is None or reference == (method, point) or not has_direction(metric):
        return None
    values = measured(results, panel, method, point, metric)
    other = measured(results, panel, reference[0], reference[1], metric)
    return None if values is None or other is None else compare(values, other)


def _compared(cells: list[_Cell]) -> list[_Cell]:
    p_values = [math.nan if c.comparison is None else c.comparison.p_value for c in cells]
    corrected = holm(p_values).tolist()
    return [replace(c, corrected=p) for c, p in zip(cells, corrected, strict=True)]


def _shown_cell(spec: Spec, cell: _Cell) -> Any:
    text = value_text(cell.mean, cell.change)
    comparison, reference = cell.comparison, cell.reference
    if text is None or comparison is None or reference is None:
        return text
    name = _reference_title(spec, cell)
    if comparison.reason:
        return {"value": text, "mark": "", "note": f"no test: {comparison.reason}"}
    note = (
        f"{signed_text(comparison.difference)} against {name} (95 % {signed_text(comparison.low)} "
        f"to {signed_text(comparison.high)}), corrected p {p_text(cell.corrected)}, d {comparison.effect_size:.2f}"
    )
    return {"value": text, "mark": _mark(cell, comparison), "note": note}


def _reference_title(spec: Spec, cell: _Cell) -> str:
    """Return what a cell is compared with; its point only where that is another."""
    method, point = cell.reference or ("", cell.point)
    title = titles_of(spec).get(method, method)
    return title if same_point(point, cell.point) else f"{title} at {shown(point)}"


def _mark(cell: _Cell, comparison: Comparison) -> str:
    if not cell.corrected <= SIGNIFICANT:
        return ""
    return WORSE if (comparison.difference < 0) != lower_is_better(cell.metric) else BETTER


def _caption(spec: Spec, cells: Sequence[_Cell]) -> str:
    value = "Change in per cent (95 % interval)" if spec.relative_to else "Mean (sd over runs)"
    compared = [c for c in cells if c.comparison is not None and not c.comparison.reason]
    if not compared or compared[0].reference is None:
        return f"{value}."
    name = _reference_title(spec, compared[0])
    return (
        f"{value}. {WORSE} significantly worse than {name}, {BETTER} significantly better: paired "
        f"t-test, p < {SIGNIFICANT:g} after Holm over the {len(compared)} comparisons of the table."
    )


def _data_row(spec: Spec, cell: _Cell) -> list[Any]:
    test, change = cell.comparison, cell.change
    numbers: list[Any] = [None] * 4
    tail: list[Any] = [None] * 4
    if test is not None and cell.reference is not None:
        method, point = cell.reference
        other = method if same_point(point, cell.point) else f"{method} at {point}"
        numbers = [other, *map(plain, (test.difference, test.low, test.high))]
        tail = [plain(test.p_value), plain(cell.corrected), plain(test.effect_size)]
        tail += [test.count]
    return [
        *(spec.id, cell.panel, cell.method, cell.point, cell.metric),
        *(plain(cell.mean.mean), plain(cell.mean.sd), cell.mean.runs),
        *map(plain, (change.percent, change.low, change.high)),
        *numbers,
        *tail,
    ]


def _claim_row(spec: Spec, one: Judged) -> list[Any]:
    claim, test = one.claim, one.comparison
    winner, rival = sides(one, titles_of(spec))
    text = f"{winner} {claim.verb} {'than ' if claim.verb == 'better' else ''}{rival}"
    text += f" in {metric_title(one.metric)}"
    if claim.relative_to is not None:
        text += f", change since {shown(claim.relative_to)}"
    if claim.margin:
        text += f", margin {claim.margin:g}"
    panels = {panel.name: panel.title or panel.name for panel in spec.panels}
    place = [text, panels.get(one.panel, one.panel), shown(one.point)]
    if test is None:
        return [*place, None, None, None, None, one.outcome]
    if test.reason:
        return [*place, plain(test.difference), None, None, None, test.reason]
    interval = f"{signed_text(test.low)} to {signed_text(test.high)}"
    return [
        *place,
        plain(test.difference),
        interval,
        plain(test.effect_size),
        plain(one.corrected),
        one.outcome,
    ]
