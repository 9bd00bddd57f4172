"""Training PRS-LambdaMART, side by side with LightGBM's own lambdarank.

    python benchmarks/training.py [--json] [--data synthetic:web10k:2000 ...] [--only fit ...]

For each data set, 2 threads:
  fit_ratio            CPU time of PRS-LambdaMART on 128K clicks / LightGBM's own lambdarank
                       without truncation on the same rows and parameters; 100 trees,
                       interleaved, minimum of five
  objective_share      time in our objective as a share of that fit
  expanded_ratio       LightGBM lambdarank with `position` on one group per session of the same
                       clicks / ours, compression included; 50 trees at LightGBM's default
                       learning rate, once. Ours by ARP and with min_docs_in_leaf = 1: every
                       doc stands for dozens of the expanded rows, of which a leaf may hold 20
  ndcg, expanded_ndcg  NDCG@10 of those two on the test part; ndcg_by_ndcg: ours by NDCG
  growth               fit time at 12.8M clicks / at 128K, compression apart; 100 trees
  compress_s_per_10m   seconds to fold 10 million clicks into pairs
  linear_ratio         scikit-learn's LogisticRegression on about 4 GB of explicit weighted
                       differences / LinearRanker (benchmarks/linear.py)
  unbiased_ratio       XGBoost's lambdarank_unbiased on one group per session /
                       UnbiasedLambdaMART, 32K clicks on 500 lists (benchmarks/unbiased.py)
  *_peak_mb            peak memory of a process that does only that
Each task runs in a process of its own; compiled kernels are loaded before the clock starts.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

THREADS = 2
DATA = ("synthetic:web10k:2000", "synthetic:yahoo:5000")
CLICKS = 128_000


def make_log(data: str, clicks: int) -> tuple[Any, Any]:
    """Return the lists that were clicked and the log (eta 1, mu 0.1)."""
    from prsrank.clicks.position_based import PositionBasedModel
    from prsrank.clicks.production import logging_part, production_scores
    from prsrank.clicks.simulate import simulate_clicks
    from prsrank.data.collections import load_dataset

    train = load_dataset(data, "train")
    lists, scores = logging_part(train, [production_scores(train)])
    return lists, simulate_clicks(lists, scores, PositionBasedModel(), clicks=clicks)


def ranker(trees: int, **settings: Any) -> Any:
    """Return the ranker under test."""
    from prsrank.rankers.lambdamart import LambdaMART

    return LambdaMART(trees=trees, threads=THREADS, **settings)


def fold(lists: Any, log: Any, model: Any = None) -> Any:
    """Fold a log into PRS pairs."""
    from prsrank.propensity.curve import PowerLaw

    return (model or ranker(100)).pairs(log, lists, PowerLaw(1.0), "prs")


def lambdarank(lists: Any, labels: Any, trees: int) -> Any:
    """Train LightGBM's own lambdarank with the parameters of ours."""
    import lightgbm

    ours = ranker(trees)
    options = ours._options() | {
        "objective": "lambdarank",
        "lambdarank_truncation_level": 100_000,
        "label_gain": [0, 1],
    }
    data = lightgbm.Dataset(lists.features, label=labels, group=lists.list_lengths)
    return lightgbm.train(options, data, num_boost_round=trees)


def cpu_seconds(function: Callable[[], Any]) -> float:
    """Return the CPU time of a call, over all threads."""
    start = time.process_time()
    function()
    return time.process_time() - start


def seconds(function: Callable[[], Any]) -> float:
    """Return the wall-clock time of a call."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def test_ndcg(data: str, score: Callable[[Any], Any]) -> float:
    """Return NDCG@10 on the test part."""
    from prsrank.data.collections import load_dataset
    from prsrank.rankers.lambdamart import ndcg_of

    test = load_dataset(data, "test")
    return ndcg_of(test)(score(test.features))


def task_fit(data: str, repeats: int) -> dict[str, float]:
    """Interleave both fits; measure the share of our objective."""
    from prsrank.losses.lambdas import LambdaObjective

    lists, log = make_log(data, CLICKS)
    pairs = fold(lists, log)
    spent = 0.0

    def ours() -> None:
        ranker(100).fit(lists, pairs)

    original = LambdaObjective.__call__

    def watched(self: Any, scores: Any) -> Any:
        nonlocal spent
        start = time.perf_counter()
        result = original(self, scores)
        spent += time.perf_counter() - start
        return result

    ranker(2).fit(lists, pairs)
    lambdarank(lists, lists.relevance, 2)
    mine, theirs = [], []
    for _ in range(repeats):
        mine.append(cpu_seconds(ours))
        theirs.append(cpu_seconds(lambda: lambdarank(lists, lists.relevance, 100)))
    LambdaObjective.__call__ = watched  # type: ignore[method-assign]
    wall = seconds(ours)
    return {
        "fit_ratio": min(mine) / min(theirs),
        "fit_cpu_s": min(mine),
        "lambdarank_cpu_s": min(theirs),
        "objective_share": spent / wall,
        "pairs": float(np.count_nonzero(pairs.weights)),
    }


def task_ours(data: str, repeats: int) -> dict[str, float]:
    """Fold 128K clicks and fit 50 trees."""
    lists, log = make_log(data, CLICKS)
    model = ranker(50, learning_rate=0.1, metric="arp", min_docs_in_leaf=1)
    fold(*make_log("synthetic:mq2007:50", 500), model)
    start = time.perf_counter()
    model.fit(lists, fold(lists, log, model))
    wall = time.perf_counter() - start
    peak = peak_mb()
    other = ranker(50, learning_rate=0.1, min_docs_in_leaf=1)
    other.fit(lists, fold(lists, log, other))
    return {
        "ours_s": wall,
        "ndcg": test_ndcg(data, model.score),
        "ndcg_by_ndcg": test_ndcg(data, other.score),
        "ours_peak_mb": peak,
    }


def task_lambdarank(data: str, repeats: int) -> dict[str, float]:
    """Fit LightGBM's own lambdarank on the labels of the same rows, for its memory."""
    lists, _ = make_log(data, 10)
    lambdarank(lists, lists.relevance, 50)
    return {"lambdarank_peak_mb": peak_mb()}


