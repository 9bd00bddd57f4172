"""A log of many events to pairs and 50 trees, on Spark and on the local engine.

The events are made by DuckDB: lists of 10, 100 events a query, four orders of each list, clicks
by position, 16 features a doc. Both engines read the same Parquet file and train the same
LambdaMART straight from it, each in a process of its own, for every size of log. For Spark the
time is split: `start` (the session, until a first job is done), `shuffle` (rows checked, placed in
pieces, pairs folded there, lists and pairs brought to the driver) and `train` (trees grown). `overhead` is
the time of Spark without `start` over that of the local engine, for the largest log. `growth` is the time of the largest
log over that of the smallest, divided by the ratio of their sizes: 1 is linear.
`driver_mib` is the largest size of the driver's Python, `jvm_mib` that of its JVM, which on a
local master holds the executors too. Afterwards, apart from these times, Spark harvests the
propensities of the log (`harvest`) and judges the ranker by it (`evaluate`), and
`driver_mib_with_both` is the largest size after that. Run: python benchmarks/spark.py --json
"""

import argparse
import json
import multiprocessing
import tempfile
import time
from pathlib import Path
from typing import Any

LIST, ORDERS, DOCS, PER_QUERY, FEATURES = 10, 4, 12, 100, 16
TREES = {"trees": 50, "leaves": 31}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--events", type=int, default=20_000_000, help="of the largest log")
    parser.add_argument("--steps", type=int, default=3, help="how many sizes of log")
    parser.add_argument("--smallest", type=int, default=1_000_000, help="events of the smallest")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--memory", default="2g", help="heap of driver and executors")
    options = parser.parse_args()
    result = measure(**{k: v for k, v in vars(options).items() if k != "json"})
    if options.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        shown = (
            ", ".join(f"{v:,.4g}" for v in value) if isinstance(value, list) else f"{value:,.4g}"
        )
        print(f"{name:24} {shown}")


def measure(events: int, steps: int, smallest: int, master: str, memory: str) -> dict[str, Any]:
    """Return the figures of all sizes; lists go from the smallest log to the largest."""
    smallest = min(smallest, events)
    ratio = (events / smallest) ** (1 / max(steps - 1, 1))
    sizes = sorted({round(smallest * ratio**step / 1000) * 1000 for step in range(steps)})
    with tempfile.TemporaryDirectory(prefix="prsrank-bench-") as folder:
        warm = str(Path(folder, "warm.parquet"))
        apart(generate, warm, 20_000)
        apart(on_local, warm, folder)  # compiles
        local, spark = [], []
        for size in sizes:
            file = str(Path(folder, "events.parquet"))
            apart(generate, file, size)
            local.append(apart(on_local, file, folder))
            spark.append(apart(on_spark, file, folder, master, memory))
    result: dict[str, Any] = {"events": sizes}
    for name, runs in (("local", local), ("spark", spark)):
        for figure in runs[0]:
            result[f"{name}_{figure}"] = [run[figure] for run in runs]
    largest_over_smallest = sizes[-1] / sizes[0]
    for name, runs in (("local", local), ("spark", spark)):
        first, last = (run["seconds"] - run.get("start", 0.0) for run in (runs[0], runs[-1]))
        result[f"{name}_growth"] = last / first / largest_over_smallest
    result["overhead"] = (spark[-1]["seconds"] - spark[-1]["start"]) / local[-1]["seconds"]
    return result


