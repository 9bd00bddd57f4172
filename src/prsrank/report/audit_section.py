"""An audit as a section of the HTML report."""

from prsrank import __version__
from prsrank.audit.findings import Audit, Finding
from prsrank.report import parts
from prsrank.report.parts import Part, card, figure, page, series, table

_MOST_POSITIONS = 50
_TONES = {"error": "bad", "warning": "open", "note": "plain"}
_Z = 1.959964


def section(audit: Audit) -> Part:
    """Return an audit as a section of a report (see `prsrank.report`): plain data."""
    at = audit.positions[:_MOST_POSITIONS]
    shown = [[p.position, p.shown, p.clicks, round(p.ctr, 5)] for p in at]
    identified = [[each.method, each.status, each.reason] for each in audit.estimators]
    counts = [[name.replace("_", " "), f"{n:,}"] for name, n in audit.counts.items()]
    return parts.section(
        "audit",
        "The log",
        text=[_summary(audit)],
        cards=[_card(finding) for finding in audit.findings],
        figures=_figures(audit),
        tables=[
            table(
                "audit-estimators",
                "Propensity estimators",
                ["method", "status", "why"],
                identified,
                caption="What the log identifies, by counts.",
            ),
            table(
                "audit-positions",
                "Click rates by position",
                ["position", "shown", "clicks", "click rate"],
                shown,
                caption="Docs shown and clicked at each position.",
            ),
        ],
        details=[{"title": "Counts", "rows": counts}],
    )


def report(audit: Audit, *, log: str) -> Part:
    """Return a whole report that holds nothing but an audit of the log of a name."""
    about = [["log", log], ["prsrank", __version__]]
    return page("Audit of a click log", log, [section(audit)], about=about)


def _summary(audit: Audit) -> str:
    counts = audit.counts
    warnings = sum(finding.severity == "warning" for finding in audit.findings)
    return (
        f"Verdict: {audit.verdict} ({len(audit.errors)} errors, {warnings} warnings). "
        f"{counts['sessions']:,} sessions of {counts['queries']:,} queries show "
        f"{counts['lists']:,} distinct lists, with {counts['clicks']:,} clicks."
    )


def _card(finding: Finding) -> Part:
    """Return a finding, with how much of the log it concerns and the first example."""
    counted = f"{finding.count:,} of {finding.of:,} {finding.unit}" if finding.of else ""
    extent = ", such as ".join(part for part in (counted, finding.where) if part)
    label, title = f"{finding.severity}: {finding.code}", finding.what
    lines = [*([extent] if extent else []), f"What to do: {finding.fix}."]
    return card(_TONES[finding.severity], label, f"{title[:1].upper()}{title[1:]}", lines)


def _figures(audit: Audit) -> list[Part]:
    """Return the click rate by position and over time, as far as there are any."""
    at = audit.positions[:_MOST_POSITIONS]
    rates = [(p.position, p.ctr, *wilson_interval(p.clicks, p.shown)) for p in at]
    periods = [(p.begin, p.clicks / p.rows) for p in audit.periods]
    by_position = figure(
        "audit-click-rates",
        "Click rate by position",
        ("position", "click rate"),
        [series("click rate", rates)],
        caption="Share of shown docs that were clicked, with 95 % intervals of chance.",
    )
    over_time = figure(
        "audit-over-time",
        "Click rate over time",
        ("from", "click rate"),
        [series("click rate", periods)],
        scale="ordinal",
        caption="Ten stretches of equal length, named by their first event.",
    )
    return [*([by_position] if rates else []), *([over_time] if periods else [])]


def wilson_interval(clicks: int, shown: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a click rate; it has a width without clicks, too.

    >>> [round(end, 3) for end in wilson_interval(0, 27)]
    [0.0, 0.125]
    """
    rate, extra = clicks / shown, _Z**2 / shown
    middle = (rate + extra / 2) / (1 + extra)
    reach = _Z / (1 + extra) * (rate * (1 - rate) / shown + extra / (4 * shown)) ** 0.5
    return max(middle - reach, 0.0), min(middle + reach, 1.0)
