"""A whole fit of a log that is larger than the memory it is given, beside the same fit without limit.

The log is made by DuckDB: lists of 10 of 12 docs, in one of four orders, clicks by position and
relevance, a tenth of the sessions shuffled, and a table of features beside it. Both fits run in
processes of their own. `peak_mib` is the largest size of the process, what DuckDB holds and what
LightGBM trains on included. Run: python benchmarks/fit_memory.py --json
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from ingest import apart, measured

LIST, DOCS, PER_QUERY, FEATURES = 10, 12, 500, 20


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--events", type=int, default=50_000_000)
    parser.add_argument("--memory", default="2GB", help="what the limited fit is given")
    parser.add_argument("--trees", type=int, default=50)
    options = parser.parse_args()
    result = measure(options.events, options.memory, options.trees)
    if options.json:
        print(json.dumps(result))
    else:
        for name, value in result.items():
            print(f"{name:28} {value}")


def measure(events: int, memory: str, trees: int) -> dict[str, Any]:
    """Return the figures of both fits, and whether they came to the same."""
    with tempfile.TemporaryDirectory(prefix="prsrank-bench-") as folder:
        apart(generate, folder, events)
        found = {
            name: apart(fit, folder, name, limit, trees)
            for name, limit in (("limited", memory), ("free", None))
        }
        size = Path(folder, "log.parquet").stat().st_size
    same = found["limited"].pop("estimates") == found["free"].pop("estimates")
    figures = {f"{name}_{k}": v for name, one in found.items() for k, v in one.items()}
    ratio = found["limited"]["seconds"] / found["free"]["seconds"]
    log = {"events": events, "file_mib": round(size / 2**20), "memory": memory}
    return log | figures | {"time_ratio": ratio, "same_estimates": same}


def generate(folder: str, events: int, features: int = FEATURES) -> dict[str, float]:
    """Write a made-up log and its table of features."""
    from prsrank.logs.tables import connected

    queries = max(events // PER_QUERY, 1)
    # randomised sessions begin at any of the docs, ordinary ones at one of four
    shift = "(CASE WHEN randomised THEN hash(session_id, 7) % 12 ELSE session_id % 4 END)::INTEGER"
    relevance = "hash(query_id * 12 + doc) % 5 = 0"
    noise = ", ".join(
        f"(hash(query_id, doc, {i}) % 100 / 100.0 + ({relevance})::INT * {1 / (1 + i)})::FLOAT AS f{i}"
        for i in range(features)
    )
    with connected(memory="6GB") as connection:
        connection.execute("SET preserve_insertion_order = false")
        connection.execute(f"""COPY (
            WITH sessions AS (
                SELECT range AS session_id, (hash(range) % {queries})::BIGINT AS query_id,
                    hash(range, 3) % 10 = 0 AS randomised
                FROM range({events // LIST})
            ), shown AS (
                SELECT *, (position + {shift}) % {DOCS} AS doc
                FROM sessions, (SELECT range::SMALLINT + 1::SMALLINT AS position FROM range({LIST}))
            )
            SELECT query_id, session_id, (query_id * 12 + doc)::BIGINT AS doc_id,
                position::SMALLINT AS position, randomised,
                (hash(session_id, position, 2) % 1000003) / 1000003.0
                    < (1.0 / position) * CASE WHEN {relevance} THEN 0.9 ELSE 0.1 END AS click
            FROM shown
        ) TO '{folder}/log.parquet' (FORMAT parquet, COMPRESSION zstd)""")  # noqa: S608
        connection.execute(f"""COPY (
            SELECT query_id, query_id * 12 + doc AS doc_id, {noise}
            FROM (SELECT range AS query_id FROM range({queries})),
                (SELECT range AS doc FROM range({DOCS}))
        ) TO '{folder}/features.parquet' (FORMAT parquet)""")  # noqa: S608
    return {}


def fit(folder: str, name: str, memory: str | None, trees: int) -> dict[str, Any]:
    """Fit, and return seconds, the peak and what was estimated."""
    from prsrank.fit import fit_log

    tempfile.tempdir = folder
    with measured(folder) as figures:
        result = fit_log(
            f"{folder}/log.parquet",
            features=f"{folder}/features.parquet",
            out=f"{folder}/{name}",
            memory=memory,
            trials=1,
            trees=trees,
        )
    found = result.evaluation.evaluation
    pieces = len(list(result.parts.train.pieces))  # type: ignore[call-overload]
    estimates = [f"{one.value:.9g} {one.low:.9g} {one.high:.9g}" for one in found.estimates]
    return dict(figures) | {"pieces": pieces, "estimates": estimates}


if __name__ == "__main__":
    main()
