"""Which column of a log means what, and which actions count."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypedDict

from prsrank.errors import InputError, nearest_name
from prsrank.files import FileName, read_toml
from prsrank.logs.event_source import OPTIONAL, REQUIRED

MEANINGS = (*REQUIRED, *OPTIONAL, "client_id", "action")
_IDS = ("query_id", "session_id", "doc_id", "client_id")
CLIENTS = ("client_id", "user_id")
"""Columns that name clients, where a log has one."""
_CHOICES = {
    "positions_from": (0, 1, None),
    "decimal": (".", ",", None),
    "duplicates": ("first", "error"),
    "lists": ("query", "session"),
}


@dataclass(frozen=True)
class LogMapping:
    """How the columns of a log are to be read.

    Attributes:
        columns: the log's name of each column, by its meaning (`MEANINGS`); a meaning that is
            not named here is the column of that very name, where there is one. One column may
            have several meanings (a search id is both query and session where every search is
            a query of its own).
        actions: the actions that count, and their weights. A doc counts as clicked if it had
            any of them, and weighs as the heaviest (a purchase includes the click before it).
            With a column `action` (one row per event) they are its values; else they are
            columns, in each of which anything above 0 means that the action happened. Empty:
            the column `click` alone.
        contexts: columns to keep, with one value per session, such as the device.
        features: columns of the log that are features; `*` and `?` stand for any letters.
        feature_table: a second table keyed by (query_id, doc_id) that holds the features.
        positions_from: the first position, 0 or 1; None: 1, or for UBI what the log shows.
        nulls: words, or numbers, that stand for a missing value in a column of numbers. Empty:
            NULL, N/A and the like, where all other values of the column are numbers.
        decimal: "," or "."; None: a comma where nothing else fits.
        duplicates: of a doc that a session shows more than once. "error": such a log cannot be
            used; "first": all but the first are left out.
        lists: "query": all sessions of a query saw the same features, and it is an error if not.
            "session": sessions of a query that saw different docs or feature values get queries
            of their own, named "query#1", "query#2", ...

    >>> mapping = LogMapping().with_columns(["query_id=srch_id", "session_id=srch_id"])
    >>> mapping.columns["query_id"]
    'srch_id'
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    actions: Mapping[str, float] = field(default_factory=dict)
    contexts: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    feature_table: str | None = None
    positions_from: int | None = None
    nulls: tuple[str, ...] = ()
    decimal: str | None = None
    duplicates: str = "error"
    lists: str = "query"

    def __post_init__(self) -> None:
        for meaning in self.columns:
            if meaning not in MEANINGS:
                hint = nearest_name(meaning, MEANINGS)
                raise InputError(f"columns have no meaning {meaning!r}{hint}")
        for action, weight in self.actions.items():
            number = isinstance(weight, (int, float)) and not isinstance(weight, bool)
            if not (number and weight >= 0 and math.isfinite(weight)):
                raise InputError(
                    f"the weight of action {action!r} must be a number of at least 0, not {weight!r}"
                )
        if self.actions and not any(self.actions.values()):
            raise InputError("no action counts: every weight is 0")
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if value not in choices:
                words = " or ".join(repr(choice) for choice in choices if choice is not None)
                raise InputError(f"{name} must be {words}, not {value!r}")
        for name in self.contexts:
            if name in MEANINGS:
                raise InputError(f"column {name!r} has a meaning of its own and is no context")

    def column(self, meaning: str) -> str:
        """Return the log's name of the column with a meaning."""
        return self.columns.get(meaning, meaning)

    @property
    def ids(self) -> tuple[str, ...]:
        """The columns that hold ids, by the log's names and by prsrank's."""
        return (*_IDS, *(self.columns[name] for name in _IDS if name in self.columns))

    def with_columns(self, assignments: Iterable[str]) -> "LogMapping":
        """Return the mapping with further columns, given as MEANING=COLUMN."""
        columns = dict(self.columns)
        for assignment in assignments:
            meaning, equals, column = assignment.partition("=")
            if not (equals and meaning and column):
                raise InputError(f"--column takes MEANING=COLUMN, not {assignment!r}")
            columns[meaning.strip()] = column.strip()
        return replace(self, columns=columns)


def read_mapping(path: FileName) -> LogMapping:
    """Read a mapping from a TOML file.

    ```toml
    positions_from = 0            # the log counts positions from 0
    context = ["device"]          # columns with one value per session
    nulls = ["NULL", "-1"]        # what stands for a missing value
    decimal = ","                 # decimal commas
    duplicates = "first"          # of a doc that a session shows again, only the first counts
    lists = "session"             # sessions that saw other features have lists of their own
    random = "random_bool"        # short for randomised = "random_bool" under [columns]

    [columns]
    query_id = "srch_id"

    [actions]
    click = 1
    purchase = 10

    [features]
    columns = ["price", "prop_*"] # columns of the log, or
    table = "features.parquet"    # a second table; its path starts at this file's folder
    ```

    Raises:
        InputError: if the file is no TOML, or has a key or value that means nothing.
    """
    content = read_toml(path, _File)
    try:
        return _checked(content, Path(path).parent)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


class _Features(TypedDict, total=False):
    columns: str | list[str]
    table: str


class _File(TypedDict, total=False):
    """A mapping as its file holds it."""

    columns: dict[str, str]
    actions: dict[str, float]
    features: _Features
    positions_from: int
    context: str | list[str]
    random: str
    nulls: str | list[str]
    decimal: str
    duplicates: str
    lists: str


def _checked(content: Mapping[str, Any], folder: Path) -> LogMapping:
    columns, features = dict(content.get("columns", {})), content.get("features", {})
    if "random" in content:
        if "randomised" in columns:
            raise InputError("randomised is mapped twice: under [columns], and by random")
        columns["randomised"] = content["random"]
    table = features.get("table")
    return LogMapping(
        columns=columns,
        actions=content.get("actions", {}),
        contexts=_names(content.get("context", [])),
        features=_names(features.get("columns", [])),
        feature_table=None if table is None else str(folder / table),
        nulls=_names(content.get("nulls", [])),
        **{name: content[name] for name in _CHOICES if name in content},
    )


def _names(value: str | list[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)
