"""What commands read: a log and the features of its docs, given the same way to each; data sets."""

import atexit
import gzip
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Self

from prsrank.cli.options import (
    AnyLog,
    Column,
    Data,
    FeatureData,
    Features,
    MappingFile,
    Memory,
    NamedLog,
    RelevantFrom,
)
from prsrank.cli.output import working
from prsrank.errors import InputError
from prsrank.fit.manifest import is_fit, read_manifest
from prsrank.fit.plan import Plan
from prsrank.logs.features import read_table
from prsrank.logs.mapping import LogMapping, read_mapping
from prsrank.logs.reading import read_click_log, read_log
from prsrank.logs.sources import open_events
from prsrank.propensity.curve_of import LogCurve, curve_of
from prsrank.rankers.feature_order import features_for as features_for

if TYPE_CHECKING:
    from prsrank.data.collections import Collection
    from prsrank.data.dataset import RankingDataset
    from prsrank.fit.engine import Engine
    from prsrank.fit.log import PiecedLog
    from prsrank.logs.click_log import ClickLog
    from prsrank.rankers.base import Ranker

NO_FEATURES = (
    "no features: give --data DATA, --features TABLE, or [features] columns in the mapping"
)


@dataclass(frozen=True)
class DataSet:
    """A data set by its name; a converted one knows which of its labels count as relevant."""

    WITHOUT: ClassVar[tuple[str, ...]] = ("relevant_from",)

    data: Data
    relevant_from: RelevantFrom = None

    def collection(self) -> "Collection":
        """Open the data set."""
        from prsrank.data.collections import open_collection

        with working(f"reading {self.data}"):
            return open_collection(_parted(self.data)[0], relevant_from=self.relevant_from)

    def everything(self) -> "RankingDataset":
        """Read all lists."""
        with working(f"reading {self.data}"):
            return self.collection().everything()

    def lists(self, split: str) -> "RankingDataset":
        """Read the lists of a split of the fold that the name says, or of the first."""
        with working(f"reading {self.data}"):
            return self.collection().load(split, fold=_parted(self.data)[1])


def _parted(data: str) -> tuple[str, int]:
    """Return the name of a data set and the fold that it says behind an @.

    >>> _parted("MQ2008@2"), _parted("MQ2008")
    (('MQ2008', 2), ('MQ2008', 1))
    """
    match = re.fullmatch(r"(.+)@([0-9]{1,4})", data)
    if match is None or Path(data).exists():
        return data, 1
    return match[1], int(match[2])


@dataclass(frozen=True)
class LogInputs:
    """A click log, and the features of its docs: a table, a data set, or columns of the log.

    A folder that fit wrote stands for its inputs. Subclasses say which options a command is
    without.
    """

    WITHOUT: ClassVar[tuple[str, ...]] = ()

    log: AnyLog
    column: Column = None
    mapping: MappingFile = None
    features: Features = None
    data: FeatureData = None
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
        if self.mapping is not None:
            mapping = read_mapping(self.mapping)
        else:
            mapping = LogMapping() if self.run is None else self.run.mapping
        return mapping.with_columns(self.column or [])

    def clicks(self, contexts: Sequence[str] | None = None) -> "ClickLog":
        """Read the sessions."""
        mapping = self.meaning()
        if contexts is not None:
            contexts = list(dict.fromkeys([*mapping.contexts, *contexts]))
        with working(f"reading {self.path}"):
            return read_click_log(self.path, mapping=mapping, contexts=contexts, memory=self.memory)

    def curve_of(self, clicks: "ClickLog", propensity: str | None) -> LogCurve:
        """Return the curve of its sessions; see `prsrank.propensity.curve_of`."""
        with working("estimating propensities"):
            try:
                return curve_of(clicks, propensity)
            except InputError as error:
                named = propensity is not None
                raise error if named else InputError(f"{self.path}: {error}") from None

    def opened(self, engine: "Engine | None" = None) -> AbstractContextManager[Any]:
        """Open the log as unchecked events: in DuckDB, or where an engine keeps them."""
        opening = open_events if engine is None else engine.open_log
        return opening(self.path, mapping=self.meaning(), memory=self.memory)

    @cached_property
    def table(self) -> str | None:
        """The table of features, if they come in one."""
        if self.data is not None:
            if self.features is not None:
                raise InputError("give the features as a data set (--data) or a table, not both")
            return None
        if self.features is not None:
            return as_file(self.features)
        table = self.meaning().feature_table
        return table if table is not None or self.run is None else self.run.table

    @property
    def collection(self) -> str | None:
        """The data set with the features, if they come in one."""
        if self.data is not None or self.features is not None or self.run is None:
            return self.data
        return self.run.data

    @property
    def source(self) -> str:
        """Where the features come from, for messages."""
        return self.collection or self.table or self.path

    def dataset(self, split: str | None = None) -> "RankingDataset | None":
        """Read the data set, if the features come in one: all of it, or a split of the fold."""
        if self.collection is None:
            return None
        data = DataSet(self.collection, None if self.run is None else self.run.relevant_from)
        # a fit takes whatever lists its log shows
        return data.everything() if split is None or self.data is None else data.lists(split)

    def loaded(self, engine: "Engine", events: Any, split: str | None = None) -> "PiecedLog":
        """Read an open log with its features, where an engine keeps them."""
        mapping = self.meaning()
        with working(f"reading {self.path}"):
            return engine.load(
                events,
                mapping=mapping,
                data=self.dataset(split),
                table=self.table,
                lists=mapping.lists,
            )

    def read(
        self, contexts: Sequence[str] | None = None, *, split: str | None = None
    ) -> "tuple[ClickLog, RankingDataset]":
        """Read the sessions, and all lists that the features are of, or those of a split."""
        data = self.dataset(split)
        if data is not None:
            return self.clicks(contexts), data
        mapping = self.meaning()
        kept = tuple(dict.fromkeys([*mapping.contexts, *(contexts or ())]))
        with working(f"reading {self.path}"):
            clicks, lists = read_log(
                self.path,
                mapping=replace(mapping, contexts=kept),
                features=self.table,
                memory=self.memory,
            )
        if lists is None:
            raise InputError(NO_FEATURES)
        return clicks, lists


