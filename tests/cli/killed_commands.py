"""Run commands that are killed at a moment, each in a fork of this process; print how they ended.

Run by test_kills.py: `python killed_commands.py FOLDER KILLS SEED`. Everything is imported and
compiled before the first fork, so that a command costs what its own work costs. Half of the kills
come at random moments; the others at the n-th call of a step: a rename, a sync, an opened file, a
removed folder, an exchange.
"""

import builtins
import hashlib
import io
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from contextlib import suppress
from pathlib import Path

import duckdb

from prsrank import cli
from prsrank.cli import run
from prsrank.data.storage import read_stored
from prsrank.files import drafts
from prsrank.files.drafts import _clear
from prsrank.fit.manifest import read_manifest
from prsrank.logs.reading import read_click_log
from prsrank.propensity.curve import Propensities
from prsrank.rankers.base import load_ranker

DATA = "synthetic:mq2007:20"
COMMANDS = {
    "simulate": ("log.parquet", "simulate {data} --clicks {n}"),
    "compact": ("log", "simulate {data} --clicks {n}"),
    "convert": ("data", "convert {data}"),
    "train": ("model", "train {log} --data {data} --propensity power:1 --set trees={few}"),
    "linear": ("model", "train {log} --data {data} --propensity power:1 --ranker linear --set l2={few}"),
    "rank": ("r.parquet", "rank {model} --data {data}"),
    "rank csv": ("r.csv", "rank {model} --data {data}"),
    "propensity": ("curve.json", "propensity {log} --method power:1.{few}"),
    "export": ("model.xml", "export {model} --to ranklib"),
    "split": ("parts", "split {log} --seed {few}"),
    "judge": ("j.parquet", "judge {log} --propensity power:1.{few}"),
    "fit": (
        "run",
        "fit {log} --data {data} --ranker linear --weighting naive --trials 1 --force "
        "--propensity power:1 --seed {few}",
    ),
}  # fmt: skip
STEPS = ("fsync", "open", "rename", "replace", "exchange", "rmtree", "mkdtemp")
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


def contents(path: Path) -> dict[str, bytes]:
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    return {str(f.relative_to(path)): f.read_bytes() for f in files if f.is_file()}


def check_whole(name: str, path: Path, old: dict[str, bytes]) -> None:
    """Raise an error unless an output is of one run: all its files are there and can be read."""
    assert set(contents(path)) == set(old)
    if name in ("train", "linear"):
        load_ranker(path)
    elif name in ("simulate", "compact"):
        read_click_log(path)
    elif name == "split":
        for file in path.glob("*.parquet"):
            read_click_log(file)
    elif name == "convert":
        read_stored(path)
    elif name == "propensity":
        Propensities.load(path)
    elif name == "fit":
        outputs = read_manifest(path)["outputs"]
        for file, known in outputs.items():
            assert hashlib.sha256((path / file).read_bytes()).hexdigest() == known
    elif path.suffix == ".parquet":
        duckdb.read_parquet(str(path)).fetchall()
    else:  # the same inputs give the same file
        assert contents(path) == old


def arm(step: str, call: int, number: int) -> None:
    """Let this process get a signal before or after the n-th call of a step."""
    holders = {"exchange": drafts, "rmtree": shutil, "mkdtemp": tempfile, "open": io}
    holder = holders.get(step, os)
    real, calls = getattr(holder, step), 0

    def armed(*given, **named):
        nonlocal calls
        calls += 1
        if calls == call:
            os.kill(os.getpid(), number)
        value = real(*given, **named)
        if calls == -call:
            os.kill(os.getpid(), number)
        return value

    setattr(holder, step, armed)
    if step == "open":
        builtins.open = armed


def child(
    arguments: list[str], errors: Path, armed: tuple[str, int, int] | None, ready: int
) -> None:
    """Do what the command line does, in a fork; never returns."""
    code, real = 99, cli.run

    def told(given: list[str]) -> int:
        os.write(ready, b"!")  # from here on signals are ours
        if armed is not None:
            arm(*armed)
        return real(given)

    cli.run = told
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        file = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.argv = ["prsrank", *arguments]
        cli.main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 98
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def started(arguments: list[str], errors: Path, armed: tuple[str, int, int] | None = None) -> int:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        child(arguments, errors, armed, writing)
    os.close(writing)
    os.read(reading, 1)
    os.close(reading)
    return pid


