"""Click logs written as events (Parquet), and the compact form (a folder of Parquet)."""

import glob
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from prsrank.data.ids import id_array
from prsrank.errors import InputError
from prsrank.files import atomic_output, existing_file
from prsrank.files.schema import check
from prsrank.logs.array_checks import check_contents, check_docs, check_fit
from prsrank.logs.click_log import ClickLog, Context
from prsrank.logs.click_log_parts import canonical, check_session_ids
from prsrank.logs.event_source import OPTIONAL, REQUIRED
from prsrank.logs.events import event_blocks, session_columns, slot_columns
from prsrank.logs.tables import ENDINGS, errors_in_one_line, named_errors, quoted_name
from prsrank.ragged import offsets_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

AnyPath = str | os.PathLike[str]

_COMPACT = ("rankings", "sessions", "clicks")
_SESSION_COLUMNS = ("ranking", "clicks", "session_id", "timestamp")
_CONTEXTS_KEY = "prsrank_contexts"
_ROWS_OF_GROUP = 122_880  # as DuckDB writes them: groups are read side by side


def is_compact(path: AnyPath) -> bool:
    """Tell whether a path is a folder with a log in the compact form."""
    folder = Path(path)
    return folder.is_dir() and any((folder / f"{name}.parquet").exists() for name in _COMPACT)


def write_events(log: ClickLog, path: AnyPath) -> None:
    """Write a log as events: one Parquet file with one row per shown doc.

    Sessions keep their order; docs that no session shows are left out.
    """
    if Path(path).name.lower().endswith(ENDINGS["CSV"] + ENDINGS["JSON lines"]):
        raise InputError(f"{path}: events are written as Parquet: name the file .parquet")
    _check_writable(log, reserved=REQUIRED + OPTIONAL)
    with atomic_output(path) as draft:
        _write(draft, event_blocks(log), contexts=log.contexts)


def write_compact(log: ClickLog, path: AnyPath) -> None:
    """Write a log in the compact form: a folder of rankings, sessions and clicks.

    `rankings.parquet` has one row per slot of each ranking, `sessions.parquet` one per
    session and `clicks.parquet` one per click. Docs that no ranking shows are left out.
    """
    _check_writable(log, reserved=_SESSION_COLUMNS)
    lengths = np.diff(log.ranking_offsets)
    tables = {
        "rankings": {"ranking": np.repeat(np.arange(log.rankings, dtype=np.int32), lengths)}
        | slot_columns(log),
        "sessions": {"ranking": log.session_ranking, "clicks": log.session_clicks}
        | session_columns(log, slice(None)),
        "clicks": {"index": log.clicks},
    }
    if log.click_weights is not None:
        tables["clicks"]["weight"] = log.click_weights
    with atomic_output(path, folder=True) as draft:
        for name, columns in tables.items():
            contexts = log.contexts if name == "sessions" else {}
            _write(draft / f"{name}.parquet", [columns], contexts=contexts)


def read_compact(path: AnyPath, contexts: Sequence[str] | None = None) -> ClickLog:
    """Read a log in the compact form; `contexts` are the context columns to keep, or all.

    Raises:
        InputError: if a file is missing, is cut short, or holds a log that cannot be used.
    """
    import duckdb

    folder = Path(path)
    with duckdb.connect() as connection, named_errors(str(folder)), errors_in_one_line(str(folder)):
        files = {name: existing_file(folder / f"{name}.parquet") for name in _COMPACT}
        if contexts is None:
            contexts = stored_contexts(connection, files["sessions"])
        kept = {"sessions": contexts}
        rankings, sessions, clicks = (
            _arrays(connection, file, kept.get(name, ())) for name, file in files.items()
        )
        log = _compact_log(rankings, sessions, clicks, contexts)
        check_fit(log)
        log = canonical(log)
        check_docs(log)
        check_contents(log)
        return log


_COLUMNS = {
    "rankings": {
        "ranking": "ranking::INTEGER",
        "query_id": "query_id",
        "doc_id": "doc_id",
        "position": "position::INTEGER",
        "propensity": "propensity::DOUBLE",
        "randomised": "randomised::VARCHAR",
    },
    "sessions": {
        "ranking": "ranking::INTEGER",
        "clicks": "clicks::INTEGER",
        "session_id": "session_id",
        "timestamp": "epoch_us(timestamp)",
    },
    "clicks": {"index": '"index"::INTEGER', "weight": "weight::DOUBLE"},
}
"""The SQL of the columns of each file."""

_NOT_REQUIRED = ("propensity", "randomised", "session_id", "timestamp", "weight")


