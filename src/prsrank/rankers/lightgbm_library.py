"""LightGBM, imported when first used."""

from types import ModuleType

from prsrank.errors import InputError


def import_lightgbm() -> ModuleType:
    """Import LightGBM; where its OpenMP library is absent, say what to install."""
    try:
        import lightgbm
    except OSError as error:
        raise InputError(
            f"LightGBM cannot be loaded ({error}): install libgomp "
            "(Debian: apt-get install libgomp1; Fedora: dnf install libgomp)"
        ) from error
    module: ModuleType = lightgbm
    return module
