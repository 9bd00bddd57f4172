"""What is released: a source distribution and a wheel, built and used as a person would."""

import contextlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

import prsrank

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def run(*words: object, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """A folder with the source distribution, and the wheel built from what is in that alone."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    build = (sys.executable, "-m", "hatchling", "build", "-d", folder)
    run(*build, "-t", "sdist", cwd=ROOT)
    (packed,) = folder.glob("*.tar.gz")
    shutil.unpack_archive(packed, folder)
    run(*build, "-t", "wheel", cwd=folder / packed.name.removesuffix(".tar.gz"))
    return folder


def test_the_wheel_holds_all_modules_and_experiments(built):
    (wheel,) = built.glob("*.whl")
    assert wheel.name == f"prsrank-{prsrank.__version__}-py3-none-any.whl"
    names = set(zipfile.ZipFile(wheel).namelist())
    package = ROOT / "src" / "prsrank"
    kept = [p for p in package.rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    kept = [p for p in kept if p.suffix not in (".nbi", ".nbc")]
    assert {f"prsrank/{path.relative_to(package).as_posix()}" for path in kept} <= names
    experiments = {f"prsrank/experiments/{p.name}" for p in (ROOT / "experiments").glob("*.toml")}
    assert experiments
    assert experiments <= names
    assert not [name for name in names if name.endswith((".nbi", ".nbc", ".pyc"))]


def test_the_metadata_says_what_the_project_says(built):
    (wheel,) = built.glob("*.whl")
    info = f"prsrank-{prsrank.__version__}.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read(f"{info}/METADATA").decode()
        assert f"{info}/licenses/LICENSE" in archive.namelist()
    assert f"\nVersion: {prsrank.__version__}\n" in metadata
    assert "\nRequires-Python: >=3.11\n" in metadata


@pytest.mark.slow
def test_the_installed_wheel_runs_the_demo(built, tmp_path):
    """Beside the libraries of this environment, but none of this folder's modules."""
    (wheel,) = built.glob("*.whl")
    installed = tmp_path / "installed"
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index")
    run(*pip, "--target", installed, wheel, cwd=tmp_path)
    found = {"PYTHONPATH": str(installed)}
    where = run(
        sys.executable, "-c", "print(__import__('prsrank').__file__)", cwd=tmp_path, **found
    )
    assert Path(where.strip()).is_relative_to(installed)
    command = (sys.executable, installed / "bin" / "prsrank")
    assert run(*command, "--version", cwd=tmp_path, **found) == f"prsrank {prsrank.__version__}\n"
    run(*command, "demo", "--out", "demo", cwd=tmp_path, **found)
    assert (tmp_path / "demo" / "fitted" / "report.html").stat().st_size > 10_000


def test_the_version_stands_in_one_place():
    assert "version" in PROJECT["project"]["dynamic"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "src/prsrank/__init__.py"
    assert not re.search(r"^version:", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)


def test_only_the_pythons_that_tests_run_on_are_declared():
    declared = re.findall(r":: Python :: (3\.\d+)", "\n".join(PROJECT["project"]["classifiers"]))
    assert declared == ["3.11"]


def test_the_pinned_pandas_is_one_that_pyspark_takes():
    """PySpark 4 warns of pandas 3 at every frame."""
    pins = dict(
        line.split("==")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line
    )
    assert pins["pandas"].split(".")[0] == "2"
    assert "pandas>=2.2,<3" in PROJECT["project"]["optional-dependencies"]["spark"]


def test_the_citation_is_read_as_one():
    yaml = pytest.importorskip("yaml")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(citation)
    assert citation["license"] == PROJECT["project"]["license"]


def test_every_pin_runs_on_the_first_python_that_is_promised():
    """A pin that asks for a later one leaves a machine with this Python without any."""
    pins = [
        line.split("==")[0]
        for line in (ROOT / "constraints.txt").read_text().split()
        if "==" in line
    ]
    wanted = {}
    for name in pins:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            wanted[name] = importlib.metadata.metadata(name)["Requires-Python"] or ""
    assert len(wanted) > 40
    assert not {n: w for n, w in wanted.items() if not SpecifierSet(w).contains("3.11.0")}
