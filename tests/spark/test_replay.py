"""SQL that tasks run for Spark: what means the same, and the columns that it needs."""

# ruff: noqa: S608 -- the SQL is the tests' own

import duckdb
import pytest

from prsrank.logs.event_source import EVENTS
from prsrank.spark.events import spark_sql
from prsrank.spark.replay import Replay

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")
pytest.importorskip("sqlglot")

TYPES = {
    "q": "VARCHAR",
    "n": "INTEGER",
    "x": "DOUBLE",
    "b": "BOOLEAN",
    "t": "TIMESTAMP",
    "z": "TIMESTAMP WITH TIME ZONE",
    "d": "DATE",
}
SAME = {
    "n": "INTEGER",
    "n + 1": "INTEGER",
    "n::VARCHAR": "VARCHAR",
    "q::VARCHAR": "VARCHAR",
    "x::INTEGER": "INTEGER",
    "TRY_CAST(n AS BIGINT)": "BIGINT",
    "CASE WHEN b THEN 1 WHEN NOT b THEN 0 END": "INTEGER",
    "greatest(0.0::DOUBLE, CASE WHEN n::DOUBLE > 0 THEN 2.5::DOUBLE ELSE 0 END)": "DOUBLE",
    "CASE WHEN x::DOUBLE IN (-999.0, 1e-05) THEN NULL ELSE x END": "DOUBLE",
    "(n <> 0)": "BOOLEAN",
    "epoch_us(t::TIMESTAMP)": "BIGINT",
    "epoch_us(z::TIMESTAMP)": "BIGINT",
    "epoch_us(d::TIMESTAMP)": "BIGINT",
}
OTHERWISE = [
    "x::VARCHAR",
    "b::VARCHAR",
    "t::VARCHAR",
    "q::DOUBLE",
    "try_cast(q AS TIMESTAMP)",
    "TRY_CAST(replace(q, ',', '.') AS DOUBLE)",
    "lower(q)",
    "hash(n)",
    "row_number() OVER (ORDER BY n)",
    "sum(n)",
    "(SELECT 1)",
    "unknown",
    "n + unknown",
]


@pytest.mark.spark
@pytest.mark.parametrize(("sql", "kind"), SAME.items())
def test_what_is_the_same_in_both(spark, sql, kind):
    """By values, too: DuckDB's of the replay, and Spark's of what it would have run."""
    made = Replay(None, TYPES).then(f'{sql} AS "a b"', TYPES)
    assert made.makes({"a b": kind})
    assert not made.makes({"a b": "FLOAT"})
    assert not made.makes({"a": kind})
    rows = [("'a'", 3, "1.0", "true"), ("'7'", 0, "-999.0", "false"), ("NULL", -1, "'NaN'", "NULL")]
    rows = rows[:2] if "x::INT" in sql else rows
    time = "2026-01-02 03:04:05.678901"
    values = ", ".join(
        f"({q}, {n}, {x}::DOUBLE, {b}, TIMESTAMP '{time}', DATE '2026-01-02', "
        f"TIMESTAMPTZ '{time}+00', {i})"
        for i, (q, n, x, b) in enumerate(rows)
    )
    table = f"SELECT * FROM (VALUES {values}) v(q, n, x, b, t, d, z, i)"
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        there = connection.sql(table).to_arrow_table().sort_by("i")
        columns = made.columns()
        mine = connection.from_arrow(there.select(columns.names).cast(columns))
        found = mine.query(EVENTS, made.query()).fetchall()
    yours = spark.session.sql(spark_sql(f"SELECT {sql} AS v FROM ({table}) ORDER BY i")).collect()
    assert str(found) == str([tuple(row) for row in yours])


@pytest.mark.parametrize("sql", OTHERWISE)
def test_what_is_not_replayed(sql):
    made = Replay(None, TYPES).then(f"{sql} AS one, n AS two", TYPES)
    assert list(made.steps[-1]) == ["two"]
    assert not made.makes({"one": "BIGINT", "two": "INTEGER"})


def test_only_what_the_last_step_needs_is_read():
    made = Replay(None, TYPES).then('n AS "N", q AS p, x, b', TYPES)
    made = made.then('"N" + 1 AS m, p, x, b', {"N": "INTEGER", "p": "VARCHAR", "x": "DOUBLE"})
    made = made.then("m AS k, p", {"m": "INTEGER", "p": "VARCHAR"})
    assert made.columns() == pa.schema({"n": pa.int32(), "q": pa.string()})
    rows = pa.table({"n": pa.array([1], pa.int32()), "q": ["a"]})
    with duckdb.connect() as connection:
        assert connection.from_arrow(rows).query(EVENTS, made.query()).fetchall() == [(2, "a")]


def test_a_column_that_was_left_out_stays_out():
    made = Replay(None, TYPES).then("x::VARCHAR AS x, n", TYPES)
    made = made.then("x AS y, n", {"x": "VARCHAR", "n": "INTEGER"})
    assert list(made.steps[-1]) == ["n"]


@pytest.mark.spark
def test_times_are_left_to_spark_where_its_zone_is_another(spark):
    table = spark.session.range(1)
    assert Replay.of(table, {**TYPES, "v": "DECIMAL(9,2)"}).types == TYPES
    spark.session.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        assert list(Replay.of(table, TYPES).types) == ["q", "n", "x", "b"]
    finally:
        spark.session.conf.set("spark.sql.session.timeZone", "UTC")
