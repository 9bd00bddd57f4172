"""What `fit` ships, on simulated logs whose truth is known: the tables of docs/evaluation.md.

    python benchmarks/fit_choice.py [--logs 200] [--out fit_choice.jsonl]

Each log draws its shape, clicks per query, steepness, noise, production ranker, and where its
propensities come from. `fit` runs on the log as a user would run it. What each method, and each
rule of choice, would have shipped is then measured by DCG@10 and NDCG@10 on 300 lists of the same
kind that no session showed. One line a log is written as soon as it is known, and lines that are
there are not made again; then the tables are printed.
"""

import argparse
import json
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

SHAPES = {"mq2007": 200, "web10k": 60, "personal": 400}
DENSITIES = (0.5, 2, 6, 20, 100)
ETAS, NOISE = (0.5, 1.0, 1.5), (0.0, 0.1, 0.3)
CURVES = ("known", "randomised", "harvest", "power:1")
STRENGTHS = (0.01, 0.1, 0.5)
FRESH = 300
ESTIMATORS = ("ips", "clipped", "dr")
QUICK = {"trials": 3, "trees": 60}


def one_log(number: int) -> dict[str, Any]:
    """Draw a log, fit it, and measure everything that could have been shipped."""
    from prsrank.clicks.position_based import PositionBasedModel
    from prsrank.clicks.production import logging_part, production_scores
    from prsrank.clicks.simulate import simulate_clicks
    from prsrank.data.collections import open_collection
    from prsrank.errors import InputError
    from prsrank.fit import fit_log
    from prsrank.logs.click_log_files import write_events

    rng = np.random.default_rng(number)
    drawn: dict[str, Any] = {
        "log": number,
        "shape": str(rng.choice(list(SHAPES))),
        "density": DENSITIES[number % len(DENSITIES)],
        "eta": float(rng.choice(ETAS)),
        "mu": float(rng.choice(NOISE)),
        "curve": str(rng.choice(CURVES)),
        "strength": float(rng.choice(STRENGTHS)),
    }
    lists = SHAPES[drawn["shape"]]
    name = f"synthetic:{drawn['shape']}:{lists + FRESH}:{number}"
    data = open_collection(name).everything()
    fresh = data.select(np.arange(lists, lists + FRESH))
    seen = data.select(np.arange(lists))
    makers = [
        production_scores(seen, share=drawn["strength"], seed=number + i)
        for i in range(3 if drawn["curve"] == "harvest" else 1)
    ]
    logged, scores = logging_part(seen, makers)
    log = simulate_clicks(
        logged, scores, PositionBasedModel(eta=drawn["eta"], mu=drawn["mu"]),
        clicks=int(drawn["density"] * logged.lists), seed=number,
        randomised=0.1 if drawn["curve"] == "randomised" else 0.0,
    )  # fmt: skip
    curve = {"known": f"power:{drawn['eta']}", "power:1": "power:1"}.get(drawn["curve"], "auto")
    drawn["logged"] = truth(fresh, [maker.score for maker in makers])
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write_events(log, f"{folder}/log.parquet")
        try:
            result = fit_log(
                f"{folder}/log.parquet", data=name, out=f"{folder}/fit", propensity=curve,
                seed=number, **QUICK,
            )  # fmt: skip
        except InputError as error:
            return drawn | {"refused": str(error).replace(folder, "")}
        return drawn | outcome(result, log, data, fresh)


def outcome(result: Any, log: Any, data: Any, fresh: Any) -> dict[str, Any]:
    """Return the verdict, and what is true of each method's ranker, judged and refitted."""
    from prsrank.fit.log import PiecedLog
    from prsrank.fit.tuning import refit

    whole = PiecedLog.of([log], data).covered()
    found = result.evaluation.evaluation
    methods = {}
    for name, one in result.tuned.items():
        again = refit(one, whole, result.propensities.curve)
        gains = {kind: found.difference(name, "dcg@10", estimator=kind) for kind in ESTIMATORS}
        methods[name] = {
            "validation": one.chosen.value,
            "gain": {kind: [g.difference, g.low, g.high] for kind, g in gains.items()},
            "judged": truth(fresh, [one.ranker.score]),
            "refitted": truth(fresh, [again.score]),
        }
    return {
        "verdict": result.verdict.verdict,
        "rule": result.verdict.rule,
        "chosen": result.choice.name,
        "differences": less_preferred(result),
        "clicks": {name: part["clicks"] for name, part in result.parts.counts().items()},
        "warnings": len(result.evaluation.warnings),
        "methods": methods,
    }


