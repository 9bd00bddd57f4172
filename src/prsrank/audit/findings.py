"""What an audit says: findings, counts and a verdict, as data and as plain text."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from prsrank.audit.catalogue import KINDS, SEVERITIES, Severity
from prsrank.notebook import Chart, Columns, Shown
from prsrank.propensity.identification import Identified, trusted_methods

_MOST_POSITIONS = 20


@dataclass(frozen=True)
class Finding:
    """One thing that an audit found.

    Attributes:
        code: its kind, a key of `KINDS`.
        what: one sentence.
        where: the first example, in words; "" where there is none.
        count: how many rows, sessions, ... it concerns.
        of: how many there are.
        unit: of what: "rows", "sessions", ...

    >>> found = Finding("no-clicks", "the log has no clicks", count=0, of=10)
    >>> found.severity, found.fix
    ('error', 'check which column and which actions count as clicks')
    """

    code: str
    what: str
    where: str = ""
    count: int = 0
    of: int = 0
    unit: str = "rows"

    @property
    def severity(self) -> Severity:
        """How bad it is: "error", "warning" or "note"."""
        return KINDS[self.code].severity

    @property
    def fix(self) -> str:
        """What to do about it."""
        return KINDS[self.code].fix

    @property
    def share(self) -> float:
        """The share of rows, sessions, ... that it concerns."""
        return self.count / self.of if self.of else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as plain data."""
        own = asdict(self)
        return {"severity": self.severity, **own, "share": self.share, "fix": self.fix}


@dataclass(frozen=True)
class Position:
    """How often docs were shown, and clicked, at a position."""

    position: int
    shown: int
    clicks: int

    @property
    def ctr(self) -> float:
        """The click-through rate."""
        return self.clicks / self.shown


@dataclass(frozen=True)
class Period:
    """Rows and clicks of a stretch of time; times are text."""

    begin: str
    end: str
    rows: int
    clicks: int


@dataclass(frozen=True, repr=False)
class Audit(Shown):
    """What there is to know about a log before any training.

    Attributes:
        counts: rows, sessions, lists, queries, docs, clicks, ...
        findings: the worst first.
        positions: shown and clicked at each position.
        periods: rows and clicks over time; none without timestamps.
        estimators: which propensity estimators the log identifies, the best first.
    """

    counts: Mapping[str, int]
    findings: Sequence[Finding]
    positions: Sequence[Position] = ()
    periods: Sequence[Period] = ()
    estimators: Sequence[Identified] = ()

    @property
    def verdict(self) -> str:
        """Return "ready", "usable with warnings" or "not usable"."""
        severities = {finding.severity for finding in self.findings}
        if "error" in severities:
            return "not usable"
        return "usable with warnings" if "warning" in severities else "ready"

    @property
    def errors(self) -> list[Finding]:
        """The findings for which the log cannot be used."""
        return [finding for finding in self.findings if finding.severity == "error"]

    @property
    def best_estimator(self) -> str | None:
        """The first estimator that the log identifies, else the first weak one, else None."""
        return next(iter(trusted_methods(self.estimators)), None)

    def _line(self) -> str:
        counts = Counter(finding.severity for finding in self.findings)
        findings = ", ".join(f"{counts[name]} {name}s" for name in SEVERITIES if counts[name])
        method = self.best_estimator or "no method"
        return f"{self.verdict}; {findings or 'no findings'}; propensities by {method}"

    def _table(self) -> Columns:
        rows = [finding.to_dict() for finding in self.findings]
        names = ("severity", "code", "what", "where", "count", "of", "unit", "fix")
        return {name: [row[name] for row in rows] for name in names}

    def _chart(self) -> Chart:
        rates = {
            "position": [at.position for at in self.positions],
            "click rate": [at.ctr for at in self.positions],
        }
        return Chart("lines", rates, "position", "click rate", title=self.verdict)

    def to_dict(self) -> dict[str, Any]:
        """Return the audit as plain data, for JSON."""
        return {
            "verdict": self.verdict,
            "counts": dict(self.counts),
            "findings": [finding.to_dict() for finding in self.findings],
            "positions": [{**asdict(at), "ctr": at.ctr} for at in self.positions],
            "periods": [asdict(period) for period in self.periods],
            "estimators": [asdict(estimator) for estimator in self.estimators],
            "best_estimator": self.best_estimator,
        }


def worst_first(findings: Sequence[Finding]) -> list[Finding]:
    """Return findings by severity, then in the order of `KINDS`, then by share."""
    order = {code: n for n, code in enumerate(KINDS)}
    return sorted(
        findings, key=lambda f: (SEVERITIES.index(f.severity), order[f.code], -f.share, f.what)
    )


def as_text(audit: Audit) -> str:
    """Return an audit as lines of text: verdict, findings, click rates, estimators."""
    return "\n".join(_lines(audit))


def _lines(audit: Audit) -> Iterator[str]:
    yield from (f"verdict: {audit.verdict}", "")
    for name, count in audit.counts.items():
        yield f"  {name.replace('_', ' '):<20}{count:>14,}"
    for finding in audit.findings:
        share = f"{finding.count:,} of {finding.of:,} {finding.unit} ({finding.share:.1%})"
        yield from ("", f"{finding.severity:<8}{finding.code}")
        yield f"        {finding.what}{f': {share}' if finding.of else ''}"
        if finding.where:
            yield f"        such as: {_clean(finding.where)}"
        if finding.fix != "nothing":
            yield f"        do: {finding.fix}"
    if audit.positions:
        yield from ("", "position         shown        clicks  click rate")
        for at in audit.positions[:_MOST_POSITIONS]:
            yield f"{at.position:>8}  {at.shown:>12,}  {at.clicks:>12,}  {at.ctr:>10.2%}"
        more = len(audit.positions) - _MOST_POSITIONS
        if more > 0:
            yield f"     ... and {more} more (--json shows all)"
    if audit.estimators:
        yield from ("", "propensity estimators")
        for estimator in audit.estimators:
            yield f"  {estimator.method:<14}{estimator.status:<15}{estimator.reason}"


def _clean(text: str) -> str:
    """Return text without line breaks and other characters that terminals act on."""
    return "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text
    )
