"""Reading a log of CSV, beside DuckDB reading the same columns of it into a table.

The events are those of `ingest.py`, with ids that are integers or text. `ratio` is the median over
repeats, taken in turns, of the time until the events lie typed and checked in the database
(`open_events`, `check_rows`) over that of `CREATE TABLE AS FROM read_csv`; `log_ratio` that of
`read_click_log`, until sessions, rankings and clicks lie in memory. Run:
python benchmarks/csv_log.py --json
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import ingest

TEXT = (
    "'query ' || query_id AS query_id, 's' || session_id AS session_id, 'doc-' || doc_id AS doc_id"
)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--events", type=int, default=5_000_000)
    parser.add_argument("--ids", choices=("integers", "text"), default="integers")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="prsrank-bench-") as folder:
        file = Path(folder, "events.csv")
        write(file, options.events, options.ids)
        result = {"megabytes": file.stat().st_size / 1e6} | measure(file, options)
    if options.json:
        print(json.dumps(result))
    else:
        for name, value in result.items():
            print(f"{name:28} {value:,.4g}")


def write(file: Path, events: int, ids: str) -> None:
    """Write the events, sorted by session and position."""
    import duckdb

    parquet = file.with_suffix(".parquet")
    ingest.generate(str(parquet), events, "2GB")
    columns = "query_id, session_id, doc_id" if ids == "integers" else TEXT
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT {columns}, position, click FROM '{parquet}' AS events "  # noqa: S608
            f"ORDER BY events.session_id, position) TO '{file}' (HEADER)"
        )


def measure(file: Path, options: argparse.Namespace) -> dict[str, float]:
    """Return the figures of one comparison."""
    calls = {"duckdb": by_duckdb, "events": events, "log": log}
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    log(file, options.threads)  # compiles
    for _ in range(options.repeats):
        for name, call in calls.items():
            start = time.perf_counter()
            call(file, options.threads)
            seconds[name].append(time.perf_counter() - start)

    def ratio(name: str) -> float:
        pairs = zip(seconds[name], seconds["duckdb"], strict=True)
        return statistics.median(ours / theirs for ours, theirs in pairs)

    medians = {f"{name}_seconds": statistics.median(values) for name, values in seconds.items()}
    return {"ratio": ratio("events"), "log_ratio": ratio("log"), **medians}


def by_duckdb(file: Path, threads: int) -> None:
    """Read the file as DuckDB guesses it."""
    import duckdb

    with duckdb.connect() as connection:
        connection.execute(f"SET threads = {threads}")
        connection.execute(f"CREATE TEMP TABLE events AS FROM read_csv('{file}')")


def events(file: Path, threads: int) -> None:
    """Open the events and check their rows."""
    from prsrank.logs.reading import open_events
    from prsrank.logs.row_rules import check_rows

    with open_events(file, threads=threads) as source:
        check_rows(source)


def log(file: Path, threads: int) -> None:
    """Read the log."""
    from prsrank.logs.reading import read_click_log

    read_click_log(file, threads=threads)


if __name__ == "__main__":
    main()
