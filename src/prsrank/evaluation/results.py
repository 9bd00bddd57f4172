"""What a counterfactual evaluation finds, as data."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from prsrank.errors import InputError
from prsrank.evaluation.weight_diagnostics import WeightDiagnostics
from prsrank.files import plain_json
from prsrank.notebook import Chart, Columns, Shown

LOGGED = "logged"
CLIPPED, DOUBLY_ROBUST = "clipped", "dr"
ALL, AT_TOP, AT_OTHERS = "all", "clicked at top", "clicked at others"


@dataclass(frozen=True)
class Estimate:
    """A ranker's value of a metric.

    Attributes:
        part: "all", "clicked at top", "clicked at others", or a context's "COLUMN=VALUE".
        metric: name of the metric.
        estimator: "ips", "snips", "clipped" or "dr".
        ranker: name of the ranker; "logged" is the rankings as they were shown.
        value: the estimate; NaN where there is no click to divide by.
        low: lower end of the interval; infinite where there are too few queries for one.
        high: upper end of it.
    """

    part: str
    metric: str
    estimator: str
    ranker: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Difference:
    """A ranker's value less that of another on the same clicks.

    Attributes:
        part: as in `Estimate`, like `metric` and `estimator`.
        metric: name of the metric.
        estimator: "ips", "snips", "clipped" or "dr".
        ranker: name of the ranker.
        against: name of the other.
        difference: value of `ranker` - value of `against`.
        low: lower end of the interval.
        high: upper end of it.
        p_value: two-sided, of the hypothesis that there is no difference.
        relative: difference / value of `against`; the same by "ips" and "snips".
    """

    part: str
    metric: str
    estimator: str
    ranker: str
    against: str
    difference: float
    low: float
    high: float
    p_value: float
    relative: float


@dataclass(frozen=True, repr=False)
class CounterfactualEvaluation(Shown):
    """Estimates for several rankers from the same held-out clicks.

    Attributes:
        estimates: one for each part, metric, estimator and ranker.
        differences: the same for each ranker and each other that it is compared with.
        diagnostics: what the clicks of each part can bear, with warnings; "all" first.
        tau: the clip of the weights.
        samples: number of bootstrap samples.
        seed: their seed.
        confidence: share of the intervals.
    """

    estimates: tuple[Estimate, ...]
    differences: tuple[Difference, ...]
    diagnostics: tuple[WeightDiagnostics, ...]
    tau: float
    samples: int
    seed: int
    confidence: float

    @property
    def rankers(self) -> tuple[str, ...]:
        """Names of the rankers that were judged, the logged ranking among them."""
        return tuple(dict.fromkeys(estimate.ranker for estimate in self.estimates))

    @property
    def narrowest(self) -> str:
        """The estimator that decisions rest on: "dr" where there is one, else "clipped" or "ips"."""
        estimators = {estimate.estimator for estimate in self.estimates}
        return next(e for e in (DOUBLY_ROBUST, CLIPPED, "ips", "snips") if e in estimators)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why the estimates over all clicks cannot be trusted; empty if they can."""
        return self.diagnostics[0].warnings

    def _line(self) -> str:
        metrics = dict.fromkeys(estimate.metric for estimate in self.estimates)
        return f"{', '.join(self.rankers)} by {', '.join(metrics)}; {len(self.warnings)} warnings"

    def _table(self) -> Columns:
        return rows_as_columns(self.estimates)

    def _chart(self) -> Chart:
        """Draw the first metric by the first estimator over all clicks."""
        first = self.estimates[0]
        same = (first.part, first.metric, first.estimator)
        shown = [e for e in self.estimates if (e.part, e.metric, e.estimator) == same]
        table = {**rows_as_columns(shown), first.metric: [estimate.value for estimate in shown]}
        return Chart(
            "intervals", table, "ranker", first.metric, "low", "high", title=first.estimator
        )

    def estimate(
        self, ranker: str, metric: str, *, estimator: str | None = None, part: str = ALL
    ) -> Estimate:
        """Return one estimate, by default that of the first estimator."""
        wanted = (part, metric, ranker)
        for e in self.estimates:
            if (e.part, e.metric, e.ranker) == wanted and estimator in (None, e.estimator):
                return e
        raise InputError(f"there is no estimate of {metric} for {ranker} ({part})")

    def difference(
        self,
        ranker: str,
        metric: str,
        *,
        against: str = LOGGED,
        estimator: str | None = None,
        part: str = ALL,
    ) -> Difference:
        """Return one difference, by default that of the first estimator."""
        wanted = (part, metric, ranker, against)
        for d in self.differences:
            if (d.part, d.metric, d.ranker, d.against) == wanted and estimator in (
                None,
                d.estimator,
            ):
                return d
        raise InputError(f"{ranker} was not compared with {against} by {metric} ({part})")

    def to_json_dict(self) -> dict[str, Any]:
        """Return plain lists and dicts; a number that is not finite becomes None."""
        plain: dict[str, Any] = plain_json(asdict(self))
        return plain


def rows_as_columns(rows: Sequence[Estimate]) -> dict[str, list[Any]]:
    """Return estimates as columns by the names of their fields."""
    return {f.name: [getattr(row, f.name) for row in rows] for f in fields(Estimate)}
