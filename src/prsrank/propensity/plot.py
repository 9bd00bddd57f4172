"""Pictures of propensity curves."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from prsrank.errors import InputError
from prsrank.files import atomic_output
from prsrank.propensity.curve import Propensities

FORMATS = (".html", ".png", ".svg")


def propensity_chart(curves: Mapping[str, Propensities], *, positions: int = 20) -> Any:
    """Return an altair chart: one line with its band of intervals for each curve.

    Args:
        curves: the curves by the name to show.
        positions: draw positions 1 to this one.
    """
    import altair

    rows = chart_rows(curves, positions=positions)
    last = max((row["position"] for row in rows), default=1)
    base = altair.Chart(altair.InlineData(values=rows)).encode(
        x=altair.X(
            "position:Q", scale=altair.Scale(domain=[1, last]), axis=altair.Axis(tickMinStep=1)
        ),
        color=altair.Color(
            "method:N", sort=list(curves), legend=altair.Legend(title="method", symbolOpacity=1)
        ),
    )
    top = max((row["propensity"] for row in rows), default=1.0)
    scale = altair.Scale(domain=[0, 1.1 * max(top, 1.0)], clamp=True)
    band = base.mark_area(opacity=0.2).encode(
        y=altair.Y("low:Q", scale=scale, title="propensity"), y2="high:Q"
    )
    line = base.mark_line(point=True).encode(
        y=altair.Y("propensity:Q", scale=scale),
        tooltip=["method:N", "position:Q", "propensity:Q", "low:Q", "high:Q", "clicks:Q"],
    )
    return (band + line).properties(
        width=560, height=340, title="Observation propensity by position, with 95 % intervals"
    )


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
    """Write the chart to an .html file that needs no network, or to .png or .svg."""
    kind = Path(path).suffix.lower()
    if kind not in FORMATS:
        raise InputError(f"{path}: a plot is written as {', '.join(FORMATS)}")
    chart = propensity_chart(curves, positions=positions)
    options: dict[str, Any] = {"inline": True} if kind == ".html" else {}
    if kind == ".png":
        options["scale_factor"] = 2
    with atomic_output(path) as draft:
        chart.save(str(draft), format=kind[1:], **options)


def _or_none(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
