"""Judgements from clicks: how relevant each doc is to its query, freed of position bias."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.logs.click_log import ClickLog
from prsrank.notebook import Chart, Columns, Shown
from prsrank.pairs.doc_clicks import DocClicks
from prsrank.pairs.posterior import posterior_of_clicks
from prsrank.ragged import list_of_row
from prsrank.relevance.prior import PriorModel
from prsrank.types import Floats, IdArray, Longs, Marks

if TYPE_CHECKING:
    from prsrank.pairs.log_on_lists import PropensitySource

GRADES = (0.125, 0.25, 0.5)
"""A doc has the grade 1, 2, 3 from such a share of the top on."""

_TOP = 0.99
_VALUES = ("rating", "theta", "low", "high", "impressions", "clicks", "seen")


@dataclass(frozen=True, eq=False, repr=False)
class Judgements(Shown):
    """A rating for each doc that was shown, list after list.

    Attributes:
        query_ids: query of each doc.
        doc_ids: id of each doc.
        rating: its grade, from 0 to 3 (docs).
        theta: P(click once seen): the expectation given all clicks and features (docs).
        low: lower end of its 95 % interval (docs).
        high: upper end (docs).
        impressions: how often it was shown (docs).
        clicks: how often it was clicked (docs).
        seen: how often it was seen, by the propensities (docs).
        thresholds: the theta from which on a doc has the grade 1, 2, 3.
    """

    query_ids: IdArray
    doc_ids: IdArray
    rating: Longs
    theta: Floats
    low: Floats
    high: Floats
    impressions: Longs
    clicks: Longs
    seen: Floats
    thresholds: tuple[float, ...]

    def select(self, docs: Marks) -> "Judgements":
        """Return the judgements of some of the docs."""
        names = ("query_ids", "doc_ids", *_VALUES)
        return replace(self, **{name: getattr(self, name)[docs] for name in names})

    def _line(self) -> str:
        ends = ", ".join(f"{one:.3g}" for one in self.thresholds)
        return f"{len(self.rating):,} docs, grades from P(click once seen) of {ends}"

    def _table(self) -> Columns:
        return self.columns()

    def _chart(self) -> Chart:
        docs = np.bincount(self.rating, minlength=len(self.thresholds) + 1)
        return Chart("bars", {"rating": np.arange(len(docs)), "docs": docs}, "rating", "docs")

    def columns(self) -> dict[str, npt.NDArray]:
        """Return the columns by name: those of the file that `prsrank judge` writes."""
        ids = {"query_id": self.query_ids, "doc_id": self.doc_ids}
        return ids | {name: getattr(self, name) for name in _VALUES}


def judge(
    log: ClickLog,
    propensities: "PropensitySource" = None,
    lists: RankingDataset | None = None,
    *,
    prior: str | PriorModel = "trees",
    thresholds: Sequence[float] | None = None,
    seed: int = 0,
) -> Judgements:
    """Judge every doc that a log shows, by the posterior of its clicks.

    Args:
        log: the clicks.
        propensities: a curve, one value per slot of the log, or None for the log's own.
        lists: the features of the docs; None: what is known of a doc before its clicks is how
            high it was shown, which says what the logged ranker thought of it.
        prior: how relevance comes from features.
        thresholds: the theta from which on a doc has the grade 1, 2, ...; default: GRADES of the
            top, which is the theta that 1 % of the shown docs reach.
        seed: of everything random.

    >>> from prsrank import PositionBasedModel, PowerLaw, simulate_clicks, synthetic_dataset
    >>> data = synthetic_dataset("mq2007", 20)
    >>> log = simulate_clicks(data, data.features[:, 0], PositionBasedModel(eta=1), clicks=500)
    >>> found = judge(log, PowerLaw(1.0))
    >>> len(found.rating) == len(log.doc_ids), sorted(set(found.rating.tolist()))
    (True, [0, 1, 2, 3])
    """
    if lists is None:
        lists = _lists_by_position(log)
    clicks = DocClicks.of([log], lists, propensities)
    found = posterior_of_clicks(clicks, lists, prior=prior, seed=seed)
    evidence = clicks.counted.evidence()
    shown = evidence.sums(evidence.shown)
    there = shown > 0
    ends = _thresholds(found.theta[there], thresholds)
    judged = Judgements(
        lists.query_ids[list_of_row(lists.offsets)],
        lists.doc_names,
        np.searchsorted(ends, found.theta, side="right"),
        found.theta,
        found.low,
        found.high,
        shown.round().astype(np.int64),
        evidence.sums(evidence.clicked).round().astype(np.int64),
        evidence.sums(evidence.shown * evidence.gain),
        ends,
    )
    return judged.select(there)


def _lists_by_position(log: ClickLog) -> RankingDataset:
    """Return the docs of a log with the log of their mean position as their only feature."""
    shown, _ = log.slot_statistics()
    total = np.bincount(log.ranking_docs, shown * log.ranking_positions, len(log.doc_ids))
    often = np.bincount(log.ranking_docs, shown, len(log.doc_ids))
    features = np.log(np.maximum(total, 1) / np.maximum(often, 1))[:, None]
    return RankingDataset(features, log.doc_offsets, log.query_ids, doc_ids=log.doc_ids)


def _thresholds(theta: Floats, given: Sequence[float] | None) -> tuple[float, ...]:
    if given is None:
        top = float(np.quantile(theta, _TOP))
        return tuple(share * top for share in GRADES)
    ends = tuple(float(one) for one in given)
    if not ends or not all(0 < one < 1 for one in ends) or list(ends) != sorted(set(ends)):
        raise InputError(f"thresholds must rise between 0 and 1, not {list(given)}")
    return ends
