"""What posterior pairs take from a log: counts of its clicks by doc and position."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from prsrank.clicks.cascade import CascadeCounts
from prsrank.clicks.evidence import ClickEvidence
from prsrank.clicks.whole_sessions import WholeSessions
from prsrank.data.dataset import RankingDataset
from prsrank.logs.click_log import ClickLog
from prsrank.logs.pieces import LocalPieces, LocalSessions, SessionPieces, Sessions
from prsrank.propensity.counted_clicks import CountedClicks, count_clicks
from prsrank.types import Floats

if TYPE_CHECKING:
    from prsrank.pairs.log_on_lists import PropensitySource


@dataclass(frozen=True, eq=False)
class DocClicks:
    """What posterior pairs take from a log: sums over its sessions, a few numbers per doc.

    Attributes:
        counted: impressions and clicks.
        weights: sum and sum of squares of the weights of each doc's clicks (2 x docs); None
            where every click counts 1.
        sessions: sessions of each list (lists).
        reading: counts what a cascade needs. Few logs call for it, and it takes memory for every
            ranking.
        whole: some sessions as they are, by which click models are compared.
    """

    counted: CountedClicks
    weights: Floats | None
    sessions: Floats
    reading: Callable[[], CascadeCounts]
    whole: WholeSessions

    def action_weights(self, evidence: ClickEvidence) -> Floats | None:
        """Return what a click on each doc is worth; None where every click counts 1."""
        if self.weights is None:
            return None
        total, squares = self.weights
        return action_weights(evidence.sums(evidence.clicked), total, squares)

    @classmethod
    def of(
        cls,
        log: Any,
        lists: RankingDataset,
        propensities: "PropensitySource" = None,
        *,
        context: str | None = None,
    ) -> "DocClicks":
        """Count a log, or its pieces one after the other; arguments as those of `posterior`."""
        pieces = _pieces(log, lists)

        def counts(piece: Sessions) -> tuple[Any, ...]:
            log, own = piece.log, piece.lists
            return (
                count_clicks(log, own, propensities, context=context),
                WholeSessions.of_log(log, own),
                _sessions_of_lists(log, own),
                None if log.click_weights is None else _weights_of_docs(log, own),
            )

        columns, weighted = [], False
        weights, sessions = np.zeros((2, lists.docs)), np.zeros(lists.lists)
        whole: list[WholeSessions] = []
        for place, (cells, sample, shown, weighed) in pieces.each(counts):
            columns.append((place.rows[cells[0]], *cells[1:]))
            own = replace(sample, docs=place.rows[sample.docs])
            whole = [WholeSessions.joined([*whole, own], lists)]
            sessions[place.lists] += shown
            if weighed is not None:
                weights[:, place.rows] += weighed
                weighted = True
            else:  # clicks of other pieces may have weights: these count 1
                weights += np.bincount(columns[-1][0], columns[-1][-1], lists.docs)
        return cls(
            CountedClicks.of_columns(lists, columns),
            weights if weighted else None,
            sessions,
            lambda: CascadeCounts.joined(_cascade_counts(pieces)),
            whole[0],
        )


def _cascade_counts(pieces: SessionPieces) -> Iterator[CascadeCounts]:
    for place, counts in pieces.each(lambda piece: CascadeCounts.of_log(piece.log, piece.lists)):
        yield replace(counts, docs=place.rows[counts.docs])


def action_weights(n: Floats, total: Floats, squares: Floats) -> Floats:
    r"""Return what a click on each doc is worth: the mean weight of its clicks, shrunk.

    Counts of weights are not counts: theta comes from clicks, whatever they weigh, and the
    weight of a doc's clicks is a second quantity, $\omega_d = (\sum w + m \bar w) / (n + m)$.
    $\bar w$ is the mean over all clicks, and m the variance of weights within docs over that
    between docs (Bühlmann and Straub's credibility): a doc with few clicks is worth the mean.

    Args:
        n: clicks on each doc.
        total: sum of their weights.
        squares: sum of the squares of their weights.
    """
    clicks, docs, pairs = n.sum(), np.count_nonzero(n), (n**2).sum()
    mean = total.sum() / clicks
    own = np.divide(total, n, out=np.full(len(n), mean), where=n > 0)
    within = (squares - n * own**2).sum() / max(clicks - docs, 1)
    aside = (n * (own - mean) ** 2).sum()
    between = (aside - max(docs - 1, 0) * within) / max(clicks - pairs / clicks, 1e-12)
    # no difference between docs that chance would not make: every doc is worth the mean
    if not between > 1e-12 * mean**2:
        return np.full(len(n), mean)
    shrink = within / between
    shrunk: Floats = np.where(n > 0, (total + shrink * mean) / np.maximum(n + shrink, 1.0), mean)
    return shrunk


def _pieces(log: Any, lists: RankingDataset) -> SessionPieces:
    """Return a log, a frame of one or logs without a common query as pieces on some lists."""
    if isinstance(log, SessionPieces):
        return log
    if isinstance(log, Mapping) or hasattr(log, "columns"):
        log = ClickLog.from_frame(log)
    logs = [log] if isinstance(log, ClickLog) else log
    # they may be gone through again
    logs = list(logs) if isinstance(logs, Iterator) else logs
    return LocalSessions(LocalPieces(logs), lists, whole=True)


def _sessions_of_lists(log: ClickLog, lists: RankingDataset) -> Floats:
    sessions = np.bincount(log.session_ranking, minlength=log.rankings)
    filled = np.diff(log.ranking_offsets) > 0
    first = log.ranking_docs[log.ranking_offsets[:-1][filled]]
    owner = np.searchsorted(lists.offsets, log.doc_rows(lists)[first], side="right") - 1
    return np.bincount(owner, sessions[filled], lists.lists).astype(np.float64)


def _weights_of_docs(log: ClickLog, lists: RankingDataset) -> Floats:
    """Return sum and sum of squares of the weights of the clicks on each doc (2 x docs)."""
    slot = np.repeat(log.ranking_offsets[log.session_ranking], log.session_clicks) + log.clicks
    doc = log.doc_rows(lists)[log.ranking_docs[slot]]
    weights = log.click_weights
    assert weights is not None  # noqa: S101
    return np.array([np.bincount(doc, w, lists.docs) for w in (weights, weights**2)])
