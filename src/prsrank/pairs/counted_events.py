"""Pairs counted by DuckDB, handed over part by part."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import narwhals as nw
import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.logs.sources import LogSource
from prsrank.logs.sql_text import quoted_name, quoted_text
from prsrank.pairs.counted_kernels import DocIndex
from prsrank.pairs.pair_counts import pair_counts
from prsrank.types import Floats, IdArray, Longs

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation


# Rows of counted pairs that are held outside DuckDB at once.
_ROWS_AT_ONCE = 6_000_000
# Rows that are looked at to cut them into parts of about the same size.
_SAMPLED = 100_000
_TABLE = "counted_pairs"
# Stands for all ids that the data set cannot have, where ids are kept in 32 bits.
_NO_ID = 2**32 - 1


class CountedEvents:
    """The rows of `pair_counts` of a log, kept in DuckDB (and on disk past its memory).

    Text ids travel as 63-bit hashes, so that only whole numbers leave DuckDB; whole numbers
    travel in 32 bits where those of the data set fit.

    Args:
        source: the events.
        dataset: the lists.
        key: "position", "propensity" or None, as `pair_counts` takes it.
        context: a context column whose value belongs to the key.
        against: as `pair_counts` takes it.
        count_clicks: as `pair_counts` takes it.

    Attributes:
        index: finds the docs of the rows in the data set.
        contexts: the values of the context column, or None.
        parts: how many parts `rows` has.
    """

    def __init__(
        self,
        source: LogSource,
        dataset: RankingDataset,
        *,
        key: str | None,
        context: str | None,
        against: str,
        count_clicks: bool,
    ) -> None:
        self.source = source
        self.contexts = self._context_values(context) if key == "position" else None
        ids = {"query_id": dataset.query_ids, "doc_id": dataset.doc_names}
        self._ids = {name: _id_sql(source, name, known) for name, known in ids.items()}
        self.index = DocIndex(dataset, *(self._keys_of(*item) for item in ids.items()))
        expression = pair_counts(
            nw.from_native(self._coded(key, context)).lazy(),
            key="key" if key else None,
            against=against,
            count_clicks=count_clicks,
            weight="weight" if "weight" in source.types else None,
        )
        connection = source.connection
        connection.execute(f"DROP TABLE IF EXISTS {_TABLE}")
        connection.execute("SET preserve_insertion_order = false")
        try:
            expression.to_native().create(_TABLE)
        finally:
            connection.execute("SET preserve_insertion_order = true")
        self.table = connection.table(_TABLE)
        self._cuts = self._cut_queries()
        self.parts = len(self._cuts) + 1

    @property
    def keys(self) -> npt.NDArray:
        """The distinct keys: those of the losers, as every winner has a row with itself."""
        if "loser_key" not in self.table.columns:
            return np.zeros(0, np.int64)
        return self._distinct("loser_key")

    @property
    def weights(self) -> Floats:
        """The distinct weights of actions, rising; [1] if the log has none."""
        if "weight" not in self.table.columns:
            return np.ones(1)
        return np.sort(self._distinct("weight"))

    @property
    def most_clicks(self) -> int:
        """The largest number of clicks in a session; 0 if they were not counted."""
        if "clicks" not in self.table.columns:
            return 0
        return int(self.table.aggregate("coalesce(max(clicks), 0)").fetchall()[0][0])

    def winners(self) -> dict[str, npt.NDArray]:
        """Return query, doc and key of the clicked docs; a doc may come several times."""
        names = ("query_id", "winner", "winner_key", "loser_key")
        columns = ", ".join(name for name in names if name in self.table.columns)
        return self._arrays(self.table.filter("winner = loser").project(columns))

    def rows(self, part: int) -> dict[str, npt.NDArray]:
        """Return all rows of the queries of a part."""
        conditions = ["true"]
        if part > 0:
            conditions.append(f"query_id >= {self._cuts[part - 1]}")
        if part < len(self._cuts):
            conditions.append(f"query_id < {self._cuts[part]}")
        return self._arrays(self.table.filter(" AND ".join(conditions)))

    def name(self, query: int, doc: int) -> str:
        """Return words that name a doc, given the whole numbers that stand for it."""
        where = f"{self._ids['query_id']} = {query} AND {self._ids['doc_id']} = {doc}"
        query_id, doc_id = self.source.rows("query_id, doc_id", where=where)[0]
        return f"doc {doc_id} of query {query_id}"

    def _coded(self, key: str | None, context: str | None) -> "DuckDBPyRelation":
        values = {
            **self._ids,
            "session_id": "session_id::BIGINT"
            if self.source.is_integer("session_id")
            else "(hash(session_id::VARCHAR) >> 1)::BIGINT",
            "click": "click::BOOLEAN",
        }
        if key:
            values["key"] = f"{key}::{'INTEGER' if key == 'position' else 'DOUBLE'}"
        if self.contexts is not None and context is not None:
            known = ", ".join(quoted_text(value) for value in self.contexts)
            code = f"list_position([{known}], coalesce({quoted_name(context)}::VARCHAR, '')) - 1"
            values["key"] = f"position::INTEGER * {len(self.contexts)} + {code}"
        if "weight" in self.source.types:
            values["weight"] = "weight::DOUBLE"
        columns = ", ".join(f"{sql} AS {name}" for name, sql in values.items())
        return self.source.relation.project(columns)

    def _keys_of(self, name: str, ids: IdArray) -> Longs:
        if not _is_text(self.source, name, ids):
            return ids.astype(np.int64, copy=False)
        connection = self.source.connection
        connection.register("ids_to_hash", {"id": ids.astype(np.str_).astype(object)})
        found = connection.table("ids_to_hash").project("(hash(id) >> 1)::BIGINT AS key")
        keys = np.asarray(found.fetchnumpy()["key"])
        connection.unregister("ids_to_hash")
        return keys

    def _context_values(self, context: str | None) -> Sequence[str] | None:
        if context is None:
            return None
        if context not in self.source.contexts:
            known = ", ".join(self.source.contexts) or "none"
            raise InputError(f"context {context!r} is not in the log (it has: {known})")
        value = f"coalesce({quoted_name(context)}::VARCHAR, '') AS value"
        found = self.source.relation.project(value).distinct().order("value").fetchall()
        return tuple(row[0] for row in found)

    def _cut_queries(self) -> npt.NDArray:
        """Return the first query of every part but the first.

        Queries of a part follow one another, as their lists do in most data sets: the kernels
        then work on little memory at a time.
        """
        rows = self.table.aggregate("count(*)").fetchall()[0][0]
        parts = rows // _ROWS_AT_ONCE + 1
        if parts == 1:
            return np.zeros(0, np.int64)
        sampled = self.table.filter(f"rowid % {rows // _SAMPLED + 1} = 0").project("query_id")
        queries = np.sort(self._arrays(sampled)["query_id"])
        return np.asarray(queries[len(queries) * np.arange(1, parts) // parts])

    def _distinct(self, name: str) -> npt.NDArray:
        return self._arrays(self.table.project(name).distinct())[name]

    @staticmethod
    def _arrays(relation: "DuckDBPyRelation") -> dict[str, npt.NDArray]:
        return {name: np.asarray(array) for name, array in relation.fetchnumpy().items()}


def _is_text(source: LogSource, name: str, ids: IdArray) -> bool:
    return source.is_text(name) or ids.dtype.kind not in "iu"


def _id_sql(source: LogSource, name: str, ids: IdArray) -> str:
    """Return the SQL of the whole number that stands for an id, given those of the data set."""
    if _is_text(source, name, ids):
        return f"(hash({name}::VARCHAR) >> 1)::BIGINT"
    if ids.min(initial=0) < 0 or ids.max(initial=0) >= _NO_ID:
        return f"{name}::BIGINT"
    return f"coalesce(try_cast({name} AS UINTEGER), {_NO_ID}::UINTEGER)"
