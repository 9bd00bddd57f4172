"""Simulating clicks, beside NumPy drawing one uniform number per shown doc.

Both sides cover the same sessions. `ratio` is the median over repeats, taken in turns, of
simulated time over NumPy's. Run: python benchmarks/simulate.py --json
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.production import logging_part, production_scores
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.synthetic import synthetic_dataset
from prsrank.logs.click_log import ClickLog

BLOCK = 1_000_000


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--clicks", type=int, default=10_000_000)
    parser.add_argument("--lists", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    result = measure(options.clicks, options.lists, options.threads, options.repeats)
    if options.json:
        print(json.dumps(result))
    else:
        for name, value in result.items():
            print(f"{name:24} {value:,.4g}")


def measure(clicks: int, lists: int, threads: int, repeats: int) -> dict[str, float]:
    """Return the figures of one comparison."""
    data = synthetic_dataset("web10k", lists, seed=0)
    rest, scores = logging_part(data, [production_scores(data)])
    model = PositionBasedModel(eta=1.0, mu=0.1)

    def simulate(count: int) -> ClickLog:
        return simulate_clicks(rest, scores, model, clicks=count, threads=threads)

    simulate(1000)  # compiles
    before = memory_bytes(restart=True)
    log = simulate(clicks)
    peak = memory_bytes() - before
    docs = shown_docs(log)
    ours, theirs = [], []
    for _ in range(repeats):
        ours.append(seconds(lambda: simulate(clicks)))
        theirs.append(seconds(lambda: draw_uniforms(docs)))
    (wall, work), (numpy_wall, numpy_work) = np.median(ours, axis=0), np.median(theirs, axis=0)
    return {
        "ratio": statistics.median(a[0] / b[0] for a, b in zip(ours, theirs, strict=True)),
        "seconds": wall,
        "numpy_seconds": numpy_wall,
        "cpu_seconds": work,
        "numpy_cpu_seconds": numpy_work,
        "clicks": len(log.clicks),
        "sessions": log.sessions,
        "shown_docs": docs,
        "rankings": log.rankings,
        "threads": threads,
        "bytes_per_click": log.clicks.nbytes / len(log.clicks),
        "bytes_per_session": (log.session_ranking.nbytes + log.session_clicks.nbytes)
        / log.sessions,
        "log_mib": log_bytes(log) / 2**20,
        "peak_growth_mib": peak / 2**20,
    }


def draw_uniforms(count: int) -> None:
    """Draw `count` uniform numbers with NumPy, in blocks."""
    rng = np.random.default_rng(0)
    block = np.empty(BLOCK)
    for _ in range(count // BLOCK):
        rng.random(out=block)
    rng.random(count % BLOCK)


def shown_docs(log: ClickLog) -> int:
    """Return how many docs the sessions showed."""
    return int(np.diff(log.ranking_offsets)[log.session_ranking].sum())


def log_bytes(log: ClickLog) -> int:
    """Return the size of the log's arrays."""
    return sum(a.nbytes for a in vars(log).values() if isinstance(a, np.ndarray))


def seconds(action: Callable[[], object]) -> tuple[float, float]:
    """Return the wall time and the processor time (of all threads) of a call."""
    start, work = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - start, time.process_time() - work


def memory_bytes(*, restart: bool = False) -> float:
    """Return the largest size of this process since the last restart of the count (Linux)."""
    try:
        if restart:
            Path("/proc/self/clear_refs").write_text("5")
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return float("nan")
    return 1024 * next(float(line.split()[1]) for line in lines if line.startswith("VmHWM"))


if __name__ == "__main__":
    main()
