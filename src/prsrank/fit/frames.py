"""Frames given to a fit are kept beside its folder, so that the fit can be repeated."""

from pathlib import Path
from typing import Any

from prsrank.errors import InputError
from prsrank.files import FileName
from prsrank.logs.click_log import ClickLog
from prsrank.logs.mapping import LogMapping
from prsrank.logs.sources import is_in_memory, open_events, write_frame


def kept_inputs(
    out: FileName, log: Any, features: Any, mapping: LogMapping | None, *, data: str | None
) -> tuple[str, str | None]:
    """Return the files of the log and of the feature table; frames are written to OUT-inputs.

    Raises:
        InputError: if a frame lacks a column, or there are no features; nothing is written.
    """
    mapping = mapping or LogMapping()
    folder = Path(f"{Path(out)}-inputs")
    if is_in_memory(log) and not isinstance(log, ClickLog):
        with open_events(log, mapping=mapping):
            pass  # names a column that is missing
    named = (features, data, mapping.feature_table, mapping.features or None)
    if is_in_memory(log) and all(source is None for source in named):
        raise InputError(
            "no features: give a frame or file keyed by query and doc (features=), a data set "
            "(data=), or name columns of the log (mapping=LogMapping(features=...))"
        )
    kept = [
        _file(table, folder / name)
        for name, table in (("log.parquet", log), ("features.parquet", features))
    ]
    return str(kept[0]), kept[1]


def _file(table: Any, path: Path) -> str | None:
    """Return the path of a table, which is written first if it lies in memory."""
    if is_in_memory(table):
        path.parent.mkdir(parents=True, exist_ok=True)
        table = write_frame(table, path)
    return None if table is None else str(table)
