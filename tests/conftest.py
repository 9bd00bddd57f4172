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


# Tests of one file share what they set up, so a file is run by one process; with the longest first
# no core waits at the end. A process has one Spark session: tests that start one come before those
# that share one.
_FIRST = ("own session", "spark")


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups
def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
    items.sort(key=_turn)


def _turn(item):
    group = item.get_closest_marker("xdist_group").args[0]
    return _FIRST.index(group) if group in _FIRST else len(_FIRST)
