"""The report of a fit on an engine: the local fit's, with counts in place of the audit."""

from pathlib import Path
from typing import TYPE_CHECKING

from prsrank.report.fit_report import fit_report
from prsrank.report.parts import about_rows, section

if TYPE_CHECKING:
    from prsrank.fit.on_engine import EngineFit

_SPLIT = (
    "Queries are split by a hash of their ids: the same queries are held out whatever the seed."
)


def write_engine_report(result: "EngineFit", file: Path, started: float) -> None:
    """Write the report of a fit on an engine."""
    from prsrank.report.html import write_report

    counts = [[name.replace("_", " "), count] for name, count in result.counts.items()]
    text = [f"On engine {result.engine} the rows of the log are checked, but not audited."]
    log = section("log", "The log", text=text, details=[{"title": "Counts", "rows": counts}])
    command = f"prsrank fit {result.plan.log} --engine {result.engine} ..."
    about = about_rows(seed=result.plan.seed, started=started, command=command)
    write_report(fit_report(result, log=log, about=about, notes=[_SPLIT]), file)
