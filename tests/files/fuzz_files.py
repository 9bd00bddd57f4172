"""Read altered logs and data sets, each in a process of its own; print how the processes ended.

Run by test_fuzz.py: `python fuzz_files.py KIND CASES SEED`. What is read is also put to use: counted
by kernels, which index by what a file says.
"""

import collections
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "rankers"))
from fuzz_models import altered

from prsrank.cli import refusal
from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.collections import open_collection
from prsrank.data.storage import StoredCollection, read_stored, write_stored
from prsrank.data.synthetic import synthetic_dataset
from prsrank.logs.click_log_files import write_compact, write_events
from prsrank.logs.reading import read_click_log
from prsrank.pairs.pair_set import PairSet
from prsrank.propensity.curve import PowerLaw
from prsrank.propensity.harvest import HARVEST

LISTS = synthetic_dataset("mq2007", 6, seed=1)
MEMORY = 8 << 30


def use_log(path: Path) -> None:
    log = read_click_log(path)
    HARVEST.estimate(log)
    if set(log.query_ids.tolist()) <= set(LISTS.query_ids.tolist()):
        PairSet.from_log(log, LISTS, PowerLaw(1.0), threads=1)


def use_stored(path: Path) -> None:
    data = read_stored(path).dataset
    assert np.isfinite(data.features).any() or not data.docs
    PairSet.from_labels(data, threads=1)


def use_letor(path: Path) -> None:
    PairSet.from_labels(open_collection(str(path), relevant_from=1.0).everything(), threads=1)


def letor_text() -> str:
    queries = np.repeat(LISTS.query_ids, LISTS.list_lengths)
    rows = zip(LISTS.labels.tolist(), queries.tolist(), LISTS.features[:, :4].tolist(), strict=True)
    return "".join(
        f"{label:g} qid:{query} {' '.join(f'{n}:{x:.4g}' for n, x in enumerate(row, 1))} #docid = d\n"
        for label, query, row in rows
    )


def make(kind: str, path: Path) -> Callable[[Path], None]:
    """Write an example of a kind of file; return what reads and uses it."""
    if kind == "stored":
        write_stored(StoredCollection("x", LISTS, np.full((1, 6), -1, np.int8)), path)
        return use_stored
    if kind == "letor":
        path.write_text(letor_text())
        return use_letor
    log = simulate_clicks(
        LISTS, LISTS.features[:, 0], PositionBasedModel(cutoff=6), sessions=60, randomised=0.5
    )
    if kind == "compact":
        write_compact(log, path)
        return use_log
    events = path.with_name("events.parquet")
    write_events(log, events)
    copied = f"COPY (SELECT * FROM '{events}') TO '{path}'"  # noqa: S608 - our own paths
    duckdb.sql(copied if kind != "jsonl" else f"{copied} (FORMAT json)")
    events.unlink()
    return use_log


SUFFIX = {"parquet": ".parquet", "csv": ".csv", "jsonl": ".jsonl", "letor": ".txt"}


def ending(use: Callable[[Path], None], path: Path) -> str:
    """Use a file in a child; return its exit code, or the signal that killed it."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            signal.alarm(30)
            use(path)
            code = 0
        except Exception as error:
            told = refusal(error)
            code = 2 if told is not None else 3
            if told is None:
                print(repr(error)[:300], file=sys.stderr)
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    return str(os.WEXITSTATUS(status)) if os.WIFEXITED(status) else f"signal {os.WTERMSIG(status)}"


def main(kind: str, cases: int, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311
    counts: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"x{SUFFIX.get(kind, '')}"
        use: Any = make(kind, path)
        use(path)  # as it is, which also compiles what the children need
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        whole = {file: file.read_bytes() for file in files}
        for case in range(cases):
            file = files[case % len(files)]
            file.write_bytes(altered(whole[file], rng))
            how = ending(use, path)
            counts[how] += 1
            keep = os.environ.get("KEEP")
            if how not in ("0", "2") and keep:
                shutil.copy(file, Path(keep) / f"{seed}-{case}-{how}-{file.name}")
            file.write_bytes(whole[file])
    print(json.dumps(counts))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
