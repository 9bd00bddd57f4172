"""How often intervals hold the truth where curves were estimated: a table of docs/evaluation.md.

    python benchmarks/interval_coverage.py [--json] [--logs 200] [--row mq2007/harvest/position]

Each log has lists drawn from a population, whose mean is the truth: DCG@10 of P(click once seen), as the
simulator knows it, of a fixed ranker, and its gain over the rankings shown. As in `prsrank fit`, a
fifth of the queries is held out, and a monotone curve is estimated from the others: from a
tenth of the sessions that are shuffled, from two production rankers (harvest), or from two rankers and the
features (likelihood). Rows whose click model is a cascade or trusts the top break the assumption
that ips, snips and dr share: what they miss is bias.
"""

import argparse
import json
import time
import warnings
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from prsrank.clicks.cascade import CascadeModel
from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.production import production_scores
from prsrank.clicks.simulate import simulate_clicks
from prsrank.clicks.trust import TrustBiasModel
from prsrank.data.dataset import RankingDataset
from prsrank.data.synthetic import synthetic_dataset
from prsrank.evaluation.log_evaluation import evaluate_on_log, evaluation_of
from prsrank.evaluation.log_sums import sum_log
from prsrank.evaluation.results import CounterfactualEvaluation
from prsrank.logs.click_log import ClickLog
from prsrank.logs.features import known_lists
from prsrank.logs.held_out import hold_out
from prsrank.propensity.curve import Propensities, covering
from prsrank.propensity.harvest import HarvestEstimator
from prsrank.propensity.likelihood import LikelihoodEstimator
from prsrank.propensity.randomised import RandomisedEstimator

MU, METRIC, SHUFFLED = 0.1, "dcg@10", 0.1
POPULATION, TRAINING = 8000, 600
ESTIMATORS = ("ips", "snips", "dr")
# lists and clicks of a log
SIZES = {"mq2007": (300, 8000), "personal": (500, 10_000)}
CLICKS = {
    "position": PositionBasedModel(eta=1, mu=MU),
    "trust": TrustBiasModel(eta=1, mu=MU, trust=0.5),
    "cascade": CascadeModel(mu=MU),
}
CURVES = {
    "randomised": RandomisedEstimator(shape="monotone"),
    "harvest": HarvestEstimator(shape="monotone"),
    "likelihood": LikelihoodEstimator(shape="monotone"),
}
ROWS = [
    *((shape, curve, "position") for shape in SIZES for curve in CURVES),
    *((s, c, m) for m in ("trust", "cascade") for s in SIZES for c in ("randomised", "harvest")),
]


class Population:
    """Lists, production rankers, a better one, and what they are worth."""

    def __init__(self, shape: str) -> None:
        everything = synthetic_dataset(shape, TRAINING + POPULATION, seed=0)
        trained = everything.select(np.arange(TRAINING))
        self.shape = shape
        self.data = everything.select(np.arange(TRAINING, TRAINING + POPULATION))
        self.old, self.second, self.new = (
            production_scores(trained, share=share, seed=seed).score(self.data.features)
            for share, seed in ((0.01, 2), (0.01, 7), (0.1, 1))
        )
        self.theta = np.where(self.data.relevance > 0, 1 - MU, MU)

    def log(self, number: int, curve: str, clicks: str) -> tuple[RankingDataset, ClickLog, Any]:
        """Return lists of the population, sessions on them, and the better ranker's scores."""
        size, wanted = SIZES[self.shape]
        chosen = np.sort(np.random.default_rng(number).choice(POPULATION, size, replace=False))
        lists = self.data.select(chosen)
        rows = np.concatenate([np.arange(*self.data.offsets[i : i + 2]) for i in chosen])
        scores = self.old[rows] if curve == "randomised" else [self.old[rows], self.second[rows]]
        share = SHUFFLED if curve == "randomised" else 0.0
        options: dict[str, Any] = {"clicks": wanted, "seed": number, "randomised": share}
        return lists, simulate_clicks(lists, scores, CLICKS[clicks], **options), self.new[rows]

    def truth(self, curve: str) -> dict[str, tuple[float, float]]:
        """Return value and gain by estimator."""
        new, old, second = (self._dcg(s) for s in (self.new, self.old, self.second))
        logged = (old + second) / 2
        if curve == "randomised":
            logged = (1 - SHUFFLED) * old + SHUFFLED * self._random()
        per_list = np.add.reduceat(self.theta, self.data.offsets[:-1]).mean()
        found = dict.fromkeys(ESTIMATORS, (new, new - logged))
        return found | {"snips": (new / per_list, (new - logged) / per_list)}

    def _dcg(self, scores: npt.NDArray) -> float:
        values = []
        for first, last in pairwise(self.data.offsets):
            best = np.argsort(-scores[first:last], kind="stable")[:10]
            values.append(self.theta[first:last][best] @ (1 / np.log2(2 + np.arange(len(best)))))
        return float(np.mean(values))

    def _random(self) -> float:
        discounts = np.cumsum(1 / np.log2(2 + np.arange(10)))
        values = [
            self.theta[first:last].mean() * discounts[min(10, last - first) - 1]
            for first, last in pairwise(self.data.offsets)
        ]
        return float(np.mean(values))