def ending(pid: int) -> int:
    """Wait for a process; return its exit code, or minus the signal that ended it."""
    end = time.monotonic() + 60
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return -99
        time.sleep(0.005)


class Commands:
    """The commands, their inputs, and what was found wrong."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.scratch = folder, folder / "tmp"
        self.scratch.mkdir()
        tempfile.tempdir = str(self.scratch)
        self.inputs = {"data": DATA, "log": folder / "in.parquet", "model": folder / "in"}
        self.errors, self.wrong = folder / "errors", []
        for name, target in (("simulate", "log"), ("train", "model")):
            assert run(self.arguments(name, self.inputs[target], 5)) == 0
        self.seconds = {name: self.prepared(name) for name in COMMANDS}

    def arguments(self, name: str, target: Path, few: int) -> list[str]:
        text = COMMANDS[name][1]
        if name == "simulate" and target == self.inputs["log"]:
            text += " --production linear:2 --randomised 0.3"
        given = [part.format(**self.inputs, n=300 + few, few=few) for part in text.split()]
        return [*given, "--out", str(target)]

    def prepared(self, name: str) -> float:
        """Write the old output in this process, so that forks find all compiled; time a fork."""
        target = self.folder / "old" / name / COMMANDS[name][0]
        assert run(self.arguments(name, target, 5)) in (0, 1)
        again = self.folder / "again" / COMMANDS[name][0]
        begun = time.monotonic()
        code = ending(started(self.arguments(name, again, 6), self.errors))
        assert code in (0, 1), self.errors.read_text()
        return time.monotonic() - begun

    def kill(self, name: str, rng: random.Random) -> str:
        """Kill a command with an old output in place; return how it ended."""
        place = self.folder / "out"
        shutil.copytree(self.folder / "old" / name, place)
        (target,) = place.iterdir()
        old, number = contents(target), rng.choice(SIGNALS)
        armed = (rng.choice(STEPS), rng.choice((-1, 1)) * rng.randint(1, 4), int(number))
        if rng.random() < 0.5:
            pid = started(self.arguments(name, target, 6), self.errors, armed)
        else:
            armed = ()
            pid = started(self.arguments(name, target, 6), self.errors)
            time.sleep(rng.random() * self.seconds[name])
            os.kill(pid, number)
        code = ending(pid)
        told, left = self.errors.read_text(), [os.listdir(place), os.listdir(self.scratch)]
        what = f"{name}, {number.name} {armed}: {code}"
        # done before the signal came, or the step never did; or ended by it, in one line
        lines = [line for line in told.splitlines() if "warning" not in line]
        if code not in (0, 1) and number != signal.SIGKILL:
            self.check(code == 128 + number and len(lines) == 1, what, told)
            self.check(left == [[target.name], []], what, f"left: {left}")
        else:
            self.check(code in (0, 1, -number) and not lines, what, told)
        self.check_after(name, target, old, what)
        shutil.rmtree(place)
        return f"{number.name} {code}"

    def check_after(self, name: str, target: Path, old: dict[str, bytes], what: str) -> None:
        """See that the next that writes there puts back and clears away what is left."""
        folder = target.suffix == "" and name != "convert"
        with suppress(KeyError), drafts.atomic_output(target, folder=folder):
            raise KeyError
        _clear(self.scratch)
        left = [os.listdir(target.parent), os.listdir(self.scratch)]
        self.check(left == [[target.name], []], what, f"left after the next: {left}")
        try:
            check_whole(name, target, old)
        except Exception as error:
            self.check(False, what, f"neither old nor new: {error!r}")

    def check(self, right: bool, what: str, why: str) -> None:
        if not right:
            self.wrong.append(f"{what}: {why[-600:]}")


def check_kills(folder: Path, kills: int, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311
    commands, counts = Commands(folder), {}
    for number in range(kills):
        how = commands.kill(list(COMMANDS)[number % len(COMMANDS)], rng)
        counts[how] = counts.get(how, 0) + 1
    print(json.dumps({"counts": counts, "wrong": commands.wrong, "seconds": commands.seconds}))


if __name__ == "__main__":
    check_kills(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
