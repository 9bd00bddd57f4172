"""Plant one fault after the other and see that the tests named for it notice: `make mutants`.

The faults stand in the TOML files of this folder. Each is planted in a copy of `src`, so that the
tree itself is never touched, and only its own tests are run there.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "prsrank"
SECONDS = 600


@dataclass(frozen=True)
class Fault:
    """A change that tests must notice.

    Attributes:
        what: goes wrong, in a few words.
        file: to change, below `src/prsrank`.
        text: what stands there, exactly once.
        fault: what is put in its place.
        tests: that must fail then.
    """

    what: str
    file: str
    text: str
    fault: str
    tests: Sequence[str]

    def planted(self) -> str:
        """Return the file with the fault in it."""
        content = (SOURCE / self.file).read_text()
        if content.count(self.text) != 1:
            raise ValueError(
                f"{self.what}: {self.file} has {content.count(self.text)} times: {self.text}"
            )
        return content.replace(self.text, self.fault)


def all_faults() -> list[Fault]:
    """Read the faults of all files."""
    files = sorted(Path(__file__).parent.glob("*.toml"))
    return [Fault(**one) for file in files for one in tomllib.loads(file.read_text())["fault"]]


def main(chosen: Sequence[str]) -> int:
    """Plant the faults whose text or file holds one of the words, or all; return an exit code."""
    faults = [
        f for f in all_faults() if not chosen or any(w in f"{f.file} {f.what}" for w in chosen)
    ]
    with tempfile.TemporaryDirectory(prefix="prsrank-mutants-") as folder:
        sound = Path(folder, "sound")
        shutil.copytree(SOURCE.parent, sound)  # with times, so that compiled code stays good
        shutil.copytree(ROOT / "experiments", sound / "prsrank" / "experiments")
        # without a fault they pass, and leave their compiled kernels to the copies
        every = sorted({test for fault in faults for test in fault.tests})
        code, told = _run(sound, every)
        if code:
            print(told[-3000:], f"\nnot one fault is planted, and the tests end with {code}")
            return 2
        missed = [fault for fault in faults if not _noticed(fault, sound, Path(folder, "faulty"))]
    print(f"{len(faults)} faults planted, {len(faults) - len(missed)} noticed")
    for fault in missed:
        print(f"MISSED {fault.file}: {fault.what}")
    return 1 if missed else 0


def _noticed(fault: Fault, sound: Path, faulty: Path) -> bool:
    shutil.rmtree(faulty, ignore_errors=True)
    shutil.copytree(sound, faulty)
    (faulty / "prsrank" / fault.file).write_text(fault.planted())
    for module in _importing(fault.file):
        # a compiled kernel does not notice that a kernel of another file has changed
        for kept in (faulty / "prsrank" / module).parent.glob(
            f"__pycache__/{Path(module).stem}.*.nb?"
        ):
            kept.unlink()
    code, told = _run(faulty, fault.tests)
    last = told.strip().splitlines()[-1] if told.strip() else ""
    print(f"{'noticed' if code == 1 else 'MISSED'} {fault.file}: {fault.what} ({last})", flush=True)
    return code == 1


def _importing(file: str) -> Iterator[str]:
    """Yield the modules that a change of a file with kernels reaches, itself included."""
    reached, new = set(), {file}
    while new:
        reached |= new
        names = [name.removesuffix(".py").replace("/", ".") for name in new]
        wanted = re.compile("|".join(rf"prsrank\.{re.escape(name)}\b" for name in names))
        found = {
            str(path.relative_to(SOURCE))
            for path in SOURCE.rglob("*.py")
            if wanted.search(path.read_text())
        }
        new = found - reached
    if "njit" in (SOURCE / file).read_text():
        yield from reached


def _run(source: Path, tests: Sequence[str]) -> tuple[int, str]:
    """Run tests on a copy of the source; return pytest's exit code and what it printed."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(source)}, stdout=-1, stderr=-2,
            text=True, timeout=None if source.name == "sound" else SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return 1, "does not end"
    return done.returncode, done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
