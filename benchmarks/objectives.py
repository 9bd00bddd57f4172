"""The objectives of pairwise training, each beside another form of the same work.

    python benchmarks/objectives.py [--json] [--only outer sets long] [--threads 2]

  outer  posterior pairs by their two vectors and as a matrix, on the same lists: nanoseconds per
         ordered pair of one call of LambdaMART's objective (NDCG) and of the linear ranker's loss,
         and the bytes that the pairs take; `ratio` is that of the vectors to the matrix
  sets   one call of the MAP and MRR objectives by the number of clicks, and how many distinct click
         sets these are; 500 lists of 20 docs, all shown
  long   20 lists of 10,000 docs with 20 features: seconds and peak memory of LambdaMART (50 trees)
         and LinearRanker on pairs of few clicks (PRS), on all posterior pairs, and on those with a
         doc in the top 100
Medians of five calls, in turns; `long` runs once, each in a process of its own.
"""

import argparse
import json
import multiprocessing
import resource
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

LENGTHS = (20, 100, 1000)
PAIRS = 20_000_000
CLICKS = (10_000, 100_000, 1_000_000, 10_000_000)
LONG = {"lists": 20, "docs": 10_000, "features": 20}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--only", nargs="*", default=["outer", "sets", "long"])
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    tasks: dict[str, Callable[[int], dict[str, float]]] = {
        "outer": outer,
        "sets": sets,
        "long": long,
    }
    for name in options.only:
        figures = tasks[name](options.threads)
        if options.json:
            print(json.dumps({name: figures}), flush=True)
        else:
            for key, value in figures.items():
                print(f"{key:<40}{value:>12.4g}", flush=True)


def in_turns(calls: dict[str, Callable[[], Any]], repeats: int = 5) -> dict[str, float]:
    """Return the median seconds of each call."""
    spent: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(repeats + 1):  # the first compiles
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            if turn:
                spent[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in spent.items()}


def posterior_pairs(lists: int, docs: int, features: int = 1) -> tuple[Any, Any]:
    """Return lists of random docs, and pairs of random relevance of them."""
    from prsrank.data.dataset import RankingDataset
    from prsrank.pairs.outer_pairs import OuterPairs

    rng = np.random.default_rng(0)
    values = rng.normal(size=(lists * docs, features)).astype(np.float32)
    data = RankingDataset(values, np.arange(lists + 1) * docs)
    theta = 1 / (1 + np.exp(2 - values[:, 0] - rng.normal(size=lists * docs)))
    return data, OuterPairs.from_relevance(data, theta, normalise="ndcg", dtype=np.float32)


