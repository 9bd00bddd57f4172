"""What thin positions of a propensity curve do to the estimated gain: a table of docs/tutorial.md.

    python benchmarks/thin_tails.py [--json] [--logs 25]

Simulated logs (mu 0.1) of which a share of the sessions is shuffled; a fifth of the queries is
held out. A fixed better ranker is judged there with three curves: the plain monotone curve, the one
that `prsrank fit` makes of it, and the known one. The truth is what the simulator knows: the
probability of a click on each doc once it is seen. Errors are of the gain over the logged
ranking, in parts of the logged value.
"""

import argparse
import json
from typing import Any

import numpy as np
import numpy.typing as npt

MU = 0.1
LISTS = 150
SETTINGS = (("mq2007", 3_000, 0.2), ("mq2007", 12_000, 0.1), ("personal", 3_000, 0.1))
FIRST_SEED = 200
CURVES = ("plain monotone curve", "as fit makes it", "known")


def true_values(log: Any, data: Any, scores: npt.NDArray) -> tuple[float, float]:
    """Return the true DCG@10 of the scores and of the logged ranking, over the log's sessions."""
    clicked = np.where(data.relevance > 0, 1 - MU, MU)
    places = {query: i for i, query in enumerate(data.query_ids.tolist())}
    rows = log.doc_rows(data)
    new, logged = np.empty(log.sessions), np.empty(log.sessions)
    for session in range(log.sessions):
        ranking = log.session_ranking[session]
        begin, end = log.ranking_offsets[ranking : ranking + 2]
        shown = rows[log.ranking_docs[begin:end]]
        logged[session] = dcg(clicked[shown])
        query = places[log.query_ids[log.ranking_query[ranking]].item()]
        begin, end = data.offsets[query : query + 2]
        order = np.argsort(-scores[begin:end], kind="stable")
        new[session] = dcg(clicked[begin:end][order])
    return float(new.mean()), float(logged.mean())


def dcg(gains: npt.NDArray) -> float:
    """Return DCG@10 of gains in ranked order."""
    top = gains[:10]
    return float((top / np.log2(2 + np.arange(len(top)))).sum())


def judge(shape: str, clicks: int, share: float, seed: int) -> dict[str, tuple[float, bool, float]]:
    """Return, for each curve, the error of the gain, whether the interval holds, the true gain."""
    from prsrank.clicks.position_based import PositionBasedModel
    from prsrank.clicks.simulate import simulate_clicks
    from prsrank.data.synthetic import synthetic_dataset
    from prsrank.evaluation.log_evaluation import evaluation_of
    from prsrank.evaluation.log_sums import sum_log
    from prsrank.logs.held_out import hold_out
    from prsrank.propensity.curve import PowerLaw, covering
    from prsrank.propensity.randomised import RandomisedEstimator

    data = synthetic_dataset(shape, LISTS, seed=seed)
    rng = np.random.default_rng(seed)
    production = data.relevance * 0.5 + rng.normal(size=data.docs)
    better = data.relevance * 1.5 + rng.normal(size=data.docs)
    model = PositionBasedModel(eta=1, mu=MU)
    log = simulate_clicks(data, production, model, clicks=clicks, randomised=share, seed=seed)
    parts = hold_out(log, seed=seed)
    new, logged = true_values(parts.held_out, data, better)
    plain = RandomisedEstimator(shape="monotone").estimate(parts.training)
    made = RandomisedEstimator(shape="monotone").estimate(parts.training)
    curves = (
        covering(plain, log.max_position, fewest=0),
        covering(made, log.max_position),
        PowerLaw(1),
    )
    found = {}
    for name, curve in zip(CURVES, curves, strict=True):
        sums = sum_log(parts.held_out, data, curve, {"new": better}, metrics=["dcg@10"], tau=0)
        result = evaluation_of(sums, None, samples=200).evaluation
        difference = result.difference("new", "dcg@10")
        held = difference.low <= new - logged <= difference.high
        found[name] = (difference.relative - (new / logged - 1), held, new / logged - 1)
    return found


def main() -> None:
    """Run all settings and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.add_argument("--logs", type=int, default=25, help="logs of each setting")
    options = parser.parse_args()
    rows = []
    for shape, clicks, share in SETTINGS:
        judged = [judge(shape, clicks, share, FIRST_SEED + i) for i in range(options.logs)]
        for curve in CURVES:
            errors, held, gains = map(np.array, zip(*(one[curve] for one in judged), strict=True))
            rows.append(
                {
                    "lists": shape,
                    "clicks": clicks,
                    "shuffled": share,
                    "curve": curve,
                    "true_gain": float(gains.mean()),
                    "mean_error": float(errors.mean()),
                    "largest_error": float(np.abs(errors).max()),
                    "held": int(held.sum()),
                    "logs": options.logs,
                }
            )
            if not options.json:
                print("  ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
    if options.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
