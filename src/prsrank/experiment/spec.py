"""What an experiment is: data, clicks, methods, axis, and the claims that it tests."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

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


class ClickSettings(TypedDict, total=False):
    """Settings of the clicks.

    `clicks_per_query`, if given, sets the number of clicks by the training lists of the fold;
    `model` is a name of `CLICK_MODELS`, of which eta and mu are set where it has them;
    `one_click` keeps sessions of exactly one click; `sessions` is the number of sessions that
    are simulated on each list where an experiment is about single lists (bounds).
    """

    clicks: int
    clicks_per_query: float | None
    model: str
    eta: float
    mu: float
    one_click: bool
    production_share: float
    production_ranker: str
    sessions: int


class PropensitySettings(TypedDict, total=False):
    """Where the propensities come from.

    `source` "known" is (1/k)^eta, by default that of the clicks; "randomised" is estimated from
    a further log of `clicks` clicks, its rankings shuffled.
    """

    source: str
    eta: float | None
    clicks: int


CLICKS = ClickSettings(
    clicks=128_000,
    clicks_per_query=None,
    model="position-based",
    eta=1.0,
    mu=0.1,
    one_click=False,
    production_share=0.01,
    production_ranker="linear",
    sessions=1000,
)
PROPENSITY = PropensitySettings(source="known", eta=None, clicks=12_800)
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

VERBS = ("better", "above", "below")


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

    name: str = "none"
    title: str = ""
    scale: str = "linear"
    points: tuple[Point, ...] = ("",)


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
    clicks: ClickSettings = field(default_factory=ClickSettings)


@dataclass(frozen=True)
class Method:
    """One way from a click log to a ranker, or whatever else the experiment compares.

    Attributes:
        name: as in the results.
        title: how the figure names it.
        weighting: a name of `WEIGHTINGS`; "" for a ranker that takes none, and for the
            production ranker itself. A file may leave it out where it is the name.
        ranker: a name of `RANKERS`; "" is the panel's.
        parameters: fixed parameters of the weighting.
        grid: values to try of the weighting's and the ranker's parameters, beside the
            ranker's own grid.
        panels: names of the panels it is in; a file may leave it out for all.
    """

    name: str
    title: str = ""
    weighting: str = ""
    ranker: str = ""
    parameters: Values = field(default_factory=dict)
    grid: Mapping[str, list[Any]] = field(default_factory=dict)
    panels: tuple[str, ...] = ()


@dataclass(frozen=True)
class RankerSettings:
    """Fixed parameters of a ranker and the grid that is tried for each method."""

    settings: Values = field(default_factory=dict)
    grid: Mapping[str, list[Any]] = field(default_factory=dict)


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
class Claim:
    r"""Which values are claimed to win over which: one entry of an experiment's `test`.

    Exactly one of the three verbs names the winner, a method.

    Attributes:
        better: its value is claimed to be larger, or smaller if less of the metric is better.
        above: its value is claimed to be larger.
        below: its value is claimed to be smaller.
        than: rivals, each a method or a number; by default the winner itself, at other points.
        metric: metrics compared; by default the experiment's first.
        panels: panels compared; by default every one that has winner and rival.
        points: points compared; by default all but `at` and `relative_to`.
        at: the winner's point, where it is another than the rival's.
        than_panel: the rival's panel, where it is another than the winner's.
        relative_to: a point: compared is value(point) - value(relative_to), so that who loses
            less wins.
        margin: the winner may be worse by this much: "not worse", "at most", "at least".

    >>> claim = Claim(below="prs", than=("ips", 0.5), metric=("bound",))
    >>> claim.verb, claim.winner, sorted(claim.methods)
    ('below', 'prs', ['ips', 'prs'])
    """

    better: str = ""
    above: str = ""
    below: str = ""
    than: tuple[str | float, ...] = ()
    metric: tuple[str, ...] = ()
    panels: tuple[str, ...] = ()
    points: tuple[Point, ...] = ()
    at: Point | None = None
    relative_to: Point | None = None
    than_panel: str = ""
    margin: float = 0.0

    @property
    def verb(self) -> str:
        """The verb that names the winner."""
        return next(verb for verb in VERBS if getattr(self, verb))

    @property
    def winner(self) -> str:
        """The method that is claimed to win."""
        return self.better or self.above or self.below

    @property
    def rivals(self) -> tuple[str | float, ...]:
        """The methods and numbers that it is compared with."""
        return self.than or (self.winner,)

    @property
    def methods(self) -> set[str]:
        """The methods compared."""
        return {self.winner, *(rival for rival in self.rivals if isinstance(rival, str))}

    @property
    def fixed_points(self) -> list[Point]:
        """The points that the claim cannot do without."""
        return [point for point in (self.at, self.relative_to) if point is not None]

    def within(self, points: Iterable[Point]) -> "Claim | None":
        """Return the claim at some of the axis' points; None if it says nothing about them."""
        left = tuple(point for point in self.points if point in points)
        lost = any(point not in points for point in self.fixed_points)
        return None if lost or (self.points and not left) else replace(self, points=left)


@dataclass(frozen=True)
class PaperValue:
    """A number that the paper gives."""

    method: str
    metric: str
    value: float
    panel: str = ""


@dataclass(frozen=True)
class Spec:
    """One experiment, as its TOML file says.

    Attributes:
        id: short name, such as "fig3".
        title: one line.
        claim: what the paper says, in one sentence.
        axis: the axis of the figure.
        methods: in order.
        metrics: the first is the main one.
        panels: the figure's plots, in order.
        kind: what is measured; a key of `KINDS`.
        test: the claim in machine form.
        folds: folds of the collection at most.
        runs: repetitions, each with its own production ranker and clicks.
        seed: base of all seeds.
        data: the data set if the experiment has its own; "" takes the user's.
        data_note: what to know of the data.
        clicks: settings of the click simulation.
        propensity: where the propensities in training come from.
        rankers: settings and grid of each ranker.
        tuning: how hyper-parameters are chosen.
        paper: numbers that the paper gives.
        paper_note: what they were measured on.
        relative_to: panel and method that values are given relative to, in percent; or nothing.
        notes: further remarks for the reader.
    """

    id: str
    title: str
    claim: str
    axis: Axis
    methods: tuple[Method, ...]
    metrics: tuple[str, ...]
    panels: tuple[Panel, ...] = (Panel(),)
    kind: str = "ranking"
    test: tuple[Claim, ...] = ()
    folds: int = 5
    runs: int = 5
    seed: int = 0
    data: str = ""
    data_note: str = ""
    clicks: ClickSettings = field(default_factory=ClickSettings)
    propensity: PropensitySettings = field(default_factory=PropensitySettings)
    rankers: Mapping[str, RankerSettings] = field(default_factory=dict)
    tuning: Tuning = Tuning()
    paper: tuple[PaperValue, ...] = ()
    paper_note: str = ""
    relative_to: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

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
        test = tuple(left for claim in self.test if (left := claim.within(points)))
        return replace(self, axis=replace(self.axis, points=points), test=test)
