"""The log of a fit: sessions with their lists, in pieces, wherever an engine keeps them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.evaluation.doc_sums import Regression
from prsrank.evaluation.log_evaluation import LogEvaluation, evaluation_of
from prsrank.fit.judging import Judging, Trained, Weighed, metric_of
from prsrank.logs.click_log import ClickLog, Context
from prsrank.logs.held_out import SessionMarks
from prsrank.logs.pieces import (
    NOTHING,
    Change,
    Extent,
    LocalPieces,
    LocalSessions,
    Pieces,
    SessionPieces,
    Sessions,
    missing_sessions,
)
from prsrank.logs.split import RANDOMISED, Split
from prsrank.pairs.pair_set import fold_pieces
from prsrank.pairs.posterior import Posterior, posterior_pairs
from prsrank.propensity.counted_clicks import SampledClicks
from prsrank.propensity.curve import PropensityCurve
from prsrank.rankers.base import Progress, Ranker
from prsrank.rankers.lambdamart import ndcg_of
from prsrank.rankers.linear import fit_linear
from prsrank.relevance.prior import sampled_queries
from prsrank.types import Floats, Marks
from prsrank.weighting import find_weighting

VALIDATION_SHARE = 0.2
TRAIN, VALIDATION, HELD_OUT = "train", "validation", "held out"

HALF = "cross-fit half"
"""A context of the held-out sessions where they are randomised: half "1" or "2" of the queries."""

# Not the seed by which other samples are drawn: they would be parts of one another.
_SAMPLE_SEED = 2


@dataclass(frozen=True, eq=False)
class PiecedLog:
    """Sessions and the lists that they show, in pieces without a common query.

    Attributes:
        sessions: the pieces, where an engine keeps them.
        left_out: sessions that show docs without features; in no part.
        grouped: whether lists of one query have ids of their own, and stay together.
        measured: how large the log is, if somebody has counted.
        share: of the queries, by a hash of their ids, whose lists rankers learn from in this
            process: those of all do not fit the memory given.
        known: posteriors of these sessions that were asked for before.
    """

    sessions: SessionPieces
    left_out: int = 0
    grouped: bool = False
    measured: Extent | None = None
    share: float = 1.0
    known: dict[Any, Posterior] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(
        cls, logs: Sequence[ClickLog], lists: RankingDataset, *, grouped: bool = False
    ) -> "PiecedLog":
        """Return logs in memory, without a common query, with their lists."""
        return cls(LocalSessions(LocalPieces(list(logs)), lists), grouped=grouped)

    @property
    def pieces(self) -> Pieces[ClickLog]:
        """The sessions alone."""
        return self.sessions.logs

    @property
    def lists(self) -> RankingDataset:
        """The lists that rankers learn from, in this process."""
        return self.taught.lists

    @cached_property
    def taught(self) -> SessionPieces:
        """The sessions that rankers learn from in this process."""
        if self.share >= 1:
            return self.sessions
        return self.sessions.select(partial(_sampled, share=self.share))

    @cached_property
    def has_propensities(self) -> bool:
        """Whether the log has propensities of its own."""
        return self.pieces.total(lambda log: int(log.ranking_propensities is None)) == 0

    def extent(self) -> Extent:
        """Return how many sessions, queries, clicks and positions there are."""
        return self.measured or self.pieces.total(Extent.of, NOTHING)

    def covered(self, missing: int | None = None) -> "PiecedLog":
        """Return the sessions all of whose docs have features, with their lists.

        Args:
            missing: how many others there are, if somebody has counted.
        """
        if missing is None:
            missing = self.sessions.total(missing_sessions)
        if not missing:
            return self
        if missing == self.extent().sessions:
            self.sessions.total(_name_missing)
        return replace(self, sessions=self.sessions.covered(), left_out=missing, measured=None)

    def split(self, how: Split) -> "LogParts":
        """Split the log into parts without a common query."""
        marks = SessionMarks.of(self.pieces, how, grouped=self.grouped, validation=VALIDATION_SHARE)
        chosen: dict[str, Callable[[ClickLog], Marks]] = {
            TRAIN: lambda log: marks.learning(log) & ~marks.validation(log),
            VALIDATION: lambda log: marks.learning(log) & marks.validation(log),
            HELD_OUT: marks.held_out,
            "learning": marks.learning,
            "dropped": lambda log: ~marks.held_out(log) & ~marks.learning(log),
        }
        changes: dict[str, Change] = {
            name: partial(_marked, marks=mark) for name, mark in chosen.items()
        }
        if how.way == RANDOMISED:
            changes[HELD_OUT] = partial(_held_out_in_halves, marks=marks)
            for name, first in (("1", True), ("2", False)):
                changes[name] = partial(_half, marks=marks, first=first)
        parts = {
            name: replace(self, sessions=part, measured=extent)
            for name, (part, extent) in self.sessions.cut(changes).items()
        }
        return LogParts(
            parts[TRAIN],
            parts[VALIDATION],
            parts[HELD_OUT],
            parts["learning"],
            how.way,
            parts["dropped"].extent().sessions,
            (parts["1"], parts["2"]) if how.way == RANDOMISED else None,
        )

    def where(self, chosen: Callable[[ClickLog], Marks]) -> "PiecedLog":
        """Return the sessions that a function marks, and the lists of their queries."""
        kept = self.sessions.select(partial(_marked, marks=chosen))
        return replace(self, sessions=kept, measured=None)

    def train(
        self,
        rankers: Sequence[Ranker],
        how: Weighed,
        *,
        validation: "PiecedLog | RankingDataset | None" = None,
        progress: Progress | None = None,
    ) -> Trained:
        """Fit rankers that differ in their settings alone to the same pairs, in place.

        Args:
            rankers: those that stop early do so on the validation part.
            how: they are trained.
            validation: sessions whose clicks judge; or lists with labels, which judge too.
            progress: is told after each tree or epoch.
        """
        if not self.sessions.local and rankers[0].sums_over_pieces and _pairs_by_piece(how):
            return self._train_over_pieces(rankers, how, validation)
        pairs = self.fold(rankers[0], how)
        diagnostics = pairs.diagnostics() if hasattr(pairs, "diagnostics") else None
        judge = _judge_of(validation, how)
        values = []
        for ranker in rankers:
            stop = judge if ranker.stops_early else None
            ranker.fit(self.lists, pairs, validation=stop, progress=progress)
            values.append(
                float("nan") if judge is None else judge[1](ranker.score(judge[0].features))
            )
        return Trained(tuple(values), diagnostics)

    def _train_over_pieces(
        self, rankers: Sequence[Any], how: Weighed, validation: "PiecedLog | RankingDataset | None"
    ) -> Trained:
        """Fit rankers whose loss is summed over the pieces, which stay where they are."""
        fold = partial(_folded, ranker=rankers[0], how=how)
        fit_linear(rankers, self.sessions.map(fold), self.sessions.feature_names)
        if isinstance(validation, PiecedLog):
            return Trained(tuple(validation._qualities(rankers, how)))
        judge = _judge_of(validation, how)
        if judge is None:
            return Trained((float("nan"),) * len(rankers))
        return Trained(tuple(judge[1](ranker.score(judge[0].features)) for ranker in rankers))

    def fold(self, ranker: Ranker, how: Weighed) -> Any:
        """Return what a ranker learns from, of all pieces: they have no list in common."""
        chosen = find_weighting(how.weighting)
        if ranker.takes == "pairs" and chosen.against == "posterior":
            # they learn of one list from the others, and so are made of all pieces at once
            options = {"prior": ranker.prior, **ranker.pair_options}
            options |= {"parameters": how.parameters, "known": self.known, "like": how.like}
            return posterior_pairs(self.taught, self.lists, how.curve, **options)
        curve = how.curve if ranker.takes_propensities else None

        def fold(log: ClickLog, lists: RankingDataset) -> Any:
            return ranker.pairs(log, lists, curve, how.weighting, parameters=how.parameters)

        if ranker.takes == "pairs" and not chosen.of_relevance:
            return fold_pieces(self.taught, fold)
        piece = self.sessions.only
        if piece is None:
            taker = how.weighting if chosen.of_relevance else ranker.name
            raise InputError(
                f"{taker} takes no pairs of pieces: it needs a log that fits the memory"
            )
        return fold(piece.log, self.lists)

    def evaluate(
        self,
        curve: PropensityCurve | None,
        rankers: Mapping[str, Ranker | None],
        *,
        against: Sequence[str],
        context: str | None = None,
        seed: int = 0,
    ) -> LogEvaluation:
        """Estimate how good rankers are from the clicks; None among them puts docs in random order.

        Args:
            curve: the propensities; None takes the log's own.
            rankers: by name.
            against: which each is compared with: "logged", or names of rankers.
            context: context whose values are judged apart, and may have curves of their own.
            seed: of the bootstrap.
        """
        # what features say of relevance, where some propensity asks for it
        regression = Regression.of_pieces(self.taught, curve, context=context)
        if not self.sessions.local:
            regression = regression.apart()
        judging = Judging(rankers, curve, context, regression)
        return evaluation_of(self.sessions.total(judging), curve, against=against, seed=seed)

    def counted(self, docs: int) -> SampledClicks:
        """Return about so many docs, whole lists of them, with the counts of their clicks."""
        share = docs / max(self.sessions.docs(), 1)
        return self.sessions.total(lambda piece: SampledClicks.of(piece.log, piece.every, share))

    @property
    def posterior(self) -> Posterior | None:
        """The posterior that was asked for first."""
        return next(iter(self.known.values()), None)

    def quality(self, how: Weighed) -> tuple[RankingDataset, Callable[[Floats], float]]:
        """Return the lists, and what the clicks say of scores of their docs."""
        metrics, sessions = [], 0
        for place, (count, metric) in self.taught.each(partial(metric_of, how=how)):
            sessions += count
            if metric is not None:
                metrics.append((place, metric))

        def quality(scores: Floats) -> float:
            total = sum(metric.sums(scores[place.rows])[0] for place, metric in metrics)
            return total / float(sessions)

        return self.lists, quality

    def _qualities(self, rankers: Sequence[Ranker], how: Weighed) -> list[float]:
        """Return what the clicks say of each ranker, which scores the lists where they are."""

        def sums(piece: Sessions) -> Floats:
            sessions, metric = metric_of(piece, how)
            scores = [ranker.score(piece.lists.features) for ranker in rankers]
            values = [0.0 if metric is None else metric.sums(one)[0] for one in scores]
            return np.array([*values, sessions])

        *totals, sessions = self.sessions.total(sums).tolist()
        return [total / sessions for total in totals]


def _marked(log: ClickLog, marks: Callable[[ClickLog], Marks]) -> ClickLog:
    return log.select(marks(log))


def _sampled(log: ClickLog, share: float) -> ClickLog:
    queries = sampled_queries(log.query_ids, share, seed=_SAMPLE_SEED)
    return log.select(queries[log.ranking_query][log.session_ranking])


def _held_out_in_halves(log: ClickLog, marks: SessionMarks) -> ClickLog:
    """Return the sessions to judge by, with the half of each one's query as a context."""
    log = log.select(marks.held_out(log))
    codes = (~marks.first_half(log)).astype(np.int32)
    return replace(log, contexts={**log.contexts, HALF: Context(("1", "2"), codes)})


