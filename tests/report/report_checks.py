"""Whether a report has all that the page shows: what every builder of sections must keep to."""

import math
from collections.abc import Sequence
from typing import Any

from prsrank.errors import InputError
from prsrank.report.parts import Part, figures_of

LABELS = ("confirmed", "not confirmed", "contradicted")
SCALES = ("linear", "log", "ordinal")
KINDS = ("lines", "bars", "intervals")

_REPORT = ("title", "subtitle", "card", "lead", "figures", "verdicts", "sections", "about")
_CARD = ("tone", "label", "title", "lines", "command", "links")
TONES = ("good", "open", "bad", "plain")
_VERDICT = ("section", "title", "claim", "label", "evidence")
_SECTION = (
    *("id", "title", "claim", "verdict", "folded"),
    *("text", "cards", "figures", "tables", "details", "notes"),
)
_FIGURE = ("id", "title", "caption", "alt", "x", "y", "kind", "panels")
_TABLE = ("id", "title", "caption", "columns", "rows")


def check_report(report: Part) -> None:
    """Raise an InputError that names what is missing or does not fit."""
    _has(report, _REPORT, "the report")
    for number, section in enumerate(report["sections"], 1):
        _check_section(section, f"section {number}")
    if report["card"] is not None:
        _check_card(report["card"], "the report's card")
    for number, figure in enumerate(report["figures"], 1):
        check_figure(figure, f"figure {number} of the summary")
    known = [section["id"] for section in report["sections"]]
    _distinct(known, "two sections have the id")
    _distinct([f["id"] for f in figures_of(report)], "two figures have the id")
    for number, verdict in enumerate(report["verdicts"], 1):
        where = f"verdict {number}"
        _has(verdict, _VERDICT, where)
        _one_of(verdict["label"], LABELS, f"{where}: label")
        _one_of(verdict["section"], known, f"{where}: section")
    _check_rows(report["about"], 2, "about")


def check_figure(figure: Part, where: str = "the figure") -> None:
    """Raise an InputError that names what is missing in a figure or does not fit."""
    _has(figure, _FIGURE, where)
    where = f"{where} ('{figure['id']}')"
    _one_of(figure["kind"], KINDS, f"{where}: kind")
    _has(figure["x"], ("title", "scale"), f"{where}: x")
    _has(figure["y"], ("title", "zero"), f"{where}: y")
    _one_of(figure["x"]["scale"], SCALES, f"{where}: scale")
    for number, panel in enumerate(figure["panels"], 1):
        _has(panel, ("title", "series"), f"{where}: panel {number}")
        for series in panel["series"]:
            _check_series(series, figure, f"{where}: panel {number}")


def _check_section(section: Part, where: str) -> None:
    _has(section, _SECTION, where)
    where = f"{where} ('{section['id']}')"
    if section["verdict"] is not None:
        _has(section["verdict"], ("label", "evidence"), f"{where}: verdict")
        _one_of(section["verdict"]["label"], LABELS, f"{where}: label")
    for number, card in enumerate(section["cards"], 1):
        _check_card(card, f"{where}: card {number}")
    for number, figure in enumerate(section["figures"], 1):
        check_figure(figure, f"{where}: figure {number}")
    for number, table in enumerate(section["tables"], 1):
        _has(table, _TABLE, f"{where}: table {number}")
        _check_rows(table["rows"], len(table["columns"]), f"{where}: table {number}")
    for number, detail in enumerate(section["details"], 1):
        _has(detail, ("title", "rows"), f"{where}: detail {number}")
        _check_rows(detail["rows"], 2, f"{where}: detail {number}")


def _check_card(card: Part, where: str) -> None:
    _has(card, _CARD, where)
    _one_of(card["tone"], TONES, f"{where}: tone")


def _check_series(series: Part, figure: Part, where: str) -> None:
    _has(series, ("name", "x", "y", "low", "high"), where)
    where = f"{where}: series '{series['name']}'"
    for name in ("y", "low", "high"):
        values = series[name]
        if values is None and name != "y":
            continue
        if len(values) != len(series["x"]):
            raise InputError(f"{where}: {len(values)} values of {name} for {len(series['x'])} of x")
    if figure["kind"] == "lines" and figure["x"]["scale"] != "ordinal":
        for value in series["x"]:
            if isinstance(value, str) or not math.isfinite(value):
                raise InputError(f"{where}: x is '{value}': an ordinal scale takes such values")
            if figure["x"]["scale"] == "log" and value <= 0:
                raise InputError(f"{where}: x is {value}: a log scale takes values above 0")


def _check_rows(rows: Sequence[Sequence[Any]], columns: int, where: str) -> None:
    for number, row in enumerate(rows, 1):
        if len(row) != columns:
            raise InputError(f"{where}: row {number} has {len(row)} cells, not {columns}")


def _has(part: Part, keys: Sequence[str], where: str) -> None:
    for key in keys:
        if key not in part:
            raise InputError(f"{where} has no '{key}'")


def _one_of(value: Any, known: Sequence[Any], where: str) -> None:
    if value not in known:
        raise InputError(f"{where} is '{value}': one of {', '.join(map(str, known))}")


def _distinct(names: Sequence[str], message: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(f"{message} '{name}'")
        seen.add(name)
