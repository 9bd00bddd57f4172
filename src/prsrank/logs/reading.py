"""Reading a log, with its features, in one call."""

from collections.abc import Sequence

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.files import FileName
from prsrank.logs.click_log import ClickLog
from prsrank.logs.event_source import EventSource
from prsrank.logs.events import from_source
from prsrank.logs.features import lists_of_log, lists_of_table, split_lists
from prsrank.logs.mapping import LogMapping
from prsrank.logs.sources import LogSource, open_events

LISTS = ("query", "session")


def read_log(
    path: FileName | Sequence[FileName],
    *,
    mapping: LogMapping | None = None,
    features: FileName | Sequence[FileName] | None = None,
    lists: str = "query",
    memory: str | None = None,
    threads: int | None = None,
) -> tuple[ClickLog, RankingDataset | None]:
    """Read a log and the lists it showed.

    Args:
        path: as `open_events` takes it.
        mapping: which column means what.
        features: a table of features keyed by query and doc (default: the mapping's); without
            one, the mapping's columns of the log are the features.
        lists: "query": all sessions of a query saw the same features, and it is an error if
            not. "session": sessions of a query that saw different docs or feature values get
            queries of their own, named "query#1", "query#2", ...
        memory: how much DuckDB may hold, such as "4GB".
        threads: default: the cores this process may use.

    Returns:
        The log, checked, with the weights of its actions, and the lists without labels; None in
        place of the lists where no features are named.

    Raises:
        InputError: one line that names what cannot be used.
    """
    if lists not in LISTS:
        raise InputError(f"lists must be 'query' or 'session', not {lists!r}")
    mapping = mapping or LogMapping()
    with open_events(path, mapping=mapping, memory=memory, threads=threads) as source:
        return log_and_lists(source, mapping=mapping, features=features, lists=lists)


def log_and_lists(
    source: LogSource,
    *,
    mapping: LogMapping,
    features: FileName | Sequence[FileName] | None = None,
    lists: str = "query",
) -> tuple[ClickLog, RankingDataset | None]:
    """Do what `read_log` does with a log that is open."""
    table = features if features is not None else mapping.feature_table
    if lists == "session" and table is None:
        source = split_lists(source)
    log = click_log(source)
    if table is not None:
        return log, lists_of_table(source, table, mapping=mapping)
    return log, lists_of_log(source) if source.features else None


def click_log(source: LogSource) -> ClickLog:
    """Make a checked click log of events; sessions keep the order of the file, if it has one."""
    try:
        return from_source(_in_order(source), contexts=source.contexts)
    except InputError as error:
        message = str(error)
        named = message.startswith(source.name)
        raise InputError(message if named else f"{source.name}: {message}") from error


def _in_order(source: LogSource) -> EventSource:
    """Sort events that were gathered from single actions: threads leave them in any order."""
    if "impression" not in source.types:
        return source
    relation = source.relation.order("query_id, session_id, position, doc_id")
    return EventSource(relation, source.types, source.name)
