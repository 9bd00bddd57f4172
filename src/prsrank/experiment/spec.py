"""What an experiment is: data, clicks, methods, axis, and the claim that it tests."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

Point = float | str
Values = Mapping[str, Any]

AXES = {
    "none": ("", ""),
    "clicks": ("clicks", "clicks"),
    "clicks_per_query": ("clicks", "clicks_per_query"),
    "eta": ("clicks", "eta"),
    "mu": ("clicks", "mu"),
    "production_share": ("clicks", "production_share"),
    "assumed_eta": ("propensity", "eta"),
    "gamma": ("parameters", "gamma"),
}
"""What an axis may change: name -> (group of settings, key)."""

CLICKS: Values = {
    "clicks": 128_000,
    "clicks_per_query": None,
    "model": "position-based",
    "eta": 1.0,
    "mu": 0.1,
    "one_click": False,
    "production_share": 0.01,
    "production_ranker": "linear",
    "sessions": 1000,
}
"""Settings of the clicks and what they are unless said otherwise.

`clicks_per_query`, if given, sets the number of clicks by the training lists of the fold;
`model` is a name of `CLICK_MODELS`, of which eta and mu are set where it has them;
`one_click` keeps sessions of exactly one click; `sessions` is the number of sessions that
are simulated on each list where an experiment is about single lists (bounds)."""

PROPENSITY: Values = {"source": "known", "eta": None, "clicks": 12_800}
"""Where the propensities come from: "known" is (1/k)^eta, by default that of the clicks;
"randomised" is estimated from a further log of so many clicks, its rankings shuffled."""

SOURCES = ("known", "randomised")

KINDS: Mapping[str, tuple[str, ...]] = {
    "ranking": (),
    "clicks": ("wmrr", "wmrr top", "wmrr others"),
    "observations": ("share",),
    "bounds": (
        *("bound", "spread", "relative bound", "relative spread"),
        *("coverage", "coverage full"),
    ),
}
"""What is measured: "ranking" metrics on the test part's labels, estimates from "clicks" on the
test part, shares of "observations", or "bounds"; and the metrics of each (none: those of
`prsrank.metrics.ranking`)."""

SHARES = tuple(f"{a} {b}" for a in ("relevant", "irrelevant") for b in ("observed", "unobserved"))
"""The methods of kind "observations"; its panels are "clicks" and "non-clicks"."""


@dataclass(frozen=True)
class Axis:
    """The axis of the figure.

    Attributes:
        name: what changes from point to point, a key of `AXES`; "none" if nothing does: then
            the one point is "".
        title: how the figure names it.
        scale: "linear", "log" or "ordinal".
        points: the values.
    """

    name: str
    title: str
    scale: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Panel:
    """One plot of the figure.

    Attributes:
        name: as in the results.
        title: how the figure names it.
        ranker: the ranker of methods that name none.
        clicks: settings of the clicks that differ from the experiment's.
    """

    name: str = ""
    title: str = ""
    ranker: str = ""
    clicks: Values = field(default_factory=dict)


@dataclass(frozen=True)
class Method:
    """One way from a click log to a ranker, or whatever else the experiment compares.

    Attributes:
        name: as in the results.
        title: how the figure names it.
        weighting: a name of `WEIGHTINGS`; "" for a ranker that takes none, and for the
            production ranker itself.
        ranker: a name of `RANKERS`; "" is the panel's.
        parameters: fixed parameters of the weighting.
        grid: values to try of the weighting's and the ranker's parameters, beside the
            ranker's own grid.
        panels: names of the panels it is in.
    """

    name: str
    title: str
    weighting: str = ""
    ranker: str = ""
    parameters: Values = field(default_factory=dict)
    grid: Values = field(default_factory=dict)
    panels: tuple[str, ...] = ()


@dataclass(frozen=True)
class RankerSettings:
    """Fixed parameters of a ranker and the grid that is tried for each method."""

    settings: Values = field(default_factory=dict)
    grid: Values = field(default_factory=dict)


@dataclass(frozen=True)
class Tuning:
    """How hyper-parameters are chosen, on the validation part.

    Attributes:
        on: "labels", or "clicks" held out on the validation part.
        budget: the most settings that are tried for one method.
        at: "default": once, at the experiment's own settings of clicks; "point": at each point.
    """

    on: str = "labels"
    budget: int = 25
    at: str = "default"


@dataclass(frozen=True)
class Spec:
    """One experiment, as its TOML file says.

    Attributes:
        id: short name, such as "fig3".
        title: one line.
        claim: what the paper says, in one sentence.
        axis: the axis of the figure.
        panels: its plots, in order.
        methods: in order.
        metrics: the first is the main one.
        kind: what is measured; a key of `KINDS`.
        test: the claim in machine form; `prsrank.experiment.claims` says how.
        folds: folds of the collection at most.
        runs: repetitions, each with its own production ranker and clicks.
        seed: base of all seeds.
        data: the data set if the experiment has its own; "" takes the user's.
        data_note: what to know of the data.
        clicks: settings of the click simulation.
        propensity: where the propensities in training come from.
        rankers: settings and grid of each ranker.
        tuning: how hyper-parameters are chosen.
        paper: numbers that the paper gives, each with panel, method, metric and value.
        paper_note: what they were measured on.
        relative_to: (panel, method) that values are given relative to, in percent; or None.
        notes: further remarks for the reader.
    """

    id: str
    title: str
    claim: str
    axis: Axis
    panels: tuple[Panel, ...]
    methods: tuple[Method, ...]
    metrics: tuple[str, ...]
    kind: str = "ranking"
    test: tuple[Values, ...] = ()
    folds: int = 5
    runs: int = 5
    seed: int = 0
    data: str = ""
    data_note: str = ""
    clicks: Values = field(default_factory=dict)
    propensity: Values = field(default_factory=dict)
    rankers: Mapping[str, RankerSettings] = field(default_factory=dict)
    tuning: Tuning = Tuning()
    paper: tuple[Values, ...] = ()
    paper_note: str = ""
    relative_to: tuple[str, str] | None = None
    notes: tuple[str, ...] = ()

    @property
    def main_metric(self) -> str:
        """The metric that the experiment is judged and tuned by."""
        return self.metrics[0]

    def methods_of(self, panel: str) -> list[Method]:
        """Return the methods of a panel, in order."""
        return [method for method in self.methods if panel in method.panels]

    def panel(self, name: str) -> Panel:
        """Return the panel of a name."""
        return next(panel for panel in self.panels if panel.name == name)

    def with_points(self, points: tuple[Point, ...]) -> "Spec":
        """Return the experiment at other points; comparisons at points left out are dropped."""
        if self.axis.name == "none":
            return self
        test = tuple(kept for entry in self.test if (kept := _at_points(entry, points)))
        return replace(self, axis=replace(self.axis, points=points), test=test)


def _at_points(entry: Values, points: tuple[Point, ...]) -> Values | None:
    named = [entry[key] for key in ("at", "relative_to") if key in entry]
    if any(point not in points for point in named):
        return None
    if not isinstance(entry.get("points"), list | tuple):
        return entry
    at = [point for point in entry["points"] if point in points]
    return {**entry, "points": at} if at else None
