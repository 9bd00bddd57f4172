"""The memory of one worker of a training on Spark, for the sizing rule of docs/spark.md.

    python benchmarks/worker_memory.py [--json]

What a task does, without Spark: takes pieces of a log, makes a shard of them and grows a few trees. Each size runs in a process of its own; the figure is its peak resident memory
less that of a process that handles ten lists, and less LightGBM's sample for its bins (200,000
docs as float64). A least-squares fit over the sizes gives the bytes per feature value, per doc
and per weight of a pair (each winner has one for each doc of its list), none below 0.
"""

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.optimize import nnls

LENGTH = 6
# queries, features, winners per query
SIZES = (
    (50_000, 20, 1),
    (150_000, 20, 1),
    (50_000, 136, 1),
    (150_000, 136, 1),
    (150_000, 20, 4),
    (50_000, 136, 4),
    (300_000, 60, 1),
    (300_000, 60, 3),
)
_PIECE = 64 << 20
_SMALL = (10, 20, 1)
_SAMPLE = 200_000


def batches(queries: int, features: int, winners: int) -> Iterator[Any]:
    """Yield the rows of a worker: pieces of its log, in each query as many sessions as winners."""
    from prsrank.data.dataset import RankingDataset
    from prsrank.logs.click_log import ClickLog
    from prsrank.spark.placing import Sessions
    from prsrank.spark.shards import TRAIN, Placing, sharded

    rng = np.random.default_rng(0)
    per_piece = max(_PIECE // (LENGTH * (4 * features + 64 * winners)), 1)
    for number, first in enumerate(range(0, queries, per_piece)):
        ids = np.arange(first, min(first + per_piece, queries))
        here, docs = len(ids), len(ids) * LENGTH
        offsets, shown = np.arange(here + 1) * LENGTH, np.tile(np.arange(LENGTH), here)
        log = ClickLog(
            query_ids=ids, doc_offsets=offsets, doc_ids=shown,
            ranking_query=np.arange(here), ranking_offsets=offsets,
            ranking_docs=np.arange(docs), ranking_positions=shown + 1,
            session_ranking=np.tile(np.arange(here), winners),
            session_clicks=np.ones(here * winners), clicks=np.repeat(np.arange(winners), here),
        )  # fmt: skip
        values = rng.random((docs, features), np.float32)
        lists = RankingDataset(
            values, offsets, query_ids=ids, doc_ids=shown,
            feature_names=tuple(f"f{i}" for i in range(features)),
        )  # fmt: skip
        yield from sharded(number, Sessions(log, lists), TRAIN, Placing(1), [0])


def worker(queries: int, features: int, winners: int) -> int:
    """Do what a worker does; return the peak resident memory of this process in bytes."""
    from prsrank.propensity.curve import PowerLaw
    from prsrank.relevance.workers import ALONE
    from prsrank.spark.shards import Recipe, shard_of_pieces
    from prsrank.spark.training_worker import train_worker
    from prsrank.weighting import WEIGHTINGS

    recipe = Recipe(
        feature_names=tuple(f"f{i}" for i in range(features)),
        propensities=PowerLaw(1.0),
        weighting=WEIGHTINGS["prs"],
        pair_options={"normalise": "ndcg"},
    )
    shard = shard_of_pieces(batches(queries, features, winners), recipe)
    train_worker({"trees": 3, "threads": 1}, shard, ALONE)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measured(size: tuple[int, int, int]) -> int:
    """Return the peak of a process of its own."""
    command = [sys.executable, __file__, "--size", *map(str, size)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout)


def main() -> None:
    """Measure all sizes and fit the rule."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--size", type=int, nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.size:
        print(worker(*options.size))
        return
    base = measured(_SMALL)
    peaks = np.array([measured(size) - base for size in SIZES], float)
    docs = np.array([queries * LENGTH for queries, _, _ in SIZES], float)
    features = np.array([features for _, features, _ in SIZES], float)
    pairs = docs * [winners for _, _, winners in SIZES]
    sample = np.minimum(docs, _SAMPLE) * features * 8
    terms = np.stack([docs * features, docs, pairs], axis=1) / peaks[:, None]
    bytes_of, _ = nnls(terms, 1 - sample / peaks)
    fitted = terms @ bytes_of + sample / peaks
    result = {
        "bytes_per_feature_value": bytes_of[0],
        "bytes_per_doc": bytes_of[1],
        "bytes_per_pair": bytes_of[2],
        "base_mib": base / 2**20,
        "fitted_over_measured": [float(fitted.min()), float(fitted.max())],
        "peaks_mib": [round(peak / 2**20) for peak in peaks],
    }
    if options.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