def _arrays(
    connection: "DuckDBPyConnection", file: Path, contexts: Sequence[str]
) -> dict[str, npt.NDArray]:
    table = connection.read_parquet(glob.escape(str(file)))
    sql = _COLUMNS[file.stem] | {n: f"coalesce({quoted_name(n)}::VARCHAR, '')" for n in contexts}
    for name in sql:
        if name not in table.columns and name not in _NOT_REQUIRED:
            raise InputError(f"{file}: has no column {name!r}")
    sql = {name: text for name, text in sql.items() if name in table.columns}
    listed = ", ".join(f"{text} AS c{i}" for i, text in enumerate(sql.values()))
    arrays = dict(zip(sql, table.project(listed).fetchnumpy().values(), strict=True))
    for name, array in arrays.items():
        if np.ma.is_masked(array):
            raise InputError(f"{file}: {name} is missing (null) in {array.mask.sum()} rows")
    return {name: np.asarray(array) for name, array in arrays.items()}


def _compact_log(
    slots: Mapping[str, npt.NDArray],
    sessions: Mapping[str, npt.NDArray],
    clicks: Mapping[str, npt.NDArray],
    contexts: Sequence[str],
) -> ClickLog:
    steps = np.diff(slots["ranking"], prepend=0)
    if not np.isin(steps, (0, 1)).all() or slots["ranking"][:1].any():
        raise InputError("the rankings are not numbered 0, 1, 2, ... in order")
    offsets = offsets_of(np.bincount(slots["ranking"]))
    firsts, lengths = offsets[:-1], np.diff(offsets)
    nowhere = np.full(len(steps), "", object)
    designs, design = np.unique(slots.get("randomised", nowhere), return_inverse=True)
    for name, values in (("queries", slots["query_id"]), ("designs", design)):
        if np.any(values != np.repeat(values[firsts], lengths)):
            raise InputError(f"a ranking names two {name}")
    # each ranking has its own query and docs until `canonical` lets them meet by their ids
    return ClickLog(
        query_ids=id_array(slots["query_id"][firsts]),
        doc_offsets=offsets,
        doc_ids=id_array(slots["doc_id"]),
        ranking_query=np.arange(len(firsts), dtype=np.int32),
        ranking_offsets=offsets,
        ranking_docs=np.arange(len(steps), dtype=np.int32),
        ranking_positions=slots["position"],
        session_ranking=sessions["ranking"],
        session_clicks=sessions["clicks"],
        clicks=clicks["index"],
        ranking_design=(design[firsts] + 1).astype(np.int32),
        designs=("", *designs.tolist()),
        ranking_propensities=slots.get("propensity"),
        session_ids=sessions.get("session_id"),
        session_times=sessions.get("timestamp"),
        contexts={name: _context(sessions[name]) for name in contexts},
        click_weights=clicks.get("weight"),
    )


def _context(values: npt.NDArray) -> Context:
    distinct, codes = np.unique(values, return_inverse=True)
    return Context(tuple(distinct.tolist()), codes.astype(np.int32))


def _check_writable(log: ClickLog, *, reserved: Sequence[str]) -> None:
    if log.sessions == 0:
        raise InputError("the log has no sessions to write")
    check_session_ids(log, "in the log more than once")
    for name in log.contexts:
        if name.lower() in reserved:
            raise InputError(f"a context cannot be named {name!r}: that column has its own meaning")


def _write(
    file: Path, blocks: Iterable[Mapping[str, npt.NDArray]], *, contexts: Iterable[str]
) -> None:
    """Write blocks of columns, of which there is at least one, as Parquet."""
    import pyarrow as pa
    from pyarrow import parquet

    tables = (pa.table(dict(columns)) for columns in blocks)
    first = next(tables)
    schema = first.schema.with_metadata({_CONTEXTS_KEY: json.dumps(list(contexts))})
    with (
        file.open("wb") as stream,
        parquet.ParquetWriter(stream, schema, compression="zstd") as writer,
    ):
        for table in chain([first], tables):
            writer.write_table(table, row_group_size=_ROWS_OF_GROUP)


def stored_contexts(connection: "DuckDBPyConnection", file: Path) -> tuple[str, ...]:
    """Return the context columns that a Parquet file was written with."""
    query = "SELECT value FROM parquet_kv_metadata(?) WHERE decode(key) = ?"
    stored: list[Any] = connection.execute(
        query, [glob.escape(str(file)), _CONTEXTS_KEY]
    ).fetchall()
    try:
        names = json.loads(stored[0][0]) if stored else []
        check(names, list[str], "contexts")
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file}: its list of contexts cannot be read: {error}") from error
    return tuple(names)
