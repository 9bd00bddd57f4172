"""Results under the names, and in the numbers, that a report shows."""

from dataclasses import dataclass

from prsrank.experiment.results import Key, Results
from prsrank.experiment.spec import Spec
from prsrank.experiment.statistics import RelativeChange, RunMean, relative_change, run_mean


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

    @property
    def titles(self) -> dict[str, str]:
        """The title of each method by its name."""
        return {method.name: method.title or method.name for method in self.spec.methods}

    @property
    def panel_titles(self) -> dict[str, str]:
        """The title of each panel by its name."""
        return {panel.name: panel.title or panel.name for panel in self.spec.panels}

    def methods(self, panel: str) -> dict[str, str]:
        """Return the methods measured in a panel with their titles, in the spec's order."""
        run = set(self.results.methods(panel))
        return {name: title for name, title in self.titles.items() if name in run}

    def panels(self) -> dict[str, str]:
        """Return the panels measured with their titles, in the spec's order."""
        run = set(self.results.panels())
        return {name: title for name, title in self.panel_titles.items() if name in run}

    def mean(self, key: Key) -> RunMean:
        """Return the mean over runs; NaN where nothing was measured."""
        values = self.results.measured(*key)
        return RunMean() if values is None else run_mean(values)

    def change(self, key: Key) -> RelativeChange:
        """Return the change against the method that the spec gives values relative to."""
        if self.spec.relative_to is None:
            return RelativeChange()
        values = self.results.measured(*key)
        base = self.results.measured(*self.spec.relative_to, *key[2:])
        return RelativeChange() if values is None or base is None else relative_change(values, base)

    def value(self, key: Key) -> tuple[float, float, float]:
        """Return what a figure shows with its ends: the change, or mean and deviation."""
        if self.spec.relative_to is not None:
            change = self.change(key)
            return change.percent, change.low, change.high
        mean = self.mean(key)
        return mean.mean, mean.mean - mean.sd, mean.mean + mean.sd

    def published(self, panel: str, method: str, metric: str) -> float | None:
        """Return the paper's number, if it has one."""
        for number in self.spec.paper:
            if (number["panel"], number["method"], number["metric"]) == (panel, method, metric):
                return float(number["value"])
        return None
