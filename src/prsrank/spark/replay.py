"""The SQL between Parquet files and a DataFrame that Spark made of them, to be run without Spark.

Spark turns columns into rows and each value by itself into Arrow to hand them to Python. A task
that opens the files itself has the columns as they lie, and runs the same SQL in DuckDB. So are
columns replayed that mean the same in both SQLs and in both readers of Parquet, and no others.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from prsrank.logs.event_source import EVENTS
from prsrank.logs.sql_text import quoted_name

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame

_WHOLE = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT"}
_PLAIN = _WHOLE | {"FLOAT", "DOUBLE", "BOOLEAN", "VARCHAR"}
_TIMES = {"DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"}


@dataclass(frozen=True)
class Replay:
    """Steps from the columns of Parquet files to those of a DataFrame.

    Attributes:
        table: the files as Spark reads them.
        types: DuckDB's types of their columns, by name, of those that can be replayed.
        steps: what each step selects, SQL by name, without what cannot be replayed.
    """

    table: "DataFrame"
    types: Mapping[str, str]
    steps: tuple[Mapping[str, str], ...] = ()

    @classmethod
    def of(cls, table: "DataFrame", types: Mapping[str, str]) -> Self:
        """Return no step yet over files, whose columns have types as DuckDB names them."""
        # Spark takes times without a zone for the session's
        zone = table.sparkSession.conf.get("spark.sql.session.timeZone")
        plain = _PLAIN | _TIMES if zone in ("UTC", "Etc/UTC") else _PLAIN
        return cls(table, {name: kind for name, kind in types.items() if kind in plain})

    def then(self, columns: str, types: Mapping[str, str]) -> "Replay":
        """Return the steps with a further one.

        Args:
            columns: what it selects.
            types: DuckDB's types of what it selects from.
        """
        import sqlglot

        there = self.steps[-1] if self.steps else self.types
        types = {name: kind for name, kind in types.items() if name in there}
        select: Any = sqlglot.parse_one(f"SELECT {columns}", read="duckdb")
        step = {
            selected.alias_or_name: selected.unalias().sql(dialect="duckdb")
            for selected in select.selects
            if _is_same(selected, types)
        }
        return replace(self, steps=(*self.steps, step))

    def makes(self, types: Mapping[str, str]) -> bool:
        """Tell whether the steps make columns of these types, which are Spark's."""
        import duckdb

        if not self.steps or list(self.steps[-1]) != list(types):
            return False
        with duckdb.connect() as connection:
            nothing: Any = connection.from_arrow(self.columns().empty_table())
            try:
                made = nothing.query(EVENTS, self.query())
            except duckdb.Error:
                return False
            return list(map(str, made.types)) == list(types.values())

    def columns(self) -> "pyarrow.Schema":
        """Return the columns of the files that the steps need."""
        import pyarrow as pa

        arrow = {
            **{"TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INTEGER": pa.int32()},
            **{"BIGINT": pa.int64(), "FLOAT": pa.float32(), "DOUBLE": pa.float64()},
            **{"BOOLEAN": pa.bool_(), "VARCHAR": pa.string(), "DATE": pa.date32()},
            **{
                "TIMESTAMP": pa.timestamp("us"),
                "TIMESTAMP WITH TIME ZONE": pa.timestamp("us", "UTC"),
            },
        }
        return pa.schema([(name, arrow[self.types[name]]) for name in self._needed()[0]])

    def query(self) -> str:
        """Return the steps as a query over the files' columns, called EVENTS."""
        query = f"FROM {EVENTS}"
        for step, names in zip(self.steps, self._needed()[1:], strict=True):
            listed = ", ".join(f"{step[name]} AS {quoted_name(name)}" for name in names)
            query = f"FROM (SELECT {listed} {query})"
        return query

    def _needed(self) -> list[list[str]]:
        """Return the columns of the files, then of each step, that the last step needs."""
        needed = [list(self.steps[-1])]
        for step in reversed(self.steps):
            used = (name for made in needed[0] for name in _used(step[made]))
            needed.insert(0, list(dict.fromkeys(used)))
        return needed


def _used(sql: str) -> list[str]:
    """Return the columns that SQL names."""
    import sqlglot
    from sqlglot import exp

    return [column.name for column in sqlglot.parse_one(sql, read="duckdb").find_all(exp.Column)]


def _is_same(expression: Any, types: Mapping[str, str]) -> bool:
    """Tell whether SQL over columns of these types has one value in DuckDB and in Spark."""
    from sqlglot import exp

    equal = (
        *(exp.Alias, exp.Column, exp.Identifier, exp.Literal, exp.Null, exp.Boolean, exp.Paren),
        *(exp.Case, exp.If, exp.Cast, exp.DataType, exp.Coalesce, exp.Greatest, exp.Anonymous),
        *(exp.Predicate, exp.And, exp.Or, exp.Not, exp.Add, exp.Neg),
    )
    return all(
        isinstance(node, equal)
        and (not isinstance(node, exp.Column) or node.name in types)
        and (not isinstance(node, exp.Cast) or _is_same_cast(node, types))
        and (not isinstance(node, exp.Anonymous) or str(node.this).lower() == "epoch_us")
        for node in expression.walk()
    )


def _is_same_cast(cast: Any, types: Mapping[str, str]) -> bool:
    """Tell whether a cast gives one value: what text means, and numbers as text, differ."""
    from sqlglot import exp

    kinds = {types.get(column.name) for column in cast.this.find_all(exp.Column)}
    if cast.is_type(*exp.DataType.TEXT_TYPES):
        return isinstance(cast.this, exp.Column) and kinds <= {*_WHOLE, "VARCHAR"}
    return "VARCHAR" not in kinds
