"""LightGBM, imported when first used."""

import os
from types import ModuleType

from prsrank.errors import InputError


def import_lightgbm() -> ModuleType:
    """Import LightGBM; where its OpenMP library is absent, say what to install.

    GNU OpenMP's threads wait for new work by spinning, by default for milliseconds, and so hold
    up the kernels that run between two trees, and everything else on a busy machine. Unless
    the user has set it, or LightGBM is loaded already, they spin a shorter time.
    """
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    try:
        import lightgbm
    except OSError as error:
        raise InputError(
            f"LightGBM cannot be loaded ({error}): install libgomp "
            "(Debian: apt-get install libgomp1; Fedora: dnf install libgomp)"
        ) from error
    module: ModuleType = lightgbm
    return module
