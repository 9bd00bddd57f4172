"""From results to a section of the report: figures, tables, verdict and settings, all plain.

Every text here is made from figures; names pass through as they are (escaping them is the
page's job).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from typing import Any

import numpy as np

from prsrank.experiment.claims import Verdict, judge
from prsrank.experiment.results import Key, Results
from prsrank.experiment.spec import Point, Spec, direction, metric_title
from prsrank.experiment.statistics import (
    SIGNIFICANT,
    RunMean,
    compare_queries,
    decimal_text,
    difference_text,
    interval_text,
    p_text,
    per_query,
    run_mean,
)
from prsrank.metrics.significance import PairedTest, holm
from prsrank.notebook.vega_lite import plain_number, point_text
from prsrank.report.charts import file_names
from prsrank.report.parts import Part, figure, section, series, table
from prsrank.types import Floats

WORSE, BETTER = "▼", "▲"

STATISTICS = (
    *("experiment", "panel", "method", "point", "metric", "mean", "sd", "runs"),
    *("reference", "difference", "low", "high", "p", "p_holm", "d", "queries"),
)
"""Columns of a table's `data`, one row for each cell: what the CSV file holds."""


@dataclass(frozen=True)
class Statistic:
    """A value of a report.

    Attributes:
        key: panel, method, point and metric.
        mean: over runs.
        reference: title of the claim's first winner, with its point where that is another.
        paired: value - reference; None where that says nothing.
        corrected: its p value after Holm over the table.
    """

    key: Key
    mean: RunMean
    reference: str = ""
    paired: PairedTest | None = None
    corrected: float = math.nan

    @property
    def interval(self) -> tuple[float, float, float]:
        """What a figure shows with its ends: mean and deviation."""
        return self.mean.mean, self.mean.mean - self.mean.sd, self.mean.mean + self.mean.sd

    def row(self, experiment: str) -> list[Any]:
        """Return the values of `STATISTICS`."""
        row, test = [experiment, *self.key, *asdict(self.mean).values()], self.paired
        if test is None:
            return [*map(plain_number, row), *[None] * 8]
        tested = (test.difference, test.low, test.high, test.p_value)
        row += [self.reference, *tested, self.corrected, test.effect_size, test.queries]
        return [*map(plain_number, row)]

    def cell(self) -> Any:
        """Return mean (deviation), with a mark where it differs."""
        test, spread = self.paired, self.mean.sd
        if not self.mean.runs:
            return None
        text = decimal_text(self.mean.mean)
        text += "" if math.isnan(spread) else f" ({decimal_text(spread)})"
        if test is None:
            return text
        if test.reason:
            return {"value": text, "mark": "", "note": f"no test: {test.reason}"}
        note = f"{difference_text(test)} against {self.reference}, corrected p {p_text(self.corrected)}"
        is_worse = test.difference * direction(self.key[3]) < 0
        mark = (WORSE if is_worse else BETTER) if self.corrected <= SIGNIFICANT else ""
        return {"value": text, "mark": mark, "note": f"{note}, d {test.effect_size:.2f}"}


def statistics(results: Results, metrics: Iterable[str]) -> dict[Key, Statistic]:
    """Return the statistics of every value of a table, p values corrected over all of them."""
    values = [
        _statistic(results, (panel, method, point, metric))
        for panel in results.panels()
        for method in results.methods(panel)
        for point in results.spec.axis.points
        for metric in metrics
    ]
    corrected = holm([math.nan if v.paired is None else v.paired.p_value for v in values])
    return {
        value.key: replace(value, corrected=p)
        for value, p in zip(values, corrected.tolist(), strict=True)
    }


def _statistic(results: Results, key: Key) -> Statistic:
    spec, values = results.spec, _relative(results, *key)
    panel, method, point, metric = key
    if values is None:
        return Statistic(key, RunMean())
    shown = Statistic(key, run_mean(values))
    if not spec.test or not direction(metric):
        return shown
    winner, at = spec.test[0].winner, spec.test[0].at
    other = _relative(results, panel, winner, point if at is None else at, metric)
    if other is None or (method, point) == (winner, point if at is None else at):
        return shown
    reference = results.titles()[winner]
    reference += "" if at is None or at == point else f" at {point_text(at)}"
    paired = compare_queries(per_query(values), per_query(other))
    return replace(shown, reference=reference, paired=paired)


