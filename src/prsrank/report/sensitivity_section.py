"""A sensitivity study as one chart, as a section of the report and as text."""

from collections.abc import Iterator

from prsrank.evaluation.sensitivity import Interval, Point, Sensitivity
from prsrank.files import FileName
from prsrank.report.charts import write_picture
from prsrank.report.html import write_report
from prsrank.report.numbers import fixed_text, range_text
from prsrank.report.parts import Part, figure, page, section, series

TITLES = {
    "eta": "position bias: power of the curve",
    "noise": "click noise mu",
    "trust": "trust in position 1",
    "gamma": "clip gamma in training",
}
_MODEL, _RETRAINED, _ALIKE = "this model", "retrained so", "trained alike, by chance"


def write_chart(study: Sensitivity, path: FileName) -> None:
    """Write the figures to .svg or .png as one picture, whole or not at all."""
    write_picture(path, *_figures(study))


def report_lines(study: Sensitivity) -> Iterator[str]:
    """Yield the lines of a plain text report; "*" marks the base."""
    yield f"{study.metric}: gain over the logged ranking, with {100 * study.confidence:g} % intervals"
    yield f"{'assumed':<14}{'this model':>28}{'retrained so':>28}{'tau':>7}"
    for point in study.points:
        assumed = f"{point.kind} {point.value:g}{'*' if point.is_base else ''}"
        tau = "" if point.kendall_tau is None else f"{point.kendall_tau:.3f}"
        gains = f"{_text(point.gain_of_model):>28}{_text(point.gain_retrained):>28}"
        yield f"{assumed:<14}{gains}{tau:>7}"
    if study.reference_tau is not None:
        yield (
            f"for comparison: tau {study.reference_tau:.3f} of two models trained alike, the second on "
            "resampled sessions"
        )
    yield from turning_points(study)
    yield from (f"warning: {warning}" for warning in study.warnings)


def turning_points(study: Sensitivity) -> list[str]:
    """Return in sentences where the gain of the model turns into a loss, or that it never does."""
    lines = []
    for kind, points in study.by_kind().items():
        where = " and ".join(f"{value:.3g}" for value in study.turns(kind))
        if where:
            lines.append(f"{TITLES[kind]}: the sign of the gain turns at {where}")
        elif len(points) > 1:
            ends = f"{points[0].value:g} to {points[-1].value:g}"
            lines.append(f"{TITLES[kind]}: the gain keeps its sign from {ends}")
    return lines


def write_page(study: Sensitivity, path: FileName, *, log: str) -> None:
    """Write the study as a page of its own."""
    write_report(page("Under other assumptions", log, [report_section(study)]), path)


def report_section(study: Sensitivity) -> Part:
    """Return the study as a section of the HTML report, a plain dict."""
    text = (
        "How far the estimated gain and the ranking rest on the assumptions: the model judged "
        "under others, and models trained and judged under them."
    )
    turning = [f"{line[:1].upper()}{line[1:]}." for line in turning_points(study)]
    return section(
        "sensitivity",
        "Sensitivity",
        text=[text, *turning],
        figures=_figures(study),
        notes=list(study.warnings),
    )


def _figures(study: Sensitivity) -> list[Part]:
    """Return the gains and, where models were retrained, how far their rankings agree."""
    kinds = {_panel_title(points): points for points in study.by_kind().values()}
    gains = figure(
        "sensitivity-gain",
        f"Gain in {study.metric} over the logged ranking, by what is assumed",
        ("assumed value", f"gain in {study.metric}, % of logged"),
        {title: _gains(points) for title, points in kinds.items()},
        caption="In parts of the logged ranking's value under the same assumption, with "
        "intervals for this model. A line down marks where the sign turns. The model is trained "
        "with eta 1 (the curve as given), no noise, no trust and gamma 1.",
        shared=True,
    )
    for panel, points in zip(gains["panels"], kinds.values(), strict=True):
        panel["marks"] = study.turns(points[0].kind)
    if all(point.kendall_tau is None for point in study.points):
        return [gains]
    taus = {title: _taus(study, points) for title, points in kinds.items()}
    agreement = figure(
        "sensitivity-tau",
        "Agreement of the retrained and this model's ranking",
        ("assumed value", "Kendall's tau"),
        taus,
        zero=False,
        caption="Kendall's tau of their rankings of held-out lists, mean over lists.",
        shared=True,
    )
    return [gains, agreement]


def _panel_title(points: list[Point]) -> str:
    """Say what is assumed, and with which value the model is trained."""
    base = next((f" (trained with {p.value:g})" for p in points if p.is_base), "")
    return f"{TITLES[points[0].kind]}{base}"


def _gains(points: list[Point]) -> list[Part]:
    """Draw gains in percent of the logged ranking's value, where that is above 0."""

    def shares(point: Point, *gains: float) -> list[float | None]:
        return [100 * gain / point.logged if point.logged > 0 else None for gain in gains]

    judged = [(p, p.gain_of_model) for p in points]
    rows = [(p.value, *shares(p, gain.value, gain.low, gain.high)) for p, gain in judged]
    other = [
        (p.value, *shares(p, p.gain_retrained.value))
        for p in points
        if p.gain_retrained is not None
    ]
    return [series(_MODEL, rows), *([series(_RETRAINED, other)] if other else [])]


def _taus(study: Sensitivity, points: list[Point]) -> list[Part]:
    drawn = [series(_RETRAINED, [(point.value, point.kendall_tau) for point in points])]
    if study.reference_tau is not None:
        drawn.append(series(_ALIKE, [(point.value, study.reference_tau) for point in points]))
    return drawn


def _text(gain: Interval | None) -> str:
    if gain is None:
        return ""
    return f"{fixed_text(gain.value, '+.4f')} ({range_text(gain.low, gain.high, '+.3f')})"
