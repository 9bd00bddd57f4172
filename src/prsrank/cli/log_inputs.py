"""Groups of options: a log and the features of its docs, given the same way to each command."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer

from prsrank.cli.arguments import Fold, RelevantFrom, working
from prsrank.cli.log_options import (
    AnyLog,
    Column,
    Decimal,
    Duplicates,
    Features,
    Lists,
    MappingFile,
    Memory,
    NamedLog,
    Nulls,
)
from prsrank.cli.option_groups import DataOptions
from prsrank.cli.standard_input import as_file
from prsrank.errors import InputError
from prsrank.fit.manifest import is_fit, read_manifest
from prsrank.fit.plan import Plan
from prsrank.logs.features import read_table
from prsrank.logs.mapping import LogMapping, read_mapping
from prsrank.logs.reading import read_click_log, read_log
from prsrank.logs.sources import open_events
from prsrank.rankers.feature_order import features_for as features_for

if TYPE_CHECKING:
    from prsrank.data.dataset import RankingDataset
    from prsrank.fit.engine import Engine, EngineLog
    from prsrank.logs.click_log import ClickLog
    from prsrank.rankers.base import Ranker


@dataclass(frozen=True)
class LogOptions:
    """A click log, and how to read it; a folder that fit wrote stands for its inputs."""

    log: AnyLog
    column: Column = None
    mapping: MappingFile = None
    null: Nulls = None
    decimal: Decimal = None
    duplicates: Duplicates = None
    memory: Memory = None

    @cached_property
    def run(self) -> Plan | None:
        """What the fit was asked whose folder stands for its inputs; None for a log."""
        return run_of(self.log)

    @cached_property
    def path(self) -> str:
        """Where the log itself is."""
        return as_file(self.log) if self.run is None else self.run.log

    @property
    def curve(self) -> str | None:
        """The propensities of the fit whose folder stands for its inputs, if it wrote any."""
        file = Path(self.log, "propensity.json")
        return str(file) if self.run is not None and file.is_file() else None

    def meaning(self) -> LogMapping:
        """Return what its columns mean: --column wins over --mapping, that over the fit's."""
        known = LogMapping() if self.run is None else self.run.mapping
        if self.mapping is not None:
            known = read_mapping(self.mapping)
        known = known.with_columns(self.column or [])
        return replace(
            known,
            nulls=known.nulls if self.null is None else tuple(self.null),
            decimal=self.decimal or known.decimal,
            duplicates=self.duplicates or known.duplicates,
        )

    def clicks(self, contexts: Sequence[str] | None = None) -> "ClickLog":
        """Read the sessions."""
        known = self.meaning()
        if contexts is not None:
            contexts = list(dict.fromkeys([*known.contexts, *contexts]))
        with working(f"reading {self.path}"):
            return read_click_log(self.path, mapping=known, contexts=contexts, memory=self.memory)

    def opened(self, runner: "Engine | None" = None) -> AbstractContextManager[Any]:
        """Open the log as unchecked events: in DuckDB, or where an engine keeps them."""
        opening = open_events if runner is None else runner.open_log
        return opening(self.path, mapping=self.meaning(), memory=self.memory)


@dataclass(frozen=True)
class TableOptions(LogOptions):
    """A click log, and a table with the features of its docs."""

    features: Features = None

    @cached_property
    def table(self) -> str | None:
        """The table of features, if there is one."""
        if self.features is not None:
            return as_file(self.features)
        given = self.meaning().feature_table
        return given if given is not None or self.run is None else self.run.table


