"""Pictures of propensity curves."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from prsrank.errors import InputError
from prsrank.files import atomic_output
from prsrank.propensity.curve import Propensities

FORMATS = (".html", ".png", ".svg")


def propensity_figure(
    curves: Mapping[str, Propensities],
    *,
    truth: Sequence[float] | None = None,
    positions: int = 20,
) -> dict[str, Any]:
    """Return a Figure of a report: one line with its band of intervals for each curve.

    Args:
        curves: the curves by the name to show.
        truth: the true propensity of each position, if it is known.
        positions: draw positions 1 to this one.
    """
    rows = chart_rows(curves, positions=positions)
    top = max((row["propensity"] for row in rows), default=1.0)
    series = [_series(name, [r for r in rows if r["method"] == name]) for name in curves]
    if truth is not None:
        shown = list(truth[:positions])
        places = list(range(1, len(shown) + 1))
        series.append({"name": "truth", "x": places, "y": shown, "low": None, "high": None})
    names = ", ".join(one["name"] for one in series)
    return {
        "id": "propensities", "title": "Observation propensity by position",
        "caption": "Relative to position 1; bands are 95 % intervals.",
        "alt": f"Propensity of each position by {names}.",
        "x": {"title": "position", "scale": "linear"},
        "y": {"title": "propensity", "zero": True, "max": 1.1 * max(top, 1.0)},
        "kind": "lines", "panels": [{"title": "", "series": series}],
    }  # fmt: skip


def chart_rows(curves: Mapping[str, Propensities], *, positions: int = 20) -> list[dict[str, Any]]:
    """Return what the chart shows: one row for each known position of each curve."""
    return [
        {
            "method": name,
            "position": place + 1,
            "propensity": float(curve.propensity[place]),
            "low": _or_none(curve.low[place]),
            "high": _or_none(curve.high[place]),
            "clicks": int(curve.clicks[place]),
        }
        for name, curve in curves.items()
        for place in range(min(positions, curve.positions))
        if np.isfinite(curve.propensity[place])
    ]


def plot_propensities(
    curves: Mapping[str, Propensities], path: str | os.PathLike[str], *, positions: int = 20
) -> None:
    """Write the curves to an .html page that needs no network, or to .png or .svg."""
    from prsrank.report.charts import figure_picture
    from prsrank.report.html import write_report

    kind = Path(path).suffix.lower()
    if kind not in FORMATS:
        raise InputError(f"{path}: a plot is written as {', '.join(FORMATS)}")
    figure = propensity_figure(curves, positions=positions)
    if kind == ".html":
        write_report(_page(figure, curves), path)
        return
    picture = figure_picture(figure, kind)
    with atomic_output(path) as draft:
        draft.write_bytes(picture)


def _page(figure: dict[str, Any], curves: Mapping[str, Propensities]) -> dict[str, Any]:
    from prsrank.report.parts import section

    verdicts = [f"{name}: {curve.verdict}" for name, curve in curves.items()]
    rows = [[r["method"], r["position"], r["clicks"]] for r in chart_rows(curves)]
    clicks = {
        "id": "clicks", "title": "Clicks behind each position", "caption": "",
        "columns": ["method", "position", "clicks"], "rows": rows,
    }  # fmt: skip
    shown = section("curves", "Propensities", text=verdicts, figures=[figure], tables=[clicks])
    return {
        "title": "Observation propensities", "subtitle": "How likely a position is seen",
        "lead": [], "verdicts": [], "sections": [shown], "about": [],
    }  # fmt: skip


def _series(name: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    columns = {"x": "position", "y": "propensity", "low": "low", "high": "high"}
    return {"name": name, **{key: [row[of] for row in rows] for key, of in columns.items()}}


def _or_none(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
