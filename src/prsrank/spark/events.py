"""Opening a log on Spark, as events under the names that prsrank knows."""

import fnmatch
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prsrank.errors import InputError
from prsrank.files import FileName
from prsrank.logs.event_source import REQUIRED, nearest_column
from prsrank.logs.mapping import LogMapping
from prsrank.logs.tables import ENDINGS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_IDS = ("query_id", "session_id", "doc_id")
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "boolean")
_READERS = {"CSV": "csv", "JSON lines": "json", "Parquet": "parquet"}


@dataclass(frozen=True)
class SparkEvents:
    """The events of a log as a DataFrame: one row per shown doc, nothing checked yet.

    Attributes:
        frame: query_id, session_id, doc_id, position, click, and where the log has them
            propensity, randomised, timestamp, client_id, weight, contexts and features.
        name: what messages call the log.
        contexts: the columns with one value per session.
        features: the columns that are features.
        findings: what was noticed while opening (UBI only).
        checked: whether the rows are known to be usable.
    """

    frame: "DataFrame"
    name: str = "the log"
    contexts: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    findings: Mapping[str, int] = field(default_factory=dict)
    checked: bool = False


def open_spark_log(
    session: "SparkSession", path: FileName | Sequence[FileName], mapping: LogMapping
) -> SparkEvents:
    """Open a log as `prsrank.logs.sources.open_events` does, wherever Spark can read it.

    Args:
        session: Spark's.
        path: a file, folder or glob of Parquet, CSV or JSON lines, or several, as a path or
            as a URL that the cluster can read (hdfs://, s3a://); or a folder with UBI's
            `ubi_queries` and `ubi_events`.
        mapping: which column means what.
    """
    from prsrank.logs.click_log_files import is_compact
    from prsrank.logs.ubi import is_ubi

    single = isinstance(path, (str, os.PathLike))
    name = str(path) if single else ", ".join(map(str, path))  # type: ignore[arg-type]
    if single and is_ubi(path):  # type: ignore[arg-type]
        from prsrank.spark.ubi import open_spark_ubi

        return open_spark_ubi(session, str(path), mapping)
    if single and is_compact(path):  # type: ignore[arg-type]
        raise InputError(
            f"{name}: Spark reads no log in the compact form: 'prsrank convert' makes events of it"
        )
    files = [str(path)] if single else [str(one) for one in path]  # type: ignore[union-attr]
    try:
        table = read_table(session, files)
        return spark_events(table, mapping, name=name)
    except InputError as error:
        message = str(error)
        raise InputError(message if message.startswith(name) else f"{name}: {message}") from error


