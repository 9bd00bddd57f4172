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
    figures = [_rates(audit)] if audit.positions else []
    if audit.periods:
        figures.append(_over_time(audit))
    counts = [[name.replace("_", " "), f"{n:,}"] for name, n in audit.counts.items()]
    return parts.section(
        "audit",
        "The log",
        text=[_summary(audit)],
        cards=_findings(audit),
        figures=figures,
        tables=[_estimators(audit), _positions(audit)],
        details=[{"title": "Counts", "rows": counts}],
    )


def report(audit: Audit, *, log: str) -> Part:
    """Return a whole report that holds nothing but an audit.

    Args:
        audit: the audit.
        log: the name of the log.
    """
    about = [["log", log], ["prsrank", __version__]]
    sections = [section(audit)]
    return page("Audit of a click log", log, sections, lead=[_summary(audit)], about=about)


def _summary(audit: Audit) -> str:
    counts = audit.counts
    errors = len(audit.errors)
    warnings = sum(finding.severity == "warning" for finding in audit.findings)
    return (
        f"Verdict: {audit.verdict} ({errors} errors, {warnings} warnings). "
        f"{counts['sessions']:,} sessions of {counts['queries']:,} queries show "
        f"{counts['lists']:,} distinct lists, with {counts['clicks']:,} clicks."
    )


def _findings(audit: Audit) -> list[Part]:
    """Return a card for each finding, the worst first."""
    return [
        card(
            _TONES[finding.severity],
            f"{finding.severity}: {finding.code}",
            f"{finding.what[:1].upper()}{finding.what[1:]}",
            [line for line in (_extent(finding), f"What to do: {finding.fix}.") if line],
        )
        for finding in audit.findings
    ]


def _extent(finding: Finding) -> str:
    """Return how much of the log a finding concerns, and the first example."""
    counted = f"{finding.count:,} of {finding.of:,} {finding.unit}" if finding.of else ""
    return ", such as ".join(part for part in (counted, finding.where) if part)


def _estimators(audit: Audit) -> Part:
    rows = [
        [estimator.method, estimator.status, estimator.reason] for estimator in audit.estimators
    ]
    columns, caption = ["method", "status", "why"], "What the log identifies, by counts."
    return table("audit-estimators", "Propensity estimators", columns, rows, caption=caption)


def _positions(audit: Audit) -> Part:
    shown = audit.positions[:_MOST_POSITIONS]
    rows = [[at.position, at.shown, at.clicks, round(at.ctr, 5)] for at in shown]
    columns = ["position", "shown", "clicks", "click rate"]
    caption = "Docs shown and clicked at each position."
    return table("audit-positions", "Click rates by position", columns, rows, caption=caption)


def _rates(audit: Audit) -> Part:
    shown = audit.positions[:_MOST_POSITIONS]
    rows = [(at.position, at.ctr, *wilson_interval(at.clicks, at.shown)) for at in shown]
    return figure(
        "audit-click-rates",
        "Click rate by position",
        ("position", "click rate"),
        [series("click rate", rows)],
        caption="Share of shown docs that were clicked, with 95 % intervals of chance.",
    )


def wilson_interval(clicks: int, shown: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a click rate; it has a width without clicks, too.

    >>> [round(end, 3) for end in wilson_interval(0, 27)]
    [0.0, 0.125]
    """
    rate, extra = clicks / shown, _Z**2 / shown
    middle = (rate + extra / 2) / (1 + extra)
    reach = _Z / (1 + extra) * (rate * (1 - rate) / shown + extra / (4 * shown)) ** 0.5
    return max(middle - reach, 0.0), min(middle + reach, 1.0)


def _over_time(audit: Audit) -> Part:
    return figure(
        "audit-over-time",
        "Click rate over time",
        ("from", "click rate"),
        [series("click rate", [(p.begin, p.clicks / p.rows) for p in audit.periods])],
        scale="ordinal",
        caption="Ten stretches of equal length, named by their first event.",
    )
