"""The memory of one worker of a training on Spark, for the sizing rule of docs/spark.md.

    python benchmarks/worker_memory.py [--json]

What a task does, without Spark: takes rows as Arrow batches of 10,000, makes a shard of them and
grows a few trees. Each size runs in a process of its own; the figure is its peak resident memory
less that of a process that handles ten lists, and less LightGBM's sample for its bins (200,000
docs as float64). A least-squares fit over the sizes gives the bytes per feature value, per doc
and per counted row of pairs, none below 0.
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
_BATCH = 10_000
_SMALL = (10, 20, 1)
_SAMPLE = 200_000


def with_nulls(columns: dict[str, Any]) -> Any:
    """Return a batch with all columns of both kinds of rows, as Spark's union has them."""
    import pyarrow as pa

    rows = len(columns["kind"])
    kinds = {
        "features": pa.list_(pa.float32()), "twice": pa.bool_(), "loser": pa.int64(),
        "winner_key": pa.int32(), "loser_key": pa.int32(), "clicks": pa.int64(),
        "pairs": pa.int64(),
    }  # fmt: skip
    missing = {n: pa.nulls(rows, kind) for n, kind in kinds.items() if n not in columns}
    return pa.record_batch({**columns, **missing})


def batches(queries: int, features: int, winners: int) -> Iterator[Any]:
    """Yield a partition's rows: docs, then counted pairs, query after query within each kind."""
    import pyarrow as pa

    from prsrank.spark.shard_rows import DOC, PAIRS

    rng = np.random.default_rng(0)
    per_batch = max(_BATCH // LENGTH, 1)
    for first in range(0, queries, per_batch):
        here = np.arange(first, min(first + per_batch, queries))
        rows = len(here) * LENGTH
        values = pa.array(rng.random(rows * features, np.float32))
        offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * features)
        yield with_nulls(
            {
                "kind": pa.array(np.full(rows, DOC, np.int32)),
                "query_id": pa.array(np.repeat(here, LENGTH)),
                "doc": pa.array(np.tile(np.arange(LENGTH), len(here))),
                "features": pa.ListArray.from_arrays(offsets, values),
                "twice": pa.array(np.zeros(rows, bool)),
            }
        )
    per_batch = max(_BATCH // (LENGTH * winners), 1)
    for first in range(0, queries, per_batch):
        here = np.arange(first, min(first + per_batch, queries))
        rows = len(here) * winners * LENGTH
        doc = np.tile(np.repeat(np.arange(winners), LENGTH), len(here))
        loser = np.tile(np.arange(LENGTH), len(here) * winners)
        yield with_nulls(
            {
                "kind": pa.array(np.full(rows, PAIRS, np.int32)),
                "query_id": pa.array(np.repeat(here, winners * LENGTH)),
                "doc": pa.array(doc),
                "loser": pa.array(loser),
                "winner_key": pa.array((doc + 1).astype(np.int32)),
                "loser_key": pa.array((loser + 1).astype(np.int32)),
                "clicks": pa.array(np.ones(rows, np.int64)),
                "pairs": pa.array(np.ones(rows, np.int64)),
            }
        )


def worker(queries: int, features: int, winners: int) -> int:
    """Do what a worker does; return the peak resident memory of this process in bytes."""
    from prsrank.propensity.curve import PowerLaw
    from prsrank.relevance.workers import Workers
    from prsrank.spark.shard_rows import Recipe, shard_of_rows
    from prsrank.spark.training_worker import train_worker
    from prsrank.spark.worker_sums import WorkerSums
    from prsrank.weighting import WEIGHTINGS

    recipe = Recipe(
        feature_names=tuple(f"f{i}" for i in range(features)),
        propensities=PowerLaw(1.0),
        weighting=WEIGHTINGS["prs"],
        pair_options={"normalise": "ndcg"},
    )
    shard = shard_of_rows(batches(queries, features, winners), recipe)
    with WorkerSums(0, 1) as sums:
        train_worker({"trees": 3, "threads": 1}, shard, Workers(0, ("",), sums))
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
        "bytes_per_counted_row": bytes_of[2],
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
