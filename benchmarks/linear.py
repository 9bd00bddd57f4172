"""LinearRanker and SVMRanker against scikit-learn on the explicit weighted differences.

What a user would do without the rankers: standardise the features, write down x_i - x_j of
every weighted pair of the same PairSet, and fit `LogisticRegression` (prs) or
`LinearSVC(loss="hinge")` (ips_all) without intercept to them, with the weights as sample
weights. Every other difference is turned around, for there must be two classes. Both sides
start from features and pairs in memory; making the pairs is in neither.

`linear_ratio` and `svm_ratio` are scikit-learn's seconds, building the differences included,
divided by ours, each the minimum over interleaved repeats. All stop by their own default
tolerances (scikit-learn after at most 1000 iterations); `sklearn_excess` is how far
scikit-learn's objective, computed by the definition, lies above ours, relative to ours.
`fewest_passes_ratio` is the same for a LinearSVC that is told beforehand the least number of
passes, of 3, 10, 30, ..., that brings its objective within 1e-3 of ours. A first fit of ours on
a small part, which loads compiled code, is not timed.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.production import logging_part, production_scores
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.dataset import RankingDataset
from prsrank.data.synthetic import synthetic_dataset
from prsrank.pairs.pair_set import PairSet
from prsrank.propensity.curve import PowerLaw
from prsrank.rankers.linear import LinearRanker
from prsrank.rankers.svm import SVMRanker
from prsrank.threads import thread_count

CLICKS_PER_LIST = 64
PASSES = (3, 10, 30, 100, 300, 1000)

Problem = tuple[RankingDataset, PairSet]
Differences = tuple[np.ndarray, np.ndarray, np.ndarray]


def problem(lists: int, clicks: int, weighting: str, shape: str = "web10k") -> Problem:
    """Simulate clicks on made-up lists and fold them into pairs."""
    everything = synthetic_dataset(shape, lists)
    data, scores = logging_part(everything, [production_scores(everything)])
    log = simulate_clicks(data, scores[0], PositionBasedModel(eta=1.0, mu=0.1), clicks=clicks)
    return data, PairSet.from_log(log, data, PowerLaw(1.0), weighting)


def differences(data: RankingDataset, pairs: PairSet) -> Differences:
    """Return x_i - x_j of every pair, every other one turned around, their classes and weights."""
    x = StandardScaler().fit_transform(data.features.astype(np.float64))
    weights = pairs.weights[pairs.weights > 0]
    out, at = np.empty((len(weights), x.shape[1])), 0
    for winner in range(pairs.winners):
        q = pairs.winner_list[winner]
        docs = x[pairs.offsets[q] : pairs.offsets[q + 1]]
        chosen = docs[pairs.row(winner) > 0]
        np.subtract(docs[pairs.winner_row[winner]], chosen, out=out[at : at + len(chosen)])
        at += len(chosen)
    out[::2] *= -1
    return out, np.arange(len(out)) % 2, weights


def margins(data: RankingDataset, pairs: PairSet, coefficients: np.ndarray) -> np.ndarray:
    """Return s_i - s_j of every pair, from float64 standardised features."""
    scores = StandardScaler().fit_transform(data.features.astype(np.float64)) @ coefficients
    parts = []
    for winner in range(pairs.winners):
        q = pairs.winner_list[winner]
        of_list = scores[pairs.offsets[q] : pairs.offsets[q + 1]]
        parts.append((of_list[pairs.winner_row[winner]] - of_list)[pairs.row(winner) > 0])
    return np.concatenate(parts)


def logistic_objective(found: np.ndarray, given: Problem, l2: float) -> float:
    """Return the mean logistic loss + l2/2 |w|^2."""
    weights = given[1].weights[given[1].weights > 0]
    loss = weights @ np.logaddexp(0, -margins(*given, found)) / weights.sum()
    return float(loss + l2 / 2 * found @ found)


def hinge_objective(found: np.ndarray, given: Problem, c: float) -> float:
    """Return |w|^2 / 2 + C times the mean hinge loss."""
    weights = given[1].weights[given[1].weights > 0]
    loss = weights @ np.maximum(0, 1 - margins(*given, found)) / weights.sum()
    return float(found @ found / 2 + c * loss)


def logistic_regression(given: Problem, l2: float) -> np.ndarray:
    """Build the differences and fit LogisticRegression to them."""
    vectors, classes, weights = differences(*given)
    model = LogisticRegression(C=1 / (l2 * weights.sum()), fit_intercept=False, max_iter=1000)
    return np.asarray(model.fit(vectors, classes, sample_weight=weights).coef_[0])


def linear_svc(given: Problem, c: float, passes: int) -> np.ndarray:
    """Build the differences and fit LinearSVC to them."""
    vectors, classes, weights = differences(*given)
    model = LinearSVC(loss="hinge", dual=True, C=c, fit_intercept=False, max_iter=passes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(vectors, classes, sample_weight=weights / weights.sum())
    return np.asarray(model.coef_[0])


def timed(call: Callable[[], np.ndarray]) -> tuple[float, np.ndarray]:
    """Return the seconds and the result of a call, after a pause for BLAS threads to stop."""
    time.sleep(0.5)
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def compare(
    name: str,
    given: Problem,
    ours: Callable[[], np.ndarray],
    theirs: Callable[[], np.ndarray],
    objective: Callable[[np.ndarray], float],
    repeats: int,
) -> dict[str, float]:
    """Time both, interleaved, and compare their objectives."""
    runs = [(timed(theirs), timed(ours)) for _ in range(repeats)]
    their_seconds = min(run[0][0] for run in runs)
    our_seconds = min(run[1][0] for run in runs)
    our_value = objective(runs[-1][1][1])
    pairs = int(np.count_nonzero(given[1].weights))
    return {
        f"{name}_ratio": their_seconds / our_seconds,
        "lowest_ratio": min(run[0][0] / run[1][0] for run in runs),
        "seconds": our_seconds,
        "sklearn_seconds": their_seconds,
        "objective": our_value,
        "sklearn_excess": objective(runs[-1][0][1]) / our_value - 1,
        "pairs": pairs,
        "docs": given[0].docs,
        "difference_gigabytes": pairs * given[0].features.shape[1] * 8 / 1e9,
    }


def compare_linear(
    gigabytes: float, l2: float, repeats: int, shape: str = "web10k"
) -> dict[str, float]:
    """LinearRanker against LogisticRegression, where the differences take so many gigabytes."""
    data, pairs = problem(100, 100 * CLICKS_PER_LIST, "prs", shape)
    LinearRanker(l2=l2).fit(data, pairs)
    size = np.count_nonzero(pairs.weights) * data.features.shape[1] * 8e-9
    lists = round(100 * gigabytes / size)
    given = problem(lists, CLICKS_PER_LIST * lists, "prs", shape)
    return compare(
        "linear",
        given,
        lambda: LinearRanker(l2=l2).fit(*given).weights_,
        lambda: logistic_regression(given, l2),
        lambda w: logistic_objective(w, given, l2),
        repeats,
    )


def compare_svm(lists: int, c: float, repeats: int) -> dict[str, float]:
    """SVMRanker against LinearSVC."""
    given = problem(lists, CLICKS_PER_LIST * lists, "ips_all")
    found = compare(
        "svm",
        given,
        lambda: SVMRanker(C=c).fit(*given).weights_,
        lambda: linear_svc(given, c, PASSES[-1]),
        lambda w: hinge_objective(w, given, c),
        repeats,
    )
    for passes in PASSES:
        seconds, coefficients = timed(lambda n=passes: linear_svc(given, c, n))
        if hinge_objective(coefficients, given, c) <= found["objective"] * (1 + 1e-3):
            break
    return found | {
        "fewest_passes": passes,
        "fewest_passes_ratio": seconds / found["seconds"],
    }


def main() -> None:
    """Run the comparisons and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--gigabytes", type=float, default=4.0, help="size of the differences")
    parser.add_argument("--svm-lists", type=int, default=500)
    parser.add_argument("--l2", type=float, default=LinearRanker().l2)
    parser.add_argument("--c", type=float, default=SVMRanker().C)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", choices=("linear", "svm"))
    options = parser.parse_args()
    for ranker, weighting in ((LinearRanker(), "prs"), (SVMRanker(), "ips_all")):
        ranker.fit(*problem(100, 3000, weighting))
    result: dict[str, object] = {"threads": thread_count(), "repeats": options.repeats}
    if options.only != "svm":
        result["linear"] = compare_linear(options.gigabytes, options.l2, options.repeats)
    if options.only != "linear":
        result["svm"] = compare_svm(options.svm_lists, options.c, options.repeats)
    for part in ("linear", "svm"):
        if isinstance(found := result.get(part), dict):
            result[f"{part}_ratio"] = found[f"{part}_ratio"]
    print(json.dumps(result) if options.json else table(result))


def table(result: dict[str, object]) -> str:
    """Lay the result out as text."""
    lines = [f"{result['threads']} threads; minimum of {result['repeats']} interleaved repeats"]
    for name in ("linear", "svm"):
        if isinstance(part := result.get(name), dict):
            lines.append(
                f"{name:7}{part['seconds']:8.2f} s  sklearn {part['sklearn_seconds']:8.2f} s  "
                f"ratio {part[f'{name}_ratio']:6.1f}  {part['difference_gigabytes']:.1f} GB of "
                f"differences  sklearn's objective {part['sklearn_excess']:+.1e}"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
