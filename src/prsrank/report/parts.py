"""What reports are made of: pages, sections, tables and series, all plain; and what they share."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from prsrank.rankers.cards import library_versions

if TYPE_CHECKING:
    from prsrank.pairs.pair_set import PairDiagnostics
    from prsrank.rankers.base import Ranker

Part = dict[str, Any]

_WEIGHTS = {
    "lists": "lists with a pair", "winners": "clicked docs", "pairs": "pairs",
    "distinct_pairs": "distinct pairs", "weight_mean": "mean weight",
    "weight_sd": "standard deviation", "weight_max": "largest weight",
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
    one: Part = {"id": name, "title": title, "claim": None, "verdict": None, "folded": False}
    return {**one, **lists, **parts}


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
    """Return a Table."""
    listed = [list(row) for row in rows]
    return {
        "id": name, "title": title, "caption": caption, "columns": list(columns), "rows": listed
    }  # fmt: skip


def series(
    name: str, x: Iterable[Any], y: Iterable[Any], low: Any = None, high: Any = None, **more: Any
) -> Part:
    """Return a Series of a figure; low and high, if given, are the ends of its intervals.

    More may hold weak: whether each point rests on little, and is drawn so.
    """
    ends = {"low": None if low is None else list(low), "high": None if high is None else list(high)}
    return {"name": name, "x": list(x), "y": list(y), **ends, **more}


def weight_rows(diagnostics: "PairDiagnostics") -> list[list[Any]]:
    """Return what pairs are made of, as rows of name and value."""
    rows: list[list[Any]] = [[title, getattr(diagnostics, key)] for key, title in _WEIGHTS.items()]
    heaviest = ", ".join(f"{query} ({share:.1%})" for query, share in diagnostics.heaviest_lists)
    return [*rows, ["heaviest lists, share of the weight", heaviest]]


def weight_table(pairs: Mapping[str, "PairDiagnostics"]) -> Part:
    """Return a Table with one row of weight diagnostics per weighting."""
    keys = ("pairs", "weight_mean", "weight_max", "effective_sample_size", "clipped_share")
    return table(
        "weights",
        "Weights of the pairs",
        ["weighting", *(_WEIGHTS[key] for key in keys)],
        [[name, *(getattr(d, key) for key in keys)] for name, d in pairs.items()],
        caption="A pair is a clicked and a non-clicked doc of one session. The effective sample "
        "size is the number of equal weights that would be worth as much.",
    )


def feature_importance(ranker: "Ranker") -> tuple[str, dict[str, float]] | None:
    """Return what a ranker's importance means and its value by feature, or None if it has none."""
    if not ranker.importance_measure:
        return None
    return ranker.importance_measure, _shares(ranker.feature_importance())


def importance_figure(
    title: str, measure: str, importances: Mapping[str, Mapping[str, float]], *, most: int = 15
) -> Part:
    """Return a Figure of the features that matter most to the first of several rankers."""
    first, *_ = importances.values()
    names = sorted(first, key=lambda name: -first[name])[:most]
    drawn = [series(ranker, names, [v[n] for n in names]) for ranker, v in importances.items()]
    return {
        "id": "importance", "title": title,
        "caption": f"The {len(names)} most important of {len(first)} features: {measure}.",
        "alt": f"Bars of {measure}; most important: {', '.join(names[:3])}.",
        "x": {"title": "feature", "scale": "ordinal"}, "y": {"title": measure, "zero": True},
        "kind": "bars", "panels": [{"title": "", "series": drawn}],
    }  # fmt: skip


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


def _shares(values: Mapping[str, float]) -> dict[str, float]:
    total = sum(values.values()) or 1.0
    return {name: float(value) / total for name, value in values.items()}
