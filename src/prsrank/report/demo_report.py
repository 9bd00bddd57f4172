"""The report of `prsrank demo`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prsrank.report.parts import (
    Part,
    feature_importance,
    importance_figure,
    page,
    section,
    series,
    table,
    weight_table,
)
from prsrank.report.propensity_figure import propensity_figure

if TYPE_CHECKING:
    from prsrank.logs.click_log import ClickLog
    from prsrank.pairs.pair_set import PairDiagnostics
    from prsrank.propensity.curve import Propensities
    from prsrank.rankers.base import Ranker

_COMPARED = ("prs", "full information")


@dataclass(frozen=True)
class Trained:
    """A ranker of the demo, with what it was made from.

    Attributes:
        ranker: name of the ranker.
        weighting: title of the weighting.
        model: the trained ranker.
        parameters: the weighting's parameters, chosen on the validation part.
        weights: what its pairs are made of.
        values: metrics on the test part, and the gain over production with its interval.
    """

    ranker: str
    weighting: str
    model: "Ranker"
    parameters: Mapping[str, float]
    weights: "PairDiagnostics"
    values: Mapping[str, float]

    @property
    def title(self) -> str:
        """Name of ranker and weighting."""
        return f"{self.ranker}, {self.weighting}"


def demo_report(
    *,
    data: str,
    log: "ClickLog",
    curve: "Propensities",
    truth: Sequence[float],
    production: Mapping[str, float],
    trained: Sequence[Trained],
    metrics: Sequence[str],
    about: Sequence[Sequence[Any]],
) -> Part:
    """Return the report.

    Args:
        data: name of the data set.
        log: the clicks trained on.
        curve: the estimated propensities.
        truth: the true propensity of each position.
        production: metrics of the production ranker on the test part.
        trained: the rankers.
        metrics: names of the metrics to show.
        about: rows of name and value: command, seed, wall time, versions.
    """
    on_clicks = [one for one in trained if one.weighting != "full information"]
    best = max(on_clicks, key=lambda one: one.values["ndcg@10"])
    lead = [
        f"{len(log.clicks):,} clicks in {log.sessions:,} sessions were simulated on {data}: users see position "
        "k with probability 1/k, and now and then click what is not relevant. A tenth of the "
        "sessions showed a random order; they tell how likely each position is seen.",
        f"Of the rankers trained on the clicks, {best.title} is the best on this test part: "
        f"ndcg@10 {best.values['ndcg@10']:.3f}, production {production['ndcg@10']:.3f}. One small "
        "data set and one seed: look at the intervals.",
    ]
    text = [f"By randomisation: {curve.verdict}."]
    figures = [propensity_figure({"estimate": curve}, truth=truth)]
    weights = {one.weighting: one.weights for one in _of_last_ranker(trained)}
    sections = [
        _quality(production, trained, metrics),
        section("propensities", "Propensities", text=text, figures=figures),
        section("weights", "Weights", tables=[weight_table(weights)]),
        *_importance(trained),
    ]
    title, about_lists = "From biased clicks to rankers", [list(row) for row in about]
    return page(title, f"prsrank demo on {data}", sections, lead=lead, about=about_lists)


def _quality(
    production: Mapping[str, float], trained: Sequence[Trained], metrics: Sequence[str]
) -> Part:
    rows: list[list[Any]] = [["production", *(production[name] for name in metrics), None]]
    rows += [[one.title, *(one.values[name] for name in metrics), _gain(one)] for one in trained]
    caption = (
        "Means over the lists of the test part. * the 95 % interval of the gain in ndcg@10 over "
        "production, by paired bootstrap over lists, leaves out 0."
    )
    columns = ["ranker", *metrics, "gain in ndcg@10"]
    chosen = [
        [one.title, ", ".join(f"{k} {v:g}" for k, v in one.parameters.items()) or "none"]
        for one in trained
    ]
    return section(
        "quality",
        "Rankers against production",
        text=["Production is the ranker whose rankings were clicked; full information is trained "
              "on the labels that the others never see."],
        figures=[_gain_figure(trained)],
        tables=[table("quality", "On the test part", columns, rows, caption=caption)],
        details=[{"title": "Parameters of the weightings, chosen on the validation part",
                  "rows": chosen}],
    )  # fmt: skip


def _gain(one: Trained) -> Part:
    low, high = one.values["gain_low"], one.values["gain_high"]
    clear = low > 0 or high < 0
    value = f"{one.values['gain']:+.3f} ({low:+.3f} to {high:+.3f})"
    return {"value": value, "mark": "*" if clear else "", "note": ""}


def _gain_figure(trained: Sequence[Trained]) -> Part:
    drawn = []
    for weighting in dict.fromkeys(one.weighting for one in trained):
        chosen = [one for one in trained if one.weighting == weighting]
        names = ("gain", "gain_low", "gain_high")
        ends = ([one.values[name] for one in chosen] for name in names)
        drawn.append(series(weighting, [one.ranker for one in chosen], *ends))
    return {
        "id": "gain", "title": "Gain over production",
        "caption": "Difference in ndcg@10 on the test part, with 95 % intervals.",
        "alt": "Gain in ndcg@10 over production of each ranker and weighting, with intervals.",
        "x": {"title": "ranker", "scale": "ordinal"},
        "y": {"title": "gain in ndcg@10", "zero": True}, "kind": "intervals",
        "panels": [{"title": "", "series": drawn}],
    }  # fmt: skip


def _of_last_ranker(trained: Sequence[Trained]) -> list[Trained]:
    """Return what one ranker made of each weighting: the last, the demo's best, stands for all."""
    return [one for one in trained if one.ranker == trained[-1].ranker]


def _importance(trained: Sequence[Trained]) -> list[Part]:
    shown = [one for one in _of_last_ranker(trained) if one.weighting in _COMPARED]
    found = {one.weighting: feature_importance(one.model) for one in shown}
    values = {name: one[1] for name, one in found.items() if one is not None}
    if not values:
        return []
    measure = next(one[0] for one in found.values() if one is not None)
    figure = importance_figure(
        f"Features of the {trained[-1].ranker} rankers", measure, values, most=10
    )
    return [section("importance", "Feature importance", figures=[figure])]
