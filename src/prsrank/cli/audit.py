"""The command `prsrank audit`."""

from dataclasses import dataclass
from pathlib import Path

import typer

from prsrank.audit import audit as look_over
from prsrank.audit import with_curve
from prsrank.audit.findings import as_text
from prsrank.cli.inputs import LogInputs
from prsrank.cli.options import Json, Where, show, working
from prsrank.report.audit_section import report
from prsrank.report.html import write_report


@dataclass(frozen=True)
class _Log(LogInputs):
    WITHOUT = ("data",)


def audit(
    log: _Log,
    where: Where,
    html: Path | None = None,
    json: Json = False,
) -> None:
    r"""Look a click log over before any training: counts, problems, what to fix, worst first.

    Exit code 0: the log can be used (verdict "ready" or "usable with warnings"); 1: it cannot
    (verdict "not usable"); 2: it cannot be read at all.

    Args:
        html (FILE): Write a report as one page.

    \b
    Examples:
      prsrank audit log.parquet
      prsrank audit searches.csv --column query_id=srch_id --column session_id=srch_id --json
      prsrank audit logs/ --mapping log.toml --html audit.html
      prsrank audit hdfs://logs/2026 --spark --master spark://host:7077
    """
    table, mapping = log.table, log.meaning()
    with where.engine() as engine, log.opened(engine) as source, working(f"auditing {log.path}"):
        findings = look_over(source, table=table, mapping=mapping)
        findings = with_curve(findings, source, table=table, mapping=mapping)
    if html is not None:
        write_report(report(findings, log=log.path), html)
    show([as_text(findings)], findings.to_dict(), json=json)
    if findings.errors:
        raise typer.Exit(1)
