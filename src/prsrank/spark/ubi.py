"""OpenSearch's User Behavior Insights on Spark: what `prsrank.logs.ubi` does on DuckDB."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsrank.errors import InputError
from prsrank.logs.event_source import nearest_column
from prsrank.logs.mapping import LogMapping
from prsrank.spark.events import SparkEvents, read_table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_KEY = ["session_id", "doc_id"]


def open_spark_ubi(session: "SparkSession", path: str, mapping: LogMapping) -> SparkEvents:
    """Gather UBI's queries and events into one row per shown doc.

    Raises:
        InputError: if a file cannot be read, or a field is missing.
    """
    from pyspark.sql import functions as F

    if mapping.features:
        raise InputError(f"{path}: UBI has no features: give a table of features")
    queries = _queries(_read(session, path, "ubi_queries"), mapping, path)
    actions = _actions(_read(session, path, "ubi_events"), mapping, path)
    hits = queries.select("session_id", F.posexplode("hits").alias("place", "doc_id"))
    hits = hits.where("doc_id IS NOT NULL").groupBy(*_KEY).agg((F.min("place") + 1).alias("place"))
    joined = hits.join(actions, on=_KEY, how="full")
    base = _find_base(joined, mapping)
    rows = _rows(joined, queries, 1 - base)
    findings = _findings(rows, actions, queries) | {"positions_from": base}
    shown = rows.where("shown").drop("shown", "place", "action_ordinal")
    return SparkEvents(shown, path, mapping.contexts, (), findings)


def _read(session: "SparkSession", path: str, name: str) -> "DataFrame":
    place = sorted(p for p in Path(path).iterdir() if p.name.split(".")[0] == name)[0]
    return read_table(session, [str(place)])


def _queries(table: "DataFrame", mapping: LogMapping, path: str) -> "DataFrame":
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    types = dict(table.dtypes)
    _require(types, path, "ubi_queries", "query_id", "query_response_hit_ids")
    named = mapping.columns.get("query_id", "user_query")
    if named not in types and "query_id" in mapping.columns:
        raise InputError(f"{path}: ubi_queries has no field {named!r}")
    own = F.col("query_id").cast("string")
    values: dict[str, Column] = {
        "session_id": own,
        "query_id": F.coalesce(F.col(named).cast("string"), own) if named in types else own,
        "hits": _hit_ids(types),
    }
    if "timestamp" in types:
        values["timestamp"] = F.expr("try_cast(`timestamp` AS timestamp)")
    if "client_id" in types:
        values["client_id"] = F.col("client_id").cast("string")
    for name in mapping.contexts:
        values[name] = _required_field(table, types, name, path)
    design = mapping.columns.get("randomised")
    field = (
        _field(table, types, "randomised")
        if design is None
        else _required_field(table, types, design, path)
    )
    if field is not None:
        value = F.coalesce(field, F.lit(""))
        values["randomised"] = (
            F.when(F.lower(value).isin("true", "1"), F.lit("uniform"))
            .when(F.lower(value).isin("false", "0"), F.lit(""))
            .otherwise(value)
        )
    rows = table.select(*(column.alias(name) for name, column in values.items()))
    order = "timestamp" if "timestamp" in values else "hits"
    first = F.row_number().over(Window.partitionBy("session_id").orderBy(order))
    kept = rows.where("session_id IS NOT NULL").withColumn("repeat", first)
    return kept.where("repeat = 1").drop("repeat")


def _hit_ids(types: Mapping[str, str]) -> "Column":
    from pyspark.sql import functions as F

    if types["query_response_hit_ids"].startswith("array"):
        return F.col("query_response_hit_ids").cast("array<string>")
    return F.from_json(F.col("query_response_hit_ids"), "array<string>")


def _field(table: "DataFrame", types: Mapping[str, str], name: str) -> "Column | None":
    """Return a field of a query, or of its attributes; None if there is none."""
    from pyspark.sql import functions as F

    if name in types:
        return F.col(f"`{name}`").cast("string")
    attributes = types.get("query_attributes", "")
    if attributes == "string":
        value = F.get_json_object("query_attributes", f"$.{name}")
        return value if table.where(value.isNotNull()).head(1) else None
    if attributes.startswith("struct") and name in table.select("query_attributes.*").columns:
        return F.col(f"query_attributes.`{name}`").cast("string")
    return None


def _required_field(table: "DataFrame", types: Mapping[str, str], name: str, path: str) -> "Column":
    found = _field(table, types, name)
    if found is None:
        hint = nearest_column(name, types)
        raise InputError(f"{path}: ubi_queries has no field {name!r}{hint}")
    return found


def _actions(table: "DataFrame", mapping: LogMapping, path: str) -> "DataFrame":
    """Gather the actions that count, and impressions, by session and doc."""
    from pyspark.sql import functions as F

    types = dict(table.dtypes)
    _require(types, path, "ubi_events", "query_id", "action_name", "event_attributes")
    weight: Any = F
    for name, value in (mapping.actions or {"click": 1.0}).items():
        weight = weight.when(F.col("action_name") == name, F.lit(float(value)))
    rows = table.select(
        F.col("query_id").cast("string").alias("session_id"),
        _attribute(types, "object", "object_id").cast("string").alias("doc_id"),
        (F.col("action_name") == "impression").alias("impression"),
        _attribute(types, "position", "ordinal").cast("string").alias("ordinal"),
        weight.otherwise(F.lit(0.0)).alias("weight"),
    ).withColumn("ordinal", F.expr("try_cast(ordinal AS bigint)"))
    counted = rows.where("doc_id IS NOT NULL AND (weight > 0 OR impression)")
    return counted.groupBy(*_KEY).agg(
        F.max("weight").alias("weight"),
        F.max("impression").alias("impression"),
        F.min(F.when(F.col("impression"), F.col("ordinal"))).alias("impressed_at"),
        F.min(F.when(F.col("weight") > 0, F.col("ordinal"))).alias("acted_at"),
    )


def _attribute(types: Mapping[str, str], outer: str, inner: str) -> "Column":
    from pyspark.sql import functions as F

    kind = types["event_attributes"]
    if kind == "string":
        return F.get_json_object("event_attributes", f"$.{outer}.{inner}")
    if f"{outer}:struct<" not in kind:
        return F.get_json_object(F.to_json("event_attributes"), f"$.{outer}.{inner}")
    return F.col(f"event_attributes.{outer}.{inner}")


def _find_base(joined: "DataFrame", mapping: LogMapping) -> int:
    """Return the first ordinal: that with which ordinals agree with the lists."""
    from pyspark.sql import functions as F

    if mapping.positions_from is not None:
        return mapping.positions_from
    ordinal = F.coalesce("impressed_at", "acted_at")
    found = joined.where("weight IS NOT NULL").agg(
        F.count_if(ordinal == F.col("place")).alias("from_one"),
        F.count_if(ordinal == F.col("place") - 1).alias("from_zero"),
        F.min(ordinal).alias("lowest"),
    )
    row = found.collect()[0]
    if row.from_one != row.from_zero:
        return int(row.from_one > row.from_zero)
    return 0 if row.lowest == 0 else 1


def _rows(joined: "DataFrame", queries: "DataFrame", shift: int) -> "DataFrame":
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    session = Window.partitionBy("session_id")
    rows = joined.select(
        *_KEY,
        "place",
        (F.col("impressed_at") + shift).alias("ordinal"),
        (F.col("acted_at") + shift).alias("action_ordinal"),
        F.coalesce("weight", F.lit(0.0)).alias("weight"),
        (F.col("place").isNotNull() | F.coalesce("impression", F.lit(False))).alias("shown"),
    )
    placed = F.count_if("shown").over(session) == F.count_if(
        F.col("shown") & F.col("ordinal").isNotNull()
    ).over(session)
    position = F.when(placed | F.col("place").isNull(), F.col("ordinal")).otherwise(F.col("place"))
    own = [name for name in queries.columns if name not in ("session_id", "hits")]
    rows = rows.withColumn("position", position).join(queries, on="session_id", how="inner")
    return rows.select(
        "query_id",
        *_KEY,
        F.col("position").cast("bigint").alias("position"),
        (F.col("weight") > 0).cast("int").alias("click"),
        "weight",
        F.col("shown").alias("impression"),
        *(name for name in own if name != "query_id"),
        "shown",
        "place",
        "action_ordinal",
    )


def _findings(rows: "DataFrame", actions: "DataFrame", queries: "DataFrame") -> dict[str, int]:
    from pyspark.sql import functions as F

    found = rows.agg(
        F.count_if(F.expr("NOT shown AND weight > 0")).alias("clicks_not_in_list"),
        F.count_if(F.expr("shown AND weight > 0 AND action_ordinal != position")).alias("disagree"),
    ).collect()[0]
    lost = actions.where("weight > 0").join(queries, on="session_id", how="left_anti").count()
    bare = queries.join(rows.where("shown"), on="session_id", how="left_anti").count()
    return {
        "clicks_not_in_list": found.clicks_not_in_list,
        "events_without_query": lost,
        "queries_without_list": bare,
        "positions_disagree": found.disagree,
    }


def _require(types: Mapping[str, str], path: str, table: str, *names: str) -> None:
    for name in names:
        if name not in types:
            hint = nearest_column(name, types)
            raise InputError(f"{path}: {table} has no field {name!r}{hint}")
