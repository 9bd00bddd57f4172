"""The command `prsrank audit`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from prsrank.audit import Audit
from prsrank.audit import audit as look_over
from prsrank.audit.findings import as_text
from prsrank.audit.log_audit import with_curve
from prsrank.cli.arguments import Json, print_json, working
from prsrank.cli.log_inputs import TableOptions
from prsrank.cli.log_options import Spark, find_runner
from prsrank.report.audit_section import report
from prsrank.report.html import write_report


def audit(
    log: TableOptions,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a report as one page.")
    ] = None,
    spark: Spark = None,
    json: Json = False,
) -> None:
    r"""Look a click log over before any training: counts, problems, what to fix, worst first.

    Exit code 0: the log can be used (verdict "ready" or "usable with warnings"); 1: it cannot
    (verdict "not usable"); 2: it cannot be read at all.

    \b
    Examples:
      prsrank audit log.parquet
      prsrank audit searches.csv --column query_id=srch_id --column session_id=srch_id --json
      prsrank audit logs/ --mapping log.toml --html audit.html
      prsrank audit hdfs://logs/2026 --spark spark://host:7077
    """
    if spark is None:
        with log.opened() as source:
            found = _audited(log, source)
    else:
        with find_runner(spark) as runner, log.opened(runner) as source:
            found = _audited(log, source)
    if html is not None:
        write_report(report(found, log=log.path), html)
    if json:
        print_json(found.to_dict())
    else:
        typer.echo(as_text(found))
    if found.errors:
        raise typer.Exit(1)


def _audited(log: TableOptions, source: Any) -> Audit:
    table, mapping = log.table, log.meaning()
    with working(f"auditing {log.path}"):
        found = look_over(source, table=table, mapping=mapping)
        return with_curve(found, source, table=table, mapping=mapping)