def read_table(session: "SparkSession", files: Sequence[str]) -> "DataFrame":
    """Read files of one kind as a DataFrame; InputError if Spark cannot."""
    from pyspark.errors import PySparkException

    kind = next((k for k, ends in ENDINGS.items() if files[0].lower().endswith(ends)), "Parquet")
    options = {"recursiveFileLookup": "true"}
    if kind == "CSV":
        separator = "\t" if ".tsv" in files[0].lower() else ","
        options |= {"header": "true", "inferSchema": "true", "sep": separator}
    try:
        return session.read.format(_READERS[kind]).options(**options).load(list(files))
    except PySparkException as error:
        raise InputError(f"cannot be read: {first_line(error)}") from error


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, without Spark's name for the error.

    >>> first_line(ValueError("[PATH_NOT_FOUND] Path does not exist: x. SQLSTATE: 42K03"))
    'Path does not exist: x.'
    """
    text = str(error).strip().splitlines() or [type(error).__name__]
    line = text[0].split("SQLSTATE")[0].strip()
    return line.split("] ", 1)[1] if line.startswith("[") and "] " in line else line


def spark_events(
    table: "DataFrame", mapping: LogMapping | None = None, *, name: str = "the log"
) -> SparkEvents:
    """Return a DataFrame with a log's own columns as events; the mapping tells what they mean.

    Raises:
        InputError: if a column is missing or cannot be read as meant.
    """
    from pyspark.sql import functions as F

    columns = _Columns(table, mapping or LogMapping())
    features = tuple(columns.features())
    values = columns.plain() | {n: columns[n] for n in (*columns.mapping.contexts, *features)}
    if columns.actions_in_rows:
        values |= {"counted": columns.action_weight(), "row_position": columns.position()}
        frame = _gathered(table.select(*(c.alias(n) for n, c in values.items())))
    else:
        values |= {"position": columns.position(), **columns.outcome()}
        frame = table.select(*(c.alias(n) for n, c in values.items()))
    for wide in ("decimal",):
        for column, kind in frame.dtypes:
            if kind.startswith(wide):
                frame = frame.withColumn(column, F.col(column).cast("double"))
    return SparkEvents(frame, name, columns.mapping.contexts, features)


def _gathered(rows: "DataFrame") -> "DataFrame":
    """Gather single actions to one row per shown doc, as `canonical_events` does."""
    from pyspark.sql import functions as F

    kept = [n for n in rows.columns if n not in (*_IDS, "counted", "row_position")]
    shown = F.min(F.when(F.col("counted") == 0, F.col("row_position")))
    return rows.groupBy(*_IDS).agg(
        F.coalesce(shown, F.min("row_position")).alias("position"),
        (F.max("counted") > 0).cast("int").alias("click"),
        F.max("counted").alias("weight"),
        F.max(F.col("counted") == 0).alias("impression"),
        *(F.min(n).alias(n) for n in kept),
    )


class _Columns:
    """Columns of the events, in terms of a log's own columns."""

    def __init__(self, table: "DataFrame", mapping: LogMapping) -> None:
        self.table = table
        self.mapping = mapping
        self.types = dict(table.dtypes)

    def __getitem__(self, name: str) -> "Column":
        if name not in self.types:
            raise InputError(f"the log has no column {name!r}{nearest_column(name, self.types)}")
        return self.table[f"`{name}`"]

    def meant(self, meaning: str) -> "Column":
        return self[self.mapping.column(meaning)]

    def plain(self) -> dict[str, "Column"]:
        optional = ("propensity", "randomised", "timestamp", "client_id")
        known = [n for n in optional if n in self.mapping.columns or n in self.types]
        values = {meaning: self.meant(meaning) for meaning in (*_IDS, *known)}
        kind = self.types.get(self.mapping.column("randomised"), "string")
        if "randomised" in values and kind not in ("string", "boolean"):
            values["randomised"] = values["randomised"] != 0
        return values

    def position(self) -> "Column":
        position = self.meant("position")
        return position + 1 if self.mapping.positions_from == 0 else position

    def outcome(self) -> dict[str, "Column"]:
        if self.mapping.actions:
            weight = self.action_weight()
            return {"click": (weight > 0).cast("int"), "weight": weight}
        click = self.meant("click")
        if self.types[self.mapping.column("click")] == "boolean":
            click = click.cast("int")
        values = {"click": click}
        if "weight" in self.mapping.columns or "weight" in self.types:
            values["weight"] = self.meant("weight").cast("double")
        return values

    @property
    def actions_in_rows(self) -> bool:
        named = "action" in self.mapping.columns
        return named or bool(self.mapping.actions and "action" in self.types)

    def action_weight(self) -> "Column":
        from pyspark.sql import functions as F

        if self.actions_in_rows:
            action = self.meant("action").cast("string")
            chosen: Any = F
            for name, weight in (self.mapping.actions or {"click": 1.0}).items():
                chosen = chosen.when(action == name, F.lit(float(weight)))
            weighed: Column = chosen.otherwise(F.lit(0.0))
            return weighed
        parts = [
            F.when(self[name].cast("double") > 0, F.lit(float(weight))).otherwise(F.lit(0.0))
            for name, weight in self.mapping.actions.items()
        ]
        return F.greatest(*parts) if len(parts) > 1 else parts[0]

    def features(self) -> Iterator[str]:
        taken = {self.mapping.column(m) for m in (*REQUIRED, "weight", "propensity", "action")}
        taken |= {*self.mapping.columns.values(), *self.mapping.contexts, *self.mapping.actions}
        given: dict[str, None] = {}
        for pattern in self.mapping.features:
            wild = any(sign in pattern for sign in "*?[")
            found = (
                [n for n in self.types if fnmatch.fnmatchcase(n, pattern)] if wild else [pattern]
            )
            for name in found:
                if wild and name in taken:
                    continue
                self[name]
                if self._is_number(name):
                    given[name] = None
                elif not wild:
                    kind = self.types[name]
                    raise InputError(f"feature {name!r} must hold numbers, not {kind}")
        yield from given

    def _is_number(self, name: str) -> bool:
        return self.types[name] in _NUMBERS or self.types[name].startswith("decimal")
