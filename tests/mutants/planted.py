"""Plant one fault after the other and see that the tests named for it notice: `make mutants`.

The faults stand in the TOML files of this folder. Each is planted in a copy of `src`, so that the
tree itself is never touched, and only its own tests are run there.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "prsrank"
SECONDS = 600


@dataclass(frozen=True)
class Fault:
    """A change that tests must notice.

    Attributes:
        what: goes wrong, in a few words.
        function: that changes, or the class or constant, by its name in the whole package, such as
            "PairSet.merged"; where several have it, with that of its module: "curve:load".
        text: what stands in it, exactly once, however it is broken into lines.
        fault: what is put in its place.
        tests: that must fail then.
    """

    what: str
    function: str
    text: str
    fault: str
    tests: Sequence[str]

    @property
    def file(self) -> str:
        """The file that holds the function, below `src/prsrank`."""
        return str(self._place()[0].relative_to(SOURCE))

    def planted(self) -> str:
        """Return the file with the fault in it."""
        path, first, last = self._place()
        lines = path.read_text().splitlines(keepends=True)
        body = "".join(lines[first - 1 : last])
        places = list(_anywhere(self.text).finditer(body))
        if len(places) != 1:
            raise ValueError(f"{self.what}: {self.function} has {len(places)} times: {self.text}")
        (place,) = places
        lines[first - 1 : last] = body[: place.start()] + self.fault + body[place.end() :]
        return "".join(lines)

    def _place(self) -> tuple[Path, int, int]:
        module, colon, name = self.function.rpartition(":")
        places = [p for p in _definitions().get(name, []) if not colon or _is_of(p[0], module)]
        if len(places) != 1:
            raise ValueError(f"{self.what}: {len(places)} functions have the name {self.function}")
        return places[0]


def _is_of(path: Path, module: str) -> bool:
    return str(path.with_suffix("")).endswith(f"/{module}")


def _anywhere(text: str) -> re.Pattern[str]:
    """Return a pattern that finds a text whatever blanks and line ends stand in it."""
    return re.compile(r"\s*".join(re.escape(letter) for letter in text if not letter.isspace()))


@cache
def _definitions() -> dict[str, list[tuple[Path, int, int]]]:
    """Return where each function, class and constant stands: file, first line, last line."""
    places: dict[str, list[tuple[Path, int, int]]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for name, first, last in _named(ast.parse(path.read_text()), ""):
            places.setdefault(name, []).append((path, first, last))
    return places


def _named(tree: ast.AST, within: str) -> Iterator[tuple[str, int, int]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            first = min(part.lineno for part in (node, *node.decorator_list))
            yield within + node.name, first, node.end_lineno or first
            yield from _named(node, f"{within}{node.name}.")
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and not within:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name):
                yield target.id, node.lineno, node.end_lineno or node.lineno
        elif isinstance(node, (ast.If, ast.Try, ast.With)):
            yield from _named(node, within)


def all_faults() -> list[Fault]:
    """Read the faults of all files."""
    files = sorted(Path(__file__).parent.glob("*.toml"))
    return [Fault(**one) for file in files for one in tomllib.loads(file.read_text())["fault"]]


def main(chosen: Sequence[str]) -> int:
    """Plant the faults whose words, function or file hold one of the words, or all; return an exit code."""
    faults = [
        f
        for f in all_faults()
        if not chosen or any(w in f"{f.function} {f.file} {f.what}" for w in chosen)
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