def judged(
    population: Population, number: int, curve: str, clicks: str
) -> tuple[CounterfactualEvaluation, CounterfactualEvaluation] | None:
    """Return the estimates of one log, and those that take the curve as known.

    None where the log identifies no curve.
    """
    lists, log, new = population.log(number, curve, clicks)
    parts = hold_out(log, seed=number)
    estimated: Propensities = CURVES[curve].estimate(
        parts.training, dataset=known_lists(parts.training, lists)
    )
    if estimated.verdict.unknown:
        return None
    found = covering(estimated, log.max_position)
    held = known_lists(parts.held_out, lists)
    scores = {"new": new[_rows_of(lists, held)]}
    result = evaluate_on_log(parts.held_out, held, found, scores, metrics=[METRIC], samples=400)
    sums = sum_log(parts.held_out, held, found, scores, metrics=[METRIC], tau=0)
    return result.evaluation, evaluation_of(sums, None, samples=400).evaluation


def _rows_of(lists: RankingDataset, some: RankingDataset) -> npt.NDArray:
    at = {query: i for i, query in enumerate(lists.query_ids.tolist())}
    chosen = [at[query] for query in some.query_ids.tolist()]
    return np.concatenate([np.arange(*lists.offsets[i : i + 2]) for i in chosen])


def row(population: Population, curve: str, clicks: str, logs: int) -> dict[str, Any]:
    """Return how often each estimator's intervals hold, how wide they are, and how far off."""
    truth = population.truth(curve)
    held: dict[str, list[tuple[float, ...]]] = {}
    skipped = 0
    for number in range(logs):
        found = judged(population, number, curve, clicks)
        if found is None:
            skipped += 1
            continue
        names = [*((name, found[0]) for name in ESTIMATORS), ("known", found[1])]
        for name, result in names:
            held.setdefault(name, []).append(_held(result, name, truth.get(name, truth["ips"])))
    summary = {
        name: _summary(values, truth.get(name, truth["ips"])) for name, values in held.items()
    }
    return {
        "lists": population.shape,
        "curve": curve,
        "clicks": clicks,
        "logs": logs - skipped,
        "not_identified": skipped,
        **summary,
    }


def _held(
    result: CounterfactualEvaluation, name: str, truth: tuple[float, float]
) -> tuple[float, ...]:
    estimator = "ips" if name == "known" else name
    value = result.estimate("new", METRIC, estimator=estimator)
    gain = result.difference("new", METRIC, estimator=estimator)
    return (
        value.low <= truth[0] <= value.high,
        gain.low <= truth[1] <= gain.high,
        value.high - value.low,
        gain.high - gain.low,
        value.value,
        gain.difference,
    )


def _summary(values: Sequence[tuple[float, ...]], truth: tuple[float, float]) -> dict[str, float]:
    value, gain, value_width, gain_width, values_found, gains_found = np.array(values, float).T
    return {
        "value_held": round(100 * float(value.mean()), 1),
        "gain_held": round(100 * float(gain.mean()), 1),
        # in parts of the true value, so that snips can stand beside the others
        "value_width": round(float(value_width.mean()) / truth[0], 4),
        "gain_width": round(float(gain_width.mean()) / truth[0], 4),
        "value_bias": round(float(values_found.mean()) / truth[0] - 1, 4),
        "gain_bias": round((float(gains_found.mean()) - truth[1]) / truth[0], 4),
        "gain_deviation": round(float(gains_found.std()) / truth[0], 4),
        "true_gain": round(truth[1] / truth[0], 4),
    }


def rows(chosen: Sequence[str], logs: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of the table, one population after the other."""
    wanted = [one for one in ROWS if not chosen or "/".join(one) in chosen]
    populations: dict[str, Population] = {}
    for shape, curve, clicks in wanted:
        if shape not in populations:
            populations[shape] = Population(shape)
        yield row(populations[shape], curve, clicks, logs)


def main() -> None:
    """Run the rows and print them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print a JSON object a row")
    parser.add_argument("--logs", type=int, default=200, help="logs of each row")
    parser.add_argument("--row", action="append", default=[], metavar="LISTS/CURVE/CLICKS")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for found in rows(options.row, options.logs):
        if options.json:
            print(json.dumps(found), flush=True)
            continue
        print(
            found["lists"], found["curve"], found["clicks"], found["logs"], time.strftime("%H:%M")
        )
        for name in ("known", *ESTIMATORS):
            print(" ", name, *(f"{k} {v}" for k, v in found[name].items()), flush=True)


if __name__ == "__main__":
    main()