def less_preferred(result: Any) -> dict[str, dict[str, list[float]]]:
    """Return what the validation part says of each method less the preferred one, by estimator."""
    preferred, *others = result.tuned
    found = result.parts.validation.evaluate(
        result.propensities.curve,
        {name: one.ranker for name, one in result.tuned.items()},
        against=[preferred],
        seed=result.plan.seed,
    ).evaluation
    gains = {
        kind: [found.difference(k, "dcg@10", against=preferred, estimator=kind) for k in others]
        for kind in ESTIMATORS
    }
    return {
        kind: {one.ranker: [one.difference, one.low, one.high, one.p_value] for one in some}
        for kind, some in gains.items()
    }


def truth(fresh: Any, scores: list[Any]) -> dict[str, float]:
    """Return the mean DCG@10 and NDCG@10 of lists that nobody has seen."""
    from prsrank.metrics.ranking import ndcg

    shown = [score(fresh.features) for score in scores]
    sure = [ndcg(fresh.relevance, one, fresh.offsets, k=10) for one in shown]
    return {
        "dcg": float(np.mean([dcg(fresh, one) for one in shown])),
        "ndcg": float(np.nanmean(sure)),
    }


def dcg(lists: Any, scores: Any) -> float:
    """Return the mean DCG@10, as the clicks' metric has it: relevant docs by 1 / log2(1 + rank)."""
    discounts = 1 / np.log2(np.arange(2, 12))
    total = 0.0
    for start, end in zip(lists.offsets[:-1], lists.offsets[1:], strict=True):
        top = lists.relevance[start:end][np.argsort(-scores[start:end], kind="stable")[:10]]
        total += float((top * discounts[: len(top)]).sum())
    return total / lists.lists


METHODS = ("posterior", "prs", "ips", "naive", "lightgbm_position")
BY = "dr"
SIMPLE = ("naive", "ips", "prs", "posterior", "lightgbm_position")


def shown_better(row: dict[str, Any], level: float) -> str:
    """Return the best of the methods that are shown to be above posterior, else posterior."""
    found = {k: d for k, d in row["differences"][BY].items() if d[0] > 0 and d[3] <= level}
    return max(found, key=lambda k: found[k][0]) if found else "posterior"


def best(row: dict[str, Any]) -> str:
    """Return the best on the validation part."""
    return max(METHODS, key=lambda k: row["methods"][k]["validation"])


def simplest(row: dict[str, Any]) -> str:
    """Return the simplest within one standard error of the best (errors: of less posterior)."""
    found = {"posterior": [0.0, 0.0, 0.0, 1.0]} | row["differences"][BY]
    first = best(row)
    errors = {k: (d[2] - d[1]) / 4 for k, d in found.items()}
    return next(k for k in SIMPLE if found[first][0] - found[k][0] <= max(errors[k], errors[first]))


RULES: dict[str, Callable[[dict[str, Any]], str]] = {
    "always posterior": lambda row: "posterior",
    "paired test, 5 % for all together": lambda row: shown_better(row, 0.05 / 4),
    "paired test, 5 % each": lambda row: shown_better(row, 0.05),
    "paired test, 20 % each": lambda row: shown_better(row, 0.2),
    "the simplest within one standard error": simplest,
    "the best on the validation part": best,
}


def quality(row: dict[str, Any], method: str, which: str = "refitted") -> float:
    """Return the true NDCG@10 of a method's ranker."""
    return float(row["methods"][method][which]["ndcg"])


