"""Which propensity estimators a log identifies: each estimator says so itself."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from prsrank.audit.findings import Finding
from prsrank.propensity.estimators import ESTIMATORS
from prsrank.propensity.identification import Identified
from prsrank.types import LogTables


def identify(tables: LogTables) -> list[Identified]:
    """Return what the log can tell each estimator, the best estimator first."""
    asked = _Remembered(tables, tables.features)
    found = (one.identify(asked) for one in ESTIMATORS.values())
    return [one for one in found if one is not None]


def none_identified(tables: LogTables, estimators: Sequence[Identified]) -> Iterator[Finding]:
    """Warn of a log that identifies no estimator."""
    if any(one.status != "not identified" for one in estimators):
        return
    docs, several = tables.row("SELECT count(*), count(*) FILTER (cells > 1) FROM {docs}")
    what = "the log identifies no propensity estimator; docs shown at one position only"
    yield Finding("no-propensities", what, "", docs - several, docs, "docs")


@dataclass(frozen=True)
class _Remembered:
    """Tables that answer a query once: estimators ask for the same counts, some of them large."""

    tables: LogTables
    features: Sequence[str]
    answers: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        if sql not in self.answers:
            self.answers[sql] = self.tables.rows(sql)
        return self.answers[sql]

    def row(self, sql: str) -> tuple[Any, ...]:
        return self.rows(sql)[0]
