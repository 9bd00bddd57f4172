"""A log of many events to weighted pairs, and its audit, beside DuckDB adding up clicks per (query, doc).

The events are made by DuckDB: lists of 10, 100 events a query, four orders of each list, clicks
by position. Both sides read the same Parquet file with the same threads and memory limit, in
processes of their own. `ratio` is the median over repeats, taken in turns, of the time from the
file to the PairSet (lists found, rows checked, pairs counted and weighed) over the time of
`GROUP BY query_id, doc_id`; `audit_ratio` is that of the audit of the log.
Run: python benchmarks/ingest.py --json
"""

import argparse
import json
import multiprocessing
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

LIST, ORDERS, DOCS, PER_QUERY = 10, 4, 12, 100


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--events", type=int, default=100_000_000)
    parser.add_argument("--memory", default="1600MB", help="what DuckDB may hold, on both sides")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--normalise", default=None, help="ndcg: with the session constants too")
    options = parser.parse_args()
    result = measure(**{k: v for k, v in vars(options).items() if k != "json"})
    if options.json:
        print(json.dumps(result))
    else:
        for name, value in result.items():
            print(f"{name:28} {value:,.4g}")


def measure(
    events: int, memory: str, threads: int, repeats: int, normalise: str | None
) -> dict[str, float]:
    """Return the figures of one comparison."""
    with tempfile.TemporaryDirectory(prefix="prsrank-bench-") as folder:
        file = str(Path(folder, "events.parquet"))
        apart(generate, file, events, memory)
        warm = str(Path(folder, "warm.parquet"))
        apart(generate, warm, 10_000, memory)
        apart(to_pairs, warm, folder, memory, threads, normalise)  # compiles
        apart(look_over, warm, folder, memory, threads)
        ours, audits, theirs = [], [], []
        for _ in range(repeats):
            theirs.append(apart(add_clicks, file, folder, memory, threads))
            ours.append(apart(to_pairs, file, folder, memory, threads, normalise))
            audits.append(apart(look_over, file, folder, memory, threads))
        size = Path(file).stat().st_size
    seconds = statistics.median(run["seconds"] for run in ours)
    ratios, audit_ratios = (
        [a["seconds"] / b["seconds"] for a, b in zip(runs, theirs, strict=True)]
        for runs in (ours, audits)
    )
    return {
        "ratio": statistics.median(ratios),
        "largest_ratio": max(ratios),
        "audit_ratio": statistics.median(audit_ratios),
        "audit_seconds": statistics.median(run["seconds"] for run in audits),
        "audit_peak_mib": max(run["peak_mib"] for run in audits),
        "seconds": seconds,
        "duckdb_seconds": statistics.median(run["seconds"] for run in theirs),
        "events": events,
        "events_per_second": events / seconds,
        "threads": threads,
        "file_mib": size / 2**20,
        "peak_mib": max(run["peak_mib"] for run in ours),
        "duckdb_peak_mib": max(run["peak_mib"] for run in theirs),
        "spilled_mib": max(run["spilled_mib"] for run in ours),
        "duckdb_spilled_mib": max(run["spilled_mib"] for run in theirs),
        **{name: ours[0][name] for name in ("lists", "winners", "pairs")},
    }


