"""The page of a monitor: the verdict, then what moved, over windows and in the latest one."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from prsrank.evaluation.log_evaluation import DEFAULT_METRICS
from prsrank.rankers.cards import library_versions
from prsrank.report.audit_section import wilson_interval
from prsrank.report.parts import Part, card, figure, page, section, series, table

if TYPE_CHECKING:
    from prsrank.monitor.monitoring import Monitoring
    from prsrank.monitor.summary import Summary
    from prsrank.monitor.verdict import Window

_BEFORE, _NOW = "trained on", "latest window"
_Z = 1.96
_MOST_WINDOWS = 60
# tone, title and meaning of a verdict
_WORDS = {
    "fine": ("good", "Fine", "New sessions look like those that the model was trained on."),
    "look": ("open", "Look", "Something is off with the data; the model may be as good as it was."),
    "retrain": ("bad", "Retrain", "What the model was trained on is no longer so."),
}


def monitor_report(monitoring: "Monitoring") -> Part:
    """Return the report of a monitor: all windows that its state file knows."""
    windows = monitoring.state.windows[-_MOST_WINDOWS:]
    latest = monitoring.new[-1]
    sections = [
        _windows(windows),
        _curve(monitoring, windows, latest),
        _gain(monitoring, windows),
        _features(latest),
        _traffic(monitoring.state.reference.summary, latest.summary),
    ]
    about = [
        ["model", monitoring.run],
        ["compared with", monitoring.state.reference.source],
        ["state file", str(monitoring.path)],
    ]
    about += [[f"version of {name}", text] for name, text in library_versions().items()]
    return page("Monitor", monitoring.run, sections, card=_verdict_card(monitoring), about=about)


def _verdict_card(monitoring: "Monitoring") -> Part:
    """Return the verdict, the reasons of the latest window that is not fine, and which others are not."""
    tone, title, meaning = _WORDS[monitoring.verdict]
    lines = [meaning]
    off = [window for window in monitoring.new if window.reasons]
    if off:
        name = off[-1].summary.name
        lines += [f"{name}, {r.verdict}: {r.what}. {_do(r.do)}" for r in off[-1].reasons]
    if len(off) > 1:
        names = ", ".join(f"{window.summary.name} ({window.verdict})" for window in off[:-1])
        lines.append(f"Not fine before: {names}.")
    return card(tone, "", title, lines)


def _do(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('?') else '.'}"


def _windows(windows: Sequence["Window"]) -> Part:
    rows = [
        [
            *(
                window.summary.name,
                window.verdict,
                ", ".join(r.check for r in window.reasons) or "–",
            ),
            *(window.summary.sessions, window.summary.queries, window.summary.clicks),
            round(window.summary.effective_clicks),
        ]
        for window in reversed(windows)
    ]
    columns = ["window", "verdict", "because of", "sessions", "queries", "clicks"]
    columns.append("effective clicks")
    listed = table(
        "windows", "Windows, the latest first", columns, rows,
        caption="Effective clicks: as many clicks of equal weight would be worth as much to the "
        "estimate of the gain.",
    )  # fmt: skip
    details = [
        {"title": f"{window.summary.name}: {window.verdict}", "rows": _reasons(window)}
        for window in reversed(windows)
        if window.reasons or window.notes
    ]
    return section("windows", "Windows", tables=[listed], details=details)


def _reasons(window: "Window") -> list[list[Any]]:
    rows = [[f"{r.check} ({r.verdict})", f"{r.what}; p = {r.p_value:.2g}"] for r in window.reasons]
    return [*rows, *(["note", note] for note in window.notes)]


def _curve(monitoring: "Monitoring", windows: Sequence["Window"], latest: "Window") -> Part:
    reference = monitoring.state.reference
    figures = []
    curves = {_BEFORE: reference.curve, _NOW: latest.summary.curve}
    drawn = [_curve_series(name, curve) for name, curve in curves.items() if curve is not None]
    if drawn:
        caption = "Relative to position 1; bands are 95 % intervals."
        if latest.summary.curve is not None:
            caption += f" The latest window by {latest.summary.curve.method}."
        title = "Observation propensity by position"
        figures.append(_figure("curve", title, ("position", "propensity"), drawn, caption=caption))
    powers = [("reference", reference.summary.power)]
    powers += [(window.summary.name, window.summary.power) for window in windows]
    rows = [(name, power.value, *_ends(power)) for name, power in powers if power is not None]
    if rows:
        title = "Power of the curve that the clicks look like"
        figures.append(_over_windows("power", title, rows, zero=False))
    text = [
        "The power is that at which the clicks are likeliest, relevance told by the features: a "
        "change of it, more than its value, says that the curve has changed."
    ]
    if not figures:
        text = ["Neither the log nor its clicks tell a curve."]
    return section("curve", "The curve", text=text, figures=figures)


def _curve_series(name: str, curve: Any) -> Part:
    rows = enumerate(zip(curve.propensity, curve.low, curve.high, strict=True), 1)
    return series(name, [(k, *values) for k, values in rows if values[0] is not None])


def _ends(ratio: Any) -> tuple[float, float]:
    return ratio.value - _Z * ratio.error, ratio.value + _Z * ratio.error


def _figure(
    name: str, title: str, axes: tuple[str, str], drawn: Sequence[Part], **more: Any
) -> Part:
    """Return a Figure of one panel, whose text for who cannot see it names its series."""
    names = ", ".join(each["name"] for each in drawn)
    return figure(name, title, axes, drawn, alt=f"{title}: {names}.", **more)


def _over_windows(
    name: str, title: str, rows: Sequence[Any], *, y: str = "", zero: bool = True
) -> Part:
    """Return a Figure of values with intervals, one a window."""
    look = {"kind": "intervals", "scale": "ordinal", "zero": zero, "caption": "95 % intervals."}
    return _figure(name, title, ("", y), [series("windows", rows)], **look)


def _gain(monitoring: "Monitoring", windows: Sequence["Window"]) -> Part:
    gains = [("held out by the fit", monitoring.state.reference.gain)]
    gains += [(window.summary.name, window.summary.gain) for window in windows]
    rows = [(name, g.difference, g.low, g.high) for name, g in gains if g is not None]
    if not rows:
        return section("gain", "The gain", text=["No window has clicks enough for a gain."])
    title = f"Gain of the model in {DEFAULT_METRICS[0]} over the ranking shown"
    text = [
        "Estimated from the clicks of each window with the curve that the model was trained on."
    ]
    drawn = _over_windows("gain", title, rows, y="gain")
    return section("gain", "The gain", text=text, figures=[drawn])


def _features(latest: "Window") -> Part:
    rows = [
        [
            drift.feature,
            f"{drift.importance:.1%}",
            f"{drift.shift:.0%}",
            f"{drift.p_value:.2g}",
            drift.what,
        ]
        for drift in latest.drift
    ]
    columns = ["feature", "use in the model", "shift", "p", "where"]
    listed = table(
        "features", "Features in the latest window, those that the model uses most first",
        columns, rows,
        caption="Shift: the largest change of the share of impressions up to a decile of the log "
        "trained on, or without a value. p is of that one decile.",
    )  # fmt: skip
    return section("features", "Features", tables=[listed])


def _traffic(before: "Summary", now: "Summary") -> Part:
    title, axes = "Click rate by position", ("position", "click rate")
    caption = "Share of shown docs that were clicked, with 95 % intervals of chance."
    drawn = [_rates(_BEFORE, before), _rates(_NOW, now)]
    return section(
        "traffic", title, figures=[_figure("rates", title, axes, drawn, caption=caption)]
    )


def _rates(name: str, summary: "Summary") -> Part:
    pairs = enumerate(zip(summary.clicked, summary.shown, strict=True), 1)
    return series(name, [(k, c / n, *wilson_interval(c, n)) for k, (c, n) in pairs if n])
