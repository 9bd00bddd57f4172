"""Peak memory of inputs that ask for far more than they hold, each command in a process of its own.

One id of a megabyte, one of 9,000 characters in a log of 200,000 rows and 40,000 docs beside the
same log without it ("text"), a doc at position 10^6, 2,000 features, and a log of 50 million events
under `--memory 2GB`. `ending` is the exit code: 2 is a refusal in one line. Times are processor time: they
hold on a busy machine too. Run: python benchmarks/limits.py --json [CASE ...]
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import fit_memory

_FIT = "--mapping x.toml --out out --force"
COMMANDS = {
    "id-audit": "audit id.parquet",
    "id-fit": f"fit id.parquet {_FIT}",
    "text-audit": "audit text.parquet",
    "long-audit": "audit long.parquet",
    "text-fit": f"fit text.parquet {_FIT} --trials 1",
    "long-fit": f"fit long.parquet {_FIT} --trials 1",
    "position-audit": "audit position.parquet",
    "position-harvest": "propensity position.parquet --method harvest",
    "position-fit": f"fit position.parquet {_FIT}",
    "features-audit": "audit features.parquet --mapping x.toml",
    "features-fit": f"fit features.parquet {_FIT} --trials 1",
    "events-fit": "fit log.parquet --features features.parquet --out out --memory 2GB "
    "--trials 1 --trees 50",
}
_RUN = "from prsrank.cli import main; main()"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", help=f"of {', '.join(COMMANDS)}; default: all")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    found = {case: measured(case) for case in options.cases or COMMANDS}
    if options.json:
        print(json.dumps(found))
    else:
        for case, figures in found.items():
            print(f"{case:18}", *(f"{name} {value:<8}" for name, value in figures.items()))


def measured(case: str) -> dict[str, float]:
    """Make the input of a case, run its command, and return its peak, time and ending."""
    with tempfile.TemporaryDirectory(prefix="prsrank-bench-") as folder:
        if case == "events-fit":
            fit_memory.generate(folder, 50_000_000)
        else:
            kind = case.split("-")[0]
            events(kind).to_parquet(Path(folder, f"{kind}.parquet"), index=False)
            Path(folder, "x.toml").write_text('[features]\ncolumns = ["x*"]\n')
        command = [sys.executable, "-c", _RUN, *COMMANDS[case].split()]
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL) as process:
            # of this child alone: RUSAGE_CHILDREN would keep the largest of all
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        return {"ending": process.returncode, **_figures(used)}


def _figures(used: resource.struct_rusage) -> dict[str, float]:
    seconds = used.ru_utime + used.ru_stime
    return {"peak_mib": used.ru_maxrss // 1024, "seconds": round(seconds, 1)}


def events(kind: str, *, docs: int = 10) -> pd.DataFrame:
    """Return a log of shuffled lists, with one thing about it that is too large."""
    rng = np.random.default_rng(0)
    sessions = {"features": 200, "text": 20_000, "long": 20_000}.get(kind, 2_000)
    queries = 4_000 if kind in ("text", "long") else 50
    session = np.repeat(np.arange(sessions), docs)
    doc = np.concatenate([rng.permutation(docs) for _ in range(sessions)])
    position = np.tile(np.arange(1, docs + 1), sessions)
    click = rng.random(len(doc)) < (0.2 + 0.5 * (doc < 3)) / position
    columns = {"query_id": session % queries, "session_id": session, "doc_id": doc}
    rows = pd.DataFrame({**columns, "position": position, "click": click.astype(int)})
    count = 2_000 if kind == "features" else 3
    values = rng.normal(size=(queries * docs, count)).astype(np.float32)
    names = [f"x{i}" for i in range(count)]
    rows = pd.concat(
        [rows, pd.DataFrame(values[rows["query_id"] * docs + doc], columns=names)], axis=1
    )
    if kind == "id":
        rows["doc_id"] = "d" + rows["doc_id"].astype(str)
        rows.loc[0, "doc_id"] = "d" * 1_000_000
    if kind in ("text", "long"):
        number = rows["query_id"] * docs + rows["doc_id"]
        rows["doc_id"] = "document-" + number.astype(str).str.zfill(11)
    if kind == "long":
        rows.loc[rows["doc_id"] == rows["doc_id"][0], "doc_id"] = "d" * 9_000
    if kind == "position":
        rows.loc[rows.index[-1], "position"] = 1_000_000
    return rows


if __name__ == "__main__":
    main()