def _relative(
    results: Results, panel: str, method: str, point: Point, metric: str
) -> Floats | None:
    """Return the values measured, or by how many per cent they exceed the spec's base."""
    values = results.measured(panel, method, point, metric)
    if values is None or not results.spec.relative_to:
        return values
    of_panel, of_method = results.spec.relative_to
    base = results.measured(of_panel, of_method, point, metric)
    return None if base is None else 100 * (values / (np.nanmean(base) or math.nan) - 1)


def summarise(results: Results) -> Part:
    """Return the section of one experiment: a plain dict."""
    spec, verdict, said = results.spec, judge(results), None
    groups = [(metric,) for metric in spec.metrics] if spec.has_axis else [spec.metrics]
    tables, figures = [], []
    for metrics in groups:
        values = statistics(results, metrics)
        tables.append(_table(results, metrics, values))
        figures += [_figure(results, metric, values) for metric in metrics]
    if verdict is not None:
        tables.append(_claim_table(results, verdict))
        said = {"label": verdict.label, "evidence": verdict.evidence(results.titles())}
    return section(
        spec.id,
        spec.title,
        claim=spec.claim or spec.title,
        verdict=said,
        figures=figures,
        tables=tables,
        details=_details(results),
        notes=[note for note in (spec.data_note, spec.paper_note, *spec.notes) if note],
    )


def _table(results: Results, metrics: Sequence[str], values: Mapping[Key, Statistic]) -> Part:
    """Return a table of a metric over the points, or one of all metrics without an axis.

    A mark says that a method is significantly worse or better than the reference, the method
    that the claim is about, at the same point.
    """
    spec, panels = results.spec, results.panels()
    paper = {(v.panel, v.method, v.metric): v.value for v in spec.paper if not spec.has_axis}
    with_paper = {metric for *_, metric in paper}
    several = len(panels) > 1
    columns = [_panel_header(results), "method"] if several else ["method"]
    shown: list[tuple[Point, str]] = [(p, m) for p in spec.axis.points for m in metrics]
    for point, metric in shown:
        columns.append(point_text(point) if spec.has_axis else _title(spec, metric))
        columns += [f"paper: {_title(spec, metric)}"] if metric in with_paper else []
    rows = []
    for panel, panel_title in panels.items():
        for method, title in results.methods(panel).items():
            row: list[Any] = [panel_title, title] if several else [title]
            for point, metric in shown:
                row.append(values[panel, method, point, metric].cell())
                if metric in with_paper:
                    row.append(paper.get((panel, method, metric)))
            rows.append(row)
    name, title = "results", spec.title
    if spec.has_axis:
        name, title = metrics[0], f"{_title(spec, metrics[0])} by {spec.axis.title}"
    caption = "Mean (sd over runs)"
    if spec.relative_to:
        caption += f", change against {' '.join(reversed(spec.relative_to))} in per cent"
    tests = [v for v in values.values() if v.paired is not None and not v.paired.reason]
    if tests:
        caption += (
            f". {WORSE} significantly worse than {tests[0].reference}, {BETTER} significantly "
            f"better: paired t-test, p < {SIGNIFICANT:g} after Holm over the {len(tests)} "
            "comparisons of the table"
        )
    data = {"columns": list(STATISTICS), "rows": [v.row(spec.id) for v in values.values()]}
    part = table(identifier(spec.id, name, "table"), title, columns, rows, caption=f"{caption}.")
    return part | {"data": data}


