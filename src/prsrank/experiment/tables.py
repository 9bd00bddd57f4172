"""The tables of an experiment: means, deviations, significance marks, and as files."""

import csv
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from prsrank.experiment.figures import identifier
from prsrank.experiment.results import Key
from prsrank.experiment.shown_results import Shown, ShownResults
from prsrank.experiment.spec import Point
from prsrank.experiment.statistics import RelativeChange
from prsrank.experiment.verdicts import SIGNIFICANT, Comparison
from prsrank.experiment.words import (
    decimal_text,
    direction,
    metric_title,
    p_text,
    percent_text,
    signed_text,
)
from prsrank.files import FileName, atomic_output
from prsrank.notebook.vega_lite import plain_number, point_text
from prsrank.report.parts import Part, table

WORSE, BETTER = "▼", "▲"

STATISTICS = (
    *("experiment", "panel", "method", "point", "metric", "mean", "sd", "runs"),
    *("percent", "percent_low", "percent_high", "reference", "difference", "low", "high"),
    *("p", "p_holm", "d", "queries"),
)
"""Columns of a table's `data`, one row for each cell: what the CSV file holds."""


def result_tables(shown: ShownResults) -> list[Part]:
    """Return a table of each metric over the points, or one of all metrics without an axis.

    A mark says that a method is significantly worse or better than the reference, the method
    that the claim is about, at the same point; p values are corrected after Holm over the
    table.
    """
    spec, points = shown.spec, shown.results.axis_points
    if not shown.has_axis:
        return [_table(shown, [("", m) for m in spec.metrics], "results", spec.title)]
    return [
        _table(shown, [(p, m) for p in points], m, f"{metric_title(m)} by {spec.axis.title}")
        for m in spec.metrics
    ]


def claim_table(shown: ShownResults, comparisons: Iterable[Comparison]) -> Part:
    """Return every comparison that a verdict rests on."""
    where = ["claim", _panel_header(shown), shown.spec.axis.title if shown.has_axis else "point"]
    return table(
        identifier(shown.spec.id, "claim"),
        "The claim, comparison by comparison",
        [*where, "difference", "95 % interval", "d", "p (Holm)", "outcome"],
        [_claim_row(shown, comparison) for comparison in comparisons],
        caption="Paired t-tests over queries, each query averaged over the runs (over runs "
        "where there are no queries); p values corrected after Holm for all of them.",
    )


def write_tables(report: Mapping[str, Any], folder: FileName) -> list[str]:
    """Write each table of a report as a CSV file, whole or not at all; return their names.

    A table of results is written as its statistics, one row for each cell; other tables as
    they are shown.
    """
    names = []
    for part in (part for section in report["sections"] for part in section["tables"]):
        content = part.get("data", part)
        names.append(f"{part['id']}.csv")
        with (
            atomic_output(Path(folder) / names[-1]) as draft,
            draft.open("w", encoding="utf-8", newline="") as file,
        ):
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows([content["columns"], *content["rows"]])
    return names


def markdown(report: Mapping[str, Any]) -> str:
    """Return verdicts and tables of a report as Markdown."""
    import jinja2

    environment = jinja2.Environment(  # noqa: S701 - Markdown, escaped by `_inline`
        loader=jinja2.PackageLoader("prsrank.report"),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"inline": _inline, "cell": _cell, "rule": lambda _: "---"}
    text: str = environment.get_template("report.md.j2").render(report=report)
    return text.rstrip() + "\n"


def _table(
    shown: ShownResults, columns: Sequence[tuple[Point, str]], name: str, title: str
) -> Part:
    several = len(shown.panels) > 1
    cells = shown.table({metric for _, metric in columns})
    with_paper = {n.metric for n in shown.spec.paper} if not shown.has_axis else set()
    headers = [_panel_header(shown), "method"] if several else ["method"]
    for point, metric in columns:
        headers.append(point_text(point) if shown.has_axis else metric_title(metric))
        if metric in with_paper:
            headers.append(f"paper: {metric_title(metric)}")
    rows = []
    for panel, panel_title in shown.panels.items():
        for method, method_title in shown.methods(panel).items():
            row: list[Any] = [panel_title, method_title] if several else [method_title]
            for point, metric in columns:
                row.append(_shown_cell(shown, cells[panel, method, point, metric]))
                if metric in with_paper:
                    row.append(_paper_text(shown, panel, method, metric))
            rows.append(row)
    data = {"columns": list(STATISTICS), "rows": [_data_row(shown, c) for c in cells.values()]}
    caption = _caption(shown, cells)
    return table(
        identifier(shown.spec.id, name, "table"), title, headers, rows, caption=caption
    ) | {"data": data}


