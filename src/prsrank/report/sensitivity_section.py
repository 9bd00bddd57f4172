"""A sensitivity study as one chart, as a section of the report and as text."""

from collections.abc import Iterator
from typing import Any

from prsrank.evaluation.affine import Interval
from prsrank.evaluation.sensitivity import Point, Sensitivity
from prsrank.files import FileName, atomic_output
from prsrank.report.numbers import plain_number
from prsrank.report.parts import Part, section, series, table

TITLES = {
    "eta": "position bias: power of the curve",
    "noise": "click noise mu",
    "trust": "trust in position 1",
    "gamma": "clip gamma in training",
}
_MODEL, _RETRAINED = "this model", "retrained so"
_COLOURS = ("#1b6ca8", "#c2571a")


def sensitivity_chart(study: Sensitivity) -> Any:
    """Return one altair chart: gains above, agreement of the rankings below, a column a kind."""
    import altair

    kinds = list(dict.fromkeys(point.kind for point in study.points))
    rows = chart_rows(study)
    gain = f"gain in {study.metric}"
    above = [_gain_panel(altair, rows, kind, gain) for kind in kinds]
    below = [_tau_panel(altair, rows, kind, study.reference_tau) for kind in kinds]
    parts = [altair.hconcat(*above).resolve_scale(y="shared")]
    if any(point.kendall_tau is not None for point in study.points):
        parts.append(altair.hconcat(*below).resolve_scale(y="shared"))
    title = "Estimated gain over the logged ranking, and the ranking, under other assumptions"
    return altair.vconcat(*parts).properties(title=title)


def chart_rows(study: Sensitivity) -> list[Part]:
    """Return what the chart shows, a row for each point and model."""
    rows: list[Part] = []
    for point in study.points:
        for model, gain in ((_MODEL, point.gain_of_model), (_RETRAINED, point.gain_retrained)):
            if gain is not None:
                rows.append(
                    {"kind": point.kind, "value": point.value, "base": point.is_base}
                    | {"model": model, "gain": gain.value}
                    | {"low": plain_number(gain.low), "high": plain_number(gain.high)}
                    | {
                        "tau": plain_number(point.kendall_tau),
                        "rank_change": plain_number(point.rank_change),
                    }
                )
    return rows


def write_chart(study: Sensitivity, path: FileName) -> None:
    """Write the chart to .svg or .png, whole or not at all."""
    kind = str(path).rpartition(".")[2]
    options: dict[str, Any] = {"scale_factor": 2} if kind == "png" else {}
    with atomic_output(path) as draft:
        sensitivity_chart(study).save(str(draft), format=kind, **options)


def _base(altair: Any, rows: list[Part], kind: str) -> Any:
    own = [row for row in rows if row["kind"] == kind]
    return altair.Chart(altair.InlineData(values=own)).encode(
        x=altair.X("value:Q", title=TITLES[kind], scale=altair.Scale(zero=False, nice=False)),
        color=altair.Color(
            "model:N",
            scale=altair.Scale(domain=[_MODEL, _RETRAINED], range=list(_COLOURS)),
            legend=altair.Legend(title=None, symbolOpacity=1, orient="top"),
        ),
    )


def _gain_panel(altair: Any, rows: list[Part], kind: str, title: str) -> Any:
    base = _base(altair, rows, kind)
    band = base.transform_filter(f"datum.model == '{_MODEL}'").mark_area(opacity=0.15)
    lines = base.mark_line(point=True).encode(
        y=altair.Y("gain:Q", title=title),
        strokeDash=altair.StrokeDash("model:N", sort=[_MODEL, _RETRAINED], legend=None),
        tooltip=["model:N", "value:Q", "gain:Q", "low:Q", "high:Q"],
    )
    marked = base.transform_filter("datum.base").mark_rule(color="#888", strokeDash=[2, 2])
    zero = altair.Chart(altair.InlineData(values=[{"zero": 0}])).mark_rule(color="#888")
    layers = altair.layer(
        zero.encode(y="zero:Q"),
        marked.encode(x="value:Q", color=altair.value("#888")),
        band.encode(y=altair.Y("low:Q", title=title), y2="high:Q"),
        lines,
    )
    return layers.properties(width=190, height=190)


