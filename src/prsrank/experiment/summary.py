"""From results to the report: sections of figures, tables, verdicts and settings, all plain.

Every sentence here is made from figures; names pass through as they are (escaping them is the
page's job).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from prsrank.experiment.evidence import evidence
from prsrank.experiment.figures import curves_figure, metric_figure, reading
from prsrank.experiment.results import Results
from prsrank.experiment.shown_results import ShownResults
from prsrank.experiment.spec import Spec
from prsrank.experiment.tables import claim_table, result_tables
from prsrank.experiment.verdicts import CONFIRMED, CONTRADICTED, NOT_CONFIRMED, judge
from prsrank.experiment.words import decimal_text
from prsrank.notebook.vega_lite import point_text
from prsrank.report.parts import Part, page, section

MOST_FEATURES = 10
TUNED_AT = {"default": "the default setting, once; reused at all points", "point": "each point"}

_TITLES = {
    "weights": "Weight diagnostics",
    "importance": f"Feature importance, the {MOST_FEATURES} largest",
    "trees": "Trees, mean over jobs",
    "clicks_per_query": "Clicks per training query",
}


def summarise(spec: Spec, results: Results) -> Part:
    """Return the section of one experiment.

    Args:
        spec: the experiment.
        results: its finished jobs.

    Returns:
        A plain dict: verdict, text, figures, tables, details and notes.
    """
    shown = ShownResults(spec, results)
    figures = [metric_figure(shown, metric) for metric in spec.metrics]
    if curves := results.details.get("propensities"):
        figures.append(curves_figure(spec.id, curves))
    tables, said = result_tables(shown), None
    verdict = judge(spec, results)
    if verdict is not None:
        tables.append(claim_table(shown, verdict.comparisons))
        words = evidence(verdict.comparisons, shown.titles)
        said = {"label": verdict.label, "evidence": words}
    return section(
        spec.id,
        spec.title,
        claim=spec.claim or None,
        verdict=said,
        text=reading(shown),
        figures=figures,
        tables=tables,
        details=_details(spec, results),
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
            "section": part["id"],
            "title": part["title"],
            "claim": part["claim"] or part["title"],
            **part["verdict"],
        }
        for part in sections
        if part["verdict"] is not None
    ]
    labels = [verdict["label"] for verdict in verdicts]
    kinds = (CONFIRMED, NOT_CONFIRMED, CONTRADICTED)
    counts = ", ".join(f"{labels.count(label)} {label}" for label in kinds)
    claims = f"{len(labels)} claim{'s' if len(labels) > 1 else ''}"
    return page(
        "The PRS paper's experiments",
        f"on {data}",
        sections,
        lead=[*lead, *([f"Of {claims}: {counts}."] if labels else [])],
        verdicts=verdicts,
        about=[["data", data], *([name, value] for name, value in about)],
    )


def _details(spec: Spec, results: Results) -> list[Part]:
    """Return blocks of rows: settings, chosen hyper-parameters, and what jobs say of their own."""
    blocks = {"Settings": _settings(spec)}
    blocks["Chosen hyper-parameters"] = _rows(results.chosen)
    run, details = {}, dict(results.details)
    for name, shown in (("weights", _spaced), ("importance", _largest)):
        details[name] = {key: shown(values) for key, values in details.get(name, {}).items()}
    for name, value in details.items():
        if isinstance(value, Mapping) and name != "propensities":
            blocks[_TITLES.get(name, name)] = _rows(value)
        elif name != "propensities":
            run[name.replace("_", " ")] = value
    blocks["Run"] = _rows(run)
    return [{"title": title, "rows": rows} for title, rows in blocks.items() if rows]


def _rows(values: Mapping[str, Any]) -> list[list[str]]:
    return [[str(name), value_line(value)] for name, value in values.items() if value is not None]


def value_line(value: Any) -> str:
    """Return any plain value in one line.

    >>> value_line({"l2": 0.01, "tau": [0.0, 0.1]}), value_line(128000)
    ('l2 0.01, tau 0; 0.1', '128,000')
    """
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {value_line(part)}" for name, part in value.items())
    if isinstance(value, list | tuple):
        return "; ".join(map(value_line, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int | float):
        return str(value)
    return decimal_text(value) if abs(value) >= 1000 else point_text(value)


def _settings(spec: Spec) -> list[list[str]]:
    settings: dict[str, Any] = {"data": spec.data or None}
    settings |= {f"clicks: {name}": value for name, value in spec.clicks.items()}
    settings |= {f"propensity: {name}": value for name, value in spec.propensity.items()}
    for panel in spec.panels:
        settings[f"clicks in {panel.title or panel.name}"] = panel.clicks or None
    for name, ranker in spec.rankers.items():
        tried = f"tried {value_line(ranker.grid)}" if ranker.grid else ""
        settings[f"ranker: {name}"] = ", ".join(filter(None, (value_line(ranker.settings), tried)))
    if spec.rankers:
        settings["tuned on"] = f"{spec.tuning.on} of the validation part, never on the test part"
        settings["tuned at"] = TUNED_AT[spec.tuning.at]
        settings["settings tried"] = f"at most {spec.tuning.budget} for each method"
    settings |= {"folds": spec.folds, "runs": spec.runs, "seed": str(spec.seed)}
    return _rows(settings)


def _spaced(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace("_", " "): value for name, value in values.items()}


def _largest(features: Mapping[str, float]) -> str:
    ordered = sorted(features.items(), key=lambda item: -abs(item[1]))[:MOST_FEATURES]
    return "; ".join(f"{feature}: {decimal_text(value)}" for feature, value in ordered)
