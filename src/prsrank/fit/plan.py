"""What a fit is asked to do: every setting that its result depends on."""

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.files import FileName
from prsrank.fit.settings import Setting, settings_of
from prsrank.logs.mapping import LogMapping
from prsrank.logs.split import RANDOMISED, Split, parse_hold_out
from prsrank.propensity.estimators import ESTIMATORS
from prsrank.rankers.base import ranker_class
from prsrank.rankers.cards import RANGES, Range
from prsrank.weighting import find_weighting

COMPARED = ("ips", "naive")
"""The weightings that a model whose weighting is named is compared with."""

TRIED = ("posterior", "prs", *COMPARED)
"""The weightings that are tried where none is named, the preferred one first."""

METRIC = "dcg@10"
"""What rankers stop early on, and what their settings are chosen by."""

_SYNTHETIC = "synthetic:"


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """How to fit: what the command line, `prsrank.fit_log` and the manifest know of it."""

    propensity: Annotated[
        str,
        Setting(
            "The propensities: those in the log, else the best method that the log identifies "
            "(auto); one method; those in the log (log); or those of a file that 'prsrank "
            "propensity' wrote, or (1/k)^ETA.",
            form="auto|METHOD|log|FILE|power:ETA",
        ),
    ] = "auto"
    temper: Annotated[
        bool,
        Setting(
            "Where the clicks contradict a curve that no experiment supports, use the power of it "
            "that they look like; see prsrank.temper.",
            option=False,
        ),
    ] = True
    holdout: Annotated[
        str,
        Setting(
            "What to judge by: query:SHARE of the queries, time:SHARE of the latest sessions, or "
            "the randomised sessions (randomised).",
            form="HOW",
        ),
    ] = "query:0.2"
    ranker: Annotated[str, Setting("{rankers}; not those that learn from the log itself.")] = (
        "lambdamart"
    )
    weighting: Annotated[
        str,
        Setting("auto: the best by held-out clicks; or {weightings}; not those that need labels."),
    ] = "auto"
    trials: Annotated[
        int, Setting("Settings to try for each method, at most.", bounds=Range(1, 10_000))
    ] = 12
    trees: Annotated[
        int, Setting("The most trees of a ranker that grows trees.", bounds=RANGES["trees"])
    ] = 300
    seed: Annotated[int, Setting("The same seed gives the same result.", bounds=RANGES["seed"])] = 0
    relevant_from: Annotated[
        float | None,
        Setting("The least label of the data set that counts as relevant.", option=False),
    ] = None
    memory: Annotated[
        str | None, Setting("How much to hold at once, such as 4GB.", form="SIZE")
    ] = None
    force: Annotated[bool, Setting("Write the model even if the log is too thin.")] = False


@dataclass(frozen=True)
class Plan(FitSettings):
    """What to fit and how: all that the result of a fit depends on; see `prsrank.fit_log`.

    >>> Plan("log.parquet", data="synthetic:mq2007:50").split
    Split(way='query', share=0.2, seed=0)
    >>> Plan("log.parquet", data="synthetic:mq2007:50", holdout="half")
    Traceback (most recent call last):
    prsrank.errors.InputError: 'half' does not say what to hold out: query:SHARE, time:SHARE (SHARE between 0 and 1) or randomised
    """

    log: str
    data: str | None = None
    features: str | None = None
    mapping: LogMapping = field(default_factory=LogMapping)

    def __post_init__(self) -> None:
        if self.data is not None and self.table is not None:
            raise InputError("give the features as a data set (--data) or a table, not both")
        if self.data is None and self.table is None and not self.mapping.features:
            raise InputError(
                "no features: give a data set (data), a table or frame keyed by query and doc "
                "(features), or name columns of the log in the mapping"
            )
        if ranker_class(self.ranker)().takes != "pairs":
            raise InputError(f"fit trains rankers of weighted pairs, which {self.ranker} is not")
        if self.weighting != "auto" and find_weighting(self.weighting).needs_labels:
            raise InputError(f"fit knows clicks only: weighting {self.weighting} needs labels")
        for name, setting in settings_of(FitSettings):
            bounds, value = setting.bounds, getattr(self, name)
            if isinstance(bounds, Range) and not bounds.holds(value):
                raise InputError(f"{name} must be {bounds}, not {value}")
        self.split  # noqa: B018 - raises where the text means nothing

    @property
    def weightings(self) -> tuple[str, ...]:
        """The weightings to train with: that of the model first, or the preferred one."""
        if self.weighting == "auto":
            return TRIED
        return tuple(dict.fromkeys((self.weighting, *COMPARED)))

    @property
    def table(self) -> str | None:
        """The table of features, if they come in one."""
        return self.features if self.features is not None else self.mapping.feature_table

    def collection(self) -> RankingDataset | None:
        """Read the data set with the features, if they come in one."""
        if self.data is None:
            return None
        from prsrank.data.collections import open_collection

        return open_collection(self.data, relevant_from=self.relevant_from).everything()

    @property
    def split(self) -> Split:
        """How to split the log."""
        if self.holdout == RANDOMISED:
            return Split(RANDOMISED, 1.0, self.seed)
        try:
            return Split(*parse_hold_out(self.holdout), self.seed)
        except InputError as error:
            raise InputError(
                f"'{self.holdout}' does not say what to hold out: query:SHARE, time:SHARE (SHARE "
                "between 0 and 1) or randomised"
            ) from error

    @property
    def propensity_file(self) -> str | None:
        """The file of propensities, if they come in one."""
        named = self.propensity in ESTIMATORS or self.propensity in ("auto", "log")
        return None if named or self.propensity.startswith("power:") else self.propensity

    def inputs(self) -> dict[str, str]:
        """Return the files and folders that are read, by what they are."""
        paths = {"log": self.log, "features": self.table, "propensity": self.propensity_file}
        if self.data is not None and not self.data.startswith(_SYNTHETIC):
            paths["data"] = self.data
        return {role: path for role, path in paths.items() if path is not None}

    def to_json_dict(self) -> dict[str, Any]:
        """Return plain lists and dicts; paths start at the root, so that they hold anywhere."""
        value = asdict(self)
        for role, path in self.inputs().items():
            # a URL of the cluster's needs no folder to start at
            value[role] = path if "://" in path else os.path.abspath(path)
        value["mapping"]["feature_table"] = None  # now under features
        return value

    @classmethod
    def from_json_dict(cls, value: Mapping[str, Any], where: FileName) -> "Plan":
        """Return the plan that `to_json_dict` wrote."""
        try:
            mapping = dict(value["mapping"])
            for name in ("contexts", "features", "nulls"):
                mapping[name] = tuple(mapping.get(name, ()))
            return cls(**{**value, "mapping": LogMapping(**mapping)})
        except (KeyError, TypeError, InputError) as error:
            raise InputError(f"{where}: its settings cannot be used: {error}") from error


def with_lists_in_mapping(settings: Any) -> Any:
    """Return settings of a manifest as they are written today: `lists` is in the mapping."""
    if not isinstance(settings, dict) or not isinstance(settings.get("mapping"), dict):
        return settings
    lists = {"lists": settings["lists"]} if "lists" in settings else {}
    rest = {name: value for name, value in settings.items() if name != "lists"}
    return {**rest, "mapping": {**settings["mapping"], **lists}}
