"""Results under the names, and in the numbers, that a report shows."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from prsrank.experiment.results import Key, Results
from prsrank.experiment.spec import Point, Spec
from prsrank.experiment.statistics import (
    RelativeChange,
    RunMean,
    compare_queries,
    per_query,
    relative_change,
    run_mean,
)
from prsrank.experiment.words import direction
from prsrank.metrics.significance import PairedTest, holm


@dataclass(frozen=True)
class Shown:
    """A value of a report.

    Attributes:
        key: panel, method, point and metric.
        mean: over runs.
        change: against the method that the spec gives values relative to; None if it does not.
        reference: method and point of the claim's first winner, if it is compared with that.
        paired: that comparison.
        corrected: its p value after Holm over the table.
    """

    key: Key
    mean: RunMean
    change: RelativeChange | None = None
    reference: tuple[str, Point] = ("", "")
    paired: PairedTest | None = None
    corrected: float = math.nan

    @property
    def interval(self) -> tuple[float, float, float]:
        """What a figure shows with its ends: the change, or mean and deviation."""
        if self.change is not None:
            return self.change.percent, self.change.low, self.change.high
        return self.mean.mean, self.mean.mean - self.mean.sd, self.mean.mean + self.mean.sd


@dataclass(frozen=True)
class ShownResults:
    """An experiment with its results.

    Attributes:
        spec: the experiment.
        results: its values.
    """

    spec: Spec
    results: Results

    @property
    def has_axis(self) -> bool:
        """Whether the experiment has more than the one point ""."""
        return any(point != "" for point in self.spec.axis.points)

    @cached_property
    def titles(self) -> dict[str, str]:
        """The title of each method by its name."""
        return {method.name: method.title or method.name for method in self.spec.methods}

    @cached_property
    def panels(self) -> dict[str, str]:
        """The panels measured with their titles, in the spec's order."""
        run = self.results.panels()
        return {p.name: p.title or p.name for p in self.spec.panels if p.name in run}

    def methods(self, panel: str) -> dict[str, str]:
        """Return the methods measured in a panel with their titles, in the spec's order."""
        run = self.results.methods(panel)
        return {name: title for name, title in self.titles.items() if name in run}

    @cached_property
    def values(self) -> dict[Key, Shown]:
        """Every value; one of a method that was not measured at a point is NaN."""
        return {
            key: self._shown(key)
            for panel in self.panels
            for method in self.methods(panel)
            for point in self.results.axis_points
            for metric in self.spec.metrics
            for key in [(panel, method, point, metric)]
        }

    def table(self, metrics: Iterable[str]) -> dict[Key, Shown]:
        """Return the values of some metrics, p values corrected after Holm over all of them."""
        cells = [shown for key, shown in self.values.items() if key[3] in metrics]
        p_values = [math.nan if cell.paired is None else cell.paired.p_value for cell in cells]
        corrected = zip(cells, holm(p_values).tolist(), strict=True)
        return {cell.key: replace(cell, corrected=p) for cell, p in corrected}

    def published(self, panel: str, method: str, metric: str) -> float | None:
        """Return the paper's number, if it has one."""
        wanted = (panel, method, metric)
        numbers = self.spec.paper
        return next((n.value for n in numbers if (n.panel, n.method, n.metric) == wanted), None)

    def _shown(self, key: Key) -> Shown:
        panel, method, point, metric = key
        values = self.results.measured(*key)
        if values is None:
            return Shown(key, RunMean())
        shown = Shown(key, run_mean(values))
        if self.spec.relative_to:
            base_panel, base_method = self.spec.relative_to
            base = self.results.measured(base_panel, base_method, point, metric)
            change = RelativeChange() if base is None else relative_change(values, base)
            shown = replace(shown, change=change)
        if not self.spec.test or not direction(metric):
            return shown
        claim = self.spec.test[0]
        reference = (claim.winner, point if claim.at is None else claim.at)
        other = self.results.measured(panel, *reference, metric)
        if reference == (method, point) or other is None:
            return shown
        paired = compare_queries(per_query(values), per_query(other))
        return replace(shown, reference=reference, paired=paired)