def generate(file: str, events: int) -> dict[str, float]:
    """Write a made-up log, the same for the same number of events."""
    from prsrank.logs.tables import connected, quoted_text

    queries = max(events // PER_QUERY, 1)
    orders = f"greatest((hash(session_id, 1) % 10)::INTEGER - {10 - ORDERS}, 0)"
    index = f"(position - 1 + {orders}) % {DOCS}"
    click = "(1.0 / position) * CASE WHEN hash(doc_id) % 5 = 0 THEN 0.9 ELSE 0.1 END"
    hint = "CASE WHEN hash(doc_id) % 5 = 0 THEN 100 ELSE 0 END"
    features = ", ".join(
        f"((hash(doc_id, {i}) % 256 + {hint if i < 4 else 0}) / 256)::FLOAT AS f{i}"
        for i in range(FEATURES)
    )
    with connected(memory="2GB") as connection:
        connection.execute("SET preserve_insertion_order = false")
        connection.execute(f"""COPY (
            WITH sessions AS (
                SELECT range AS session_id, (hash(range) % {queries})::BIGINT AS query_id
                FROM range({events // LIST})
            ), shown AS (
                SELECT query_id, session_id, position, query_id * {DOCS} + {index} AS doc_id
                FROM sessions, (SELECT range::INTEGER + 1 AS position FROM range({LIST}))
            )
            SELECT *, ((hash(session_id, position, 2) % 1000003) / 1000003.0 < {click})::INTEGER
                AS click, {features}
            FROM shown
        ) TO {quoted_text(file)} (FORMAT parquet, COMPRESSION zstd)""")  # noqa: S608
    return {}


def on_local(file: str, folder: str) -> dict[str, float]:
    """Train on the local engine."""
    from prsrank.fit.engine import LocalEngine

    tempfile.tempdir = folder
    mapping, ranker, how = settings()
    begin = time.perf_counter()
    with LocalEngine() as engine, engine.open_log(file, mapping=mapping, memory="2GB") as source:
        log = engine.load(source, mapping=mapping)
        pairs = log.fold(ranker, how)
        counted = time.perf_counter()
        ranker.fit(log.lists, pairs)
        end = time.perf_counter()
    return {
        "seconds": end - begin,
        "pairs": counted - begin,
        "train": end - counted,
        "mib": peak_mib("self"),
    }


def settings() -> tuple[Any, Any, Any]:
    """Return mapping, ranker and how it is trained: the same for both engines."""
    from prsrank.fit.judging import Weighed
    from prsrank.logs.mapping import LogMapping
    from prsrank.propensity.curve import PowerLaw
    from prsrank.rankers.lambdamart import LambdaMART

    return LogMapping(features=("f*",)), LambdaMART(**TREES), Weighed(PowerLaw(1.0), "prs", {})


def on_spark(file: str, folder: str, master: str, memory: str) -> dict[str, float]:
    """Train on Spark, and time the parts."""
    from prsrank.propensity.estimators import estimator
    from prsrank.spark import SparkEngine

    tempfile.tempdir = folder
    heaps = {"spark.driver.memory": memory, "spark.executor.memory": memory}
    mapping, ranker, how = settings()
    begin = time.perf_counter()
    with SparkEngine(master=master, options=heaps) as engine:
        engine.session.range(1).count()
        start = time.perf_counter() - begin
        with engine.open_log(file, mapping=mapping) as source:
            begin = time.perf_counter()
            log = engine.load(source, mapping=mapping)
            pairs, lists = log.fold(ranker, how), log.lists
            shuffle = time.perf_counter() - begin
            ranker.fit(lists, pairs)
            whole = time.perf_counter() - begin
            trained_mib = peak_mib("self")
            begin = time.perf_counter()
            estimator("harvest").estimate_pieces(log.pieces)
            harvested = time.perf_counter()
            log.evaluate(how.curve, {"prs": ranker}, against=["logged"])
            evaluated = time.perf_counter()
        jvm = peak_mib(str(engine.session.sparkContext._gateway.proc.pid))
    return {
        "seconds": start + whole,
        "start": start,
        "shuffle": shuffle,
        "train": whole - shuffle,
        "driver_mib": trained_mib,
        "jvm_mib": jvm,
        "harvest": harvested - begin,
        "evaluate": evaluated - harvested,
        "driver_mib_with_both": peak_mib("self"),
    }


def peak_mib(process: str) -> float:
    """Return the largest size that a process has had."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def apart(function: Any, *arguments: object) -> dict[str, float]:
    """Call a function in a process of its own."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(function, arguments)


if __name__ == "__main__":
    main()
