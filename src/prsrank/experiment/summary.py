"""From results to the report: sections of figures, tables, verdicts and settings, all plain.

Every sentence here is made from figures; names pass through as they are (escaping them is the
page's job).
"""

from collections.abc import Iterable, Sequence
from typing import Any

from prsrank.experiment.details import section_details
from prsrank.experiment.figures import metric_figure, propensity_figure
from prsrank.experiment.reading import main_reading, order_reading
from prsrank.experiment.results import Results
from prsrank.experiment.shown_results import ShownResults
from prsrank.experiment.spec import Spec
from prsrank.experiment.tables import claim_table, result_tables
from prsrank.experiment.verdicts import CONFIRMED, CONTRADICTED, NOT_CONFIRMED, judge
from prsrank.report.parts import Part, page, section


def summarise(spec: Spec, results: Results) -> Part:
    """Return the section of one experiment.

    Args:
        spec: the experiment.
        results: its finished jobs.

    Returns:
        A plain dict: verdict, text, figures, tables, details and notes.
    """
    shown = ShownResults(spec, results)
    verdict = judge(spec, results, titles=shown.titles)
    figures = [metric_figure(shown, metric) for metric in spec.metrics]
    if curves := results.details.get("propensities"):
        figures.append(propensity_figure(spec.id, curves))
    tables = result_tables(shown)
    if verdict is not None:
        tables.append(claim_table(shown, verdict))
    return section(
        spec.id,
        spec.title,
        claim=spec.claim or None,
        verdict=verdict and {"label": verdict.label, "evidence": verdict.evidence},
        text=[*main_reading(shown), *order_reading(shown)],
        figures=figures,
        tables=tables,
        details=section_details(spec, results.chosen, results.details),
        notes=[note for note in (spec.data_note, spec.paper_note, *spec.notes) if note],
    )


def report_of(
    sections: Sequence[Part],
    *,
    data: str,
    about: Iterable[Sequence[Any]],
    lead: Sequence[str] = (),
) -> Part:
    """Return the whole report.

    Args:
        sections: one for each experiment, see `summarise`.
        data: name of the data set.
        about: rows of name and value: versions, seed, wall time, command.
        lead: opening paragraphs, before the count of verdicts.
    """
    verdicts = [
        {
            "section": one["id"],
            "title": one["title"],
            "claim": one["claim"] or one["title"],
            **one["verdict"],
        }
        for one in sections
        if one["verdict"] is not None
    ]
    return page(
        "The PRS paper's experiments",
        f"on {data}",
        sections,
        lead=[*lead, *_verdict_count([verdict["label"] for verdict in verdicts])],
        verdicts=verdicts,
        about=[["data", data], *([name, value] for name, value in about)],
    )


def _verdict_count(labels: Sequence[str]) -> list[str]:
    if not labels:
        return []
    kinds = (CONFIRMED, NOT_CONFIRMED, CONTRADICTED)
    counts = ", ".join(f"{labels.count(label)} {label}" for label in kinds)
    return [f"Of {len(labels)} claim{'s' if len(labels) > 1 else ''}: {counts}."]
