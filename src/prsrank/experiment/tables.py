"""The tables of an experiment as plain dicts: means, deviations and significance marks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from prsrank.experiment.claims import read_test, same_point
from prsrank.experiment.comparisons import SIGNIFICANT, Judged
from prsrank.experiment.evidence import sides
from prsrank.experiment.figures import identifier
from prsrank.experiment.metric_names import has_direction, lower_is_better, metric_title
from prsrank.experiment.number_texts import number_text, p_text, signed_text
from prsrank.experiment.results import Key
from prsrank.experiment.shown_results import ShownResults
from prsrank.experiment.spec import Point, Spec
from prsrank.experiment.statistics import RelativeChange, RunMean, compare_queries, per_query
from prsrank.experiment.verdicts import Verdict
from prsrank.metrics.significance import PairedTest, holm
from prsrank.report.numbers import plain_number, point_text
from prsrank.report.parts import Part

WORSE, BETTER = "▼", "▲"

STATISTICS = (
    *("experiment", "panel", "method", "point", "metric", "mean", "sd", "runs"),
    *("percent", "percent_low", "percent_high", "reference", "difference", "low", "high"),
    *("p", "p_holm", "d", "queries"),
)
"""Columns of a table's `data`, one row for each cell: what the CSV file holds."""


@dataclass(frozen=True)
class _Cell:
    """A value, and what it is compared with: the claim's first winner and its point, if any."""

    key: Key
    mean: RunMean
    change: RelativeChange
    reference: tuple[str, Point] = ("", "")
    comparison: PairedTest | None = None
    corrected: float = math.nan


def result_tables(shown: ShownResults) -> list[Part]:
    """Return a table of each metric over the points, or one of all metrics without an axis.

    A mark says that a method is significantly worse or better than the reference, the method
    that the claim is about, at the same point; p values are corrected after Holm over the
    table.
    """
    spec, points = shown.spec, shown.results.axis_points
    if not shown.has_axis:
        return [_table(shown, [("", m) for m in spec.metrics], "results", spec.title)]
    over = spec.axis.title
    return [
        _table(shown, [(point, m) for point in points], m, f"{metric_title(m)} by {over}")
        for m in spec.metrics
    ]


def claim_table(shown: ShownResults, verdict: Verdict) -> Part:
    """Return every comparison that a verdict rests on."""
    axis = shown.spec.axis.title if shown.has_axis else "point"
    where = ["claim", _panel_header(shown.spec), axis]
    return {
        "id": identifier(shown.spec.id, "claim"),
        "title": "The claim, comparison by comparison",
        "caption": "Paired t-tests over queries, each query averaged over the runs (over runs "
        "where there are no queries); p values corrected after Holm for all of them.",
        "columns": [*where, "difference", "95 % interval", "d", "p (Holm)", "outcome"],
        "rows": [_claim_row(shown, one) for one in verdict.comparisons],
    }


def value_text(mean: RunMean, change: RelativeChange) -> str | None:
    """Return what a cell shows: mean (deviation), or the change in per cent (interval).

    >>> value_text(RunMean(0.72264, 0.0038, 5), RelativeChange())
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
    shown: ShownResults, columns: Sequence[tuple[Point, str]], name: str, title: str
) -> Part:
    spec, panels = shown.spec, shown.panels()
    cells = _cells(shown, columns)
    headers = [_panel_header(spec), "method"] if len(panels) > 1 else ["method"]
    for point, metric in columns:
        headers.append(point_text(point) if shown.has_axis else metric_title(metric))
        if _has_paper(shown, metric):
            headers.append(f"paper: {metric_title(metric)}")
    return {
        "id": identifier(spec.id, name, "table"),
        "title": title,
        "caption": _caption(shown, list(cells.values())),
        "columns": headers,
        "rows": [
            [panel_title] * (len(panels) > 1)
            + [method_title, *_shown_cells(shown, panel, method, columns, cells)]
            for panel, panel_title in panels.items()
            for method, method_title in shown.methods(panel).items()
        ],
        "data": {
            "columns": list(STATISTICS),
            "rows": [_data_row(spec, cell) for cell in cells.values()],
        },
    }


def _panel_header(spec: Spec) -> str:
    return "ranker" if any(panel.ranker for panel in spec.panels) else "part"


def _has_paper(shown: ShownResults, metric: str) -> bool:
    return not shown.has_axis and any(number["metric"] == metric for number in shown.spec.paper)


def _cells(shown: ShownResults, columns: Sequence[tuple[Point, str]]) -> dict[Key, _Cell]:
    cells = [
        _cell(shown, (panel, method, point, metric))
        for panel in shown.panels()
        for method in shown.methods(panel)
        for point, metric in columns
    ]
    tests = (cell.comparison for cell in cells)
    corrected = holm([math.nan if test is None else test.p_value for test in tests]).tolist()
    return {c.key: replace(c, corrected=p) for c, p in zip(cells, corrected, strict=True)}


def _cell(shown: ShownResults, key: Key) -> _Cell:
    panel, method, point, metric = key
    cell = _Cell(key, shown.mean(key), shown.change(key))
    if not shown.spec.test or not has_direction(metric):
        return cell
    claim = read_test(shown.spec.test[0], metrics=shown.spec.metrics)
    reference = (claim.winner, point if claim.at is None else claim.at)
    values = shown.results.measured(*key)
    other = shown.results.measured(panel, *reference, metric)
    if reference == (method, point) or values is None or other is None:
        return cell
    test = compare_queries(per_query(values), per_query(other))
    return replace(cell, reference=reference, comparison=test)


def _shown_cells(
    shown: ShownResults,
    panel: str,
    method: str,
    columns: Sequence[tuple[Point, str]],
    cells: dict[Key, _Cell],
) -> list[Any]:
    """Return what a row shows, the paper's numbers beside ours."""
    row: list[Any] = []
    for point, metric in columns:
        row.append(_shown_cell(shown, cells[panel, method, point, metric]))
        if _has_paper(shown, metric):
            value = shown.published(panel, method, metric)
            form = "{:+.2f} %".format if shown.spec.relative_to is not None else number_text
            row.append(None if value is None else form(value))
    return row


