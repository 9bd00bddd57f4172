"""What an experiment is: data, clicks, methods, axis, and the claims that it tests."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from prsrank.evaluation.rank_values import COUNTERFACTUAL_METRICS
from prsrank.metrics.ranking import METRICS

Point = float | str
Values = Mapping[str, Any]
Grid = Mapping[str, list[Any]]

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

_TITLES = {"wmrr top": "WMRR, clicked at top", "wmrr others": "WMRR, clicked at others"}


def metric_title(metric: str) -> str:
    """Return a metric's name as a reader knows it.

    >>> metric_title("ndcg@10"), metric_title("average_precision"), metric_title("share")
    ('NDCG@10', 'MAP', 'share')
    """
    base, at, cutoff = metric.partition("@")
    if base in METRICS and METRICS[base].title:
        return f"{METRICS[base].title}{at}{cutoff}"
    has_family = base in METRICS or base in COUNTERFACTUAL_METRICS
    return _TITLES.get(metric, metric.upper() if has_family else metric)


def direction(metric: str) -> int:
    """Return 1 if more of a metric is better, -1 if less is, and 0 where nobody has said.

    >>> direction("ndcg@10"), direction("wmrr top"), direction("arp"), direction("bound")
    (1, 1, -1, 0)
    """
    base = metric.partition("@")[0].partition(" ")[0]
    family = METRICS.get(base) or COUNTERFACTUAL_METRICS.get(base)
    return 0 if family is None else 1 if family.higher_is_better else -1


@dataclass(frozen=True)
class ClickSettings:
    """Settings of the clicks.

    Attributes:
        clicks: how many there are.
        clicks_per_query: sets their number by the training lists of the fold.
        model: a name of `CLICK_MODELS`, of which eta and mu are set where it has them.
        eta: strength of the position bias.
        mu: share of noise.
        one_click: whether only sessions of exactly one click are kept.
        production_share: share of the training lists that the production ranker learns from.
        sessions: number of sessions simulated on each list where an experiment is about single
            lists (bounds).
    """

    clicks: int = 128_000
    clicks_per_query: float | None = None
    model: str = "position-based"
    eta: float = 1.0
    mu: float = 0.1
    one_click: bool = False
    production_share: float = 0.01
    sessions: int = 1000


@dataclass(frozen=True)
class PropensitySettings:
    """Where the propensities come from.

    Attributes:
        source: "known" is (1/k)^eta; "randomised" is estimated from a further log whose rankings
            are shuffled.
        eta: of "known"; by default that of the clicks.
        clicks: of the further log.
    """

    source: Literal["known", "randomised"] = "known"
    eta: float | None = None
    clicks: int = 12_800


@dataclass(frozen=True)
class Axis:
    """The axis of the figure.

    Attributes:
        name: what changes from point to point, a key of `AXES`; "none" if nothing does: then
            the one point is "".
        title: how the figure names it.
        scale: of the figure.
        points: the values.
    """

    name: str = "none"
    title: str = ""
    scale: Literal["linear", "log", "ordinal"] = "linear"
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
    clicks: Values = field(default_factory=dict)


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
    grid: Grid = field(default_factory=dict)
    panels: tuple[str, ...] = ()


@dataclass(frozen=True)
class RankerSettings:
    """Fixed parameters of a ranker and the grid that is tried for each method."""

    settings: Values = field(default_factory=dict)
    grid: Grid = field(default_factory=dict)


@dataclass(frozen=True)
class Tuning:
    """How hyper-parameters are chosen, on the validation part.

    Attributes:
        on: its labels, or clicks held out on it.
        budget: the most settings that are tried for one method.
        at: "default": once, at the experiment's own settings of clicks; "point": at each point.
    """

    on: Literal["labels", "clicks"] = "labels"
    budget: int = 25
    at: Literal["default", "point"] = "default"


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
        relative_to: a point: compared is value(point) - value(relative_to), so that who loses
            less wins.
        margin: the winner may be worse by this much: "not worse", "at most", "at least".

    >>> claim = Claim(below="prs", than=("ips", 0.5), metric=("bound",))
    >>> claim.winner, sorted(claim.methods)
    ('prs', ['ips', 'prs'])
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
    margin: float = 0.0

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
    kind: Literal["ranking", "clicks", "observations", "bounds"] = "ranking"
    test: tuple[Claim, ...] = ()
    folds: int = 5
    runs: int = 5
    seed: int = 0
    data: str = ""
    data_note: str = ""
    clicks: ClickSettings = ClickSettings()
    propensity: PropensitySettings = PropensitySettings()
    rankers: Mapping[str, RankerSettings] = field(default_factory=dict)
    tuning: Tuning = Tuning()
    paper: tuple[PaperValue, ...] = ()
    paper_note: str = ""
    relative_to: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def has_axis(self) -> bool:
        """Whether anything changes from point to point."""
        return self.axis.name != "none"

    def methods_of(self, panel: str) -> list[Method]:
        """Return the methods of a panel, in order."""
        return [method for method in self.methods if panel in method.panels]

    def clicks_in(self, panel: Panel) -> ClickSettings:
        """Return the settings of a panel's clicks."""
        return replace(self.clicks, **panel.clicks)
