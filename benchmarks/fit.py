"""A whole fit of a large log, beside what no fit can do without: LightGBM's trees and one aggregation.

The log is that of `fit_memory.py`, with 136 features a doc. `ratio` is the time of `fit_log`, from
the files to the report, over that of LightGBM's own lambdarank growing as many trees on the same
number of rows, once for each ranker that the fit trains, plus DuckDB's `GROUP BY query_id, doc_id` of the log.
`steps` are the seconds of each step. All run in processes of their own, one after the other.
Run: python benchmarks/fit.py --json
"""

import argparse
import json
import tempfile
import time
from typing import Any

from fit_memory import generate
from ingest import add_clicks, apart, measured

FEATURES = 136


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--events", type=int, default=20_000_000)
    parser.add_argument("--memory", default="4GB", help="what the fit is given")
    parser.add_argument("--trees", type=int, default=50)
    parser.add_argument("--trials", type=int, default=1)
    options = parser.parse_args()
    result = measure(options.events, options.memory, options.trees, options.trials)
    if options.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name:28} {value}")


def measure(events: int, memory: str, trees: int, trials: int) -> dict[str, Any]:
    """Return the times of the fit, of the bare parts, and their ratio."""
    with tempfile.TemporaryDirectory(prefix="prsrank-bench-") as folder:
        apart(generate, folder, events, FEATURES)
        found: dict[str, Any] = apart(fit, folder, memory, trees, trials)
        counted = apart(add_clicks, f"{folder}/log.parquet", folder, memory, 2)
        bare = apart(grow, folder, found.pop("grown"))
    least = bare["seconds"] + counted["seconds"]
    return {
        "events": events,
        "memory": memory,
        "ratio": found["seconds"] / least,
        **found,
        "lightgbm_seconds": bare["seconds"],
        "duckdb_seconds": counted["seconds"],
    }


def fit(folder: str, memory: str, trees: int, trials: int) -> dict[str, Any]:
    """Fit, and return the seconds of each step, the peak, and the trees of each training."""
    from prsrank.fit import fit_log

    tempfile.tempdir = folder
    steps: dict[str, float] = {}
    last = ["start", time.perf_counter()]

    def tell(what: str) -> None:
        now = time.perf_counter()
        steps[last[0]] = round(steps.get(last[0], 0.0) + now - last[1], 2)
        last[:] = [what.split(",")[0], now]

    with measured(folder) as figures:
        result = fit_log(
            f"{folder}/log.parquet",
            features=f"{folder}/features.parquet",
            out=f"{folder}/fitted",
            memory=memory,
            trials=trials,
            trees=trees,
            force=True,
            tell=tell,
        )
    tell("end")
    chosen = result.tuned[result.choice.name].ranker
    # those of trials that were not chosen count as many as those of the one that was
    rankers = [one.ranker for one in result.tuned.values() for _ in one.search.trials]
    docs = result.parts.train.lists.docs  # type: ignore[attr-defined]
    grown = [(min(r.trees_ + r.patience, trees), docs) for r in rankers]
    grown.append((chosen.trees_, 10**12))
    parts = {f"{name}_seconds": seconds for name, seconds in steps.items()}
    return {**figures, "grown": grown, "trainings": len(grown), **parts}


def grow(folder: str, grown: list[tuple[int, int]]) -> dict[str, float]:
    """Let LightGBM grow as many trees as the fit did, each time on as many docs."""
    import duckdb
    import lightgbm
    import numpy as np

    with duckdb.connect() as connection:
        rows = connection.execute(
            f"""SELECT f.* EXCLUDE (query_id, doc_id), query_id, coalesce(c.clicked, 0) AS clicked
            FROM '{folder}/features.parquet' f LEFT JOIN (
                SELECT query_id, doc_id, max(click::INT) AS clicked FROM '{folder}/log.parquet' GROUP BY ALL
            ) c USING (query_id, doc_id) ORDER BY query_id"""  # noqa: S608
        ).fetchnumpy()
    labels, queries = rows.pop("clicked"), rows.pop("query_id")
    matrix = np.stack(list(rows.values()), axis=1)
    sizes = np.unique(queries, return_counts=True)[1]
    settings = {"objective": "lambdarank", "num_threads": 2, "verbose": -1}
    ends = np.cumsum(sizes)
    with measured(folder) as figures:
        # binned once for all trainings on the same docs
        for docs in dict.fromkeys(docs for _, docs in grown):
            lists = int(np.searchsorted(ends, docs, side="right"))
            rows = slice(0, int(ends[lists - 1]))
            data = lightgbm.Dataset(
                matrix[rows], labels[rows], group=sizes[:lists], params={"verbose": -1}
            )
            for trees in (trees for trees, of in grown if of == docs):
                lightgbm.train(settings, data, trees)
    return dict(figures)


if __name__ == "__main__":
    main()