def _panel_header(shown: ShownResults) -> str:
    return "ranker" if any(panel.ranker for panel in shown.spec.panels) else "part"


def _paper_text(shown: ShownResults, panel: str, method: str, metric: str) -> str | None:
    value = shown.published(panel, method, metric)
    form = percent_text if shown.spec.relative_to else decimal_text
    return None if value is None else form(value)


def _shown_cell(shown: ShownResults, cell: Shown) -> Any:
    """Return mean (deviation), or change (interval), with a mark where it differs."""
    value, low, high = cell.interval
    if math.isnan(value):
        return None
    if shown.spec.relative_to:
        interval = "" if math.isnan(low) else f" ({low:+.2f} to {high:+.2f})"
        text = percent_text(value) + interval
    else:
        spread = "" if math.isnan(cell.mean.sd) else f" ({decimal_text(cell.mean.sd)})"
        text = decimal_text(value) + spread
    test = cell.paired
    if test is None:
        return text
    if test.reason:
        return {"value": text, "mark": "", "note": f"no test: {test.reason}"}
    note = (
        f"{signed_text(test.difference)} against {_reference(shown, cell)} "
        f"(95 % {signed_text(test.low)} to {signed_text(test.high)}), "
        f"corrected p {p_text(cell.corrected)}, d {test.effect_size:.2f}"
    )
    is_worse = test.difference * direction(cell.key[3]) < 0
    mark = (WORSE if is_worse else BETTER) if cell.corrected <= SIGNIFICANT else ""
    return {"value": text, "mark": mark, "note": note}


def _reference(shown: ShownResults, cell: Shown) -> str:
    """Return what a cell is compared with; its point only where that is another."""
    method, point = cell.reference
    place = "" if point == cell.key[2] else f" at {point_text(point)}"
    return f"{shown.titles.get(method, method)}{place}"


def _caption(shown: ShownResults, cells: Mapping[Key, Shown]) -> str:
    value = (
        "Change in per cent (95 % interval)" if shown.spec.relative_to else "Mean (sd over runs)"
    )
    compared = [c for c in cells.values() if c.paired is not None and not c.paired.reason]
    if not compared:
        return f"{value}."
    name = _reference(shown, compared[0])
    return (
        f"{value}. {WORSE} significantly worse than {name}, {BETTER} significantly better: paired "
        f"t-test, p < {SIGNIFICANT:g} after Holm over the {len(compared)} comparisons of the table."
    )


def _data_row(shown: ShownResults, cell: Shown) -> list[Any]:
    mean, change, test = cell.mean, cell.change or RelativeChange(), cell.paired
    numbers = [mean.mean, mean.sd, mean.runs, change.percent, change.low, change.high]
    row = [shown.spec.id, *cell.key, *map(plain_number, numbers)]
    if test is None:
        return [*row, *[None] * 8]
    method, point = cell.reference
    place = "" if point == cell.key[2] else f" at {point}"
    tested = (test.difference, test.low, test.high, test.p_value, cell.corrected, test.effect_size)
    return [*row, f"{method}{place}", *map(plain_number, tested), test.queries]


def _claim_row(shown: ShownResults, comparison: Comparison) -> list[Any]:
    claim, test = comparison.claim, comparison.paired
    winner, rival = comparison.names(shown.titles)
    text = f"{winner} {claim.verb} {'than ' if claim.better else ''}{rival}"
    text += f" in {metric_title(comparison.metric)}"
    if claim.relative_to is not None:
        text += f", change since {point_text(claim.relative_to)}"
    if claim.margin:
        text += f", margin {claim.margin:g}"
    panel = shown.panels.get(comparison.panel, comparison.panel)
    where = [text, panel, point_text(comparison.point)]
    if test is None:
        return [*where, *[None] * 4, comparison.outcome]
    difference, effect = plain_number(test.difference), plain_number(test.effect_size)
    if test.reason:
        return [*where, difference, *[None] * 3, test.reason]
    interval = f"{signed_text(test.low)} to {signed_text(test.high)}"
    p_value = plain_number(comparison.corrected)
    return [*where, difference, interval, effect, p_value, comparison.outcome]


def _cell(cell: Any) -> str:
    if isinstance(cell, Mapping):
        return " ".join(filter(None, (_cell(cell["value"]), cell["mark"])))
    if isinstance(cell, float):
        return f"{cell:.4g}"
    return "" if cell is None else _inline(cell)


def _inline(text: Any) -> str:
    """Return text that stays in its line and its cell, HTML shown rather than obeyed."""
    escaped = re.sub(r"<(?=\S)", "&lt;", str(text).replace("&", "&amp;")).replace("|", "\\|")
    return " ".join(escaped.split())