def _half(log: ClickLog, marks: SessionMarks, first: bool) -> ClickLog:
    """Return the sessions to judge by of one half of the queries."""
    return log.select(marks.held_out(log) & (marks.first_half(log) == first))


def _name_missing(piece: Sessions) -> int:
    """Raise an InputError that names a query or doc without features."""
    piece.log.doc_rows(piece.every)
    return 0


def _pairs_by_piece(how: Weighed) -> bool:
    """Tell whether the pairs of a list depend on no other list."""
    chosen = find_weighting(how.weighting)
    return chosen.against != "posterior" and not chosen.of_relevance


def _folded(piece: Sessions, ranker: Ranker, how: Weighed) -> tuple[RankingDataset, Any]:
    """Return the lists of a piece with their pairs."""
    pairs = ranker.pairs(
        piece.log, piece.lists, how.curve, how.weighting, parameters=how.parameters
    )
    return piece.lists, pairs


def _judge_of(
    validation: PiecedLog | RankingDataset | None, how: Weighed
) -> tuple[RankingDataset, Callable[[Floats], float]] | None:
    """Return lists, and what says how good scores of their docs are."""
    if isinstance(validation, RankingDataset):
        return validation, ndcg_of(validation)
    return None if validation is None else validation.quality(how)


@dataclass(frozen=True, eq=False)
class LogParts:
    """A log in three parts without a common query: to train on, to tune on, to judge by.

    Attributes:
        train: sessions to learn from.
        validation: sessions to choose settings by.
        held_out: sessions to judge by, once; with the context HALF where they are randomised.
        learning: train and validation together.
        way: how it was held out; see `Split`.
        dropped_sessions: sessions of queries that would be in two parts; in none.
        halves: the held-out sessions of each half of their queries, where they are randomised.
    """

    train: PiecedLog
    validation: PiecedLog
    held_out: PiecedLog
    learning: PiecedLog
    way: str
    dropped_sessions: int = 0
    halves: tuple[PiecedLog, PiecedLog] | None = None

    def __post_init__(self) -> None:
        if not self.held_out.extent().sessions:
            raise InputError(f"no session is marked as {self.way}: hold out by query or by time")
        if not self.train.extent().sessions:
            raise InputError(
                f"every query has sessions to hold out ({self.way}): hold out by query"
            )
        for name, extent in self.extents.items():
            if not extent.clicks:
                raise InputError(
                    f"the {name} part has no clicks ({extent.sessions} sessions): the log is too "
                    "small"
                )

    @property
    def extents(self) -> dict[str, Extent]:
        """How large each part is."""
        parts = {TRAIN: self.train, VALIDATION: self.validation, HELD_OUT: self.held_out}
        return {name: part.extent() for name, part in parts.items()}

    def counts(self) -> dict[str, dict[str, int]]:
        """Return sessions, queries and clicks of each part."""
        return {
            name: {"sessions": e.sessions, "queries": e.queries, "clicks": e.clicks}
            for name, e in self.extents.items()
        }
