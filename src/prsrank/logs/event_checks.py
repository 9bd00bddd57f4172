"""What the columns and rows of a log must be, and what one that is missing may be called there."""

import difflib
from collections.abc import Mapping, Sequence

from prsrank.errors import InputError, shortened
from prsrank.logs.event_source import OPTIONAL, REQUIRED, EventSource
from prsrank.logs.row_rules import row_rules, type_rules
from prsrank.logs.sql_text import quoted_name

_EMPTY = "the log is empty: it has no rows"


def check_columns(source: EventSource, contexts: Sequence[str]) -> None:
    """Raise an InputError for a missing column, or one of the wrong type."""
    for name in (*REQUIRED, *contexts):
        if name not in source.types:
            raise InputError(f"the log has no column {name!r}{nearest_column(name, source.types)}")
    for name in contexts:
        if name in REQUIRED + OPTIONAL:
            raise InputError(f"column {name!r} has a meaning of its own and is no context")
    for rule in type_rules(source):
        if not source.rows("1"):  # types say nothing then
            raise InputError(_EMPTY)
        kind = source.types[rule.column]
        held = instead_of_numbers(source, rule.column) if "number" in rule.wanted else f"not {kind}"
        raise InputError(f"column {rule.column!r} must hold {rule.wanted}, {held}")


def check_rows(source: EventSource) -> int:
    """Raise an InputError that names a row that cannot be used, if there is one, or for no rows.

    Returns:
        The number of rows.
    """
    rules = [rule for rule in row_rules(source) if rule.refusal]
    counts = ", ".join(f"count_if({rule.broken})" for rule in rules)
    with source.no_statistics():
        total, *found = source.total(f"count(*), {counts}")
    if not total:
        raise InputError(_EMPTY)
    shown = [name for name in (*REQUIRED, "propensity") if name in source.types]
    for rule, count in zip(rules, found, strict=True):
        if count:
            rows = source.rows(", ".join(f'"{name}"' for name in shown), where=rule.broken)
            if not rows:  # a filter by statistics has hidden them
                raise InputError(
                    f"{rule.what} in {count} of {total} rows, which the file's own statistics "
                    "deny: it is damaged"
                )
            named = {name: shortened(one) for name, one in zip(shown, rows[0], strict=True)}
            raise InputError(
                f"{rule.refusal.format(**named)} in {count} of {total} rows, first for doc "
                f"{named['doc_id']} of session {named['session_id']} of query {named['query_id']}"
            )
    return int(total)


def instead_of_numbers(source: EventSource, name: str) -> str:
    """Return words that say what a column holds instead of numbers: its type, or a text."""
    column = quoted_name(name)
    if source.is_text(name):
        # a decimal comma is the likelier trouble, but a word the clearer
        for text in (f"replace({column}, ',', '.')", column):
            no_number = f"{column} IS NOT NULL AND TRY_CAST({text} AS DOUBLE) IS NULL"
            found = source.rows(column, where=no_number)
            if found:
                return f"not text such as {found[0][0]!r}"
    return f"not {source.types[name]}"


_OTHER_NAMES = {
    "query_id": (
        "query",
        "qid",
        "q",
        "srch_id",
        "search_id",
        "query_text",
        "user_query",
        "keyword",
    ),
    "session_id": ("session", "sid", "visit_id", "request_id", "search_id", "srch_id"),
    "doc_id": ("doc", "docid", "document_id", "item_id", "item", "product_id", "prop_id", "url"),
    "position": ("rank", "pos", "ordinal", "slot"),
    "click": ("clicked", "clicks", "is_click", "is_clicked", "click_bool"),
}
"""What other programs call the columns that a log must have."""

_MOST_COLUMNS = 20


def nearest_column(name: str, known: Mapping[str, str]) -> str:
    """Return words that name a column that may well be meant by `name`, or else the columns.

    >>> nearest_column("session_id", {"doc_id": "", "sid": ""})
    "; did you mean 'sid'?"
    >>> nearest_column("session_id", {"doc_id": "", "x": ""})
    '; it has doc_id, x'
    """
    lower = {column.lower(): column for column in known}
    # the column itself in other letters, then what other programs call it
    close = [other for other in (name, *_OTHER_NAMES.get(name, ())) if other in lower]
    # what has a meaning of its own is not meant, nor is a name that shares only the ending
    free = {_stem(column): column for column in lower if column not in REQUIRED}
    close += [free[one] for one in difflib.get_close_matches(_stem(name), free, 1, cutoff=0.75)]
    if close:
        return f"; did you mean {lower[close[0]]!r}?"
    columns = list(known)[:_MOST_COLUMNS]
    more = len(known) - len(columns)
    return f"; it has {', '.join(columns)}{f' and {more} more' if more else ''}"


def _stem(name: str) -> str:
    return name.lower().removesuffix("id").rstrip("_")
