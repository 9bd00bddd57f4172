"""What judgements from clicks are worth: the table of docs/commands/judge.md.

    python benchmarks/judgements.py [--logs 5] [--only personal:100]

Logs of several shapes and densities, clicked by the position-based model (eta 1, mu 0.1), the
propensities harvested from three production rankers. Docs that were seen at least once, as judge
keeps them, are rated by the posterior with features, the posterior without, the click rate (CTR), and
clicks over expected clicks (COEC: the mean click rate of the positions at which the doc was shown).
Two questions: how often is a relevant doc rated above an irrelevant one of the same query (ties count
half), and how far is a ranker's NDCG@10 by the ratings from that by the truth (mean over eight rankers)?
"""

import argparse
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

SHAPES = {"mq2007": 200, "web10k": 60, "personal": 400}
DENSITIES = (1, 6, 20, 100)


def one_log(shape: str, density: int, seed: int) -> dict[str, list[float]]:
    """Return both measures of each way to judge, and the share of intervals with the truth."""
    from prsrank import HarvestEstimator, PositionBasedModel, simulate_clicks, synthetic_dataset
    from prsrank.cli.judge import curve_notice
    from prsrank.clicks.production import logging_part, production_scores
    from prsrank.evaluation.judgements import judge
    from prsrank.propensity.curve import covering

    data = synthetic_dataset(shape, SHAPES[shape], seed=seed)
    makers = [production_scores(data, seed=seed + i) for i in range(3)]
    lists, scores = logging_part(data, makers)
    model = PositionBasedModel(eta=1, mu=0.1)
    log = simulate_clicks(lists, scores, model, clicks=density * lists.lists, seed=seed)
    curve = covering(HarvestEstimator(shape="monotone").estimate(log), log.max_position)
    full, bare = judge(log, curve, lists), judge(log, curve)
    shown, clicked = log.slot_statistics()
    rate = np.bincount(log.ranking_positions, clicked) / np.maximum(
        np.bincount(log.ranking_positions, shown), 1
    )
    docs = len(log.doc_ids)
    clicks = np.bincount(log.ranking_docs, clicked, docs)
    expected = np.bincount(log.ranking_docs, shown * rate[log.ranking_positions], docs)
    views = np.bincount(log.ranking_docs, shown, docs)
    rows = log.doc_rows(lists)
    ratings = {
        "posterior": on_rows(full, lists),
        "posterior, no features": on_rows(bare, lists),
        "COEC": spread(clicks / np.maximum(expected, 1e-12), rows, lists.docs),
        "CTR": spread(clicks / np.maximum(views, 1), rows, lists.docs),
    }
    judged = spread_of(full, lists, full.seen) >= 1
    rankers = [maker.score(lists.features) for maker in makers]
    rng = np.random.default_rng(seed)
    for noise in (0.5, 1, 2, 4, 8):
        best = lists.labels + rng.normal(size=lists.docs) * noise
        rankers.append(best)
    truth = np.where(lists.relevance > 0, 0.9, 0.1)
    found = {name: measures(lists, truth, one, judged, rankers) for name, one in ratings.items()}
    held = (spread_of(full, lists, full.low) <= truth) & (
        truth <= spread_of(full, lists, full.high)
    )
    notice = float(bool(curve_notice(curve)))
    return found | {"intervals": [float(held[judged].mean())], "notice": [notice]}


def spread(values: Any, rows: Any, docs: int) -> Any:
    """Put the values of a log's docs on the rows of the lists."""
    out = np.zeros(docs)
    out[rows] = values
    return out


def on_rows(judged: Any, lists: Any) -> Any:
    """Put the expected theta on the rows of the lists."""
    return spread_of(judged, lists, judged.theta)


def spread_of(judged: Any, lists: Any, values: Any) -> Any:
    """Put a column of judgements on the rows of the lists."""
    names = np.repeat(lists.query_ids, lists.list_lengths).astype(str)
    index = {key: i for i, key in enumerate(zip(names, lists.doc_names.astype(str), strict=True))}
    keys = zip(judged.query_ids.astype(str), judged.doc_ids.astype(str), strict=True)
    return spread(values, [index[key] for key in keys], lists.docs)


def measures(lists: Any, truth: Any, rating: Any, judged: Any, rankers: list[Any]) -> list[float]:
    """Return the share of pairs in the right order, and the mean error of NDCG@10."""
    from scipy.stats import rankdata

    right, errors = [], []
    for start, end in zip(lists.offsets[:-1], lists.offsets[1:], strict=True):
        docs = np.arange(start, end)[judged[start:end]]
        relevant = truth[docs] > 0.5
        if relevant.all() or not relevant.any():
            continue
        ranks, pairs = rankdata(rating[docs]), relevant.sum() * (~relevant).sum()
        least = relevant.sum() * (relevant.sum() + 1) / 2
        right.append((ranks[relevant].sum() - least) / pairs)
        errors.append(
            [ndcg(rating[docs], one[docs]) - ndcg(truth[docs], one[docs]) for one in rankers]
        )
    return [float(np.mean(right)), float(np.abs(np.mean(errors, axis=0)).mean())]


def ndcg(gain: Any, scores: Any) -> float:
    """Return NDCG@10 with ratings as gains."""
    discount = 1 / np.log2(np.arange(2, 12))
    top, best = gain[np.argsort(-scores, kind="stable")[:10]], np.sort(gain)[::-1][:10]
    ideal = float(best @ discount[: len(best)])
    return float(top @ discount[: len(top)]) / ideal if ideal else 0.0


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=5)
    parser.add_argument("--only", default="", help="one row, such as personal:100")
    given = parser.parse_args()
    names = ("posterior", "posterior, no features", "COEC", "CTR")
    print(
        "| lists | clicks per query |", " | ".join(names), "| intervals with the truth | notice |"
    )
    print("| --- " * (len(names) + 4) + "|")
    for shape, density in itertools.product(SHAPES, DENSITIES):
        if given.only in ("", f"{shape}:{density}"):
            found = [one_log(shape, density, seed) for seed in range(given.logs)]
            print(f"| {shape} | {density} | {row(found, names)} |", flush=True)


def row(found: list[dict[str, list[float]]], names: Sequence[str]) -> str:
    """Return the cells of a row: means over logs, with the standard error of the shares."""
    cells = []
    for name in names:
        right, error = np.transpose([one[name] for one in found])
        spread = right.std(ddof=1) / len(right) ** 0.5 if len(right) > 1 else np.nan
        cells.append(f"{right.mean():.4f} ± {spread:.4f}, {error.mean():.3f}")
    held = np.mean([one["intervals"][0] for one in found])
    notices = sum(bool(one["notice"][0]) for one in found)
    return " | ".join([*cells, f"{held:.1%}", f"{notices} of {len(found)}"])


if __name__ == "__main__":
    main()
