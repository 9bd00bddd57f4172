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
from prsrank.report.parts import Part, figure, page, section, series, table

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
    top = max((p for each in drawn for p in each["y"]), default=1.0)
    if truth is not None:
        drawn.append(series("truth", enumerate(truth[:positions], 1)))
    is_weak = any(any(each.get("weak", ())) for each in drawn)
    return figure(
        "propensities",
        "Observation propensity by position",
        ("position", "propensity"),
        drawn,
        caption=f"Relative to position 1; bands are 95 % intervals.{_WEAK if is_weak else ''}",
        alt=f"Propensity of each position by {', '.join(each['name'] for each in drawn)}.",
        max=1.1 * max(top, 1.0),
    )


def _series(name: str, curve: Propensities, positions: int) -> Part:
    """Return what is drawn of a curve: the positions that it knows."""
    drawn = np.flatnonzero(np.isfinite(curve.propensity[:positions]))
    columns = (column[drawn].tolist() for column in (curve.propensity, curve.low, curve.high))
    rows = zip((drawn + 1).tolist(), *columns, strict=True)
    return series(name, rows, weak=curve.weak[drawn].tolist())


def plot_propensities(
    curves: Mapping[str, Propensities], path: str | os.PathLike[str], *, positions: int = 20
) -> None:
    """Write the curves to an .html page that needs no network, or to .png or .svg."""
    kind = Path(path).suffix.lower()
    if kind not in FORMATS:
        raise InputError(f"{path}: a plot is written as {', '.join(FORMATS)}")
    drawn = propensity_figure(curves, positions=positions)
    if kind == ".html":
        write_report(_page(drawn, curves), path)
        return
    with atomic_output(path) as draft:
        draft.write_bytes(figure_picture(drawn, suffix=kind))


def _page(drawn: Part, curves: Mapping[str, Propensities]) -> Part:
    verdicts = [f"{name}: {curve.verdict}" for name, curve in curves.items()]
    rows = [
        [each["name"], position, int(curves[each["name"]].clicks[position - 1])]
        for each in drawn["panels"][0]["series"]
        for position in each["x"]
    ]
    columns = ["method", "position", "clicks"]
    clicks = table("clicks", "Clicks behind each position", columns, rows)
    shown = section("curves", "Propensities", text=verdicts, figures=[drawn], tables=[clicks])
    return page("Observation propensities", "How likely a position is seen", [shown])
