"""The floor plan: imports between packages flow one way, lazy ones included, and lazy ones are few."""

import ast
from functools import cache
from pathlib import Path

import prsrank

ROOT = Path(prsrank.__file__).parent
MOST_LAZY = 40
"""Each has a heavy library for its reason: numba, lightgbm, duckdb, torch, pyspark, scipy."""


@cache
def modules():
    return {path: ast.parse(path.read_text()) for path in sorted(ROOT.rglob("*.py"))}


def package(path):
    """Return the package of a module; a module at the root is its own."""
    parts = path.relative_to(ROOT).parts
    return parts[0].removesuffix(".py")


def is_for_types_only(node):
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def imports(tree, *, inside=False):
    """Yield (module, whether a function imports it) of our own modules, but for types only."""
    for node in ast.iter_child_nodes(tree):
        if is_for_types_only(node):
            continue
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "prsrank":
            names = [f"prsrank.{n.name}" for n in node.names] if node.module == "prsrank" else []
            for name in names or [node.module]:
                yield name, inside
        function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        yield from imports(node, inside=inside or function)


@cache
def graph():
    edges = {}
    for path, tree in modules().items():
        if path == ROOT / "__init__.py":
            continue  # it names all that is public, and imports it when it is asked for
        for name, _ in imports(tree):
            other = name.split(".")[1]
            if other != package(path) and not other.startswith("_"):
                edges.setdefault(package(path), {}).setdefault(other, f"{path.name}: {name}")
    return edges


def test_imports_between_packages_have_no_cycle():
    edges, done = graph(), set()

    def visit(name, trail):
        assert name not in trail, " -> ".join([*trail[trail.index(name) :], name])
        if name in done:
            return
        for other in edges.get(name, {}):
            visit(other, [*trail, name])
        done.add(name)

    for name in list(edges):
        visit(name, [])
    assert {"cli", "fit", "spark", "experiment"} <= done


def test_lazy_imports_of_our_own_modules_are_few():
    lazy = [
        f"{path.relative_to(ROOT)}: {name}"
        for path, tree in modules().items()
        for name, inside in imports(tree)
        if inside
    ]
    assert 0 < len(lazy) <= MOST_LAZY, "\n".join(lazy)


def test_few_modules_stand_at_the_root():
    entries = ("__init__.py", "__main__.py")
    assert len([path for path in ROOT.glob("*.py") if path.name not in entries]) <= 9


def test_nothing_below_imports_reports():
    edges = graph()
    below = ["data", "logs", "clicks", "propensity", "pairs", "losses", "rankers", "metrics"]
    for name in [*below, "evaluation", "audit", "export"]:
        assert not {"report", "fit", "experiment", "cli", "spark"} & set(edges.get(name, {}))


def test_what_shows_results_knows_none_of_them():
    assert set(graph().get("notebook", {})) <= {"errors"}


def test_no_file_is_long_and_names_say_what_is_inside():
    for path in modules():
        assert len(path.read_text().splitlines()) <= 400, path
        assert path.stem not in ("utils", "util", "helpers", "common", "misc")