def print_tables(rows: list[dict[str, Any]]) -> None:
    """Print what was shipped, by what rule, and what the verdicts are worth."""
    refused = sum("refused" in row for row in rows)
    rows = [row for row in rows if "methods" in row]
    shipped = [row for row in rows if row["verdict"] != "too-thin"]
    print(
        f"\n{len(rows)} logs, {len(shipped)} not too thin; {refused} were refused before training\n"
    )
    print(
        "| rule, where a model is shipped | NDCG@10 | less always posterior | another is shipped |"
    )
    print("| --- | --- | --- | --- |")
    for name, rule in RULES.items():
        chosen = [rule(row) for row in shipped]
        values = [quality(row, one) for row, one in zip(shipped, chosen, strict=True)]
        less = spread_of(
            [v - quality(r, "posterior") for v, r in zip(values, shipped, strict=True)]
        )
        other = sum(one != "posterior" for one in chosen)
        print(f"| {name} | {np.mean(values):.4f} | {less} | {other} |")
    print("\n| logs | number | logged |", " | ".join(METHODS), "| chosen |")
    print("| --- " * (len(METHODS) + 4) + "|")
    thin = [row for row in rows if row["verdict"] == "too-thin"]
    groups = {"**not too thin**": shipped, "too thin (no model is written)": thin}
    for key, word in (("density", "clicks per query"), ("shape", "shape"), ("curve", "curve")):
        for value in sorted({row[key] for row in shipped}):
            groups[f"{word} {value}"] = [row for row in shipped if row[key] == value]
    for name, some in groups.items():
        values = [np.mean([row["logged"]["ndcg"] for row in some])]
        values += [np.mean([quality(row, method) for row in some]) for method in METHODS]
        values += [np.mean([quality(row, row["chosen"]) for row in some])]
        print(f"| {name} | {len(some)} |", " | ".join(f"{v:.3f}" for v in values), "|")
    for method in METHODS:
        less = [quality(row, row["chosen"]) - quality(row, method) for row in shipped]
        print(f"\nshipped less {method}: {spread_of(less)}", end="")
    again = [quality(r, r["chosen"]) - quality(r, r["chosen"], "judged") for r in shipped]
    print(
        f"\n\ntrained again on all sessions: better in {np.mean(np.array(again) > 0):.0%} of logs,"
    )
    print(f"NDCG@10 {spread_of(again)}")
    print("\n| verdict | rule | logs | truly above the logged ranking | mean true gain (DCG@10) |")
    print("| --- | --- | --- | --- | --- |")
    for verdict, rule in sorted({(row["verdict"], row["rule"]) for row in rows}):
        some = [row for row in rows if row["rule"] == rule]
        gains = [
            r["methods"][r["chosen"]]["refitted"]["dcg"] / r["logged"]["dcg"] - 1 for r in some
        ]
        above = int(np.sum(np.array(gains) > 0))
        print(f"| {verdict} | {rule} | {len(some)} | {above} | {np.mean(gains):+.1%} |")


def spread_of(values: list[float]) -> str:
    """Return a mean with its standard error."""
    return f"{np.mean(values):+.4f} ± {np.std(values) / len(values) ** 0.5:.4f}"


def main() -> None:
    """Make the logs that are missing."""
    from prsrank.fit import steps, tuning

    tuning.MOST_EXPANDED = 10**8  # the rival is to be seen on every log
    steps.write_pages = lambda *_: None  # nobody reads two hundred pages
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path("fit_choice.jsonl"))
    given = parser.parse_args()
    done = set()
    if given.out.exists():
        done = {json.loads(line)["log"] for line in given.out.read_text().splitlines()}
    for number in range(given.logs):
        if number in done:
            continue
        found = one_log(number)
        with given.out.open("a") as stream:
            stream.write(json.dumps(found) + "\n")
        print(number, found.get("chosen"), found.get("verdict"), found.get("refused", ""))
    print_tables([json.loads(line) for line in given.out.read_text().splitlines()])


if __name__ == "__main__":
    main()
