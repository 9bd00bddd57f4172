"""Settings for all tests."""

import os

from hypothesis import settings

# Kernels compile on first use, so a first example may be slow; CI draws the same examples each time.
settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")