def generate(file: str, events: int, memory: str) -> dict[str, float]:
    """Write a made-up log, the same for the same number of events."""
    from prsrank.logs.tables import connected, quoted_text

    queries = max(events // PER_QUERY, 1)
    orders = f"greatest((hash(session_id, 1) % 10)::INTEGER - {10 - ORDERS}, 0)"
    place = f"(position - 1 + {orders}) % {DOCS}"
    click = "(1.0 / position) * CASE WHEN hash(doc_id) % 5 = 0 THEN 0.9 ELSE 0.1 END"
    with connected(memory=memory) as connection:
        connection.execute("SET preserve_insertion_order = false")
        connection.execute(f"""COPY (
            WITH sessions AS (
                SELECT range AS session_id, (hash(range) % {queries})::BIGINT AS query_id
                FROM range({events // LIST})
            ), shown AS (
                SELECT query_id, session_id, position,
                    ((query_id * {DOCS} + {place}) * 2654435761) % 4294967296 AS doc_id
                FROM sessions, (SELECT range::SMALLINT + 1::SMALLINT AS position FROM range({LIST}))
            )
            SELECT *, (hash(session_id, position, 2) % 1000003) / 1000003.0 < {click} AS click
            FROM shown
        ) TO {quoted_text(file)} (FORMAT parquet, COMPRESSION zstd)""")  # noqa: S608
    return {}


def add_clicks(file: str, folder: str, memory: str, threads: int) -> dict[str, float]:
    """Add up clicks per (query, doc) with DuckDB."""
    from prsrank.logs.tables import connected, quoted_text

    tempfile.tempdir = folder
    with connected(memory=memory, threads=threads) as connection, measured(folder) as figures:
        connection.execute("SET preserve_insertion_order = false")
        connection.execute(
            "CREATE TEMP TABLE clicks AS SELECT query_id, doc_id, count(*) AS shown, "  # noqa: S608
            f"count_if(click) AS clicks FROM {quoted_text(file)} GROUP BY query_id, doc_id"
        )
    return figures


def to_pairs(
    file: str, folder: str, memory: str, threads: int, normalise: str | None
) -> dict[str, float]:
    """Turn the events into pairs."""
    from prsrank.data.dataset import RankingDataset
    from prsrank.logs.reading import open_events
    from prsrank.logs.stored_pieces import read_in_pieces
    from prsrank.pairs.pair_set import PairSet
    from prsrank.propensity.curve import PowerLaw

    tempfile.tempdir = folder
    sizes = {"lists": 0, "winners": 0, "pairs": 0}
    with open_events(file, memory=memory, threads=threads) as source, measured(folder) as figures:
        for log in read_in_pieces(source, Path(folder)):
            nothing = np.zeros((len(log.doc_ids), 0), np.float32)
            lists = RankingDataset(nothing, log.doc_offsets, log.query_ids, doc_ids=log.doc_ids)
            pairs = PairSet.from_log(
                log, lists, PowerLaw(1.0), "prs", normalise=normalise, threads=threads
            )
            counts = (pairs.lists, pairs.winners, pairs.diagnostics().pairs)
            for name, count in zip(sizes, counts, strict=True):
                sizes[name] += count
    return figures | sizes


def look_over(file: str, folder: str, memory: str, threads: int) -> dict[str, float]:
    """Audit the events."""
    from prsrank.audit import audit
    from prsrank.logs.reading import open_events

    tempfile.tempdir = folder
    with open_events(file, memory=memory, threads=threads) as events, measured(folder) as figures:
        audit(events)
    return figures


def apart(function: Any, *arguments: object) -> dict[str, float]:
    """Call a function in a process of its own."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(function, arguments)


@contextmanager
def measured(folder: str) -> Iterator[dict[str, float]]:
    """Measure seconds, this process's largest size, and what DuckDB had on disk at most."""
    figures = {"spilled_mib": 0.0}
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.2):
            figures["spilled_mib"] = max(figures["spilled_mib"], _size(folder) / 2**20)

    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.perf_counter()
    try:
        yield figures
    finally:
        figures["seconds"] = time.perf_counter() - start
        done.set()
        watcher.join()
    lines = Path("/proc/self/status").read_text().splitlines()
    peak = next(float(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    figures["peak_mib"] = peak / 1024


def _size(folder: str) -> int:
    total = 0
    with suppress(OSError):  # a folder is gone already
        for file in Path(folder).glob("prsrank-*/**/*"):
            with suppress(OSError):  # a file is
                total += file.stat().st_size
    return total


if __name__ == "__main__":
    main()
