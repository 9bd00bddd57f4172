"""A shard from rows: what a task of Spark makes of its partition. Knows Arrow, not Spark.

Rows of two kinds lie one behind the other, a query's docs before its counted pairs:

- kind 0, a doc: query_id, doc, features, twice (whether sessions saw other features);
- kind 1, counted pairs: query_id, doc (the winner), loser, pairs and the other columns of
  `prsrank.ingest.pair_expression.pair_counts`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import IdArray, RankingDataset, id_array
from prsrank.engines.held_out import add_gains, is_held_out, lists_of_pairs
from prsrank.engines.shard import Shard
from prsrank.errors import InputError
from prsrank.ingest.pairs import pairs_of_counts
from prsrank.types import Floats
from prsrank.weighting import Weighting

if TYPE_CHECKING:
    import pyarrow

    from prsrank.propensity.curve import PropensityCurve

DOC, PAIRS = 0, 1


@dataclass(frozen=True)
class Recipe:
    """How a shard is made of its rows.

    Attributes:
        feature_names: the features, in their order.
        propensities: the curve; None where keys are propensities, or none are needed.
        weighting: of the pairs.
        pair_options: the ranker's.
        held_out: share of the queries to judge by.
        threads: of each task.
    """

    feature_names: tuple[str, ...]
    propensities: "PropensityCurve | None"
    weighting: Weighting
    pair_options: Mapping[str, Any] = field(default_factory=dict)
    held_out: float = 0.0
    threads: int = 1


def shard_of_rows(batches: Iterator["pyarrow.RecordBatch"], recipe: Recipe) -> Shard:
    """Make a shard of one partition's rows.

    Raises:
        InputError: if a doc has two values of a feature, or as
            `prsrank.ingest.pairs.pairs_of_counts` raises.
    """
    docs, counts = _columns(batches, len(recipe.feature_names))
    dataset = _dataset(docs, recipe.feature_names)
    pairs = pairs_of_counts(
        counts,
        dataset,
        recipe.propensities,
        recipe.weighting,
        threads=recipe.threads,
        **recipe.pair_options,
    )
    if not recipe.held_out:
        return Shard(dataset, pairs)
    apart = is_held_out(dataset.query_ids, recipe.held_out)
    judged = dataset.select(apart)
    gains = _gains(counts, judged, recipe)
    return Shard(dataset.select(~apart), lists_of_pairs(pairs, ~apart), judged, gains)


def _gains(counts: Mapping[str, npt.NDArray], judged: RankingDataset, recipe: Recipe) -> Floats:
    """Return the sum of 1 / propensity over the clicks on each doc: rows of docs with themselves."""
    itself = counts["winner"] == counts["loser"]
    gains = counts["pairs"][itself].astype(np.float64)
    if "winner_key" in counts:
        keys = counts["winner_key"][itself]
        gains /= keys if recipe.propensities is None else recipe.propensities.at(keys)
    return add_gains(judged, counts["query_id"][itself], counts["winner"][itself], gains)


Columns = dict[str, npt.NDArray]


def _columns(batches: Iterator["pyarrow.RecordBatch"], features: int) -> tuple[Columns, Columns]:
    """Split rows by kind into arrays; batch by batch, so that no Arrow list grows too long."""
    import pyarrow.compute as pc

    docs: list[Columns] = []
    counts: list[Columns] = []
    for batch in batches:
        part = batch.filter(pc.equal(batch.column("kind"), DOC))
        docs.append(
            {
                "query_id": ids_of(part.column("query_id")),
                "doc": ids_of(part.column("doc")),
                "features": part.column("features").flatten().to_numpy().reshape(-1, features),
                "twice": part.column("twice").to_numpy(zero_copy_only=False),
            }
        )
        part = batch.filter(pc.equal(batch.column("kind"), PAIRS))
        names = [n for n in part.schema.names if n not in ("kind", "features", "twice", "doc")]
        found = {name: part.column(name).to_numpy(zero_copy_only=False) for name in names}
        found |= {name: ids_of(part.column(name)) for name in ("query_id", "loser")}
        counts.append(found | {"winner": ids_of(part.column("doc"))})
    return _joined(docs), _joined(counts)


def ids_of(column: "pyarrow.Array") -> IdArray:
    """Return a column of ids as integers or strings."""
    values: npt.NDArray = column.to_numpy(zero_copy_only=False)
    return values.astype(np.int64) if values.dtype.kind in "iu" else values.astype(np.str_)


def _joined(parts: list[Columns]) -> Columns:
    if not parts:
        raise InputError("a rank has no list to learn from: use fewer ranks")
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _dataset(docs: Columns, feature_names: tuple[str, ...]) -> RankingDataset:
    if docs["twice"].any():
        at = int(docs["twice"].argmax())
        raise InputError(
            f"doc {docs['doc'][at]} of query {docs['query_id'][at]} has two values of a feature; "
            "give every session a query of its own, or leave the feature out"
        )
    queries = docs["query_id"]
    starts = np.flatnonzero(np.concatenate([[True], queries[1:] != queries[:-1]]))
    starts = starts[: len(queries)]
    return RankingDataset(
        features=docs["features"],
        offsets=np.append(starts, len(queries)),
        query_ids=id_array(queries[starts]),
        doc_ids=id_array(docs["doc"]),
        feature_names=feature_names,
    )