def _tau_panel(altair: Any, rows: list[Part], kind: str, reference: float | None) -> Any:
    base = _base(altair, rows, kind).transform_filter(f"datum.model == '{_RETRAINED}'")
    lines = base.mark_line(point=True).encode(
        y=altair.Y("tau:Q", title="Kendall's tau", scale=altair.Scale(domainMax=1)),
        tooltip=["value:Q", "tau:Q", "rank_change:Q"],
    )
    if reference is None:
        return lines.properties(width=190, height=110)
    level = altair.Chart(altair.InlineData(values=[{"tau": reference}]))
    rule = level.mark_rule(color="#888", strokeDash=[2, 2]).encode(y="tau:Q")
    return altair.layer(rule, lines).properties(width=190, height=110)


def report_lines(study: Sensitivity) -> Iterator[str]:
    """Yield the lines of a plain text report; "*" marks the base."""
    yield f"{study.metric}: gain over the logged ranking, with {100 * study.confidence:g} % intervals"
    yield (
        f"{'assumed':<14}{'this model':>28}{'retrained so':>28}{'judged by base':>15}"
        f"{'tau':>7}{'ranks moved':>13}"
    )
    for point in study.points:
        mark = "*" if point.is_base else ""
        base = "" if point.gain_by_base is None else f"{point.gain_by_base.value:+.4f}"
        yield (
            f"{f'{point.kind} {point.value:g}{mark}':<14}{_text(point.gain_of_model):>28}"
            f"{_text(point.gain_retrained):>28}{base:>15}"
            f"{_short(point.kendall_tau, '.3f'):>7}{_short(point.rank_change, '.2f'):>13}"
        )
    if study.reference_tau is not None:
        yield (
            f"for comparison: tau {study.reference_tau:.3f} of two models trained alike, the second on "
            "resampled sessions"
        )
    yield from (f"warning: {warning}" for warning in study.warnings)


def report_section(study: Sensitivity) -> Part:
    """Return the study as a section of the HTML report, a plain dict."""
    figure = {
        "id": "sensitivity-gain",
        "title": f"Gain in {study.metric} over the logged ranking, by what is assumed",
        "caption": "With intervals for this model. The model is trained with eta 1 (the curve as "
        "given), no noise, no trust and gamma 1.",
        "alt": "Estimated gain under other position bias, noise, trust and clip",
        "x": {"title": "assumed value", "scale": "linear"},
        "y": {"title": f"gain in {study.metric}", "zero": False},
        "kind": "lines",
        "panels": [_panel(study, kind) for kind in dict.fromkeys(p.kind for p in study.points)],
    }
    text = (
        "How far the estimated gain and the ranking rest on the assumptions: the model judged "
        "under others, and models trained and judged under them."
    )
    tables, notes = [_table(study)], list(study.warnings)
    return section(
        "sensitivity", "Sensitivity", text=[text], figures=[figure], tables=tables, notes=notes
    )


def _table(study: Sensitivity) -> Part:
    caption = (
        "tau: Kendall's tau of the retrained and this model's ranking of held-out lists; ranks "
        "moved: mean over this model's top 10."
    )
    if study.reference_tau is not None:
        caption += (
            f" A model trained alike on resampled sessions has tau {study.reference_tau:.3f}: what "
            "chance alone does."
        )
    columns = [
        *("assumed", "value", _MODEL, "low", "high", _RETRAINED, "judged by base"),
        *("tau", "ranks moved"),
    ]
    rows = [_cells(point) for point in study.points]
    title = "Gains and rankings under other assumptions"
    return table("sensitivity-points", title, columns, rows, caption=caption)


def _panel(study: Sensitivity, kind: str) -> Part:
    points = study.of(kind)
    gains = [(p.gain_of_model.value, p.gain_of_model.low, p.gain_of_model.high) for p in points]
    y, low, high = (map(plain_number, column) for column in zip(*gains, strict=True))
    drawn = [series(_MODEL, [p.value for p in points], y, low, high)]
    other = [(p.value, p.gain_retrained.value) for p in points if p.gain_retrained is not None]
    if other:
        drawn.append(series(_RETRAINED, *zip(*other, strict=True)))
    return {"title": TITLES[kind], "series": drawn}


def _cells(point: Point) -> list[Any]:
    gain, other, base = point.gain_of_model, point.gain_retrained, point.gain_by_base
    return [
        f"{point.kind}{' (base)' if point.is_base else ''}",
        point.value,
        *(gain.value, plain_number(gain.low), plain_number(gain.high)),
        None if other is None else other.value,
        None if base is None else base.value,
        plain_number(point.kendall_tau),
        plain_number(point.rank_change),
    ]


def _text(gain: Interval | None) -> str:
    return "" if gain is None else f"{gain.value:+.4f} ({gain.low:+.3f} to {gain.high:+.3f})"


def _short(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
