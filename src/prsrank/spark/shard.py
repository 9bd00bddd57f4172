"""A shard: whole lists with their pairs, as one rank of a training holds them."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset, concatenate
from prsrank.pairs.pair_set import PairSet
from prsrank.threads import even_pieces
from prsrank.types import Floats, Marks

# From scores to the numerator and the denominator of a quality; those of several ranks add up.
QualitySums = Callable[[Floats], Sequence[float]]

# Bytes of features in one piece that travels: well below what one Arrow value can hold.
_PIECE = 64 << 20


@dataclass(frozen=True, eq=False)
class Shard:
    """Lists with their pairs, and lists to judge the model by.

    Attributes:
        dataset: lists to learn from.
        pairs: their pairs.
        judged: lists to judge by, with labels or with clicks; None if there are none.
        clicks: what the clicks on `judged` say of their scores; None where labels count. It
            is made where it is used, and does not travel.
    """

    dataset: RankingDataset
    pairs: PairSet
    judged: RankingDataset | None = None
    clicks: QualitySums | None = None

    def pack(self) -> bytes:
        """Return the shard as bytes (NumPy's own format, nothing that can run)."""
        pairs = self.pairs
        arrays: dict[str, npt.NDArray] = {
            "winner_offsets": pairs.winner_offsets,
            "winner_row": pairs.winner_row,
            "weights": pairs.weights,
            "totals": pairs.totals,
        }
        arrays |= _arrays(self.dataset, "")
        if self.judged is not None:
            arrays |= _arrays(self.judged, "judged_")
        target = io.BytesIO()
        np.savez(target, allow_pickle=False, **arrays)
        return target.getvalue()

    @classmethod
    def unpack(
        cls, data: bytes, *, normalise: str | None = None, truncation: int | None = None
    ) -> "Shard":
        """Rebuild a shard from `pack`; the session constant of its pairs is told apart."""
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        dataset = _dataset(arrays, "")
        pairs = PairSet(
            offsets=dataset.offsets,
            query_ids=dataset.query_ids,
            winner_offsets=arrays["winner_offsets"],
            winner_row=arrays["winner_row"],
            weights=arrays["weights"],
            totals=arrays["totals"],
            normalise=normalise,
            truncation=truncation,
        )
        judged = _dataset(arrays, "judged_") if "judged_features" in arrays else None
        return cls(dataset, pairs, judged)


def _arrays(lists: RankingDataset, prefix: str) -> dict[str, npt.NDArray]:
    names = ("features", "offsets", "query_ids", "labels")
    values = {prefix + name: getattr(lists, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def _dataset(arrays: dict[str, npt.NDArray], prefix: str) -> RankingDataset:
    return RankingDataset(
        arrays[prefix + "features"],
        arrays[prefix + "offsets"],
        arrays[prefix + "query_ids"],
        labels=arrays.get(prefix + "labels"),
    )


def cut(
    dataset: RankingDataset, pairs: PairSet, shards: int, judged: RankingDataset | None = None
) -> list[list[Shard]]:
    """Cut lists into shards of about as many docs, each in pieces small enough to travel.

    The lists of all shards, one behind the other, are those of the data set. Fewer shards
    come back where there are fewer lists.
    """
    runs = even_pieces(dataset.offsets, shards)
    whole = [_run(dataset, pairs, a, b) for a, b in runs]
    if judged is not None:
        # what counts is whether a doc is relevant; from which label on is the data set's own
        labels = judged.relevance.astype(np.float32)
        judged = replace(judged, labels=labels, relevant_from=1.0)
        parts = even_pieces(judged.offsets, len(runs))
        for place, (a, b) in enumerate(parts):
            whole[place] = replace(whole[place], judged=judged.select(np.arange(a, b)))
    return [_pieces(shard) for shard in whole]


def _run(dataset: RankingDataset, pairs: PairSet, first: int, last: int) -> Shard:
    chosen = np.zeros(dataset.lists, bool)
    chosen[first:last] = True
    return Shard(dataset.select(chosen), _lists_of_pairs(pairs, chosen))


def _lists_of_pairs(pairs: PairSet, chosen: Marks) -> PairSet:
    """Return the pairs of the chosen lists, on those lists only."""
    winners = chosen[pairs.winner_list]
    lengths = np.diff(pairs.offsets)
    return replace(
        pairs,
        offsets=np.concatenate([[0], np.cumsum(lengths[chosen])]).astype(np.int64),
        query_ids=pairs.query_ids[chosen],
        winner_offsets=np.concatenate([[0], np.cumsum(np.diff(pairs.winner_offsets)[chosen])]),
        winner_row=pairs.winner_row[winners],
        weights=pairs.weights[np.repeat(winners, lengths[pairs.winner_list])],
        totals=pairs.totals[chosen],
    )


def _pieces(shard: Shard) -> list[Shard]:
    pieces = -(-shard.dataset.features.nbytes // _PIECE)
    if pieces <= 1:
        return [shard]
    runs = even_pieces(shard.dataset.offsets, pieces)
    cuts = [_run(shard.dataset, shard.pairs, a, b) for a, b in runs]
    return [replace(cuts[0], judged=shard.judged), *cuts[1:]]


def join(shards: Sequence[Shard]) -> Shard:
    """Put the pieces of a shard together again."""
    if len(shards) == 1:
        return shards[0]
    first = shards[0]
    dataset = concatenate([shard.dataset for shard in shards])
    starts = np.cumsum([0, *(shard.pairs.winners for shard in shards)])
    offsets = [
        shard.pairs.winner_offsets[1:] + start for shard, start in zip(shards, starts, strict=False)
    ]
    pairs = replace(
        first.pairs,
        offsets=dataset.offsets,
        query_ids=dataset.query_ids,
        winner_offsets=np.concatenate([np.zeros(1, np.int64), *offsets]),
        winner_row=np.concatenate([shard.pairs.winner_row for shard in shards]),
        weights=np.concatenate([shard.pairs.weights for shard in shards]),
        totals=np.concatenate([shard.pairs.totals for shard in shards]),
    )
    return Shard(dataset, pairs, first.judged)
