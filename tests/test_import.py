import subprocess
import sys

import prsrank


def test_import_leaves_heavy_libraries_alone():
    code = "import prsrank, sys; print(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    loaded = set(result.stdout.split())
    heavy = {"numba", "lightgbm", "torch", "pyspark", "duckdb", "altair", "scipy", "pandas"}
    assert not loaded & heavy


def test_every_public_name_is_found():
    for name in prsrank.__all__:
        assert getattr(prsrank, name).__doc__
    assert set(prsrank.__all__) <= set(dir(prsrank))
