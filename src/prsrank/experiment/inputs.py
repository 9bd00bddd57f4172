"""What a job needs: the parts of its fold, the production ranker, logs and propensities."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from prsrank.clicks.models import CLICK_MODELS, click_model
from prsrank.clicks.production import ProductionRanker, logging_part, production_scores
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.collections import Collection, open_collection, rotated
from prsrank.data.dataset import RankingDataset
from prsrank.data.ids import packed_ids, texts_of
from prsrank.experiment.jobs import Job, Source, canonical, seed_of
from prsrank.logs.click_log import ClickLog
from prsrank.propensity.curve import PowerLaw, Propensities, covering
from prsrank.propensity.randomised import RandomisedEstimator
from prsrank.types import Floats

Kept = TypeVar("Kept")

_LEAST_CLICKS = 50


@dataclass(frozen=True, eq=False)
class Parts:
    """The three parts of a fold."""

    train: RankingDataset
    validation: RankingDataset
    test: RankingDataset


@dataclass(frozen=True, eq=False)
class Logged:
    """A simulated log.

    Attributes:
        lists: the lists that clicks were drawn on.
        scores: the production ranker's scores of their docs.
        log: the clicks.
    """

    lists: RankingDataset
    scores: Floats
    log: ClickLog


class Inputs:
    """Makes what a job needs, and keeps it while jobs of the same log follow one another.

    Attributes:
        identity: the job's.
        parts: its fold.
    """

    def __init__(self, job: Job) -> None:
        self.identity = job.identity
        self._fold = job.data, job.identity["fold"], job.relevant_from
        self.parts = _read_fold(*self._fold)
        self._kept = _kept_by(job.group)

    def keep(self, name: str, key: Any, make: Callable[[], Kept]) -> Kept:
        """Return what was made for this key before, or make it now."""
        label = canonical([name, key])
        if label not in self._kept:
            self._kept[label] = make()
        kept: Kept = self._kept[label]
        return kept

    def seed(self, purpose: str) -> int:
        """Return the seed of something that all jobs of a fold and a run share.

        It depends on the data, the fold, the run and the production ranker but not on the point
        of the axis: points differ by their settings, not by luck, and a longer log begins with
        the shorter one.
        """
        return seed_of(purpose, *(self.identity[k] for k in ("data", "fold", "seed", "production")))

    @property
    def production(self) -> ProductionRanker:
        """The production ranker."""
        share = self.identity["production"]["production_share"]
        return _production(*self._fold, share, self.seed("production"))

    def logged(self) -> Logged:
        """Return the log to train on."""

        def make() -> Logged:
            lists, scores = logging_part(self.parts.train, [self.production])
            settings = self.identity["clicks"] or self.identity["test_clicks"]
            log = simulated(lists, scores[0], settings, seed=self.seed("clicks"))
            return Logged(lists, scores[0], log)

        return self.keep("log", 0, make)

    def held_out(self, split: str) -> Logged:
        """Return a log of the validation or the test part, as dense as the training log."""

        def make() -> Logged:
            lists: RankingDataset = getattr(self.parts, split)
            scores = self.production.score(lists.features)
            settings = self.identity.get("test_clicks") or self.identity["clicks"]
            clicks = round(settings["clicks"] * (lists.lists / self.parts.train.lists))
            settings = {**settings, "clicks": max(clicks, _LEAST_CLICKS)}
            log = simulated(lists, scores, settings, seed=self.seed(split))
            return Logged(lists, scores, log)

        return self.keep("held out", split, make)

    def curve(self, settings: Mapping[str, Any]) -> PowerLaw | Propensities:
        """Return the propensities that a job is given: known, or from randomised sessions."""
        if settings["source"] == "known":
            return PowerLaw(settings["eta"])

        def make() -> Propensities:
            clicks = self.identity.get("test_clicks") or self.identity["clicks"]
            logged = self.logged()
            # All sessions, whatever their clicks: a click at the top is the only one more often
            # than a click below it, so sessions of one click would show too steep a curve.
            clicks = {**clicks, "clicks": settings["clicks"], "one_click": False}
            seed = self.seed("randomised")
            log = simulated(logged.lists, logged.scores, clicks, seed=seed, randomised=1.0)
            curve = RandomisedEstimator(shape="monotone", replicates=20).estimate(log)
            longest = max(int(part.list_lengths.max()) for part in vars(self.parts).values())
            return covering(curve, longest, fewest=0)

        return self.keep("curve", settings, make)


def simulated(
    lists: RankingDataset,
    scores: Floats,
    settings: Mapping[str, Any],
    *,
    seed: int,
    randomised: float = 0.0,
) -> ClickLog:
    """Simulate a log; of one click a session only, if the settings say so."""
    kind = CLICK_MODELS.find(settings["model"])
    own = {setting.name for setting in fields(kind)} & {"eta", "mu"}  # type: ignore[arg-type]
    model = click_model(settings["model"], **{name: settings[name] for name in own})
    log = simulate_clicks(
        *(lists, scores, model),
        clicks=settings["clicks"],
        seed=seed,
        randomised=randomised,
        threads=1,
    )
    return log.select(np.flatnonzero(log.session_clicks == 1)) if settings["one_click"] else log


@lru_cache(1)
def _kept_by(group: str) -> dict[str, Any]:
    """Return what the jobs of a group keep: the same until a job of another group comes."""
    return {}


@lru_cache(2)
def _read_fold(data: str, fold: int, relevant_from: float | None) -> Parts:
    return read_parts(open_folds(data, relevant_from), fold)


@lru_cache(16)
def _production(
    data: str, fold: int, relevant_from: float | None, share: float, seed: int
) -> ProductionRanker:
    return production_scores(_read_fold(data, fold, relevant_from).train, share=share, seed=seed)


def open_folds(data: str, relevant_from: float | None = None) -> Collection:
    """Open a data set; one that has no published split is cut in five parts, rotated as LETOR's."""
    collection = open_collection(data, relevant_from=relevant_from)
    if collection.has_splits:
        return collection
    return rotated(collection.name, collection.everything(), has_splits=False)


def read_parts(collection: Collection, fold: int) -> Parts:
    """Read the three parts of a fold."""
    return Parts(*(collection.load(split, fold=fold) for split in ("train", "validation", "test")))


def read_source(data: str, folds: int, relevant_from: float | None = None) -> Source:
    """Read a data set once: the fingerprints of its folds, and what the table needs of them."""
    collection = open_folds(data, relevant_from)
    used = min(folds, collection.folds)
    every = [read_parts(collection, fold) for fold in range(1, used + 1)]
    note = f"{collection.name} has {collection.folds} fold only" if used < folds else ""
    if not collection.has_splits:
        note = f"{collection.name} has no published split: five parts in file order, rotated"
    return Source(
        data,
        tuple(_fingerprint(parts) for parts in every),
        tuple(tuple(map(str, parts.test.query_ids.tolist())) for parts in every),
        tuple(parts.train.lists for parts in every),
        collection.name,
        note,
        relevant_from,
    )


def _fingerprint(parts: Parts) -> str:
    digest = hashlib.sha256()
    for part in vars(parts).values():
        ids = texts_of(part.query_ids)
        texts = packed_ids("", ids).values() if ids.dtype.kind == "O" else (ids,)
        for array in (part.features, part.offsets, part.labels, *texts):
            content = np.zeros(0) if array is None else np.ascontiguousarray(array)
            digest.update(f"{content.dtype} {content.shape} ".encode())
            digest.update(content.tobytes())
        digest.update(f"{part.relevant_from} {part.feature_names}".encode())
    return digest.hexdigest()
