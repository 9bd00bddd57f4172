"""Units of resampling: queries or sessions, told apart by a hash of their ids.

Sums by unit of several pieces of a log add up to those of the whole, in whatever order rows,
files or tasks come: a unit is known by its ids, not by where it stands.
"""

from dataclasses import dataclass

import numpy as np

from prsrank.hashing import id_keys, joined_keys
from prsrank.logs.click_log import ClickLog
from prsrank.ragged import ragged_rows
from prsrank.types import Floats, Longs

MOST_UNITS = 2000
"""More units than this are joined by their hash: their sums are as good, and small."""

_PROBE = 50 * MOST_UNITS


def query_keys(log: ClickLog) -> Longs:
    """Return the key of each query of a log."""
    return id_keys(log.query_ids)


def session_keys(log: ClickLog) -> Longs:
    """Return the key of each session of a log: of its query and its own id."""
    ids = np.arange(log.sessions) if log.session_ids is None else log.session_ids
    queries = query_keys(log)[log.ranking_query][log.session_ranking]
    return joined_keys(queries, id_keys(ids))


def units_of(keys: Longs) -> tuple[Longs, Longs]:
    """Return the keys of at most MOST_UNITS units, rising, and the index of each entry's unit.

    >>> units_of(np.array([7, 7, 9]))
    (array([7, 9]), array([0, 0, 1]))
    """
    # telling millions of keys apart takes a sort, which many keys do not need
    few = len(keys) <= _PROBE or len(np.unique(keys[:_PROBE])) <= MOST_UNITS
    if few:
        names, index = np.unique(keys, return_inverse=True)
        # where one piece was joined, the few units of another have to be, too
        if len(names) <= MOST_UNITS and not (names[:1] < 0).any():
            return names, index
    # a joined key is its remainder less MOST_UNITS: told from an id's key by being below 0, and
    # of the same remainder, so that pieces may be joined at any time
    used = np.zeros(MOST_UNITS, bool)
    remainder = keys % MOST_UNITS
    used[remainder] = True
    return np.flatnonzero(used) - MOST_UNITS, (np.cumsum(used) - 1)[remainder]


def clicks_by_unit(
    log: ClickLog, sessions: Longs, unit: Longs, column: Longs, shape: tuple[int, int]
) -> Floats:
    """Count the clicks of some sessions by their unit and the column of the clicked slot.

    Args:
        log: the log.
        sessions: those that count.
        unit: index of each one's unit.
        column: of each slot of the log's rankings; -1 for slots that do not count.
        shape: number of units and of columns.
    """
    clicks, offsets = ragged_rows(log.click_offsets, sessions)
    counts = np.diff(offsets)
    starts = log.ranking_offsets[log.session_ranking[sessions]]
    columns = column[np.repeat(starts, counts) + log.clicks[clicks]]
    cells = (np.repeat(unit, counts) * shape[1] + columns)[columns >= 0]
    return np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)


@dataclass(frozen=True, eq=False)
class UnitSums:
    """Sums by unit of resampling; those of several pieces add up with `+`.

    Attributes:
        keys: of the units, rising.
        columns: a number for each column, rising.
        values: the sums (units x columns).

    >>> sums = UnitSums.of(np.array([5, 6]), np.array([[1.0], [2.0]]))
    >>> (sums + UnitSums.of(np.array([6]), np.array([[3.0]]))).values.tolist()
    [[1.0], [5.0]]
    """

    keys: Longs
    columns: Longs
    values: Floats

    @classmethod
    def of(cls, keys: Longs, values: Floats, columns: Longs | None = None) -> "UnitSums":
        """Add up rows of values by the keys of their units."""
        names, index = units_of(keys)
        sums = np.zeros((len(names), values.shape[1]))
        np.add.at(sums, index, values)
        return cls(names, np.arange(values.shape[1]) if columns is None else columns, sums)

    def __add__(self, other: "UnitSums") -> "UnitSums":
        """Return the sums of both, over the units and columns of either."""
        columns = np.union1d(self.columns, other.columns)
        names, index = units_of(np.concatenate([self.keys, other.keys]))
        values = np.zeros((len(names), len(columns)))
        for sums, rows in (
            (self, index[: len(self.keys)]),
            (other, index[len(self.keys) :]),
        ):
            np.add.at(values, np.ix_(rows, np.searchsorted(columns, sums.columns)), sums.values)
        return UnitSums(names, columns, values)
