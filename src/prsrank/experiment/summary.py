"""From results to the report: sections of figures, tables, verdicts and settings, all plain.

Every sentence here is made from figures; names pass through as they are (escaping them is the
page's job).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from prsrank.experiment.comparisons import Measured
from prsrank.experiment.details import section_details
from prsrank.experiment.figures import metric_figure, propensity_figure, titles_of
from prsrank.experiment.reading import main_reading, order_reading
from prsrank.experiment.report_tables import markdown, write_tables
from prsrank.experiment.spec import Spec
from prsrank.experiment.tables import claim_table, result_tables
from prsrank.experiment.verdicts import judge

__all__ = ["Outcome", "markdown", "report_of", "summarise", "write_tables"]

Section = dict[str, Any]
Report = dict[str, Any]


class Outcome(Measured, Protocol):
    """Results with what is told beside the values."""

    @property
    def chosen(self) -> Mapping[str, Mapping[str, object]]:
        """Hyper-parameters chosen, by "panel method"."""
        ...

    @property
    def details(self) -> Mapping[str, Any]:
        """Propensity curves, weight diagnostics, feature importance, clicks, times."""
        ...


def summarise(spec: Spec, results: Outcome) -> Section:
    """Return the section of one experiment.

    Args:
        spec: the experiment.
        results: its finished jobs.

    Returns:
        A plain dict: verdict, text, figures, tables, details and notes.
    """
    verdict = judge(spec, results, titles=titles_of(spec))
    figures = [metric_figure(spec, results, metric) for metric in spec.metrics]
    if curves := results.details.get("propensities"):
        figures.append(propensity_figure(spec, curves))
    tables = result_tables(spec, results)
    if verdict is not None:
        tables.append(claim_table(spec, verdict))
    return {
        "id": spec.id,
        "title": spec.title,
        "claim": spec.claim or None,
        "verdict": verdict and {"label": verdict.label, "evidence": verdict.evidence},
        "text": [*main_reading(spec, results), *order_reading(spec, results)],
        "figures": figures,
        "tables": tables,
        "details": section_details(spec, results.chosen, results.details),
        "notes": [note for note in (spec.data_note, spec.paper_note, *spec.notes) if note],
    }


def report_of(
    sections: Sequence[Section],
    *,
    data: str,
    about: Iterable[Sequence[Any]],
    lead: Sequence[str] = (),
) -> Report:
    """Return the whole report.

    Args:
        sections: one for each experiment, see `summarise`.
        data: name of the data set.
        about: rows of name and value: versions, seed, wall time, command.
        lead: opening paragraphs, before the count of verdicts.
    """
    verdicts = [
        {
            "section": section["id"],
            "title": section["title"],
            "claim": section["claim"] or section["title"],
            **section["verdict"],
        }
        for section in sections
        if section["verdict"] is not None
    ]
    return {
        "title": "The PRS paper's experiments",
        "subtitle": f"on {data}",
        "lead": [*lead, *_verdict_count(verdicts)],
        "verdicts": verdicts,
        "sections": list(sections),
        "about": [["data", data], *([name, value] for name, value in about)],
    }


def _verdict_count(verdicts: Sequence[Mapping[str, Any]]) -> list[str]:
    if not verdicts:
        return []
    labels = [verdict["label"] for verdict in verdicts]
    counts = ", ".join(
        f"{labels.count(label)} {label}" for label in ("confirmed", "not confirmed", "contradicted")
    )
    return [f"Of {len(labels)} claim{'s' if len(labels) > 1 else ''}: {counts}."]
