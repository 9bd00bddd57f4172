"""Reading a log, whatever its form, with its features, in one call."""

from collections.abc import Sequence
from dataclasses import replace

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.logs.click_log import ClickLog
from prsrank.logs.click_log_files import is_compact, read_compact
from prsrank.logs.event_source import LogSource, open_frame
from prsrank.logs.events import from_source
from prsrank.logs.features import lists_of_log, lists_of_table, split_lists
from prsrank.logs.mapping import LogMapping
from prsrank.logs.sources import check_unmapped, frame_file, is_path, open_events
from prsrank.logs.tables import connected, memory_limit, named_errors

BYTES_PER_EVENT = 90
"""About what making a log of events takes at its peak, measured."""


def read_click_log(
    log: object,
    *,
    mapping: LogMapping | None = None,
    contexts: Sequence[str] | None = None,
    memory: str | None = None,
    threads: int | None = None,
) -> ClickLog:
    """Read the sessions of a log of any form, without features.

    Args:
        log: as `open_events` takes it; a `ClickLog` is returned as it is.
        mapping: which column means what.
        contexts: the context columns to keep; by default the mapping's, else those that the
            log was written with, which for other programs' files is none.
        memory: how much to hold, such as "4GB".
        threads: default: the cores this process may use.

    Raises:
        InputError: if a file is missing, is cut short, or holds a log that cannot be used.
    """
    mapping = mapping or LogMapping()
    if contexts is not None:
        mapping = replace(mapping, contexts=tuple(contexts))
    log_as_it_is = ready_log(log, mapping, contexts)
    if log_as_it_is is not None:
        return log_as_it_is
    with open_events(log, mapping=mapping, memory=memory, threads=threads) as source:
        _check_fits(source, memory)
        return click_log(source if contexts is None else replace(source, contexts=tuple(contexts)))


def read_log(
    log: object,
    *,
    mapping: LogMapping | None = None,
    features: object = None,
    memory: str | None = None,
    threads: int | None = None,
) -> tuple[ClickLog, RankingDataset | None]:
    """Read a log and the lists it showed.

    Args:
        log: as `open_events` takes it.
        mapping: which column means what, and what a list is.
        features: a table of features keyed by query and doc, a file or a frame (default: the
            mapping's); without one, the mapping's columns of the log are the features.
        memory: how much to hold, such as "4GB".
        threads: default: the cores this process may use.

    Returns:
        The log, checked, with the weights of its actions, and the lists without labels; None in
        place of the lists where no features are named.

    Raises:
        InputError: one line that names what cannot be used.
    """
    mapping = mapping or LogMapping()
    log_as_it_is = ready_log(log, mapping) if mapping.lists == "query" else None
    given = features if features is not None else mapping.feature_table
    with frame_file(given, "the table of features") as table:
        if log_as_it_is is None:
            with open_events(log, mapping=mapping, memory=memory, threads=threads) as source:
                _check_fits(source, memory)
                split = mapping.lists == "session" and table is None
                events = split_lists(source) if split else source
                log_as_read = click_log(events)
                if table is not None:
                    return log_as_read, lists_of_table(events, table, mapping=mapping)
                return log_as_read, lists_of_log(events) if events.features else None
        if table is None:
            return log_as_it_is, None
        with (
            connected(memory=memory, threads=threads) as connection,
            open_frame({"query_id": log_as_it_is.query_ids}, connection) as queries,
        ):
            return log_as_it_is, lists_of_table(queries, table, mapping=mapping)


def _check_fits(source: LogSource, memory: str | None) -> None:
    """Raise an InputError for a log that would take more than the memory that was named."""
    if memory is None:
        return
    (rows,) = source.total("count(*)")
    need, allowed = rows * BYTES_PER_EVENT, memory_limit(source.connection)
    if need > allowed:
        raise InputError(
            f"{source.name}: {rows:,} events take about {need / 1e9:.1f} GB in one piece, more than "
            f"the memory allowed ({memory}); 'audit', 'propensity' and 'fit' read in pieces"
        )


def ready_log(
    log: object, mapping: LogMapping, contexts: Sequence[str] | None = None
) -> ClickLog | None:
    """Return a log that need not be made of events: one in memory, or in the compact form."""
    if isinstance(log, ClickLog):
        check_unmapped(log, replace(mapping, contexts=()))
        return log
    if not is_path(log) or not is_compact(log):
        return None
    check_unmapped(log, mapping)
    return read_compact(log, (mapping.contexts or None) if contexts is None else contexts)


def click_log(source: LogSource, *, piece: bool = False) -> ClickLog:
    """Make a checked click log of events, sorted by session, whatever the order of the rows.

    Args:
        source: the events.
        piece: of a log whose rows are checked already; it may hold nothing but clicks.
    """
    with named_errors(source.name):
        return from_source(source, contexts=source.contexts, whole=not piece, checked=piece)
