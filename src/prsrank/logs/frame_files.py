"""Frames and logs in memory as files, for what reads files."""

from collections.abc import Mapping
from pathlib import Path

from prsrank.files import atomic_output
from prsrank.logs.click_log import ClickLog
from prsrank.logs.click_log_files import write_events
from prsrank.logs.event_source import open_frame
from prsrank.logs.sources import is_path


def is_in_memory(table: object) -> bool:
    """Tell a frame or a `ClickLog` from paths of files.

    >>> is_in_memory({"x": [1]}), is_in_memory("log.parquet"), is_in_memory(["a.csv", "b.csv"])
    (True, False, False)
    """
    return isinstance(table, (ClickLog, Mapping)) or not (
        table is None or is_path(table) or isinstance(table, (list, tuple))
    )


def write_frame(table: object, path: Path) -> Path:
    """Write a frame, or a log's events, as Parquet; return the path."""
    if isinstance(table, ClickLog):
        write_events(table, path)
        return path
    with open_frame(table) as source, atomic_output(path) as draft:
        source.relation.write_parquet(str(draft))
    return path
