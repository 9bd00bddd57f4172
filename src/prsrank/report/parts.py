"""What reports are made of: pages, sections, tables and series, all plain; and what they share."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from prsrank.notebook.vega_lite import plain_number
from prsrank.rankers.cards import library_versions

if TYPE_CHECKING:
    from prsrank.pairs.weighted_pairs import PairDiagnostics
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
    """Return a Table."""
    listed = [list(row) for row in rows]
    return {
        "id": name, "title": title, "caption": caption, "columns": list(columns), "rows": listed
    }  # fmt: skip


def series(name: str, rows: Iterable[Sequence[Any]], **more: Any) -> Part:
    """Return a Series of a figure; numbers that are not finite become None.

    Args:
        name: as the legend says.
        rows: x and y of each point, and the ends of its interval where these are known.
        more: weak: whether each point rests on little, and is drawn so.

    >>> series("a", [(1, 0.5, 0.4, float("inf"))])
    {'name': 'a', 'x': [1], 'y': [0.5], 'low': [0.4], 'high': [None]}
    """
    points = [(x, *map(plain_number, values)) for x, *values in rows]
    columns = [list(column) for column in zip(*points, strict=True)]
    ends = columns[2:] or (None, None)
    x, y = columns[:2] or ([], [])
    return {"name": name, "x": x, "y": y, "low": ends[0], "high": ends[1], **more}


def figure(
    name: str,
    title: str,
    axes: tuple[str, str],
    drawn: Sequence[Part] | Mapping[str, Sequence[Part]],
    *,
    kind: str = "lines",
    scale: str = "linear",
    zero: bool = True,
    caption: str = "",
    alt: str = "",
    **of_values: Any,
) -> Part:
    """Return a Figure.

    Args:
        name: its id.
        title: what stands above.
        axes: titles of the axis of points and of that of values.
        drawn: Series, or those of each panel by its title.
        kind: "lines" over points, or "intervals" or "bars", one row for each name.
        scale: of the points: "linear", "log" or "ordinal".
        zero: whether the values begin at 0.
        caption: what stands below.
        alt: what is read instead of it.
        of_values: max: where values are cut off; shared: whether panels share one scale.
    """
    panels = drawn if isinstance(drawn, Mapping) else {"": drawn}
    return {
        "id": name,
        "title": title,
        "caption": caption,
        "alt": alt,
        "x": {"title": axes[0], "scale": scale},
        "y": {"title": axes[1], "zero": zero, **of_values},
        "kind": kind,
        "panels": [{"title": panel, "series": list(each)} for panel, each in panels.items()],
    }


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
    return figure(
        "importance",
        title,
        ("feature", measure),
        [series(ranker, [(name, v[name]) for name in names]) for ranker, v in importances.items()],
        kind="bars",
        scale="ordinal",
        caption=f"The {len(names)} most important of {len(first)} features: {measure}.",
        alt=f"Bars of {measure}; most important: {', '.join(names[:3])}.",
    )


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
