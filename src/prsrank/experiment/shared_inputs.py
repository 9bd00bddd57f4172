"""What jobs share in a process: parts of the data, production rankers, logs, propensities."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from prsrank.clicks.models import CLICK_MODELS, click_model
from prsrank.clicks.production import ProductionRanker, logging_part, production_scores
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.collections import Collection, open_collection, rotation
from prsrank.data.dataset import RankingDataset
from prsrank.data.ids import packed_ids, texts_of
from prsrank.experiment.jobs import Identity, Source, canonical, seed_of
from prsrank.logs.click_log import ClickLog
from prsrank.propensity.curve import PowerLaw, Propensities, covering
from prsrank.propensity.randomised import RandomisedEstimator
from prsrank.types import Floats

Kept = TypeVar("Kept")

_FOLDS_KEPT = 2
_PRODUCTIONS_KEPT = 16
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


class SharedInputs:
    """Makes what jobs need, and keeps it while jobs of the same log follow one another."""

    def __init__(self) -> None:
        self.parts = lru_cache(_FOLDS_KEPT)(_read_fold)
        self._productions = lru_cache(_PRODUCTIONS_KEPT)(_production)
        self._group = ""
        self._kept: dict[str, Any] = {}

    def enter(self, group: str) -> None:
        """Forget what belongs to another group of jobs."""
        if group != self._group:
            self._group, self._kept = group, {}

    def keep(
        self, name: str, key: Any, make: Callable[..., Kept], *arguments: Any, **more: Any
    ) -> Kept:
        """Return what `make` made for this key before, or call it now with what it is given."""
        label = canonical([name, key])
        if label not in self._kept:
            self._kept[label] = make(*arguments, **more)
        kept: Kept = self._kept[label]
        return kept

    def production(self, parts: Parts, identity: Identity) -> ProductionRanker:
        """Return the production ranker of a job."""
        settings, seed = identity["production"], run_seed(identity, "production")
        share, ranker = settings["production_share"], settings["production_ranker"]
        return self._productions(parts, share, ranker, seed)

    def logged(self, parts: Parts, identity: Identity) -> Logged:
        """Return the training log of a job."""

        def make() -> Logged:
            lists, scores = logging_part(parts.train, [self.production(parts, identity)])
            seed = run_seed(identity, "clicks")
            log = simulated(lists, scores[0], identity["clicks"], seed=seed)
            return Logged(lists, scores[0], log)

        return self.keep("log", 0, make)

    def held_out(self, parts: Parts, identity: Identity, split: str) -> Logged:
        """Return a log of the validation or the test part, as dense as the training log."""

        def make() -> Logged:
            lists: RankingDataset = getattr(parts, split)
            scores = self.production(parts, identity).score(lists.features)
            settings = identity.get("test_clicks") or identity["clicks"]
            clicks = round(settings["clicks"] * (lists.lists / parts.train.lists))
            settings = {**settings, "clicks": max(clicks, _LEAST_CLICKS)}
            log = simulated(lists, scores, settings, seed=run_seed(identity, split))
            return Logged(lists, scores, log)

        return self.keep("held out", split, make)

    def curve(
        self, parts: Parts, identity: Identity, settings: Mapping[str, Any]
    ) -> PowerLaw | Propensities:
        """Return the propensities that a job is given: known, or from randomised sessions."""
        if settings["source"] == "known":
            return PowerLaw(settings["eta"])

        def make() -> Propensities:
            clicks = identity.get("test_clicks") or identity["clicks"]
            logged = self.logged(parts, {**identity, "clicks": clicks})
            # All sessions, whatever their clicks: a click at the top is the only one more often
            # than a click below it, so sessions of one click would show too steep a curve.
            log = simulated(
                logged.lists,
                logged.scores,
                {**clicks, "clicks": settings["clicks"], "one_click": False},
                seed=run_seed(identity, "randomised"),
                randomised=True,
            )
            curve = RandomisedEstimator(shape="monotone", replicates=20).estimate(log)
            longest = max(int(part.list_lengths.max()) for part in vars(parts).values())
            return covering(curve, longest, fewest=0)

        return self.keep("curve", settings, make)


def _read_fold(data: str, fold: int, relevant_from: float | None = None) -> Parts:
    return read_parts(open_folds(data, relevant_from), fold)


def _production(parts: Parts, share: float, ranker: str, seed: int) -> ProductionRanker:
    return production_scores(parts.train, share=share, ranker=ranker, seed=seed)


def run_seed(identity: Identity, purpose: str) -> int:
    """Return the seed of something that all jobs of a fold and a run share.

    It depends on the data, the fold, the run and the production ranker but not on the point
    of the axis: points differ by their settings, not by luck, and a longer log begins with
    the shorter one.
    """
    return seed_of(
        purpose, identity["data"], identity["fold"], identity["seed"], identity["production"]
    )


def simulated(
    lists: RankingDataset,
    scores: Floats,
    settings: Mapping[str, Any],
    *,
    seed: int,
    randomised: bool = False,
) -> ClickLog:
    """Simulate a log; of one click a session only, if the settings say so."""
    kind = CLICK_MODELS.find(settings["model"])
    own = {setting.name for setting in fields(kind)} & {"eta", "mu"}  # type: ignore[arg-type]
    log = simulate_clicks(
        lists,
        scores,
        click_model(settings["model"], **{name: settings[name] for name in own}),
        clicks=settings["clicks"],
        seed=seed,
        randomised=1.0 if randomised else 0.0,
        threads=1,
    )
    return log.select(np.flatnonzero(log.session_clicks == 1)) if settings["one_click"] else log


def open_folds(data: str, relevant_from: float | None = None) -> Collection:
    """Open a data set; one that has no published split is cut in five parts, rotated as LETOR's."""
    collection = open_collection(data, relevant_from=relevant_from)
    if collection.has_splits:
        return collection
    whole = collection.everything()
    part_of_list = np.arange(whole.lists) * 5 // max(whole.lists, 1)
    return Collection(
        collection.name,
        5,
        lambda fold, split: whole.select(np.isin(part_of_list, rotation(fold, split))),
        lambda: whole,
        has_splits=False,
    )


def read_parts(collection: Collection, fold: int) -> Parts:
    """Read the three parts of a fold."""
    return Parts(*(collection.load(split, fold=fold) for split in ("train", "validation", "test")))


def read_source(data: str, folds: int, relevant_from: float | None = None) -> Source:
    """Read a data set once: the fingerprints of its folds, and what the table needs of them."""
    collection = open_folds(data, relevant_from)
    used = min(folds, collection.folds)
    every = [read_parts(collection, fold) for fold in range(1, used + 1)]
    note = (
        "" if collection.folds >= folds else f"{collection.name} has {collection.folds} fold only"
    )
    if not collection.has_splits:
        note = f"{collection.name} has no published split: five parts in file order, rotated"
    return Source(
        data,
        tuple(_fingerprint(parts) for parts in every),
        tuple(tuple(str(q) for q in parts.test.query_ids.tolist()) for parts in every),
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