def outer(threads: int) -> dict[str, float]:
    """Compare the vectors with the matrix."""
    from prsrank.losses.lambdas import LambdaObjective
    from prsrank.losses.logistic import logistic_loss

    figures: dict[str, float] = {}
    for docs in LENGTHS:
        _, pairs = posterior_pairs(PAIRS // docs**2, docs)
        matrix = pairs.dense(np.float32)
        scores = np.random.default_rng(1).normal(size=pairs.docs)
        by_vectors = LambdaObjective(pairs, threads=threads)
        by_matrix = LambdaObjective(matrix, threads=threads)
        spent = in_turns(
            {
                "vectors": lambda by=by_vectors, s=scores: by(s),
                "matrix": lambda by=by_matrix, s=scores: by(s),
                "loss_vectors": lambda p=pairs, s=scores: logistic_loss(s, p, threads=threads),
                "loss_matrix": lambda p=matrix, s=scores: logistic_loss(s, p, threads=threads),
            }
        )
        count = pairs.docs * (docs - 1)
        figures |= {f"{docs}_{name}_ns": 1e9 * value / count for name, value in spent.items()}
        figures[f"{docs}_ratio"] = spent["vectors"] / spent["matrix"]
        figures[f"{docs}_loss_ratio"] = spent["loss_vectors"] / spent["loss_matrix"]
        figures[f"{docs}_vectors_mb"] = (pairs.winning.nbytes + pairs.losing.nbytes) / 1e6
        figures[f"{docs}_matrix_mb"] = matrix.weights.nbytes / 1e6
    return figures


def sets(threads: int) -> dict[str, float]:
    """Time MAP and MRR by the number of clicks."""
    from prsrank.losses.click_set_lambdas import ClickSetObjective

    figures: dict[str, float] = {}
    for clicks in CLICKS:
        found = click_sets(clicks)
        docs = int(found.offsets[-1])
        scores = np.random.default_rng(1).normal(size=docs)
        objectives = {
            m: ClickSetObjective(found, metric=m, threads=threads) for m in ("map", "mrr")
        }
        calls = {m: lambda by=by, s=scores: by(s) for m, by in objectives.items()}
        figures[f"{clicks}_sets"] = len(found.arrays.set_counts)
        figures |= {f"{clicks}_{m}_ms": 1e3 * value for m, value in in_turns(calls).items()}
    return figures


def click_sets(clicks: int) -> Any:
    """Return the click sets of simulated sessions."""
    from prsrank.clicks.position_based import PositionBasedModel
    from prsrank.clicks.simulate import simulate_clicks
    from prsrank.data.dataset import RankingDataset
    from prsrank.pairs.click_sets import ClickSets
    from prsrank.propensity.curve import PowerLaw

    rng = np.random.default_rng(2)
    labels = rng.random(500 * 20) < 0.3
    data = RankingDataset(np.zeros((10_000, 1), np.float32), np.arange(501) * 20, labels=labels)
    model = PositionBasedModel()
    log = simulate_clicks(data, rng.normal(size=data.docs), model, clicks=clicks)
    return ClickSets.from_log(log, data, PowerLaw(1.0))


def long(threads: int) -> dict[str, float]:
    """Train on long lists."""
    figures: dict[str, float] = {}
    context = multiprocessing.get_context("spawn")
    for kind in ("few", "posterior", "top"):
        for ranker in ("lambdamart", "linear"):
            if (kind, ranker) == ("top", "linear"):
                continue
            with context.Pool(1) as pool:
                found = pool.apply(train, (kind, ranker, threads))
            figures |= {f"{kind}_{ranker}_{name}": value for name, value in found.items()}
    return figures


def train(kind: str, name: str, threads: int) -> dict[str, float]:
    """Train one ranker on long lists."""
    from prsrank.rankers.lambdamart import LambdaMART
    from prsrank.rankers.linear import LinearRanker

    truncation = 100 if kind == "top" else None
    trees = LambdaMART(trees=50, threads=threads, truncation=truncation)
    ranker: Any = trees if name == "lambdamart" else LinearRanker(threads=threads)
    small = {"lists": 3, "docs": 30, "features": 20}
    ranker.fit(*long_pairs(kind, ranker, small))  # compiles
    data, pairs = long_pairs(kind, ranker, LONG)
    start = time.perf_counter()
    ranker.fit(data, pairs)
    spent = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"s": spent, "peak_mb": peak}


def long_pairs(kind: str, ranker: Any, shape: dict[str, int]) -> tuple[Any, Any]:
    """Return lists and pairs: of ten clicked docs a list, or all."""
    from dataclasses import replace

    from prsrank.pairs.pair_set import PairSet

    data, pairs = posterior_pairs(**shape)
    if kind == "few":
        labels = np.zeros(data.docs)
        labels[np.argsort(-pairs.winning)[: 10 * shape["lists"]]] = 1
        data = replace(data, labels=labels)
        return data, PairSet.from_labels(data, **ranker.pair_options)
    return data, replace(
        pairs, **{k: ranker.pair_options.get(k) for k in ("normalise", "truncation")}
    )


if __name__ == "__main__":
    main()
