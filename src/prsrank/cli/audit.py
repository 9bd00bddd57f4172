"""The command `prsrank audit`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prsrank.cli.arguments import Json, print_json, working
from prsrank.cli.log_options import (
    AnyLog,
    Column,
    EngineName,
    Features,
    MappingFile,
    Master,
    Memory,
    log_mapping,
    open_log,
)

if TYPE_CHECKING:
    from prsrank.audit import Audit


def audit(
    log: AnyLog,
    column: Column = None,
    mapping: MappingFile = None,
    features: Features = None,
    memory: Memory = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a report as one page.")
    ] = None,
    engine: EngineName = "local",
    master: Master = None,
    json: Json = False,
) -> None:
    r"""Look a click log over before any training: counts, problems, what to fix, worst first.

    Exit code 0: the log can be used (verdict "ready" or "usable with warnings"); 1: it cannot
    (verdict "not usable"); 2: it cannot be read at all. On Spark the log is counted and
    no more: the findings are the local engine's.

    \b
    Examples:
      prsrank audit log.parquet
      prsrank audit searches.csv --column query_id=srch_id --column session_id=srch_id --json
      prsrank audit logs/ --mapping log.toml --html audit.html
    """
    from prsrank.audit.text import as_text

    if engine != "local" or master is not None:
        _count(log, column, mapping, engine, master, json)
        return
    found = _audited(log, column, mapping, features, memory)
    if html is not None:
        from prsrank.report.audit_section import report
        from prsrank.report.html import write_report

        write_report(report(found, log=log), html)
    if json:
        print_json(found.to_dict())
    else:
        typer.echo(as_text(found))
    if found.errors:
        raise typer.Exit(1)


def _count(
    log: str,
    column: list[str] | None,
    mapping: Path | None,
    engine: str,
    master: str | None,
    json: bool,
) -> None:
    """Count a log where it lies; an InputError names the first row that cannot be used."""
    from prsrank.spark import find_engine

    with (
        working(f"counting {log} on {engine}"),
        find_engine(engine, master=master) as runner,
        runner.open_log(log, mapping=log_mapping(column, mapping)) as events,
    ):
        counts = dict(runner.counts(events))
    if json:
        print_json({"counts": counts})
        return
    for name, count in counts.items():
        typer.echo(f"{name.replace('_', ' '):<22} {count:>14,}")


def _audited(
    log: str,
    column: list[str] | None,
    mapping: Path | None,
    features: str | None,
    memory: str | None,
) -> "Audit":
    from prsrank.audit import audit as look_over
    from prsrank.audit.feature_table import with_feature_table

    known = log_mapping(column, mapping)
    table = features if features is not None else known.feature_table
    with (
        working(f"auditing {log}"),
        open_log(log, column=column, mapping=mapping, memory=memory) as source,
    ):
        found = look_over(source)
        if table is None:
            return found
        return with_feature_table(found, source, table, mapping=known)
