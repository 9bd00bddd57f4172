"""A report as one web page that loads nothing from anywhere."""

import base64
import hashlib
import re
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

from prsrank import __version__
from prsrank.errors import InputError
from prsrank.files import FileName, atomic_output
from prsrank.notebook.vega_lite import (
    STYLES,
    panel_points,
    panel_spec,
    point_text,
    series_names,
    series_rows,
)
from prsrank.report.charts import file_names, style_numbers
from prsrank.report.numbers import MISSING, cell_text, interval_text
from prsrank.report.parts import Part, figures_of

_NUMBER = re.compile(r"[+\-−±<]?\s?\d[\d.,]*")
_ICONS = {"confirmed": "✓", "not confirmed": "○", "contradicted": "✗"}


def write_report(report: Part, path: FileName) -> None:
    """Write a report to one HTML file, whole or not at all.

    Args:
        report: title, subtitle, lead, verdicts, sections and about, all plain values.
        path: the file.
    """
    page = report_html(report)
    with atomic_output(path) as draft:
        draft.write_text(page, encoding="utf-8")


def report_html(report: Part) -> str:
    """Return the page of a report. Every text of the report is escaped.

    Charts are Vega-Lite, run by the embedded library without `eval`; the page's security
    policy allows its own scripts by their hashes and no request at all.
    """
    from markupsafe import Markup

    styles = style_numbers(series_names([figure]) for figure in figures_of(report))
    scripts = [chart_library(), asset("report.js")]
    page: str = template("report.html.j2").render(
        report=report,
        anchors=_anchors(section["id"] for section in report["sections"]),
        figures=_figures(report, styles),
        tables={id(t): _table(t) for s in report["sections"] for t in s["tables"]},
        labels=_counts(report["verdicts"]),
        icons=_ICONS,
        styles=STYLES,
        css=Markup(asset("report.css")),  # noqa: S704 - our own file
        scripts=[Markup(script) for script in scripts],  # noqa: S704 - our own files
        hashes=[script_hash(script) for script in scripts],
        text=cell_text,
        plain=lambda value: value if isinstance(value, str) else str(value),
        identity=id,
    )
    return page


def template(name: str) -> Any:
    """Return a template of this package; whatever it is given is escaped."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("prsrank.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    # keys stay as they are, and a number that JSON cannot hold is an error
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False}
    return environment.get_template(name)


def asset(name: str) -> str:
    """Return a script or style sheet of this package."""
    return files("prsrank.report").joinpath("templates", name).read_text(encoding="utf-8")


@cache
def chart_library() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script, safe within a script element.

    To make it takes a second: it is kept beside the compiled modules, where Python may keep those.
    """
    name = f"vega-{version('vl-convert-python')}-{__version__}.js"
    kept = Path(cache_from_source(__file__)).with_name(name)
    with suppress(OSError):
        return kept.read_text(encoding="utf-8")
    script = _made_library()
    if not sys.dont_write_bytecode:
        with suppress(OSError, InputError), atomic_output(kept) as draft:
            draft.write_text(script, encoding="utf-8")
    return script


def _made_library() -> str:
    import vl_convert

    script: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    script = script.replace("\r\n", "\n").replace("\r", "\n")
    return re.sub(r"<(?=/script|!--|script)", r"\\x3c", script, flags=re.IGNORECASE)


def script_hash(script: str) -> str:
    """Return by what a page's security policy knows its own script."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _anchors(ids: Iterable[str], kind: str = "section") -> dict[str, str]:
    """Return a fragment name for each section or figure, of harmless letters."""
    names = list(ids)
    return {key: f"{kind}-{name}" for key, name in zip(names, file_names(names), strict=True)}


def _counts(verdicts: Iterable[Part]) -> dict[str, int]:
    labels = [verdict["label"] for verdict in verdicts]
    return {label: labels.count(label) for label in _ICONS if label in labels}


def _figures(report: Part, styles: Mapping[str, int]) -> dict[str, Any]:
    """Return, by the figure's id, what the page draws and tells."""
    figures = figures_of(report)
    anchors = _anchors((figure["id"] for figure in figures), "figure")
    return {
        figure["id"]: {
            "anchor": anchors[figure["id"]],
            "methods": [[n, styles[n]] for n in series_names([figure])],
            "panels": [_panel(figure, panel, styles) for panel in figure["panels"]],
        }
        for figure in figures
    }


def _panel(figure: Part, panel: Part, styles: Mapping[str, int]) -> dict[str, Any]:
    names = series_names([{"panels": [panel]}])
    points, tips = panel_points(panel), panel_tips(panel)
    texts = [point_text(point) for point in points]
    return {
        "title": panel["title"],
        "columns": [figure["x"]["title"], *names],
        "rows": [
            [text, *(dict(tip).get(name, MISSING) for name in names)]
            for text, tip in zip(texts, tips, strict=True)
        ],
        "chart": {"spec": panel_spec(figure, panel, styles), "points": texts, "tips": tips},
    }


def panel_tips(panel: Part) -> list[list[list[str]]]:
    """Return, for each point of a panel, the name and the value in words of each series."""
    return [
        [
            [series["name"], interval_text(*values)]
            for series in panel["series"]
            for x, *values in series_rows(series)
            if x == point
        ]
        for point in panel_points(panel)
    ]


def _table(table: Part) -> dict[str, Any]:
    """Return the texts of a table, which columns hold numbers, and the notes to its cells."""
    rows = [[_cell(cell) for cell in row] for row in table["rows"]]
    numeric = []
    for i in range(len(table["columns"])):
        texts = [row[i]["text"] for row in rows if row[i]["text"] not in ("", MISSING)]
        numeric.append(bool(texts) and all(_NUMBER.match(text) for text in texts))
    naming = max(1, [*numeric, True].index(True))
    notes = [
        [", ".join(c["text"] for c in row[:naming]), column, cell["mark"], cell["note"]]
        for row in rows
        for column, cell in zip(table["columns"], row, strict=True)
        if cell["note"]
    ]
    return {"rows": rows, "notes": notes, "numeric": numeric}


def _cell(cell: Any) -> dict[str, Any]:
    parts = cell if isinstance(cell, Mapping) else {"value": cell}
    return {"mark": "", "note": "", **parts, "text": cell_text(parts.get("value"))}
