"""The engine of one process: DuckDB for logs, this machine's cores for training."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from prsrank.data.dataset import RankingDataset
from prsrank.data.ids import joined_ids
from prsrank.data.storage import EVERY_SPLIT, StoredCollection, write_stored
from prsrank.errors import InputError
from prsrank.evaluation.counterfactual import CounterfactualMetric
from prsrank.evaluation.doc_sums import Regression
from prsrank.evaluation.log_evaluation import LogEvaluation, evaluation_of
from prsrank.evaluation.log_sums import sum_log
from prsrank.files import FileName
from prsrank.fit.engine import METRIC, Trained, Weighed
from prsrank.fit.parts import HALF, HELD_OUT, TRAIN, VALIDATION, VALIDATION_SHARE, LogParts
from prsrank.fit.plan import Plan
from prsrank.logs.click_log import ClickLog, Context
from prsrank.logs.click_log_files import write_events
from prsrank.logs.click_log_parts import merge
from prsrank.logs.coverage import covered_sessions, marked_queries
from prsrank.logs.features import lists_of_log, lists_of_table, split_lists
from prsrank.logs.held_out import SessionMarks
from prsrank.logs.mapping import LogMapping
from prsrank.logs.pieces import Extent, LocalPieces
from prsrank.logs.reading import ready_log
from prsrank.logs.sources import LogSource, open_events
from prsrank.logs.split import RANDOMISED, Split
from prsrank.logs.stored_pieces import read_in_pieces
from prsrank.logs.tables import give_back
from prsrank.pairs.piecewise import fold_pieces
from prsrank.pairs.posterior import Posterior, posterior_pairs
from prsrank.propensity.curve import PropensityCurve
from prsrank.propensity.sampled_clicks import SampledClicks
from prsrank.rankers.base import Progress, Ranker
from prsrank.rankers.lambdamart import ndcg_of
from prsrank.types import Floats, Marks
from prsrank.weighting import find_weighting

MOST_EXPANDED = 300_000
"""So many docs shown in sessions with a click may be expanded for a ranker of the log itself."""


class LocalEngine:
    """Runs every step in this process; see `prsrank.fit.engine.Engine`.

    A log that does not fit the memory given is read, and gone through, piece by piece.

    Args:
        threads: default: the cores this process may use.
    """

    name = "local"
    workers = 1

    def __init__(self, *, threads: int | None = None) -> None:
        self.threads = threads
        self._folder = tempfile.TemporaryDirectory(prefix="prsrank-")
        self._ready: ClickLog | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._folder.cleanup()

    def check(self, plan: Plan) -> None:
        """Refuse nothing: what a plan says can be done here."""

    @contextmanager
    def open_log(
        self, log: Any, *, mapping: LogMapping, memory: str | None = None
    ) -> Iterator[LogSource]:
        """Open a log out of core."""
        # what is a click log already need not be made of events again
        self._ready = ready_log(log, mapping)
        with open_events(log, mapping=mapping, memory=memory, threads=self.threads) as source:
            yield source

    def sessions(self, source: LogSource) -> LocalPieces[ClickLog]:
        """Read the sessions of an open log: in memory if they fit, else in pieces."""
        return self._read(source)

    def _read(self, source: LogSource, *, split: bool = False) -> LocalPieces[ClickLog]:
        if self._ready is not None and not split:
            return LocalPieces([self._ready])
        give_back(source.connection)  # the audit's tables
        return read_in_pieces(source, Path(self._folder.name), by_original=split)

    def load(
        self,
        source: LogSource,
        *,
        mapping: LogMapping,
        data: RankingDataset | None = None,
        table: FileName | None = None,
        lists: str = "query",
    ) -> "LocalLog":
        """Read an open log, in memory or in pieces, and the features of its docs."""
        split = lists == "session" and table is None and data is None
        source = split_lists(source) if split else source
        pieces = self._read(source, split=split)
        if table is not None:
            data = lists_of_table(source, table, mapping=mapping)
        features = lists_of_log(source) if data is None else data
        give_back(source.connection)
        return LocalLog(pieces, features, grouped=split).covered()


@dataclass(frozen=True, eq=False)
class LocalLog:
    """Sessions that this process holds, or reads piece by piece, and the lists they show.

    Attributes:
        pieces: the sessions, in pieces without a common query.
        every: lists, at least those of their queries.
        left_out: sessions that show docs without features; in no part.
        grouped: whether lists of one query have ids of their own, and stay together.
        known: posteriors of these sessions that were asked for before.
    """

    pieces: LocalPieces[ClickLog]
    every: RankingDataset
    left_out: int = 0
    grouped: bool = False
    known: dict[Any, Posterior] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def lists(self) -> RankingDataset:
        """Those of their queries: where they are not all, a copy made when it is first asked for."""
        return self.every if self._listed.all() else self.every.select(self._listed)

    @cached_property
    def _listed(self) -> Marks:
        ids = [log.query_ids for log in self.pieces]
        if not ids:
            return np.ones(self.every.lists, np.bool_)
        return marked_queries(joined_ids(ids), self.every)

    @property
    def has_propensities(self) -> bool:
        """Whether the log has propensities of its own."""
        return all(log.ranking_propensities is not None for log in self.pieces)

    def extent(self) -> Extent:
        """Return how many sessions, queries, clicks and positions there are."""
        return sum((Extent.of(log) for log in self.pieces), Extent(0, 0, 0, 0))

    def covered(self) -> "LocalLog":
        """Return the sessions all of whose docs have features, with their lists."""
        missing = sum(int((~covered_sessions(log, self.every)).sum()) for log in self.pieces)
        if not missing:
            return self
        if not any(covered_sessions(log, self.every).any() for log in self.pieces):
            next(iter(self.pieces)).doc_rows(self.every)  # names a query or doc that is missing
        kept = self.where(lambda log: covered_sessions(log, self.every))
        return replace(kept, left_out=missing)

    def split(self, how: Split) -> LogParts:
        """Split the log into parts without a common query."""
        marks = SessionMarks.of(self.pieces, how, grouped=self.grouped, validation=VALIDATION_SHARE)
        held_out = self.where(marks.held_out)
        if how.way == RANDOMISED:
            held_out = replace(
                held_out, pieces=held_out.pieces.select(lambda log: _with_halves(log, marks))
            )
        dropped = self.where(lambda log: ~marks.held_out(log) & ~marks.learning(log))
        parts = {
            TRAIN: self.where(lambda log: marks.learning(log) & ~marks.validation(log)),
            VALIDATION: self.where(lambda log: marks.learning(log) & marks.validation(log)),
            HELD_OUT: held_out,
        }
        halves = None
        if how.way == RANDOMISED:
            halves = (
                self.where(lambda log: marks.held_out(log) & marks.first_half(log)),
                self.where(lambda log: marks.held_out(log) & ~marks.first_half(log)),
            )
        return LogParts(
            parts[TRAIN],
            parts[VALIDATION],
            parts[HELD_OUT],
            self.where(marks.learning),
            how.way,
            {name: part.extent() for name, part in parts.items()},
            dropped.extent().sessions,
            halves,
        )

    def can_train(self, ranker: Ranker) -> bool:
        """Tell whether a ranker can be trained: one of the log itself needs it in one piece."""
        if ranker.takes == "pairs":
            return True
        logs = list(self.pieces)
        if len(logs) > 1:
            return False
        clicked = logs[0].session_ranking[logs[0].session_clicks > 0]
        return int(np.diff(logs[0].ranking_offsets)[clicked].sum()) <= MOST_EXPANDED

    def train(
        self,
        rankers: Sequence[Ranker],
        how: Weighed,
        *,
        validation: "LocalLog | RankingDataset | None" = None,
        progress: Progress | None = None,
    ) -> Trained:
        """Fit rankers to the same pairs, in place."""
        pairs = self.fold(rankers[0], how)
        diagnostics = pairs.diagnostics() if hasattr(pairs, "diagnostics") else None
        judge = validation._quality(how) if isinstance(validation, LocalLog) else None
        if isinstance(validation, RankingDataset):
            judge = validation, ndcg_of(validation)
        values = []
        for ranker in rankers:
            stop = judge if ranker.stops_early else None
            ranker.fit(self.lists, pairs, validation=stop, progress=progress)
            values.append(
                float("nan") if judge is None else judge[1](ranker.score(judge[0].features))
            )
        return Trained(tuple(values), diagnostics)

    def fold(self, ranker: Ranker, how: Weighed) -> Any:
        """Return what a ranker learns from, of all pieces: they have no list in common."""
        chosen = find_weighting(how.weighting)
        if ranker.takes == "pairs" and chosen.against == "posterior":
            # they learn of one list from the others, and so are made of all pieces at once
            options = {"prior": ranker.prior, **ranker.pair_options}
            options |= {"parameters": how.parameters, "known": self.known, "like": how.like}
            return posterior_pairs(self.pieces, self.lists, how.curve, **options)
        curve = how.curve if ranker.takes_propensities else None

        def fold(log: ClickLog, lists: RankingDataset) -> Any:
            return ranker.pairs(log, lists, curve, how.weighting, parameters=how.parameters)

        if ranker.takes == "pairs" and not chosen.of_relevance:
            return fold_pieces(self.pieces, self.lists, fold)
        first, *more = islice(self.pieces, 2)
        if more:
            what = how.weighting if chosen.of_relevance else ranker.name
            raise InputError(
                f"{what} takes no pairs of pieces: it needs a log that fits the memory"
            )
        return fold(first, self.lists)

    def evaluate(
        self,
        curve: PropensityCurve | None,
        rankers: Mapping[str, Ranker | None],
        *,
        against: Sequence[str],
        context: str | None = None,
        seed: int = 0,
    ) -> LogEvaluation:
        """Estimate how good rankers are from the clicks."""
        scores: dict[str, Floats] = {
            # equal scores count by the expectation over all orders
            name: np.zeros(self.lists.docs) if one is None else one.score(self.lists.features)
            for name, one in rankers.items()
        }

        regression = Regression.of_logs(self.pieces, self.lists, curve, context=context)
        sums = self.pieces.total(
            lambda log: sum_log(
                log, self.lists, curve, scores, regression=regression, context=context
            )
        )
        return evaluation_of(sums, curve, against=against, seed=seed)

    def counted(self, docs: int) -> SampledClicks:
        """Return about so many docs, whole lists of them, with the counts of their clicks."""
        share = docs / max(int(self.every.list_lengths[self._listed].sum()), 1)
        return self.pieces.total(lambda log: SampledClicks.of(log, self.every, share))

    def in_memory(self) -> tuple[ClickLog, RankingDataset]:
        """Return the sessions as one log, and their lists."""
        logs = list(self.pieces)
        return logs[0] if len(logs) == 1 else merge(logs), self.lists

    @property
    def posterior(self) -> Posterior | None:
        """The posterior that was asked for first."""
        return next(iter(self.known.values()), None)

    def write(self, folder: Path) -> None:
        """Write the sessions as events, and their lists."""
        folder.mkdir()
        log, _ = self.in_memory()
        contexts = {name: one for name, one in log.contexts.items() if name != HALF}
        write_events(replace(log, contexts=contexts), folder / "log.parquet")
        splits = np.full((1, self.lists.lists), EVERY_SPLIT, np.int8)
        write_stored(StoredCollection("held out", self.lists, splits), folder / "lists")

    def _quality(self, how: Weighed) -> tuple[RankingDataset, Callable[[Floats], float]]:
        """Return the lists, and what the clicks say of scores of their docs."""
        sessions = float(self.extent().sessions)
        metrics = [
            CounterfactualMetric(log, self.lists, how.curve, metric=METRIC, tau=how.tau)
            for log in self.pieces
            if len(log.clicks)
        ]

        def quality(scores: Floats) -> float:
            return sum(metric.sums(scores)[0] for metric in metrics) / sessions

        return self.lists, quality

    def where(self, chosen: Callable[[ClickLog], Marks]) -> "LocalLog":
        """Return the sessions that a function marks, and the lists of their queries."""
        return replace(self, pieces=self.pieces.select(lambda log: log.select(chosen(log))))


def _with_halves(log: ClickLog, marks: SessionMarks) -> ClickLog:
    """Return a log with the half of each session's query as a context."""
    codes = (~marks.first_half(log)).astype(np.int32)
    return replace(log, contexts={**log.contexts, HALF: Context(("1", "2"), codes)})
