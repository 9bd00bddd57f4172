"""An audit as a section of the HTML report."""

from typing import Any

from prsrank.audit.findings import Audit

_MOST_POSITIONS = 50
_Z = 1.959964


def section(audit: Audit) -> dict[str, Any]:
    """Return an audit as a section of a report (see `prsrank.report`): plain data."""
    figures = [_rates(audit)] if audit.positions else []
    if audit.periods:
        figures.append(_over_time(audit))
    return {
        "id": "audit",
        "title": "The log",
        "claim": None,
        "verdict": None,
        "text": [_summary(audit)],
        "figures": figures,
        "tables": [_findings(audit), _estimators(audit), _positions(audit)],
        "details": [
            {
                "title": "Counts",
                "rows": [[name.replace("_", " "), f"{n:,}"] for name, n in audit.counts.items()],
            }
        ],
        "notes": [],
    }


def report(audit: Audit, *, log: str) -> dict[str, Any]:
    """Return a whole report that holds nothing but an audit.

    Args:
        audit: the audit.
        log: the name of the log.
    """
    from prsrank import __version__

    return {
        "title": "Audit of a click log",
        "subtitle": log,
        "lead": [_summary(audit)],
        "verdicts": [],
        "sections": [section(audit)],
        "about": [["log", log], ["prsrank", __version__]],
    }


def _summary(audit: Audit) -> str:
    counts = audit.counts
    errors = len(audit.errors)
    warnings = sum(finding.severity == "warning" for finding in audit.findings)
    return (
        f"Verdict: {audit.verdict} ({errors} errors, {warnings} warnings). "
        f"{counts['sessions']:,} sessions of {counts['queries']:,} queries show "
        f"{counts['lists']:,} distinct lists, with {counts['clicks']:,} clicks."
    )


def _findings(audit: Audit) -> dict[str, Any]:
    rows = [
        [
            finding.severity,
            finding.code,
            finding.what,
            f"{finding.count:,} of {finding.of:,} {finding.unit}" if finding.of else "",
            finding.where,
            finding.fix,
        ]
        for finding in audit.findings
    ]
    return {
        "id": "audit-findings",
        "title": "Findings",
        "caption": "The worst first.",
        "columns": ["severity", "finding", "what", "how many", "such as", "what to do"],
        "rows": rows,
    }


def _estimators(audit: Audit) -> dict[str, Any]:
    return {
        "id": "audit-estimators",
        "title": "Propensity estimators",
        "caption": "What the log identifies, by counts.",
        "columns": ["method", "status", "why"],
        "rows": [[one.method, one.status, one.reason] for one in audit.estimators],
    }


def _positions(audit: Audit) -> dict[str, Any]:
    rows = [[at.position, at.shown, at.clicks, round(at.ctr, 5)] for at in audit.positions]
    return {
        "id": "audit-positions",
        "title": "Click rates by position",
        "caption": "Docs shown and clicked at each position.",
        "columns": ["position", "shown", "clicks", "click rate"],
        "rows": rows[:_MOST_POSITIONS],
    }


def _rates(audit: Audit) -> dict[str, Any]:
    shown = audit.positions[:_MOST_POSITIONS]
    ends = [wilson_interval(at.clicks, at.shown) for at in shown]
    series = {
        "name": "click rate",
        "x": [at.position for at in shown],
        "y": [at.ctr for at in shown],
        "low": [low for low, _ in ends],
        "high": [high for _, high in ends],
    }
    return {
        "id": "audit-click-rates",
        "title": "Click rate by position",
        "caption": "Share of shown docs that were clicked, with 95 % intervals of chance.",
        "alt": f"Click rate at positions {shown[0].position} to {shown[-1].position}.",
        "x": {"title": "position", "scale": "linear"},
        "y": {"title": "click rate", "zero": True},
        "kind": "lines",
        "panels": [{"title": "", "series": [series]}],
    }


def wilson_interval(clicks: int, shown: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a click rate; it has a width without clicks, too.

    >>> [round(end, 3) for end in wilson_interval(0, 27)]
    [0.0, 0.125]
    """
    rate, extra = clicks / shown, _Z**2 / shown
    middle = (rate + extra / 2) / (1 + extra)
    reach = _Z / (1 + extra) * (rate * (1 - rate) / shown + extra / (4 * shown)) ** 0.5
    return max(middle - reach, 0.0), min(middle + reach, 1.0)


def _over_time(audit: Audit) -> dict[str, Any]:
    series = {
        "name": "click rate",
        "x": [period.begin for period in audit.periods],
        "y": [period.clicks / period.rows for period in audit.periods],
        "low": None,
        "high": None,
    }
    return {
        "id": "audit-over-time",
        "title": "Click rate over time",
        "caption": "Ten stretches of equal length, named by their first event.",
        "alt": "Click rate of each stretch of time.",
        "x": {"title": "from", "scale": "ordinal"},
        "y": {"title": "click rate", "zero": True},
        "kind": "lines",
        "panels": [{"title": "", "series": [series]}],
    }
