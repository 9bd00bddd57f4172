"""What the weightings are worth on a labelled collection: the table of docs/results.md.

    python benchmarks/quality.py FOLDER [--folds 5] [--runs 5] [--json FILE]

Clicks as in the PRS paper (eta 1, mu 0.1, production ranker from 1 % of the training lists),
at 6 clicks per training list and at 128,000. Hyper-parameters (l2 of the linear ranker, tau of
ips) are chosen by NDCG@10 on the validation part, and so is the number of trees. Values are
NDCG@10 on the binarised labels of the test part; each query is averaged over the runs, then
queries are compared by a paired t-test (p values corrected after Holm within a row's block).
"""

import argparse
import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

METHODS = ("naive", "ips", "pns", "prs", "labels")
RANKERS = ("linear", "lambdamart")
TAUS = (0.0, 0.02, 0.05, 0.1, 0.2)
L2 = (1e-4, 1e-3, 1e-2, 1e-1)
DENSE = 128_000


def job(task: tuple[str, int, int, str]) -> dict[str, Any]:
    """Simulate one log and train every method on it; return NDCG@10 of each test query."""
    from prsrank.clicks.position_based import PositionBasedModel
    from prsrank.clicks.production import logging_part, production_scores
    from prsrank.clicks.simulate import simulate_clicks
    from prsrank.data.collections import open_collection
    from prsrank.metrics.ranking import ndcg

    data, fold, run, density = task
    collection = open_collection(data)
    train, validation, test = (
        collection.load(split, fold=fold) for split in ("train", "validation", "test")
    )
    seed = 1000 * fold + run
    production = production_scores(train, seed=seed)
    lists, scores = logging_part(train, [production])
    wanted = 6 * train.lists if density == "6 per list" else DENSE
    log = simulate_clicks(lists, scores, PositionBasedModel(), clicks=wanted, seed=seed)

    def values(score: Any) -> list[float]:
        measured: list[float] = ndcg(
            test.relevance, score(test.features), test.offsets, k=10
        ).tolist()
        return measured

    result: dict[str, Any] = {"queries": test.query_ids.tolist(), "chosen": {}, "values": {}}
    result["values"]["production"] = values(production.score)
    for ranker, method in product(RANKERS, METHODS):
        model, chosen = best(ranker, method, lists, log, validation, seed)
        result["values"][f"{ranker} {method}"] = values(model.score)
        result["chosen"][f"{ranker} {method}"] = chosen
    return result


def best(
    ranker: str, method: str, lists: Any, log: Any, validation: Any, seed: int
) -> tuple[Any, dict[str, float]]:
    """Try the grid; return the model that is best on the validation part, and its setting."""
    from prsrank.propensity.curve import PowerLaw
    from prsrank.rankers.lambdamart import LambdaMART, ndcg_of
    from prsrank.rankers.linear import LinearRanker

    quality = ndcg_of(validation)
    tried: list[tuple[float, Any, dict[str, float]]] = []
    for tau in TAUS if method == "ips" else (0.0,):
        parameters = {"tau": tau} if method == "ips" else {}
        if ranker == "linear":
            models: list[Any] = [LinearRanker(l2=l2, missing="impute", threads=1) for l2 in L2]
        else:
            models = [LambdaMART(trees=300, patience=40, seed=seed, threads=1)]
        pairs = models[0].pairs(log, lists, PowerLaw(1.0), method, parameters=parameters)
        for model in models:
            if ranker == "linear":
                model.fit(lists, pairs)
            else:
                model.fit(lists, pairs, validation=validation)
            setting = parameters | ({"l2": model.l2} if ranker == "linear" else {})
            tried.append((quality(model.score(validation.features)), model, setting))
    _, model, setting = max(tried, key=lambda one: one[0])
    return model, setting


def summarise(results: dict[tuple[int, int], dict[str, Any]], runs: int) -> dict[str, Any]:
    """Average over runs, then over queries; test prs against the others."""
    from prsrank.metrics.significance import average_runs, holm, paired_t_test

    folds = sorted({fold for fold, _ in results})
    names = list(results[folds[0], 0]["values"])
    by_run = {
        name: np.array(
            [np.concatenate([results[f, r]["values"][name] for f in folds]) for r in range(runs)]
        )
        for name in names
    }
    rows: dict[str, Any] = {}
    for name, values in by_run.items():
        per_run = np.nanmean(values, axis=1)
        rows[name] = {
            "mean": float(per_run.mean()),
            "sd": float(per_run.std(ddof=min(1, runs - 1))),
        }
    for ranker in RANKERS:
        ours = average_runs(by_run[f"{ranker} prs"])
        others = ["production", *(f"{ranker} {m}" for m in METHODS if m != "prs")]
        tests = {o: paired_t_test(ours, average_runs(by_run[o])) for o in others}
        adjusted = holm([tests[o].p_value for o in others]).tolist()
        for other, p in zip(others, adjusted, strict=True):
            test = tests[other]
            rows.setdefault(other, {})[f"prs {ranker} minus this"] = {
                "difference": test.difference,
                "low": test.low,
                "high": test.high,
                "p_holm": p,
                "queries": test.queries,
            }
    return rows


def markdown(rows: dict[str, Any]) -> str:
    """Return the table of one collection and density."""
    lines = [
        "| ranker | weighting | NDCG@10 (sd over runs) | prs minus this (95 % interval) | p (Holm) |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, row in rows.items():
        ranker, _, method = name.partition(" ")
        title = "full information" if method == "labels" else method
        tests = [v for k, v in row.items() if k.startswith("prs")]
        names = [k.split()[1] for k in row if k.startswith("prs")]
        gaps = "; ".join(
            f"{n if len(tests) > 1 else ''} {t['difference']:+.4f} ({t['low']:+.4f} to {t['high']:+.4f})".strip()
            for n, t in zip(names, tests, strict=True)
        )
        p = "; ".join(f"{t['p_holm']:.2g}" for t in tests)
        lines.append(f"| {ranker} | {title} | {row['mean']:.4f} ({row['sd']:.4f}) | {gaps} | {p} |")
    return "\n".join(lines)


def main() -> None:
    """Run all folds and runs, in processes of one thread each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", help="a collection's folder")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write all values here")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    summary: dict[str, Any] = {}
    workers = len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for density in ("6 per list", "128,000"):
            places = list(product(range(1, options.folds + 1), range(options.runs)))
            tasks = [(options.data, fold, run, density) for fold, run in places]
            results = {}
            for place, result in zip(places, pool.map(job, tasks), strict=True):
                results[place] = result
                print(f"{density}: fold {place[0]}, run {place[1]}", file=sys.stderr)
            rows = summarise(results, options.runs)
            chosen = [r["chosen"] for r in results.values()]
            summary[density] = {"rows": rows, "chosen": chosen}
            print(f"\nclicks: {density}\n\n{markdown(rows)}\n", flush=True)
    if options.json:
        options.json.write_text(json.dumps(summary, indent=1) + "\n")


if __name__ == "__main__":
    main()
