"""Events of a log on Spark, which the SQL that is written for DuckDB runs over too."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from prsrank.errors import InputError
from prsrank.files import FileName
from prsrank.logs.canonical import canonical_events
from prsrank.logs.click_log_files import is_compact, stored_contexts
from prsrank.logs.event_source import EVENTS, EventSource
from prsrank.logs.mapping import LogMapping
from prsrank.logs.reading import is_path, log_name, open_events
from prsrank.logs.tables import ENDINGS, connected, errors_in_one_line, named_errors, quoted_name
from prsrank.logs.ubi import is_ubi
from prsrank.spark.failures import first_line, spark_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_READERS = {"CSV": "csv", "JSON lines": "json", "Parquet": "parquet"}
_TYPES = {
    "byte": "TINYINT",
    "short": "SMALLINT",
    "integer": "INTEGER",
    "long": "BIGINT",
    "string": "VARCHAR",
    "timestamp_ntz": "TIMESTAMP",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
}
"""DuckDB's name of a type of Spark's; of others it is Spark's own, in capitals."""


@dataclass(frozen=True)
class SparkEvents(EventSource):
    """The events of a log as a DataFrame: one row per shown doc, nothing checked yet.

    Attributes:
        frame: the events.
        name: what messages call the log.
        contexts: the columns with one value per session.
        features: the columns that are features.
        findings: what was noticed while opening (UBI only).
        usable: how many rows there are, once they are known to be usable; 0 before.
        types: DuckDB's names for the types of the columns.
    """

    frame: "DataFrame"
    name: str = "the log"
    contexts: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    findings: Mapping[str, int] = field(default_factory=dict)
    usable: int = 0
    types: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        kinds = {column.name: column.dataType for column in self.frame.schema.fields}
        names = {
            name: _TYPES.get(kind.typeName(), kind.simpleString().upper())
            for name, kind in kinds.items()
        }
        object.__setattr__(self, "types", names)

    @property
    def session(self) -> "SparkSession":
        """The session that the events belong to."""
        return self.frame.sparkSession

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query; nothing else leaves the workers."""
        with spark_errors(self.name):
            rows = self._run(sql).collect()
        return [tuple(_plain(value) for value in row) for row in rows]

    def select(self, columns: str) -> Self:
        """Return the events with these columns only."""
        return self._of(f"SELECT {columns} FROM {EVENTS}")  # noqa: S608

    def where(self, condition: str) -> Self:
        """Return the events for which SQL is true."""
        return self._of(f"SELECT * FROM {EVENTS} WHERE {condition}")  # noqa: S608

    def grouped(self, keys: str, columns: str) -> Self:
        """Return one row of each group of events."""
        return self._of(f"SELECT {columns} FROM {EVENTS} GROUP BY {keys}")  # noqa: S608

    def keep(self, name: str, sql: str) -> Self:
        """Keep the rows of a query in a view, cached on the workers."""
        kept = self._of(sql)
        kept.frame.cache().createOrReplaceTempView(name)
        return kept

    def drop(self, name: str) -> None:
        """Drop a view that was kept, and its cache."""
        if self.session.catalog.tableExists(name):
            self.session.table(name).unpersist()
            self.session.catalog.dropTempView(name)

    def open_table(self, path: FileName | Sequence[FileName], *, ids: Sequence[str] = ()) -> Self:
        """Open files beside the log; Spark looks at all rows before it types a column."""
        files = [str(file) for file in (path if isinstance(path, (list, tuple)) else [path])]
        with named_errors(str(path)):
            frame = read_table(self.session, files, ids)
        return type(self)(frame, str(path))

    def _of(self, sql: str) -> Self:
        with spark_errors(self.name):
            return replace(self, frame=self._run(sql), usable=0)

    def _run(self, sql: str) -> "DataFrame":
        self.frame.createOrReplaceTempView(EVENTS)
        try:
            return self.session.sql(spark_sql(sql))
        finally:  # names are resolved by now
            self.session.catalog.dropTempView(EVENTS)


def spark_sql(sql: str) -> str:
    """Return DuckDB's SQL in Spark's words.

    >>> spark_sql('SELECT count(*) FILTER (c), hash("a b") FROM t')
    'SELECT COUNT(*) FILTER(WHERE c), CAST(XXHASH64(`a b`) AS DECIMAL(38, 0)) FROM t'
    >>> spark_sql("SELECT epoch_us(t::TIMESTAMP)")
    'SELECT UNIX_MICROS(CAST(t AS TIMESTAMP))'
    """
    import sqlglot
    from sqlglot import exp

    tree = sqlglot.parse_one(sql, read="duckdb")
    for kind in tree.find_all(exp.DataType):
        if kind.this == exp.DataType.Type.TIMESTAMPNTZ:  # text may name a zone
            kind.set("this", exp.DataType.Type.TIMESTAMPTZ)
    return str(tree.transform(_spark_function).sql(dialect="spark"))


def _spark_function(node: Any) -> Any:
    """Say what sqlglot leaves as it is: hashes, and times in microseconds."""
    from sqlglot import exp

    name = str(node.this).lower() if isinstance(node, exp.Anonymous) else ""
    if name == "hash":  # a decimal, whose sum over a list of any length stays exact
        return exp.cast(exp.func("xxhash64", *node.expressions), "decimal(38, 0)")
    return exp.func("unix_micros", *node.expressions) if name == "epoch_us" else node


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return tuple(_plain(part) for part in value) if isinstance(value, tuple) else value


def open_spark_log(session: "SparkSession", log: Any, mapping: LogMapping) -> SparkEvents:
    """Open a log as `prsrank.logs.reading.open_events` does, wherever Spark can read it.

    Args:
        session: Spark's.
        log: a file, folder or glob of Parquet, CSV or JSON lines, or several, as a path or as
            a URL that the cluster can read (hdfs://, s3a://); or a DataFrame of Spark's. All
            other forms (UBI, a compact log, a frame, a `ClickLog`) pass through the driver.
        mapping: which column means what.
    """
    from pyspark.sql import DataFrame

    name = log_name(log)
    if isinstance(log, DataFrame):
        return spark_events(log, mapping, name=name)
    several = isinstance(log, (list, tuple))
    if not several and (not is_path(log) or is_ubi(log) or is_compact(log)):
        return _through_driver(session, log, mapping)
    files = [str(file) for file in (log if several else [log])]
    with named_errors(name):
        table = read_table(session, files, mapping.ids)
        if not mapping.contexts:
            mapping = replace(mapping, contexts=_stored_contexts(files[0]))
        return spark_events(table, mapping, name=name)


def _through_driver(session: "SparkSession", log: object, mapping: LogMapping) -> SparkEvents:
    """Gather a log by DuckDB, and hand it to Spark as one Arrow table."""
    with open_events(log, mapping=mapping) as source:
        columns = ", ".join(
            f"{quoted_name(n)}::VARCHAR AS {quoted_name(n)}"
            if source.is_text(n)
            else quoted_name(n)
            for n in source.types
        )
        rows = source.relation.project(columns).to_arrow_table()
    frame = session.createDataFrame(rows)
    return SparkEvents(frame, source.name, source.contexts, source.features, source.findings)


def _stored_contexts(path: str) -> tuple[str, ...]:
    """Return the context columns that a Parquet file was written with, if it is on this disk."""
    file = Path(path)
    if file.is_dir():
        file = next(iter(sorted(file.rglob("*.parquet"))), file)
    if not (file.is_file() and file.name.endswith(ENDINGS["Parquet"])):
        return ()
    with connected() as connection, errors_in_one_line(path):
        return stored_contexts(connection, file)


def read_table(
    session: "SparkSession", files: Sequence[str], ids: Sequence[str] = ()
) -> "DataFrame":
    """Read files of one kind as a DataFrame; InputError if Spark cannot.

    Args:
        session: Spark's.
        files: where they are.
        ids: columns that hold ids: of a CSV file text, unless they are integers throughout.
    """
    from pyspark.errors import PySparkException

    kind = _kind(files)
    options = {"recursiveFileLookup": "true"}
    try:
        if kind == "CSV":
            options |= {"header": "true", "inferSchema": "true"}
            options["sep"] = _separator(session, files)
        reader = session.read.format(_READERS[kind]).options(**options)
        table = reader.load(list(files))
        kinds = table.schema if kind != "CSV" else _with_text_ids(table, reader, files, ids)
        return table if kinds == table.schema else reader.schema(kinds).load(list(files))
    except PySparkException as error:
        raise InputError(f"cannot be read: {first_line(error)}") from error


def _kind(files: Sequence[str]) -> str:
    name = files[0].lower()
    return next((kind for kind, ends in ENDINGS.items() if name.endswith(ends)), "Parquet")


def _with_text_ids(
    table: "DataFrame", reader: Any, files: Sequence[str], ids: Sequence[str]
) -> Any:
    """Return a schema by which ids that are not written as integers are stay text: 007 is not 7."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType, StructField, StructType

    def with_text(names: Set[str]) -> StructType:
        kinds = [StructField(f.name, StringType()) if f.name in names else f for f in table.schema]
        return StructType(kinds)

    doubtful = [f.name for f in table.schema if f.name in ids and f.dataType != StringType()]
    if not doubtful:
        return table.schema
    text = reader.schema(with_text(set(doubtful))).load(list(files))
    names = [F.col(f"`{name}`") for name in doubtful]
    whole = [F.coalesce(n.try_cast("bigint").cast("string") == n, F.lit(False)) for n in names]
    firsts = text.agg(*(F.min(F.when(n.isNotNull(), w)) for n, w in zip(names, whole, strict=True)))
    return with_text(
        {n for n, all_whole in zip(doubtful, firsts.first(), strict=True) if not all_whole}
    )


def _separator(session: "SparkSession", files: Sequence[str]) -> str:
    """Return what stands between the columns of a CSV file, by its header."""
    lines = session.read.option("recursiveFileLookup", "true").text(list(files)).limit(1).collect()
    header = lines[0][0] if lines else ""
    return max(",;\t|", key=header.count)


def spark_events(
    table: "DataFrame", mapping: LogMapping | None = None, *, name: str = "the log"
) -> SparkEvents:
    """Return a DataFrame with a log's own columns as events; the mapping tells what they mean.

    Raises:
        InputError: if a column is missing or cannot be read as meant.
    """
    events = canonical_events(SparkEvents(table, name), mapping or LogMapping())
    # decimals would leave Spark as objects
    columns = ", ".join(
        f"{quoted_name(n)}::DOUBLE AS {quoted_name(n)}"
        if kind.startswith("DECIMAL")
        else quoted_name(n)
        for n, kind in events.types.items()
    )
    return events.select(columns)
