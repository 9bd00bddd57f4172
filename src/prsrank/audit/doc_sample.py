"""A sample of the docs of a log: their clicks, positions and features, one row per (query, doc)."""
# ruff: noqa: S608 -- queries hold constants and numbered columns, never a user's text

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from prsrank.audit.event_tables import EventTables, chosen_sql
from prsrank.logs.row_rules import finite_sql
from prsrank.types import Floats, Longs

_DOCS = 20_000
_VALUES = 4_000_000
# of each feature in rows of a doc: mean, variance, how many, how many clicked, mean where clicked
_COLUMNS = 5


@dataclass(frozen=True, eq=False)
class FeatureValues:
    """A feature of each doc of a sample.

    Attributes:
        mean: mean value over the rows; NaN where there is none (docs).
        variance: of the value over the rows of the doc (docs).
        known: rows with a finite value (docs); None, as the next two, for a table beside
            the log, whose rows have no clicks.
        known_clicked: those of them with a click (docs).
        mean_clicked: mean value over the clicked rows; NaN where there is none (docs).
    """

    mean: Floats
    variance: Floats
    known: Floats | None = None
    known_clicked: Floats | None = None
    mean_clicked: Floats | None = None


@dataclass(frozen=True, eq=False)
class DocSample:
    """Some docs of a log, in an order that means nothing.

    Attributes:
        query: a number for the query of each doc.
        shown: rows of each doc.
        clicked: clicked rows of each doc.
        position: mean position.
        first: first position.
        features: by name; one table holds the features of either the rows or the docs.
    """

    query: Longs
    shown: Floats
    clicked: Floats
    position: Floats
    first: Floats
    features: dict[str, FeatureValues]

    @cached_property
    def position_ranks(self) -> tuple[Floats, ...]:
        """The ranks of the docs by mean and by first position."""
        from scipy.stats import rankdata

        return tuple(rankdata(of, nan_policy="omit") for of in (self.position, self.first))

    @property
    def rate(self) -> Floats:
        """Clicks by impressions of each doc."""
        return self.clicked / self.shown


def sample_docs(log: EventTables, features: EventTables, names: Sequence[str]) -> DocSample:
    """Return some docs of a log, by a hash that DuckDB and Spark share.

    Args:
        log: the events.
        features: what has the features: the log itself, or a table beside it.
        names: of the features.
    """
    (docs,) = log.row("SELECT count(*) FROM {docs}")
    most = min(_DOCS, _VALUES // (_COLUMNS * len(names)))
    chosen = chosen_sql("d", most / max(docs, 1))
    counts = "sum(shown), sum(clicked), sum(k::BIGINT * shown) / sum(shown), min(k)"
    rows = log.rows(
        f"SELECT q::VARCHAR, d::VARCHAR, {counts} FROM {{cells}} WHERE {chosen} GROUP BY q, d"
    )
    by_row = log is features
    found = [_block(one, chosen, by_row) for one in features.blocks(names)]
    # engines return rows in orders of their own; sorted, and then mixed so that equal values of
    # a feature do not stand in the order of ids
    rows = sorted((row for row in rows if row[:2] in found[0][0]), key=lambda row: row[:2])
    rows = [rows[i] for i in np.random.default_rng(0).permutation(len(rows))]
    return _sample(rows, found)


_Block = tuple[dict[tuple[str, str], int], dict[str, npt.NDArray]]
"""The row of each doc, and the numbers of each feature (columns x rows)."""


def _block(features: EventTables, chosen: str, by_row: bool) -> _Block:
    """Return the values of a few features; as many columns as wanted take no memory as objects."""
    names = features.features
    values = ", ".join(_values_sql(features.number(name), by_row) for name in names)
    rows = features.rows(
        f"SELECT q::VARCHAR, d::VARCHAR, {values} FROM {{events}} "
        f"WHERE q IS NOT NULL AND d IS NOT NULL AND {chosen} GROUP BY q, d"
    )
    numbers = np.array([row[2:] for row in rows], np.float64)
    size = _COLUMNS if by_row else 2
    columns = numbers.reshape(len(rows), len(names), size).transpose(1, 2, 0)
    index = {(q, d): i for i, (q, d, *_) in enumerate(rows)}
    return index, dict(zip(names, columns, strict=True))


def _values_sql(x: str, by_row: bool) -> str:
    # huge values overflow DuckDB's sums, which is an error; no feature that large is a leak
    x = f"CASE WHEN {finite_sql(x)} AND abs({x}) < 1e100 THEN {x} END"
    of_rows = f", count({x}), count({x}) FILTER (c), avg({x}) FILTER (c)"
    return f"avg({x}), var_pop({x}){of_rows if by_row else ''}"


def _sample(rows: list[tuple[Any, ...]], found: Sequence[_Block]) -> DocSample:
    codes = {query: code for code, query in enumerate(dict.fromkeys(row[0] for row in rows))}
    counts = np.array([row[2:] for row in rows], np.float64).reshape(len(rows), 4)
    features: dict[str, FeatureValues] = {}
    for index, columns in found:
        order = np.array([index[row[:2]] for row in rows], np.int64)
        features |= {name: FeatureValues(*of[:, order]) for name, of in columns.items()}
    query = np.array([codes[row[0]] for row in rows], np.int64)
    shown, clicked, position, first = counts.T
    return DocSample(query, shown, clicked, position, first, features)
