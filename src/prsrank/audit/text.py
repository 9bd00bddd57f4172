"""An audit as plain text."""

from collections.abc import Iterator

from prsrank.audit.findings import Audit, Finding

_MOST_POSITIONS = 20


def as_text(audit: Audit) -> str:
    """Return an audit as lines of text: verdict, findings, click rates, estimators."""
    return "\n".join(_lines(audit))


def _lines(audit: Audit) -> Iterator[str]:
    yield f"verdict: {audit.verdict}"
    yield ""
    for name, count in audit.counts.items():
        yield f"  {name.replace('_', ' '):<20}{count:>14,}"
    for finding in audit.findings:
        yield ""
        yield f"{finding.severity:<8}{finding.code}"
        yield f"        {finding.what}{_how_many(finding)}"
        if finding.where:
            yield f"        such as: {_clean(finding.where)}"
        if finding.fix != "nothing":
            yield f"        do: {finding.fix}"
    if audit.positions:
        yield from _positions(audit)
    if audit.estimators:
        yield ""
        yield "propensity estimators"
        for one in audit.estimators:
            yield f"  {one.method:<14}{one.status:<15}{one.reason}"


def _how_many(finding: Finding) -> str:
    if not finding.of:
        return ""
    return f": {finding.count:,} of {finding.of:,} {finding.unit} ({finding.share:.1%})"


def _clean(text: str) -> str:
    """Return text without line breaks and other characters that terminals act on."""
    return "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text
    )


def _positions(audit: Audit) -> Iterator[str]:
    yield ""
    yield "position         shown        clicks  click rate"
    for at in audit.positions[:_MOST_POSITIONS]:
        yield f"{at.position:>8}  {at.shown:>12,}  {at.clicks:>12,}  {at.ctr:>10.2%}"
    more = len(audit.positions) - _MOST_POSITIONS
    if more > 0:
        yield f"     ... and {more} more (--json shows all)"
