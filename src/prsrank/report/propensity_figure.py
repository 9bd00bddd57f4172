"""Pictures of propensity curves."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from prsrank.errors import InputError
from prsrank.propensity.curve import Propensities
from prsrank.report.charts import write_picture
from prsrank.report.html import write_report
from prsrank.report.parts import Part, figure, page, section, series, table

FORMATS = (".html", ".png", ".svg")
_WEAK = " Open points: few clicks or a wide interval."


def propensity_figure(curves: Mapping[str, Propensities], *, positions: int = 20) -> Part:
    """Return a Figure of a report: one line with its band of intervals for each curve.

    Args:
        curves: the curves by the name to show.
        positions: draw positions 1 to this one.
    """
    drawn, is_weak = [], False
    for name, curve in curves.items():
        at = np.flatnonzero(np.isfinite(curve.propensity[:positions]))
        columns = (column[at].tolist() for column in (curve.propensity, curve.low, curve.high))
        weak = curve.weak[at].tolist()
        drawn.append(series(name, zip((at + 1).tolist(), *columns, strict=True), weak=weak))
        is_weak |= any(weak)
    bands = any(low is not None for each in drawn for low in each["low"] or ())
    return figure(
        "propensities",
        "Observation propensity by position",
        ("position", "propensity"),
        drawn,
        caption=f"Relative to position 1{'; bands are 95 % intervals' if bands else ''}."
        f"{_WEAK if is_weak else ''}",
        max=1.1 * max([1.0, *(p for each in drawn for p in each["y"])]),
    )


def plot_propensities(
    curves: Mapping[str, Propensities],
    path: str | os.PathLike[str],
    *,
    positions: int = 20,
    models: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Write the curves to an .html page that needs no network, or to .png or .svg."""
    kind = Path(path).suffix.lower()
    if kind not in FORMATS:
        raise InputError(f"{path}: a plot is written as {', '.join(FORMATS)}")
    drawn = propensity_figure(curves, positions=positions)
    if kind != ".html":
        write_picture(path, drawn)
        return
    verdicts = [f"{name}: {curve.verdict}" for name, curve in curves.items()]
    tables = [curve_table(curves, positions=positions)]
    if models:
        tables.append(model_table(models))
    shown = section("curves", "Propensities", text=verdicts, figures=[drawn], tables=tables)
    write_report(page("Observation propensities", "How likely a position is seen", [shown]), path)


def model_table(models: Sequence[Mapping[str, Any]]) -> Part:
    """Return a Table of click models, from `ClickChoice.perplexities`."""
    first = [f"position {k + 1}" for k in range(len(models[0]["by_position"]))]
    rows = [
        (row["click_model"], row["log_likelihood"], row["perplexity"], *row["by_position"])
        for row in models
    ]
    columns = ["click model", "log-likelihood of an impression", "perplexity", *first]
    caption = (
        "How well each model predicts clicks and skips from what is above them: perplexity is 1 "
        "where it is always sure and right, 2 where it knows nothing."
    )
    return table("models", "Click models", columns, rows, caption=caption)


def _columns(curve: Propensities, positions: int) -> list[Any]:
    columns = (curve.propensity, curve.low, curve.high, curve.clicks)
    return [column[:positions] for column in columns]


def curve_table(curves: Mapping[str, Propensities], *, positions: int) -> Part:
    """Return a Table of curves, with the clicks behind each position."""
    rows = [
        (name, k, *values)
        for name, curve in curves.items()
        for k, values in enumerate(zip(*_columns(curve, positions), strict=True), 1)
    ]
    columns = ["method", "position", "propensity", "low", "high", "clicks"]
    caption = "Relative to position 1, with the ends of 95 % intervals."
    return table("curve", "Propensity of each position", columns, rows, caption=caption)
