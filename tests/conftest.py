"""Settings for all tests."""

import os

# Tests run side by side, one process a core: more threads than that only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import settings

# Kernels compile on first use, so a first example may be slow; CI draws the same examples each time.
settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")

# A process has one Spark session at most: some files share one, some start their own.
_STARTING = ("spark/test_cluster.py", "spark/test_commands.py", "test_page_blocks.py")
_SHARING = tuple(f"spark/test_{name}.py" for name in ("events", "fit", "log", "real_files"))


def _unit(nodeid):
    """Return what one process runs: a file, whose tests share what they set up, or several."""
    file = nodeid.partition("::")[0]
    for files in (_STARTING, _SHARING):
        if file.removeprefix("tests/") in files:
            return files[0]
    return file


def pytest_collection_modifyitems(items):
    """Those on Spark first: they take longest, and no core waits for them in the end."""
    first = (_STARTING[0], _SHARING[0])
    items.sort(key=lambda item: (*first, _unit(item.nodeid)).index(_unit(item.nodeid)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from xdist.scheduler import LoadScopeScheduling

    class ByUnit(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return _unit(nodeid)

    config.option.loadscopereorder = False
    return ByUnit(config, log)