@dataclass(frozen=True)
class PlainLog(LogInputs):
    """A click log without features."""

    WITHOUT = ("features", "data", "memory")


@dataclass(frozen=True)
class FeaturedLog(LogInputs):
    """A click log with features, which is read as one."""

    WITHOUT = ("memory",)


@dataclass(frozen=True)
class ModelInputs(LogInputs):
    """What a model is to score: lists of a data set or a table, or those that a log shows."""

    WITHOUT: ClassVar[tuple[str, ...]] = ("memory",)

    log: NamedLog = None  # type: ignore[assignment]

    def beside(self, model: str) -> Self:
        """Return the inputs with what is not given taken from the fit that a model is of."""
        plan = run_of(model)
        if plan is None:
            return self
        named = self.log or self.data or self.features
        inputs = self if named else replace(self, log=model)
        # a new log or table of the same form: its columns mean what they meant to the fit
        vars(inputs)["run"] = plan if self.log is None else replace(plan, log=self.log)
        return inputs

    def scored(self, ranker: "Ranker") -> "RankingDataset":
        """Read the lists to score, with the features of a ranker in its order."""
        data = self.dataset("test")
        if data is None and self.log is not None:
            data = self.read()[1]
        if data is None:
            if self.table is None:
                raise InputError(NO_FEATURES)
            mapping = self.meaning()
            names = getattr(ranker, "feature_names_", mapping.features)
            with working(f"reading {self.table}"):
                data = read_table(self.table, mapping=replace(mapping, features=tuple(names)))
        return features_for(ranker, data)

    def dataset(self, split: str | None = None) -> "RankingDataset | None":
        """Read the data set; options of a log or table, which nobody would heed, are refused."""
        if self.data is not None and self.log is None:
            for name in ("column", "mapping"):
                if getattr(self, name) is not None:
                    raise InputError(f"--{name}: is of a log or a table of features, not of --data")
        return super().dataset(split)


def run_of(path: str | None) -> Plan | None:
    """Return what a fit was asked to do, if a path is the folder that it wrote."""
    # a log is a folder at times, but only a folder is ever a fit's: no file is read in vain
    if path is None or not Path(path).is_dir() or not is_fit(path):
        return None
    return Plan.from_json_dict(read_manifest(path)["settings"], path)


_STANDARD = ("-", "/dev/stdin")
_PACKED = {b"\x1f\x8b": ".gz", b"\x28\xb5\x2f\xfd": ".zst"}


def as_file(path: str) -> str:
    """Return a path; what comes through a pipe is first copied to a file, until the process ends.

    A log is gone through more than once. Its kind is told by its content: Parquet, JSON lines, else
    CSV.

    Raises:
        InputError: if nothing came.
    """
    if path in _STANDARD:
        return _copied(sys.stdin.buffer, "standard input")
    file = Path(path)
    if file.exists() and not file.is_file() and not file.is_dir():
        with file.open("rb") as pipe:
            return _copied(pipe, path)
    return path


def _copied(pipe: BinaryIO, name: str) -> str:
    folder = Path(tempfile.mkdtemp(prefix="prsrank-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    copy = folder / "input"
    with copy.open("wb") as file:
        shutil.copyfileobj(pipe, file)
    if not copy.stat().st_size:
        raise InputError(f"{name}: nothing came")
    return str(copy.rename(copy.with_name(f"input{_ending(copy)}")))


def _ending(file: Path) -> str:
    with file.open("rb") as stream:
        head = stream.read(4)
    if head == b"PAR1":
        return ".parquet"
    packed = next((ending for magic, ending in _PACKED.items() if head.startswith(magic)), "")
    with gzip.open(file) if packed == ".gz" else file.open("rb") as stream:
        text = b"" if packed == ".zst" else stream.read(100).lstrip()
    return (".jsonl" if text.startswith((b"{", b"[")) else ".csv") + packed
