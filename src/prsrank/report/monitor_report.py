"""The page of a monitor: the verdict, then what moved, over windows and in the latest one."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from prsrank.evaluation.log_evaluation import DEFAULT_METRICS
from prsrank.rankers.cards import library_versions
from prsrank.report.audit_section import wilson_interval
from prsrank.report.parts import Part, card, figure, page, section, series, table

if TYPE_CHECKING:
    from prsrank.monitor.checks import Window
    from prsrank.monitor.monitoring import Monitoring
    from prsrank.monitor.summary import Summary

_BEFORE, _NOW = "trained on", "latest window"
_Z = 1.96
_MOST_WINDOWS = 60
_BY_WINDOW: Part = {"kind": "intervals", "scale": "ordinal", "caption": "95 % intervals."}
# tone, title and meaning of a verdict
_WORDS = {
    "fine": ("good", "Fine", "New sessions look like those that the model was trained on."),
    "look": ("open", "Look", "Something is off with the data; the model may be as good as it was."),
    "retrain": ("bad", "Retrain", "What the model was trained on is no longer so."),
}


def monitor_report(monitoring: "Monitoring") -> Part:
    """Return the report of a monitor: all windows that its state file knows."""
    windows = monitoring.state.windows[-_MOST_WINDOWS:]
    latest, reference = monitoring.new[-1], monitoring.state.reference
    sections = [
        _windows(windows),
        _curve(reference, windows, latest),
        _gain(reference, windows),
        _traffic({_BEFORE: reference.summary, _NOW: latest.summary}),
    ]
    about = [
        ["model", monitoring.run],
        ["compared with", reference.source],
        ["state file", str(monitoring.path)],
        *([f"version of {name}", text] for name, text in library_versions().items()),
    ]
    return page("Monitor", monitoring.run, sections, card=_verdict_card(monitoring), about=about)


def _verdict_card(monitoring: "Monitoring") -> Part:
    """Return the verdict, the reasons of the latest window that is not fine, and which others are not."""
    tone, title, meaning = _WORDS[monitoring.verdict]
    lines = [meaning]
    off = [window for window in monitoring.new if window.reasons]
    for window in off[-1:]:
        name = window.summary.name
        lines += [f"{name}, {r.verdict}: {r.what}. {_do(r.do)}" for r in window.reasons]
    if off[:-1]:
        names = ", ".join(f"{window.summary.name} ({window.verdict})" for window in off[:-1])
        lines.append(f"Not fine before: {names}.")
    return card(tone, "", title, lines)


def _do(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('?') else '.'}"


def _windows(windows: Sequence["Window"]) -> Part:
    rows, details = [], []
    for window in reversed(windows):
        now, reasons = window.summary, window.reasons
        checks = ", ".join(reason.check for reason in reasons) or "–"
        sizes = [now.sessions, now.queries, now.clicks, round(now.effective_clicks)]
        rows.append([now.name, window.verdict, checks, *sizes])
        said = [[f"{r.check} ({r.verdict})", f"{r.what}; p = {r.p_value:.2g}"] for r in reasons] + [
            ["note", note] for note in window.notes
        ]
        if said:
            details.append({"title": f"{now.name}: {window.verdict}", "rows": said})
    columns = ["window", "verdict", "because of", "sessions", "queries", "clicks"]
    caption = (
        "Effective clicks: as many clicks of equal weight would be worth as much to the estimate "
        "of the gain."
    )
    title = "Windows, the latest first"
    listed = table("windows", title, [*columns, "effective clicks"], rows, caption=caption)
    return section("windows", "Windows", tables=[listed], details=details)


def _curve(reference: Any, windows: Sequence["Window"], latest: "Window") -> Part:
    text = [
        "The power is that at which the clicks are likeliest, relevance told by the features: a "
        "change of it, more than its value, says that the curve has changed."
    ]
    figures = []
    curves = {_BEFORE: reference.curve, _NOW: latest.summary.curve}
    drawn = []
    for name, curve in curves.items():
        if curve is not None:
            values = enumerate(zip(curve.propensity, curve.low, curve.high, strict=True), 1)
            drawn.append(series(name, [(k, *row) for k, row in values if row[0] is not None]))
    if drawn:
        caption = "Relative to position 1; bands are 95 % intervals."
        if latest.summary.curve is not None:
            caption += f" The latest window by {latest.summary.curve.method}."
        title, axes = "Observation propensity by position", ("position", "propensity")
        figures.append(figure("curve", title, axes, drawn, caption=caption))
    summaries = [reference.summary, *(window.summary for window in windows)]
    rows = [
        (
            name,
            s.power.value,
            s.power.value - _Z * s.power.error,
            s.power.value + _Z * s.power.error,
        )
        for name, s in zip(["reference", *(s.name for s in summaries[1:])], summaries, strict=True)
        if s.power is not None
    ]
    if rows:
        title, drawn = "Power of the curve that the clicks look like", [series("windows", rows)]
        figures.append(figure("power", title, ("", ""), drawn, zero=False, **_BY_WINDOW))
    if not figures:
        text = ["Neither the log nor its clicks tell a curve."]
    return section("curve", "The curve", text=text, figures=figures)


def _gain(reference: Any, windows: Sequence["Window"]) -> Part:
    gains = [("held out by the fit", reference.gain)]
    gains += [(window.summary.name, window.summary.gain) for window in windows]
    rows = [(name, g.difference, g.low, g.high) for name, g in gains if g is not None]
    if not rows:
        return section("gain", "The gain", text=["No window has clicks enough for a gain."])
    title = f"Gain of the model in {DEFAULT_METRICS[0]} over the ranking shown"
    text = "Estimated from the clicks of each window with the curve that the model was trained on."
    drawn = figure("gain", title, ("", "gain"), [series("windows", rows)], **_BY_WINDOW)
    return section("gain", "The gain", text=[text], figures=[drawn])


def _traffic(summaries: dict[str, "Summary"]) -> Part:
    drawn = []
    for name, summary in summaries.items():
        pairs = enumerate(zip(summary.clicked, summary.shown, strict=True), 1)
        drawn.append(series(name, [(k, c / n, *wilson_interval(c, n)) for k, (c, n) in pairs if n]))
    title, axes = "Click rate by position", ("position", "click rate")
    caption = "Share of shown docs that were clicked, with 95 % intervals of chance."
    shown = figure("rates", title, axes, drawn, caption=caption)
    return section("traffic", title, figures=[shown])