def _shown_cell(shown: ShownResults, cell: _Cell) -> Any:
    text, test = value_text(cell.mean, cell.change), cell.comparison
    if text is None or test is None:
        return text
    if test.reason:
        return {"value": text, "mark": "", "note": f"no test: {test.reason}"}
    note = (
        f"{signed_text(test.difference)} against {_reference_title(shown, cell)} "
        f"(95 % {signed_text(test.low)} to {signed_text(test.high)}), "
        f"corrected p {p_text(cell.corrected)}, d {test.effect_size:.2f}"
    )
    mark = ""
    if cell.corrected <= SIGNIFICANT:
        worse = (test.difference < 0) != lower_is_better(cell.key[3])
        mark = WORSE if worse else BETTER
    return {"value": text, "mark": mark, "note": note}


def _reference_title(shown: ShownResults, cell: _Cell) -> str:
    """Return what a cell is compared with; its point only where that is another."""
    method, point = cell.reference
    title = shown.titles.get(method, method)
    return title if same_point(point, cell.key[2]) else f"{title} at {point_text(point)}"


def _caption(shown: ShownResults, cells: Sequence[_Cell]) -> str:
    relative = shown.spec.relative_to
    value = "Change in per cent (95 % interval)" if relative else "Mean (sd over runs)"
    compared = [c for c in cells if c.comparison is not None and not c.comparison.reason]
    if not compared:
        return f"{value}."
    name = _reference_title(shown, compared[0])
    return (
        f"{value}. {WORSE} significantly worse than {name}, {BETTER} significantly better: paired "
        f"t-test, p < {SIGNIFICANT:g} after Holm over the {len(compared)} comparisons of the table."
    )


def _data_row(spec: Spec, cell: _Cell) -> list[Any]:
    test, change, mean = cell.comparison, cell.change, cell.mean
    numbers = [*map(plain_number, (mean.mean, mean.sd)), mean.runs]
    numbers += map(plain_number, (change.percent, change.low, change.high))
    row = [spec.id, *cell.key, *numbers]
    if test is None:
        return [*row, *[None] * 8]
    method, point = cell.reference
    other = method if same_point(point, cell.key[2]) else f"{method} at {point}"
    found = (test.difference, test.low, test.high, test.p_value, cell.corrected, test.effect_size)
    return [*row, other, *map(plain_number, found), test.queries]


def _claim_row(shown: ShownResults, one: Judged) -> list[Any]:
    claim, test = one.claim, one.comparison
    winner, rival = sides(one, shown.titles)
    text = f"{winner} {claim.verb} {'than ' if claim.verb == 'better' else ''}{rival}"
    text += f" in {metric_title(one.metric)}"
    if claim.relative_to is not None:
        text += f", change since {point_text(claim.relative_to)}"
    if claim.margin:
        text += f", margin {claim.margin:g}"
    where = [text, shown.panel_titles.get(one.panel, one.panel), point_text(one.point)]
    if test is None:
        return [*where, *[None] * 4, one.outcome]
    difference, effect = plain_number(test.difference), plain_number(test.effect_size)
    if test.reason:
        return [*where, difference, *[None] * 3, test.reason]
    interval = f"{signed_text(test.low)} to {signed_text(test.high)}"
    return [*where, difference, interval, effect, plain_number(one.corrected), one.outcome]
