"""What reports are made of: pages, sections, tables and series, all plain; and what they share."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from prsrank.notebook.charts import figure as figure
from prsrank.notebook.charts import series as series
from prsrank.notebook.vega_lite import Part as Part
from prsrank.notebook.vega_lite import plain_number
from prsrank.rankers.cards import library_versions

if TYPE_CHECKING:
    from prsrank.pairs.weighted_pairs import PairDiagnostics
    from prsrank.rankers.base import Ranker

_WEIGHTS = {
    "pairs": "pairs", "weight_mean": "mean weight", "weight_max": "largest weight",
    "effective_sample_size": "effective sample size", "clipped_share": "share clipped",
}  # fmt: skip


def figures_of(report: Part) -> list[Part]:
    """Return the figures of the summary and of all sections, in order."""
    sections = [figure for section in report["sections"] for figure in section["figures"]]
    return [*report["figures"], *sections]


def section(name: str, title: str, **parts: Any) -> Part:
    """Return a Section; what is not given is empty. Tables of a folded one are all closed.

    >>> section("s", "Title", text=["One line."])["figures"]
    []
    """
    lists: Part = {key: [] for key in ("text", "cards", "figures", "tables", "details", "notes")}
    empty: Part = {"id": name, "title": title, "claim": None, "verdict": None, "folded": False}
    return {**empty, **lists, **parts}


def card(tone: str, label: str, title: str, lines: Sequence[str], **more: Any) -> Part:
    """Return a Card: what is found, and what to do about it.

    Args:
        tone: "good", "open", "bad" or "plain".
        label: one or two words.
        title: a sentence.
        lines: further ones.
        more: command, a line for the terminal; links, pairs of title and the name of a file
            beside the page.
    """
    rest: Part = {"command": "", "links": [], **more}
    return {"tone": tone, "label": label, "title": title, "lines": list(lines), **rest}


def page(title: str, subtitle: str, sections: Sequence[Part], **more: Any) -> Part:
    """Return a report; what is not given of card, lead, figures, verdicts and about is empty."""
    empty: Part = {"card": None, "lead": [], "figures": [], "verdicts": [], "about": []}
    return {"title": title, "subtitle": subtitle, **empty, "sections": list(sections), **more}


def table(
    name: str,
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    caption: str = "",
) -> Part:
    """Return a Table; numbers that are not finite become None."""
    plain = [[plain_number(cell) for cell in row] for row in rows]
    named = {"id": name, "title": title, "caption": caption}
    return {**named, "columns": list(columns), "rows": plain}


def weight_tables(pairs: Mapping[str, "PairDiagnostics | None"]) -> list[Part]:
    """Return a Table with a row for each set of pairs that is known, if any is."""
    measured = {name: diagnostics for name, diagnostics in pairs.items() if diagnostics is not None}
    rows = [[name, *(getattr(d, key) for key in _WEIGHTS)] for name, d in measured.items()]
    caption = (
        "A pair is a clicked and a non-clicked doc of one session. The effective sample size is "
        "the number of equal weights that would be worth as much."
    )
    columns = ["weighting", *_WEIGHTS.values()]
    shown = table("weights", "Weights of the pairs", columns, rows, caption=caption)
    return [shown] if measured else []


def importance_figures(rankers: Mapping[str, "Ranker"], *, most: int = 15) -> list[Part]:
    """Return a Figure of the features that matter most to the first of several rankers.

    It is left out if no ranker knows what matters to it.
    """
    telling = {name: ranker for name, ranker in rankers.items() if ranker.importance_measure}
    if not telling:
        return []
    values = {name: ranker.feature_importance() for name, ranker in telling.items()}
    first, *_ = values
    measure = telling[first].importance_measure
    names = sorted(values[first], key=lambda name: -values[first][name])[:most]
    drawn = []
    for ranker, importances in values.items():
        total = sum(importances.values()) or 1.0
        drawn.append(series(ranker, [(name, importances[name] / total) for name in names]))
    return [
        figure(
            "importance",
            "Most important features",
            ("feature", measure),
            drawn,
            kind="bars",
            scale="ordinal",
            caption=f"The {len(names)} most important of {len(values[first])} features: {measure}.",
        )
    ]


def about_rows(*, seed: int, started: float, command: str) -> list[list[Any]]:
    """Return the rows at the end of a report.

    Args:
        seed: the seed of the run.
        started: `time.perf_counter()` at its beginning.
        command: the command line that repeats it.
    """
    rows: list[list[Any]] = [["command", command], ["seed", seed]]
    rows.append(["wall time", f"{time.perf_counter() - started:.1f} s"])
    return rows + [[f"version of {name}", text] for name, text in library_versions().items()]
