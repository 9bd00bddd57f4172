"""Pictures of propensity curves."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from prsrank.errors import InputError
from prsrank.files import atomic_output
from prsrank.propensity.curve import Propensities
from prsrank.report.charts import figure_picture
from prsrank.report.html import write_report
from prsrank.report.numbers import plain_number
from prsrank.report.parts import Part, page, section, series, table

FORMATS = (".html", ".png", ".svg")
_WEAK = " Thin lines and open points: few clicks or a wide interval."


def propensity_figure(
    curves: Mapping[str, Propensities],
    *,
    truth: Sequence[float] | None = None,
    positions: int = 20,
) -> Part:
    """Return a Figure of a report: one line with its band of intervals for each curve.

    Args:
        curves: the curves by the name to show.
        truth: the true propensity of each position, if it is known.
        positions: draw positions 1 to this one.
    """
    drawn = [_series(name, curve, positions) for name, curve in curves.items()]
    top = max((p for one in drawn for p in one["y"]), default=1.0)
    if truth is not None:
        shown = truth[:positions]
        drawn.append(series("truth", range(1, len(shown) + 1), shown))
    names = ", ".join(one["name"] for one in drawn)
    weak = any(any(one.get("weak", ())) for one in drawn)
    return {
        "id": "propensities", "title": "Observation propensity by position",
        "caption": f"Relative to position 1; bands are 95 % intervals.{_WEAK if weak else ''}",
        "alt": f"Propensity of each position by {names}.",
        "x": {"title": "position", "scale": "linear"},
        "y": {"title": "propensity", "zero": True, "max": 1.1 * max(top, 1.0)},
        "kind": "lines", "panels": [{"title": "", "series": drawn}],
    }  # fmt: skip


def _series(name: str, curve: Propensities, positions: int) -> Part:
    """Return what is drawn of a curve: the positions that it knows."""
    known = np.flatnonzero(np.isfinite(curve.propensity[:positions]))
    ends = ([plain_number(end) for end in x[known].tolist()] for x in (curve.low, curve.high))
    weak = curve.weak[known].tolist()
    return series(name, (known + 1).tolist(), curve.propensity[known].tolist(), *ends, weak=weak)


def plot_propensities(
    curves: Mapping[str, Propensities], path: str | os.PathLike[str], *, positions: int = 20
) -> None:
    """Write the curves to an .html page that needs no network, or to .png or .svg."""
    kind = Path(path).suffix.lower()
    if kind not in FORMATS:
        raise InputError(f"{path}: a plot is written as {', '.join(FORMATS)}")
    figure = propensity_figure(curves, positions=positions)
    if kind == ".html":
        write_report(_page(figure, curves), path)
        return
    with atomic_output(path) as draft:
        draft.write_bytes(figure_picture(figure, suffix=kind))


def _page(figure: Part, curves: Mapping[str, Propensities]) -> Part:
    verdicts = [f"{name}: {curve.verdict}" for name, curve in curves.items()]
    rows = [
        [one["name"], position, int(curves[one["name"]].clicks[position - 1])]
        for one in figure["panels"][0]["series"]
        for position in one["x"]
    ]
    columns = ["method", "position", "clicks"]
    clicks = table("clicks", "Clicks behind each position", columns, rows)
    shown = section("curves", "Propensities", text=verdicts, figures=[figure], tables=[clicks])
    return page("Observation propensities", "How likely a position is seen", [shown])