def task_expanded(data: str, repeats: int) -> dict[str, float]:
    """What a user would do today: one group per session, LightGBM's `position`."""
    import lightgbm

    lists, log = make_log(data, CLICKS)
    sessions = np.flatnonzero(log.session_clicks)
    lengths = np.diff(log.ranking_offsets)[log.session_ranking[sessions]]
    ends = np.cumsum(lengths)
    start = np.repeat(log.ranking_offsets[log.session_ranking[sessions]] - ends + lengths, lengths)
    slots = np.arange(ends[-1]) + start
    rows = log.doc_rows(lists)[log.ranking_docs[slots]]
    labels = np.zeros(len(rows), np.uint8)
    first = np.repeat((ends - lengths), log.session_clicks[sessions])
    labels[first + log.clicks] = 1

    class Rows(lightgbm.Sequence):  # type: ignore[misc]
        """Gives LightGBM the expanded rows piece by piece: whole they would not fit."""

        batch_size = 65_536

        def __getitem__(self, index: Any) -> Any:
            return lists.features[rows[index]].astype(np.float64)  # LightGBM takes no other

        def __len__(self) -> int:
            return len(rows)

    options = ranker(50, learning_rate=0.1)._options() | {
        "objective": "lambdarank",
        "lambdarank_truncation_level": 100_000,
        "label_gain": [0, 1],
    }
    begin = time.perf_counter()
    training = lightgbm.Dataset(
        Rows(), label=labels, group=lengths, position=log.ranking_positions[slots]
    )
    booster = lightgbm.train(options, training, num_boost_round=50)
    return {
        "expanded_s": time.perf_counter() - begin,
        "expanded_rows": float(len(rows)),
        "expanded_ndcg": test_ndcg(data, booster.predict),
        "expanded_peak_mb": peak_mb(),
    }


def task_growth(data: str, repeats: int) -> dict[str, float]:
    """Fit on pairs of 128K and of 12.8M clicks."""
    few = fold(*(made := make_log(data, CLICKS)))
    lists, log = make_log(data, 100 * CLICKS)
    folding = min(seconds(lambda: fold(lists, log)) for _ in range(3))
    many = fold(lists, log)
    ranker(2).fit(lists, many)
    small, large = [], []
    for _ in range(3):
        small.append(seconds(lambda: ranker(100).fit(made[0], few)))
        large.append(seconds(lambda: ranker(100).fit(lists, many)))
    return {
        "growth": min(large) / min(small),
        "many_pairs": float(np.count_nonzero(many.weights)),
        "compress_s_per_10m": folding / (len(log.clicks) / 1e7),
    }


def task_linear(data: str, repeats: int) -> dict[str, float]:
    """The linear ranker against explicit differences of the same shape."""
    import linear
    from prsrank.rankers.linear import LinearRanker

    found = linear.compare_linear(4.0, LinearRanker().l2, 1, data.split(":")[1])
    return {"linear_ratio": found["linear_ratio"], "linear_s": found["seconds"]}


def task_unbiased(data: str, repeats: int) -> dict[str, float]:
    """Unbiased LambdaMART against XGBoost's."""
    import unbiased

    options = argparse.Namespace(
        data=f"synthetic:{data.split(':')[1]}:500",
        clicks=32_000,
        trees=20,
        p=0.0,
        threads=THREADS,
        repeats=1,
    )
    return {"unbiased_ratio": unbiased.measure(options)["unbiased_ratio"]}


TASKS = {
    name.removeprefix("task_"): function
    for name, function in list(globals().items())
    if name.startswith("task_")
}


def peak_mb() -> float:
    """Return the peak resident memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run_apart(task: str, data: str, repeats: int) -> dict[str, float]:
    """Run a task in a process of its own."""
    command = [sys.executable, __file__, "--task", task, "--data", data, "--repeats", str(repeats)]
    environment = os.environ | {"OMP_NUM_THREADS": str(THREADS)}
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment).stdout
    result: dict[str, float] = json.loads(output)
    return result


def measure(data: str, tasks: list[str], repeats: int) -> dict[str, Any]:
    """Run the tasks on one data set and form the ratios."""
    figures: dict[str, Any] = {"data": data}
    for task in tasks:
        print(f"{data}: {task}", file=sys.stderr)
        figures |= (found := run_apart(task, data, repeats))
        print(json.dumps(found), file=sys.stderr)
    if "expanded_s" in figures and "ours_s" in figures:
        figures["expanded_ratio"] = figures["expanded_s"] / figures["ours_s"]
    return figures


def main() -> None:
    """Run the benchmark and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.add_argument("--data", nargs="+", default=DATA)
    parser.add_argument("--only", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--task", choices=TASKS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        print(json.dumps(TASKS[options.task](options.data[0], options.repeats)))
        return
    results = [measure(data, options.only, options.repeats) for data in options.data]
    if options.json:
        print(json.dumps(results))
        return
    for figures in results:
        for name, value in figures.items():
            print(f"{name:<20} {value if isinstance(value, str) else format(value, '.4g'):>24}")


if __name__ == "__main__":
    main()
