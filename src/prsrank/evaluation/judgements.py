"""Judgements from clicks: how relevant each doc is to its query, and files of them that others read."""

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.data.ids import objects
from prsrank.errors import InputError
from prsrank.files import FileName, atomic_output
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
        click_model: which click model the thetas come from, and why.
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
    click_model: str = ""

    def select(self, docs: Marks) -> "Judgements":
        """Return the judgements of some of the docs."""
        names = ("query_ids", "doc_ids", *_VALUES)
        return replace(self, **{name: getattr(self, name)[docs] for name in names})

    def _line(self) -> str:
        ends = ", ".join(f"{end:.3g}" for end in self.thresholds)
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
    >>> judged = judge(log, PowerLaw(1.0))
    >>> len(judged.rating) == len(log.doc_ids), sorted(set(judged.rating.tolist()))
    (True, [0, 1, 2, 3])
    """
    if lists is None:
        lists = lists_by_position(log)
    clicks = DocClicks.of([log], lists, propensities)
    posterior = posterior_of_clicks(clicks, lists, prior=prior, seed=seed)
    evidence = clicks.counted.evidence()
    shown = evidence.sums(evidence.shown)
    there = shown > 0
    ends = _thresholds(posterior.theta[there], thresholds)
    judged = Judgements(
        lists.query_ids[list_of_row(lists.offsets)],
        lists.doc_names,
        np.searchsorted(ends, posterior.theta, side="right"),
        posterior.theta,
        posterior.low,
        posterior.high,
        shown.round().astype(np.int64),
        evidence.sums(evidence.clicked).round().astype(np.int64),
        evidence.sums(evidence.shown * evidence.gain),
        ends,
        "" if posterior.choice is None else posterior.choice.sentence,
    )
    return judged.select(there)


def lists_by_position(log: ClickLog) -> RankingDataset:
    """Return the docs of a log with the log of their mean position as their only feature."""
    shown, _ = log.slot_statistics()
    total = np.bincount(log.ranking_docs, shown * log.ranking_positions, len(log.doc_ids))
    often = np.bincount(log.ranking_docs, shown, len(log.doc_ids))
    features = np.log(np.maximum(total, 1) / np.maximum(often, 1))[:, None]
    return RankingDataset(features, log.doc_offsets, log.query_ids, doc_ids=log.doc_ids)


def _thresholds(theta: Floats, asked: Sequence[float] | None) -> tuple[float, ...]:
    if asked is None:
        top = float(np.quantile(theta, _TOP))
        return tuple(share * top for share in GRADES)
    ends = tuple(map(float, asked))
    if not ends or not all(0 < end < 1 for end in ends) or list(ends) != sorted(set(ends)):
        raise InputError(f"thresholds must rise between 0 and 1, not {list(asked)}")
    return ends


def write_judgements(judged: Judgements, path: FileName, to: str) -> None:
    """Write judgements in a format of JUDGEMENT_FORMATS, whole or not at all."""
    with atomic_output(path) as draft:
        JUDGEMENT_FORMATS[to](judged, draft)


def _rows(judged: Judgements) -> list[tuple[str, str, int]]:
    ids = (map(str, values.tolist()) for values in (judged.query_ids, judged.doc_ids))
    return list(zip(*ids, judged.rating.tolist(), strict=True))


def _quepid(judged: Judgements, path: Path) -> None:
    """Quepid's ratings: query, docid, rating."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["query", "docid", "rating"])
        writer.writerows(_rows(judged))


def _trec(judged: Judgements, path: Path) -> None:
    """TREC's qrels: query, 0, doc, rating, between blanks."""
    with path.open("w", encoding="utf-8") as stream:
        for query, doc, rating in _rows(judged):
            if len(query.split()) != 1 or len(doc.split()) != 1:
                raise InputError(f"qrels have no place for blanks in ids, as in {query!r}, {doc!r}")
            stream.write(f"{query} 0 {doc} {rating}\n")


def _opensearch(judged: Judgements, path: Path) -> None:
    """The body of OpenSearch's PUT _plugins/_search_relevance/judgments."""
    ratings: dict[str, list[dict[str, str]]] = {}
    for query, doc, rating in _rows(judged):
        ratings.setdefault(query, []).append({"docId": doc, "rating": f"{rating:.1f}"})
    body = {
        "name": "prsrank judgements",
        "description": "P(click once seen) by grades from "
        + ", ".join(f"{end:.3g}" for end in judged.thresholds),
        "type": "IMPORT_JUDGMENT",
        "judgmentRatings": [{"query": q, "ratings": docs} for q, docs in ratings.items()],
    }
    path.write_text(json.dumps(body, ensure_ascii=False, indent=1), encoding="utf-8")


def _parquet(judged: Judgements, path: Path) -> None:
    """Parquet with all columns."""
    import duckdb

    with duckdb.connect() as connection:
        columns = {name: objects(array) for name, array in judged.columns().items()}
        connection.register("columns", columns)
        connection.sql("SELECT * FROM columns").write_parquet(str(path))


JUDGEMENT_FORMATS: dict[str, Callable[[Judgements, Path], None]] = {
    "parquet": _parquet,
    "quepid": _quepid,
    "opensearch": _opensearch,
    "trec": _trec,
}
"""How judgements are written, by name."""
