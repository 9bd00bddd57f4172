"""The tables of a report as files: CSV, and Markdown with the verdicts."""

import csv
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prsrank.files import FileName, atomic_output

Report = Mapping[str, Any]


def write_tables(report: Report, folder: FileName) -> list[str]:
    """Write each table as a CSV file, whole or not at all.

    A table of results is written as its statistics, one row for each cell; other tables as
    they are shown.

    Args:
        report: see `prsrank.experiment.summary.report_of`.
        folder: where the files go.

    Returns:
        The names of the files.
    """
    names = []
    for table in (table for section in report["sections"] for table in section["tables"]):
        content = table.get("data", table)
        names.append(f"{table['id']}.csv")
        with (
            atomic_output(Path(folder) / names[-1]) as draft,
            draft.open("w", encoding="utf-8", newline="") as file,
        ):
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows([content["columns"], *content["rows"]])
    return names


def markdown(report: Report) -> str:
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
