"""Options that the commands which read a log share."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from prsrank.fit.engine import Engine

AnyLog = Annotated[
    str,
    typer.Argument(
        metavar="LOG",
        help="A click log: Parquet, CSV or JSONL of events, a folder or glob of them, a compact "
        "log, or a folder with ubi_queries and ubi_events; - reads standard input. A folder that fit "
        "wrote stands for its inputs.",
    ),
]
NamedLog = Annotated[
    str | None, typer.Option("--log", metavar="LOG", help="A click log, as for audit.")
]
Column = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="MEANING=COLUMN",
        help="Which column of the log means what, such as query_id=srch_id; may be repeated.",
    ),
]
MappingFile = Annotated[
    Path | None,
    typer.Option(
        "--mapping",
        metavar="TOML",
        help="A file that says which columns mean what and which actions count.",
    ),
]
Nulls = Annotated[
    list[str] | None,
    typer.Option(
        "--null",
        metavar="WORD",
        help="What stands for a missing number, such as NULL or -999; may be repeated. Default: "
        "NULL, N/A and the like, with a notice.",
    ),
]
Decimal = Annotated[
    str | None,
    typer.Option(
        "--decimal", metavar=", or .", help="The decimal sign. Default: found out, with a notice."
    ),
]
Duplicates = Annotated[
    str | None,
    typer.Option(
        "--duplicates",
        metavar="first|error",
        help="Of a doc that a session shows again: only the first counts (first), or the log "
        "cannot be used (error, the default).",
    ),
]
Features = Annotated[
    str | None,
    typer.Option(
        "--features", metavar="TABLE", help="A table of features, keyed by query_id and doc_id."
    ),
]
Lists = Annotated[
    str,
    typer.Option(
        "--lists",
        help="query: one list a query. session: sessions of a query that saw different features "
        "get lists of their own.",
    ),
]
Memory = Annotated[
    str | None,
    typer.Option("--memory", metavar="SIZE", help="How much to hold at once, such as 4GB."),
]

DEFAULT_SPARK = "default"
_MASTER = re.compile(rf"{DEFAULT_SPARK}|local([\[-].*)?|yarn|(spark|k8s|mesos)://.*")
Spark = Annotated[
    str | None,
    typer.Option(
        "--spark",
        metavar="[URL]",
        help="Run on Spark (extra 'spark'): its master, such as local[4] or spark://host:7077; "
        "without URL, what Spark's own configuration says, else all local cores.",
    ),
]


def with_spark_value(arguments: Sequence[str]) -> list[str]:
    """Return arguments in which every --spark has a value: typer knows no optional ones.

    >>> with_spark_value(["audit", "--spark", "log.parquet"])
    ['audit', '--spark', 'default', 'log.parquet']
    >>> with_spark_value(["audit", "log.parquet", "--spark", "local[2]"])
    ['audit', 'log.parquet', '--spark', 'local[2]']
    """
    given: list[str] = []
    for index, argument in enumerate(arguments):
        given.append(argument)
        after = arguments[index + 1] if index + 1 < len(arguments) else ""
        if argument == "--spark" and not _MASTER.fullmatch(after):
            given.append(DEFAULT_SPARK)
    return given


def find_runner(spark: str | None) -> "Engine":
    """Return the engine that --spark names: the local one where it is not given."""
    if spark is None:
        from prsrank.fit.local import LocalEngine

        return LocalEngine()
    from prsrank.spark import SparkEngine

    return SparkEngine(master=None if spark == DEFAULT_SPARK else spark)
