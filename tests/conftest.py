"""Settings for all tests."""

import os

# Tests run side by side, one process a core: more threads than that only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from hypothesis import settings

# Kernels compile on first use, so a first example may be slow; CI draws the same examples each time.
settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")
