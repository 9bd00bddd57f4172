"""Unbiased LambdaMART, side by side with XGBoost's `lambdarank_unbiased`.

    python benchmarks/unbiased.py [--json] [--data synthetic:web10k:500] [--clicks 32000]

Both learn from the same simulated clicks (eta 1, mu 0.1). XGBoost takes one group per session,
its rows in the order shown, since it reads a doc's position off its row; `rank:ndcg`, its own
default of pairs with a doc in the top 32. Ours takes the folded log and all pairs. Same numbers of
trees, leaves, bins and threads.

  unbiased_ratio       XGBoost's time / ours, from features and log to model: expanding, binning
                       and folding included
  tree_ratio           time per tree, XGBoost's / ours, the rest apart
  objective_share      time in our objective as a share of our time
  *_peak_mb            growth of the peak memory of a process that does only that
  click_propensities   t+ at positions 1 to 10, beside the `truth`; p > 0 draws them to 1
Each side runs in a process of its own, in turns; kernels are compiled before the clock starts.
The ratios are of the least times over the repeats.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

LEAVES = 31
SHOWN = 10


def make_log(data: str, clicks: int) -> tuple[Any, Any]:
    """Return the lists that were clicked and the log."""
    from prsrank.clicks.position_based import PositionBasedModel
    from prsrank.clicks.production import logging_part, production_scores
    from prsrank.clicks.simulate import simulate_clicks
    from prsrank.data.collections import load_dataset

    train = load_dataset(data, "train")
    lists, scores = logging_part(train, [production_scores(train)])
    model = PositionBasedModel(eta=1.0, mu=0.1)
    return lists, simulate_clicks(lists, scores, model, clicks=clicks, threads=1)


def run_ours(data: str, clicks: int, trees: int, p: float, threads: int) -> dict[str, Any]:
    """Fit ours and time it."""
    from prsrank.losses.unbiased_lambdas import UnbiasedObjective
    from prsrank.rankers.unbiased_lambdamart import UnbiasedLambdaMART

    lists, log = make_log(data, clicks)
    UnbiasedLambdaMART(trees=1).fit(*make_log("synthetic:mq2007:40", 500))  # compiles
    spent = 0.0
    call = UnbiasedObjective.__call__

    def timed(objective: Any, scores: Any) -> Any:
        nonlocal spent
        start = time.perf_counter()
        result = call(objective, scores)
        spent += time.perf_counter() - start
        return result

    UnbiasedObjective.__call__ = timed  # type: ignore[method-assign]
    before = memory_mb(restart=True)
    first = time.perf_counter()
    ranker = UnbiasedLambdaMART(trees=trees, leaves=LEAVES, p=p, threads=threads)
    ticks: list[float] = []
    ranker.fit(lists, log, progress=lambda *_: ticks.append(time.perf_counter()))
    total = time.perf_counter() - first
    return {
        "seconds": total,
        "seconds_per_tree": per_tree(ticks),
        "objective_share": spent / total,
        "peak_mb": memory_mb() - before,
        "click_propensities": ranker.click_propensities_[:SHOWN].tolist(),
        "sessions": log.sessions,
        "rows": lists.docs,
    }


def run_theirs(data: str, clicks: int, trees: int, p: float, threads: int) -> dict[str, Any]:
    """Expand the sessions, fit XGBoost and time it."""
    import xgboost

    lists, log = make_log(data, clicks)
    before = memory_mb(restart=True)
    first = time.perf_counter()
    used = np.flatnonzero(log.session_clicks)
    ranking = log.session_ranking[used]
    lengths = np.diff(log.ranking_offsets)[ranking]
    starts = np.concatenate([[0], np.cumsum(lengths)])
    slots = np.arange(starts[-1]) + np.repeat(log.ranking_offsets[ranking] - starts[:-1], lengths)
    labels = np.zeros(starts[-1], np.float32)
    labels[np.repeat(starts[:-1], log.session_clicks[used]) + log.clicks] = 1
    rows = log.doc_rows(lists)[log.ranking_docs[slots]]
    matrix = xgboost.QuantileDMatrix(
        lists.features[rows], label=labels, group=lengths, max_bin=255, nthread=threads
    )
    options = {
        "objective": "rank:ndcg",
        "lambdarank_unbiased": True,
        "lambdarank_bias_norm": p,
        "lambdarank_pair_method": "topk",
        "tree_method": "hist",
        "grow_policy": "lossguide",
        "max_leaves": LEAVES,
        "max_depth": 0,
        "max_bin": 255,
        "learning_rate": 0.05,
        "nthread": threads,
    }
    ticks: list[float] = []

    class Clock(xgboost.callback.TrainingCallback):
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            ticks.append(time.perf_counter())
            return False

    model = xgboost.train(options, matrix, num_boost_round=trees, callbacks=[Clock()])
    total = time.perf_counter() - first
    learner = json.loads(model.save_config())["learner"]["objective"]
    return {
        "seconds": total,
        "seconds_per_tree": per_tree(ticks),
        "peak_mb": memory_mb() - before,
        "click_propensities": np.array(learner["ti+"], float)[:SHOWN].tolist(),
        "sessions": log.sessions,
        "rows": int(starts[-1]),
    }


def per_tree(ticks: list[float]) -> float:
    """Return the median time from tree to tree."""
    return float(np.median(np.diff(ticks)))


def memory_mb(*, restart: bool = False) -> float:
    """Return the largest size of this process since the last restart of the count (Linux)."""
    try:
        if restart:
            Path("/proc/self/clear_refs").write_text("5")
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return float("nan")
    return next(float(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run both sides in turns and compare them."""
    sides: dict[str, list[dict[str, Any]]] = {"ours": [], "xgboost": []}
    for _ in range(options.repeats):
        for side, results in sides.items():
            results.append(in_process(side, options))
    best = {
        side: {
            key: min(r[key] for r in results) if isinstance(value, float) else value
            for key, value in results[0].items()
        }
        for side, results in sides.items()
    }
    ours, theirs = best["ours"], best["xgboost"]
    return {
        "unbiased_ratio": theirs["seconds"] / ours["seconds"],
        "tree_ratio": theirs["seconds_per_tree"] / ours["seconds_per_tree"],
        "objective_share": ours["objective_share"],
        "memory_ratio": theirs["peak_mb"] / ours["peak_mb"],
        "data": options.data,
        "clicks": options.clicks,
        "trees": options.trees,
        "p": options.p,
        "threads": options.threads,
        "truth": (1 / np.arange(1, SHOWN + 1)).tolist(),
        **best,
    }


def in_process(side: str, options: argparse.Namespace) -> dict[str, Any]:
    """Run one side in a process of its own."""
    command = [sys.executable, __file__, "--side", side, "--data", options.data]
    command += ["--clicks", str(options.clicks), "--trees", str(options.trees)]
    command += ["--p", str(options.p), "--threads", str(options.threads)]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    answer: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return answer


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--data", default="synthetic:web10k:500")
    parser.add_argument("--clicks", type=int, default=32_000)
    parser.add_argument("--trees", type=int, default=20)
    parser.add_argument("--p", type=float, default=0.0, help="regularisation of both")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--side", choices=["ours", "xgboost"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side is not None:
        run = run_ours if options.side == "ours" else run_theirs
        values = (options.data, options.clicks, options.trees, options.p, options.threads)
        print(json.dumps(run(*values)))
        return
    result = measure(options)
    print(json.dumps(result) if options.json else json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