@dataclass(frozen=True)
class LogInputs(TableOptions):
    """A click log, and the features of its docs: a table, a data set, or columns of the log."""

    data: Annotated[
        str | None,
        typer.Option("--data", metavar="DATA", help="Data set with the features of the docs."),
    ] = None
    relevant_from: RelevantFrom = None

    # what only some commands let one choose
    fold = 1
    lists = "query"

    @cached_property
    def table(self) -> str | None:
        """The table of features, if they come in one."""
        if self.data is not None and self.features is not None:
            raise InputError("give the features as a data set (--data) or a table, not both")
        return None if self.data is not None else super().table

    @property
    def collection(self) -> str | None:
        """The data set with the features, if they come in one."""
        if self.data is not None or self.features is not None or self.run is None:
            return self.data
        return self.run.data

    @property
    def how_listed(self) -> str:
        """What a list is: all sessions of a query, or those that saw the same features."""
        return self.run.lists if self.run is not None and self.lists == "query" else self.lists

    @property
    def source(self) -> str:
        """Where the features come from, for messages."""
        return self.collection or self.table or self.path

    def dataset(self, split: str | None = None) -> "RankingDataset | None":
        """Read the data set, if the features come in one: all of it, or a split of the fold."""
        if self.collection is None:
            return None
        relevant_from = self.relevant_from
        if relevant_from is None and self.run is not None:
            relevant_from = self.run.relevant_from
        data = DataOptions(self.collection, self.fold, relevant_from)
        # a fit takes whatever lists its log shows
        return data.everything() if split is None or self.data is None else data.lists(split)

    def loaded(self, runner: "Engine", events: Any, split: str | None = None) -> "EngineLog":
        """Read an open log with its features, where an engine keeps them."""
        with working(f"reading {self.path}"):
            return runner.load(
                events,
                mapping=self.meaning(),
                data=self.dataset(split),
                table=self.table,
                lists=self.how_listed,
            )

    def read(
        self, contexts: Sequence[str] | None = None, *, split: str | None = None
    ) -> "tuple[ClickLog, RankingDataset]":
        """Read the sessions, and all lists that the features are of, or those of a split."""
        data = self.dataset(split)
        if data is not None:
            return self.clicks(contexts), data
        known = self.meaning()
        known = replace(known, contexts=tuple(dict.fromkeys([*known.contexts, *(contexts or ())])))
        with working(f"reading {self.path}"):
            clicks, lists = read_log(
                self.path,
                mapping=known,
                features=self.table,
                lists=self.how_listed,
                memory=self.memory,
            )
        if lists is None:
            raise InputError(NO_FEATURES)
        return clicks, lists


@dataclass(frozen=True)
class ListInputs(LogInputs):
    """Inputs of which one may say what a list is."""

    lists: Lists = "query"


@dataclass(frozen=True)
class FoldInputs(LogInputs):
    """Inputs of which one may choose a fold."""

    fold: Fold = 1


@dataclass(frozen=True)
class TrainInputs(ListInputs):
    """Inputs of which one may choose a fold, and say what a list is."""

    fold: Fold = 1


@dataclass(frozen=True)
class ModelInputs(FoldInputs):
    """What a model is to score: lists of a data set or a table, or those that a log shows."""

    log: NamedLog = None  # type: ignore[assignment]

    def beside(self, model: str) -> Self:
        """Return the inputs with what is not given taken from the fit that a model is of."""
        plan = run_of(model)
        if plan is None:
            return self
        given = self.log or self.data or self.features
        made = self if given else replace(self, log=model)
        # a new log or table of the same form: its columns mean what they meant to the fit
        vars(made)["run"] = plan if self.log is None else replace(plan, log=self.log)
        return made

    def scored(self, ranker: "Ranker", split: str) -> "RankingDataset":
        """Read the lists to score, with the features of a ranker in its order."""
        data = self.dataset(split)
        if data is None and self.log is not None:
            data = self.read()[1]
        if data is None:
            if self.table is None:
                raise InputError(NO_FEATURES)
            known = self.meaning()
            names = getattr(ranker, "feature_names_", known.features)
            with working(f"reading {self.table}"):
                known = replace(known, features=tuple(names))
                data = read_table(self.table, mapping=known, memory=self.memory)
        return features_for(ranker, data)

    def dataset(self, split: str | None = None) -> "RankingDataset | None":
        """Read the data set; options of a log or table, which nobody would heed, are refused."""
        if self.data is not None and self.log is None:
            for name in ("column", "mapping", "null", "decimal", "duplicates", "memory"):
                if getattr(self, name) is not None:
                    raise InputError(f"--{name}: is of a log or a table of features, not of --data")
        return super().dataset(split)


NO_FEATURES = (
    "no features: give --data DATA, --features TABLE, or [features] columns in the mapping"
)


def run_of(path: str | None) -> Plan | None:
    """Return what a fit was asked to do, if a path is the folder that it wrote."""
    # a log is a folder at times, but only a folder is ever a fit's: no file is read in vain
    if path is None or not Path(path).is_dir() or not is_fit(path):
        return None
    return Plan.from_json_dict(read_manifest(path)["settings"], path)
