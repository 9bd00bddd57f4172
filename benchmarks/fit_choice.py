"""What `fit` ships, on simulated logs whose truth is known: the tables of docs/evaluation.md.

    python benchmarks/fit_choice.py [--logs 200] [--out fit_choice.jsonl]

Each log draws its shape, clicks per query, steepness, noise, production ranker, and where its
propensities come from. `fit` runs on the log as a user would run it. What each method, and each
rule of choice, would have shipped is then measured by DCG@10 and NDCG@10 on 300 lists of the same
kind that no session showed. One line a log is written as soon as it is known, and lines that are
there are not made again.
"""

import argparse
import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

SHAPES = {"mq2007": 200, "web10k": 100, "personal": 400}
DENSITIES = (0.5, 2, 6, 20, 100)
ETAS, NOISE = (0.5, 1.0, 1.5), (0.0, 0.1, 0.3)
CURVES = ("known", "randomised", "harvest", "power:1")
STRENGTHS = (0.01, 0.1, 0.5)
FRESH = 300
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
    from prsrank.fit.local import LocalLog
    from prsrank.fit.tuning import refit
    from prsrank.logs.pieces import LocalPieces

    whole = LocalLog(LocalPieces([log]), data).covered()
    found = result.evaluation.evaluation
    methods = {}
    for name, one in result.tuned.items():
        again = refit(one, whole, result.propensities.curve)
        gain = found.difference(name, "dcg@10")
        methods[name] = {
            "validation": one.chosen.value,
            "gain": [gain.difference, gain.low, gain.high],
            "judged": truth(fresh, [one.ranker.score]),
            "refitted": truth(fresh, [again.score]),
        }
    return {
        "verdict": result.verdict.verdict,
        "rule": result.verdict.rule,
        "chosen": result.choice.name,
        "differences": {
            one.ranker: [one.difference, one.low, one.high, one.p_value]
            for one in result.choice.differences
        },
        "clicks": {name: part["clicks"] for name, part in result.parts.counts().items()},
        "warnings": len(result.evaluation.warnings),
        "methods": methods,
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


def main() -> None:
    """Make the logs that are missing."""
    from prsrank.fit import steps

    steps._write_report = lambda *_: None  # nobody reads two hundred pages
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


if __name__ == "__main__":
    main()
