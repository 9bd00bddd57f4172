"""From the events of a log of any size to a set of weighted pairs."""

import tempfile
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from pathlib import Path

import numpy as np

from prsrank.data.dataset import RankingDataset
from prsrank.data.ids import joined_ids
from prsrank.files import FileName
from prsrank.logs.click_log import ClickLog
from prsrank.logs.features import lists_of_log, lists_of_table
from prsrank.logs.mapping import LogMapping
from prsrank.logs.session_pieces import LocalSessions
from prsrank.logs.sources import LogSource, open_events
from prsrank.logs.stored_pieces import read_in_pieces
from prsrank.logs.tables import give_back
from prsrank.pairs.pair_set import PairSet
from prsrank.pairs.piecewise import fold_pieces
from prsrank.propensity.curve import PropensityCurve
from prsrank.ragged import offsets_of, ragged_rows
from prsrank.weighting import WeightFunction, Weighting

Progress = Callable[[str], object]


def read_pairs(
    path: FileName | Sequence[FileName],
    propensities: PropensityCurve | None = None,
    weighting: str | Weighting | WeightFunction = "prs",
    *,
    dataset: RankingDataset | None = None,
    mapping: LogMapping | None = None,
    memory: str | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    **options: object,
) -> tuple[PairSet, RankingDataset]:
    """Read a log of any size into weighted pairs and the lists they belong to, piece by piece.

    Args:
        path: as `open_events` takes it.
        propensities: a curve; None takes the log's own.
        weighting: as `PairSet.from_log` takes it.
        dataset: the lists; default: those of the mapping's features, or, without features,
            the docs that the log shows, each query's list in the order of their ids.
        mapping: which column means what.
        memory: how much to hold, such as "2GB"; the pairs come on top.
        threads: default: the cores this process may use.
        progress: is told what is being done.
        options: as `PairSet.from_log` takes them.

    Raises:
        InputError: if rows of the log cannot be used, or as `PairSet.from_log` raises.
    """
    mapping = mapping or LogMapping()
    with (
        tempfile.TemporaryDirectory(prefix="prsrank-") as folder,
        open_events(path, mapping=mapping, memory=memory, threads=threads) as source,
    ):
        _tell(progress, "reading the log")
        pieces = read_in_pieces(source, Path(folder))
        lists = _lists(source, pieces, mapping) if dataset is None else dataset
        give_back(source.connection)
        number = count(1)

        def fold(log: ClickLog, own: RankingDataset) -> PairSet:
            _tell(progress, f"weighing pairs, piece {next(number)}")
            return PairSet.from_log(log, own, propensities, weighting, threads=threads, **options)  # type: ignore[arg-type]

        return fold_pieces(LocalSessions(pieces, lists, whole=True), fold), lists


def _lists(source: LogSource, pieces: Iterable[ClickLog], mapping: LogMapping) -> RankingDataset:
    if mapping.feature_table is not None:
        return lists_of_table(source, mapping.feature_table, mapping=mapping)
    return lists_of_log(source) if source.features else lists_shown(pieces)


def lists_shown(pieces: Iterable[ClickLog]) -> RankingDataset:
    """Make lists without features of a log in pieces: per query the docs that it shows, by id."""
    logs = [(log.query_ids, np.diff(log.doc_offsets), log.doc_ids) for log in pieces]
    queries, lengths, docs = (list(column) for column in zip(*logs, strict=True))
    ids = joined_ids(queries)
    order = np.argsort(ids, kind="stable")
    rows, offsets = ragged_rows(offsets_of(np.concatenate(lengths)), order)
    nothing = np.zeros((len(rows), 0), np.float32)
    return RankingDataset(nothing, offsets, ids[order], doc_ids=joined_ids(docs)[rows])


def _tell(progress: Progress | None, what: str) -> None:
    if progress is not None:
        progress(what)