def _claim_table(results: Results, verdict: Verdict) -> Part:
    """Return every comparison that a verdict rests on."""
    titles, panels, rows = results.titles(), results.panels(), []
    for assertion in verdict.assertions:
        for made in assertion.comparisons:
            test, numbers = made.paired, list[Any]([None] * 4)
            if test is not None:
                interval = None if test.reason else interval_text(test)
                numbers = [test.difference, interval, test.effect_size, made.corrected]
            row = [assertion.text(titles), panels.get(made.panel, made.panel)]
            row += [point_text(made.point), *map(plain_number, numbers)]
            rows.append([*row, test.reason or made.outcome if test else made.outcome])
    spec = results.spec
    where = ["claim", _panel_header(results), spec.axis.title if spec.has_axis else "point"]
    return table(
        identifier(spec.id, "claim"),
        "The claim, comparison by comparison",
        [*where, "difference", "95 % interval", "d", "p (Holm)", "outcome"],
        rows,
        caption="Paired t-tests over queries, each query averaged over the runs; p values "
        "corrected after Holm for all of them.",
    )


def _title(spec: Spec, metric: str) -> str:
    return metric_title(metric) + (", change in %" if spec.relative_to else "")


def _panel_header(results: Results) -> str:
    return "ranker" if any(panel.ranker for panel in results.spec.panels) else "part"


def _figure(results: Results, metric: str, values: Mapping[Key, Statistic]) -> Part:
    """Draw a metric: a panel for each ranker, lines over the axis or an interval a method."""
    spec, name = results.spec, _title(results.spec, metric)

    def drawn(panel: str, method: str, title: str) -> Part:
        rows = []
        for point in spec.axis.points:
            value, low, high = values[panel, method, point, metric].interval
            if not math.isnan(value):
                at = point if spec.has_axis else title
                rows.append((at, value) if math.isnan(low) else (at, value, low, high))
        return series(title, [row[: min(map(len, rows))] for row in rows])

    runs = max(value.mean.runs for value in values.values())
    caption = f"Mean over {runs} runs, with one standard deviation" if runs > 1 else "One run"
    return figure(
        identifier(spec.id, metric),
        f"{spec.title}: {name}" if len(spec.metrics) > 1 else spec.title,
        (
            spec.axis.title if spec.has_axis else "method",
            name,
        ),
        {
            title: [drawn(panel, *names) for names in results.methods(panel).items()]
            for panel, title in results.panels().items()
        },
        kind="lines" if spec.has_axis else "intervals",
        scale=spec.axis.scale if spec.has_axis else "ordinal",
        zero=metric == "share",
        caption=caption
        + {1: ". More is better.", -1: ". Less is better.", 0: "."}[direction(metric)],
        alt=f"Chart of {name} by {spec.axis.title}: {', '.join(results.titles().values())}.",
    )


def identifier(*names: str) -> str:
    """Join names to one that files and pages can bear.

    >>> identifier("fig3", "ndcg@10")
    'fig3-ndcg-10'
    """
    return "-".join(file_names(["-".join(names).lower()]))


def _details(results: Results) -> list[Part]:
    """Return blocks of rows: settings, chosen hyper-parameters, and clicks per query."""
    spec = results.spec
    names = ("data", "clicks", "propensity", "rankers", "tuning", "folds", "runs", "seed")
    settings = {name: getattr(spec, name) for name in names if getattr(spec, name) != ""}
    settings |= {f"clicks in {p.title or p.name}": p.clicks for p in spec.panels if p.clicks}
    chosen = {name: list(dict.fromkeys(map(value_line, v))) for name, v in results.chosen.items()}
    clicks = {point_text(p) or "all": v for p, v in results.clicks_per_query.items()}
    blocks = {"Settings": settings, "Chosen hyper-parameters": chosen}
    blocks["Clicks per training query"] = clicks
    return [
        {"title": title, "rows": [[name, value_line(value)] for name, value in rows.items()]}
        for title, rows in blocks.items()
        if rows
    ]


def value_line(value: Any) -> str:
    """Return any plain value or dataclass in one line.

    >>> value_line({"l2": 0.01, "tau": [0.0, 0.1]}), value_line(128000)
    ('l2 0.01, tau 0; 0.1', '128,000')
    """
    value = vars(value) if is_dataclass(value) else value
    if isinstance(value, Mapping):
        parts = [(name, part) for name, part in value.items() if part not in (None, {})]
        return ", ".join(f"{name} {value_line(part)}" for name, part in parts)
    if isinstance(value, list | tuple):
        return "; ".join(map(value_line, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return point_text(value) if isinstance(value, int | float) else str(value)
