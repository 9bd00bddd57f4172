"""Count what the code holds, per package, beside the budget: `make size`.

A line of code is one that is neither blank nor a comment nor part of a docstring. A node is one of
Python's syntax tree, without docstrings and without the marks that say whether a name is read or
written: denser lines do not make nodes fewer. With `--modules` it also runs a fit and an estimate
of propensities, and counts the modules of the package that run code in them.
"""

import ast
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import typer

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "prsrank"
BUDGET = {
    "logs": 2300, "rankers": 2500, "propensity": 2000, "cli": 1700, "report": 1600,
    "evaluation": 1600, "audit": 1400, "pairs": 1400, "data": 1250, "fit": 1150,
    "experiment": 1100, "spark": 1000, "losses": 1000, "relevance": 750, "monitor": 700,
    "clicks": 800, "export": 700, "root": 700, "metrics": 400, "files": 350,
}  # fmt: skip
VAGUE = {"one", "found", "known", "what", "told", "given"}
"""Names of values that do not say what they hold."""

_RUNS = {
    "fit": "fit {out}/log.parquet --data synthetic:mq2007:60 --trials 1 --trees 10 --force --out {out}/fit",
    "propensity": "propensity {out}/log.parquet --method randomised --out {out}/curve.json",
}
_SIMULATE = "simulate synthetic:mq2007:60 --clicks 2000 --randomised 0.3 --set cutoff=10 --out {out}/log.parquet"
_TRACED = """
import sys, threading
ran = set()
def note(frame, event, argument):
    name = frame.f_globals.get("__name__", "")
    if event != "call" or name in ran or name.partition(".")[0] != "prsrank":
        return
    while frame is not None:  # what an import runs is not the command's work
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return
        frame = frame.f_back
    ran.add(name)
threading.setprofile_all_threads(note) if hasattr(threading, "setprofile_all_threads") else threading.setprofile(note)
sys.setprofile(note)
from prsrank.cli import run
code = run(sys.argv[1:])
sys.setprofile(None)
loaded = [name for name in sys.modules if name.partition(".")[0] == "prsrank"]
print(f"{len(ran)} {len(loaded)}", file=sys.stderr)
sys.exit(code)
"""


def docstrings(tree: ast.AST) -> Iterator[ast.Expr]:
    """Yield the strings that stand as statements: docstrings, of attributes too."""
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Expr) else None
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            yield node  # type: ignore[misc]


def code_lines(text: str, tree: ast.AST) -> int:
    """Return how many lines are code."""
    prose = {n for node in docstrings(tree) for n in range(node.lineno, node.end_lineno + 1)}  # type: ignore[operator]
    return sum(
        bool(line.strip()) and not line.strip().startswith("#") and number not in prose
        for number, line in enumerate(text.splitlines(), 1)
    )


def nodes(tree: ast.AST) -> int:
    """Return how many nodes a syntax tree has."""
    counted = sum(not isinstance(node, ast.expr_context) for node in ast.walk(tree))
    return counted - 2 * sum(1 for _ in docstrings(tree))


def vague_names(tree: ast.AST) -> int:
    """Return how many values have a name that does not say what they hold."""
    stored = (
        n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    )
    arguments = (n.arg for n in ast.walk(tree) if isinstance(n, ast.arg))
    return sum(name in VAGUE for names in (stored, arguments) for name in names)


def options() -> int:
    """Return how many options all commands have."""
    from prsrank.cli import app

    return _options(typer.main.get_command(app))


def _options(command: Any) -> int:
    """Return how many options a command has, or the commands of a group have."""
    below = getattr(command, "commands", None)
    if below is not None:
        return sum(_options(command.get_command(None, name)) for name in below)
    return sum(parameter.param_type_name == "option" for parameter in command.params)


def words() -> int:
    """Return how many words the README and the pages hold, tables included."""
    files = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    return sum(len(file.read_text().split()) for file in files)


def modules() -> Iterator[str]:
    """Yield how many modules run code in a command, and how many it loads."""
    with tempfile.TemporaryDirectory() as out:
        _traced(_SIMULATE.format(out=out))
        for name, command in _RUNS.items():
            running, loaded = _traced(command.format(out=out))
            yield f"{name}: {running} modules run code, {loaded} are loaded"


def _traced(command: str) -> list[str]:
    """Run a command in a process of its own; return how many modules ran and were loaded."""
    arguments = [sys.executable, "-c", _TRACED, *command.split()]
    done = subprocess.run(arguments, check=True, stderr=subprocess.PIPE, text=True, stdout=-3)
    return done.stderr.split()[-2:]


def main(arguments: list[str]) -> None:
    """Print the table."""
    totals: dict[str, Counter[str]] = {}
    lengths, vague, skipped = [], 0, 0
    for file in sorted(SOURCE.rglob("*.py")):
        text = file.read_text()
        tree = ast.parse(text)
        parts = file.relative_to(SOURCE).parts
        package = totals.setdefault(parts[0] if len(parts) > 1 else "root", Counter())
        lengths.append(len(text.splitlines()))
        counted = {"lines": code_lines(text, tree), "nodes": nodes(tree), "files": 1}
        package.update(counted)
        vague += vague_names(tree)
        skipped += len(re.findall(r"# fmt: skip", text))
    print(f"{'':<12}{'lines':>8}{'budget':>8}{'nodes':>9}{'files':>7}")
    for name in sorted(totals, key=lambda name: -totals[name]["lines"]):
        row, budget = totals[name], BUDGET.get(name, 0)
        over = f"  {row['lines'] - budget:+,}" if row["lines"] > budget else ""
        print(f"{name:<12}{row['lines']:>8,}{budget:>8,}{row['nodes']:>9,}{row['files']:>7}{over}")
    whole = sum(totals.values(), Counter())
    print(
        f"{'all':<12}{whole['lines']:>8,}{sum(BUDGET.values()):>8,}{whole['nodes']:>9,}{whole['files']:>7}"
    )
    pages = [f for f in SOURCE.rglob("templates/*") if f.suffix in (".js", ".css", ".j2")]
    shown = sum(bool(line.strip()) for page in pages for line in page.read_text().splitlines())
    print(f"median file {median(lengths):.0f} lines; JavaScript, CSS and templates {shown:,} lines")
    print(f"values named {', '.join(sorted(VAGUE))}: {vague}; fmt: skip {skipped}")
    print(f"options {options()}; README and docs {words():,} words")
    for line in modules() if "--modules" in arguments else ():
        print(line)


if __name__ == "__main__":
    main(sys.argv[1:])
