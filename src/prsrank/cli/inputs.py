"""What commands read: a log and the features of its docs, given the same way to each; data sets."""

import atexit
import gzip
import re
import shutil
import sys
import tempfile
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Self

from prsrank.cli.options import AnyLog, working
from prsrank.errors import InputError
from prsrank.fit.manifest import is_fit, read_manifest
from prsrank.fit.plan import Plan
from prsrank.logs.mapping import LogMapping, read_mapping
from prsrank.logs.reading import read_click_log, read_log
from prsrank.propensity.curve_of import LogCurve, curve_of

if TYPE_CHECKING:
    from prsrank.data.collections import Collection
    from prsrank.data.dataset import RankingDataset
    from prsrank.fit.engine import Engine
    from prsrank.fit.log import PiecedLog
    from prsrank.logs.click_log import ClickLog

NO_FEATURES = (
    "no features: give --data DATA, --features TABLE, or [features] columns in the mapping"
)


def opened_data(data: str, relevant_from: float | None = None) -> "tuple[Collection, int]":
    """Open the data set of a name; return it and the fold that the name says, or the first."""
    from prsrank.data.collections import open_collection

    name, fold = _parted(data)
    with working(f"reading {data}"):
        return open_collection(name, relevant_from=relevant_from), fold


def lists_of(
    data: str, split: str | None = None, *, relevant_from: float | None = None
) -> "RankingDataset":
    """Read all lists of a data set, or those of a split of the fold."""
    collection, fold = opened_data(data, relevant_from)
    with working(f"reading {data}"):
        return collection.everything() if split is None else collection.load(split, fold=fold)


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

    Attributes:
        column (MEANING=COLUMN): Which column of the log means what, such as query_id=srch_id; may
            be repeated.
        mapping (TOML): A file that says which columns mean what, which actions count, and how odd
            values are to be read.
        features (TABLE): A table of features, keyed by query_id and doc_id.
        data (DATA): Data set with the features of the docs.
        memory (SIZE): How much to hold at once, such as 4GB.
    """

    WITHOUT: ClassVar[tuple[str, ...]] = ()

    log: AnyLog
    column: list[str] | None = None
    mapping: Path | None = None
    features: str | None = None
    data: str | None = None
    memory: str | None = None

    @cached_property
    def run(self) -> Plan | None:
        """What the fit was asked whose inputs are taken where others are not given, if any."""
        return run_of(self.log)

    def beside(self, run: str) -> Self:
        """Return the inputs with what is not given taken from the fit of a folder, if it is one."""
        plan = run_of(run)
        if plan is None:
            return self
        inputs = self if self.log or self.data or self.features else replace(self, log=run)
        # a new log or table of the same form: its columns mean what they meant to the fit
        vars(inputs)["run"] = plan if not self.log else replace(plan, log=as_file(self.log))
        return inputs

    @cached_property
    def path(self) -> str:
        """Where the log itself is."""
        return as_file(self.log) if self.run is None else self.run.log

    @property
    def curve(self) -> str | None:
        """The propensities of the fit whose folder stands for its inputs, if it wrote any."""
        return None if self.run is None else curve_file(self.log)

    def meaning(self, *contexts: str) -> LogMapping:
        """Return what its columns mean: --column wins over --mapping, that over the fit's.

        Args:
            contexts: columns to keep as contexts beside those of the mapping.
        """
        if self.mapping is not None:
            mapping = read_mapping(self.mapping)
        else:
            mapping = LogMapping() if self.run is None else self.run.mapping
        kept = tuple(dict.fromkeys([*mapping.contexts, *contexts]))
        return replace(mapping.with_columns(self.column or []), contexts=kept)

    def clicks(self, *contexts: str) -> "ClickLog":
        """Read the sessions."""
        with working(f"reading {self.path}"):
            return read_click_log(self.path, mapping=self.meaning(*contexts), memory=self.memory)

    def curve_of(self, clicks: "ClickLog", propensity: str | None) -> LogCurve:
        """Return the curve of its sessions; see `prsrank.propensity.curve_of`."""
        with working("estimating propensities"):
            try:
                return curve_of(clicks, propensity)
            except InputError as error:
                named = propensity is not None
                raise error if named else InputError(f"{self.path}: {error}") from None

    def opened(self, engine: "Engine") -> AbstractContextManager[Any]:
        """Open the log as unchecked events, where an engine keeps them."""
        return engine.open_log(self.path, mapping=self.meaning(), memory=self.memory)

    @cached_property
    def table(self) -> str | None:
        """The table of features, if they come in one."""
        if self.data is not None and self.features is not None:
            raise InputError("give the features as a data set (--data) or a table, not both")
        if self.data is not None or self.features is not None:
            return None if self.features is None else as_file(self.features)
        return self.meaning().feature_table or (None if self.run is None else self.run.table)

    @property
    def collection(self) -> str | None:
        """The data set with the features, if they come in one."""
        return self.data or (self.run.data if self.run and not self.features else None)

    @property
    def source(self) -> str:
        """Where the features come from, for messages."""
        return self.collection or self.table or self.path

    def dataset(self, split: str | None = None) -> "RankingDataset | None":
        """Read the data set, if the features come in one: all of it, or a split of the fold."""
        if self.collection is None:
            return None
        if not self.log and (self.column or self.mapping):
            option = "--column" if self.column else "--mapping"
            raise InputError(f"{option}: is of a log or a table of features, not of --data")
        relevant_from = None if self.run is None else self.run.relevant_from
        # a fit takes whatever lists its log shows
        split = None if self.data is None else split
        return lists_of(self.collection, split, relevant_from=relevant_from)

    def loaded(self, engine: "Engine", events: Any, split: str | None = None) -> "PiecedLog":
        """Read an open log with its features, where an engine keeps them."""
        mapping, data, table = self.meaning(), self.dataset(split), self.table
        with working(f"reading {self.path}"):
            return engine.load(events, mapping=mapping, data=data, table=table)

    def read(self, *contexts: str, split: str | None = None) -> "tuple[ClickLog, RankingDataset]":
        """Read the sessions, and all lists that the features are of, or those of a split."""
        data = self.dataset(split)
        if data is not None:
            return self.clicks(*contexts), data
        mapping, table = self.meaning(*contexts), self.table
        with working(f"reading {self.path}"):
            clicks, lists = read_log(self.path, mapping=mapping, features=table, memory=self.memory)
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
    """What a model is to score: lists of a data set or a table, or those that a log shows.

    Attributes:
        log (LOG): A click log, as for audit.
    """

    WITHOUT: ClassVar[tuple[str, ...]] = ("memory",)

    log: str | None = None  # type: ignore[assignment]


def run_of(path: str | None) -> Plan | None:
    """Return what a fit was asked to do, if a path is the folder that it wrote."""
    # a log is a folder at times, but only a folder is ever a fit's: no file is read in vain
    if path is None or not Path(path).is_dir() or not is_fit(path):
        return None
    return Plan.from_json_dict(read_manifest(path)["settings"], path)


def check_fit(path: str) -> None:
    """Raise an InputError for what is not a folder that fit wrote."""
    if run_of(path) is None:
        raise InputError(f"{path}: is not a folder that fit wrote")


def curve_file(run: str) -> str | None:
    """Return the propensities that a fit wrote to its folder, if it wrote any."""
    file = Path(run, "propensity.json")
    return str(file) if file.is_file() else None


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
