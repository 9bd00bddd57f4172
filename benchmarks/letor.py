"""Reading a WEB10K-shaped text file: `read_letor` against scikit-learn, and the converted copy.

    python benchmarks/letor.py [--json] [--megabytes 170] [--threads N] [--repeats 5]

`ratio` is scikit-learn's time over ours on the same file in the same run, median of
interleaved repeats, after one call that compiles and warms the page cache.
`memory_ratio` is the peak of anonymous memory above the import baseline, over the result.
"""

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np


def write_text(path: Path, megabytes: float) -> None:
    """Write lists of the WEB10K shape until the file is large enough; values as MSLR prints them."""
    from prsrank.data.synthetic import synthetic_dataset

    data = synthetic_dataset("web10k", 200, seed=1)
    names = [f"{i}:" for i in range(1, data.features.shape[1] + 1)]
    bodies = [
        " ".join([name + f"{value:.6g}" for name, value in zip(names, row, strict=True)])
        for row in data.features.tolist()
    ]
    spans = itertools.cycle(itertools.pairwise(data.offsets))
    with path.open("w") as file:
        for query, (start, end) in enumerate(spans, 1):
            for row in range(start, end):
                file.write(f"{int(data.labels[row])} qid:{query} {bodies[row]}\n")
            if file.tell() >= megabytes * 1e6:
                return


def timed(function, *arguments, **options):
    """Return (seconds, result)."""
    start = time.perf_counter()
    result = function(*arguments, **options)
    return time.perf_counter() - start, result


def anonymous_bytes() -> int:
    """Resident memory of this process that is not file pages (Linux)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024
    return 0


def measure_memory(path: str, warm_up: str) -> dict[str, float]:
    """Peak of anonymous memory while reading, above what it was before."""
    from prsrank.data.letor import read_letor

    read_letor(warm_up)
    baseline, peak, running = anonymous_bytes(), 0, True

    def watch() -> None:
        nonlocal peak
        while running:
            peak = max(peak, anonymous_bytes())
            time.sleep(0.001)

    watcher = threading.Thread(target=watch)
    watcher.start()
    data = read_letor(path)
    running = False
    watcher.join()
    result = sum(a.nbytes for a in (data.features, data.labels, data.offsets, data.query_ids))
    return {"result_mb": result / 1e6, "peak_mb": (peak - baseline) / 1e6}


def main() -> None:
    """Run the benchmark and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--megabytes", type=float, default=170)
    parser.add_argument("--threads", type=int, help="of our reader; default one per core")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--memory-of", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory_of:
        print(json.dumps(measure_memory(*options.memory_of)))
        return
    with tempfile.TemporaryDirectory() as folder:
        figures = run(Path(folder), options)
    if options.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:<24}{value:>12.4g}")


def run(folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """Time both readers on one file."""
    from sklearn.datasets import load_svmlight_file

    from prsrank.data.collections import open_collection
    from prsrank.data.letor import read_letor
    from prsrank.data.storage import read_stored, write_stored

    text, small, copy = folder / "web10k.txt", folder / "small.txt", folder / "copy"
    write_text(text, options.megabytes)
    write_text(small, 1)
    read_letor(text)
    ours, theirs = [], []
    for _ in range(options.repeats):
        seconds, data = timed(read_letor, text, threads=options.threads)
        ours.append(seconds)
        if len(theirs) < 3:
            seconds, (features, labels, queries) = timed(
                load_svmlight_file, str(text), query_id=True, dtype=np.float32, zero_based=False
            )
            theirs.append(seconds)
            assert np.array_equal(data.features, features.toarray())
            assert np.array_equal(data.labels, labels)
            assert np.array_equal(np.repeat(data.query_ids, data.list_lengths), queries)
        del data
    write_stored(open_collection(str(text)).stored(), copy)
    memory = json.loads(
        subprocess.run(
            [sys.executable, __file__, "--memory-of", text, small],
            check=True,
            capture_output=True,
        ).stdout
    )
    megabytes = text.stat().st_size / 1e6
    return {
        "ratio": statistics.median(theirs) / statistics.median(ours),
        "megabytes": megabytes,
        "read_letor_s": statistics.median(ours),
        "read_letor_mb_per_s": megabytes / statistics.median(ours),
        "scikit_learn_s": statistics.median(theirs),
        "converted_open_s": statistics.median(timed(read_stored, copy)[0] for _ in range(9)),
        **memory,
        "memory_ratio": memory["peak_mb"] / memory["result_mb"],
    }


if __name__ == "__main__":
    main()
