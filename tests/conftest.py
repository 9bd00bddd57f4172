"""Settings for all tests."""

import os

# Tests run side by side, one process a core: more threads than that only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import settings

from prsrank.rankers.base import RANKERS, ranker_class

# Kernels compile on first use, so a first example may be slow; CI draws the same examples each time.
settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")

# A process has one Spark session at most: some files share one, some start their own.
_STARTING = ("spark/test_cluster.py", "spark/test_commands.py", "test_page_blocks.py")
_SHARING = tuple(f"spark/test_{name}.py" for name in ("events", "fit", "log", "real_files"))


NEURAL = {name for name in RANKERS if ranker_class(name).uses_torch}


def pytest_collection_modifyitems(items):
    """What one process runs: a file, whose tests share what they set up, or several."""
    for item in items:
        file = item.nodeid.partition("::")[0].removeprefix("tests/")
        group = next((files[0] for files in (_STARTING, _SHARING) if file in files), file)
        item.add_marker(pytest.mark.xdist_group(group))
        called = getattr(item, "callspec", None)
        values = called.params.values() if called else ()
        ranker = any(isinstance(value, str) and value in NEURAL for value in values)
        if ranker or "neural" in file:
            item.add_marker(pytest.mark.neural)
        if "spark/" in file:
            item.add_marker(pytest.mark.spark)
