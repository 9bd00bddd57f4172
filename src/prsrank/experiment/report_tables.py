"""The tables of a report as files: CSV, and Markdown with the verdicts."""

import csv
import re
from collections.abc import Mapping, Sequence
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
    lines = [f"# {_inline(report['title'])}", "", _inline(report["subtitle"]), ""]
    lines += [line for text in report["lead"] for line in (_inline(text), "")]
    if report["verdicts"]:
        rows = [[v["title"], v["claim"], v["label"], v["evidence"]] for v in report["verdicts"]]
        lines += [*_markdown_table(["", "claim", "verdict", "evidence"], rows), ""]
    for section in report["sections"]:
        lines += _markdown_section(section)
    return "\n".join(lines).rstrip() + "\n"


def _markdown_section(section: Mapping[str, Any]) -> list[str]:
    lines = [f"## {_inline(section['title'])}", ""]
    if section["claim"]:
        lines += [f"Claim: {_inline(section['claim'])}", ""]
    if section["verdict"]:
        verdict = section["verdict"]
        lines += [f"**{verdict['label'].capitalize()}.** {_inline(verdict['evidence'])}", ""]
    lines += [line for text in section["text"] for line in (_inline(text), "")]
    for table in section["tables"]:
        lines += [f"### {_inline(table['title'])}", ""]
        lines += [*_markdown_table(table["columns"], table["rows"]), "", _inline(table["caption"])]
        lines += [""]
    return lines + [line for note in section["notes"] for line in (_inline(note), "")]


def _markdown_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    return [
        f"| {' | '.join(_inline(column) for column in columns)} |",
        f"| {' | '.join('---' for _ in columns)} |",
        *(f"| {' | '.join(_markdown_cell(cell) for cell in row)} |" for row in rows),
    ]


def _markdown_cell(cell: Any) -> str:
    if isinstance(cell, Mapping):
        return " ".join(filter(None, (_markdown_cell(cell["value"]), cell["mark"])))
    if isinstance(cell, float):
        return f"{cell:.4g}"
    return "" if cell is None else _inline(cell)


def _inline(text: Any) -> str:
    """Return text that stays in its line and its cell, HTML shown rather than obeyed."""
    escaped = re.sub(r"<(?=\S)", "&lt;", str(text).replace("&", "&amp;")).replace("|", "\\|")
    return " ".join(escaped.split())
