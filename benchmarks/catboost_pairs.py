"""Trees on weighted pairs: LambdaMART here, and CatBoost's `PairLogit` on the same pairs one by one.

PRS pairs of 32K clicks on `synthetic:web10k:500`; 100 trees of 31 leaves (CatBoost: depth 5, its own
sampling off), learning rate 0.1, 2 threads. From the log to the model: pairs, for CatBoost as arrays
of winner, loser and weight, and training. `ratio` is CatBoost's time over ours, the median over
repeats in turns. Run: python benchmarks/catboost_pairs.py --json
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from training import fold, make_log, ranker, test_ndcg

TREES, THREADS = 100, 2


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--data", default="synthetic:web10k:500")
    parser.add_argument("--clicks", type=int, default=32_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    result = measure(options.data, options.clicks, options.repeats)
    if options.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name:20} {value:,.4g}")


def measure(data: str, clicks: int, repeats: int) -> dict[str, float]:
    """Return times, their ratio, and NDCG@10 of both on the test part."""
    lists, log = make_log(data, clicks)
    with_ours(*make_log("synthetic:mq2007:50", 500))  # compiles
    ours, theirs = [], []
    for _ in range(repeats):
        theirs.append(timed(lambda: with_catboost(lists, log)))
        ours.append(timed(lambda: with_ours(lists, log)))
    model, other = ours[-1][1], theirs[-1][1]
    return {
        "ratio": statistics.median(b / a for (a, _), (b, _) in zip(ours, theirs, strict=True)),
        "seconds": statistics.median(s for s, _ in ours),
        "catboost_seconds": statistics.median(s for s, _ in theirs),
        "pairs": float((fold(lists, log).weights > 0).sum()),
        "ndcg": test_ndcg(data, model.score),
        "catboost_ndcg": test_ndcg(data, other.predict),
    }


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds of a call, and what it returns."""
    start = time.perf_counter()
    found = function()
    return time.perf_counter() - start, found


def with_ours(lists: Any, log: Any) -> Any:
    """Train LambdaMART."""
    model = ranker(TREES, learning_rate=0.1, leaves=31)
    return model.fit(lists, fold(lists, log, model))


def with_catboost(lists: Any, log: Any) -> Any:
    """Train CatBoost on the same pairs, written out."""
    import catboost
    import numpy as np

    pairs, weights = fold(lists, log).to_catboost()
    groups = np.repeat(np.arange(lists.lists), lists.list_lengths)
    pool = catboost.Pool(lists.features, group_id=groups, pairs=pairs, pairs_weight=weights)
    model = catboost.CatBoost(
        {
            "loss_function": "PairLogit",
            "iterations": TREES,
            "depth": 5,
            "learning_rate": 0.1,
            "bootstrap_type": "No",
            "thread_count": THREADS,
            "verbose": False,
            "allow_writing_files": False,
        }
    )
    return model.fit(pool)


if __name__ == "__main__":
    main()
