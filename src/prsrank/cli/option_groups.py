"""Options that belong together, as one parameter of a command; and help made from the tables."""

import inspect
import re
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from typer.core import TyperCommand

from prsrank.cli.arguments import Data, Fold, NamedData, RelevantFrom, working
from prsrank.cli.output_paths import check_writable

if TYPE_CHECKING:
    from prsrank.data.collections import Collection
    from prsrank.data.dataset import RankingDataset

# what stands in braces in a help text -> the table whose names belong there
_TABLES = {
    "rankers": "prsrank.rankers.base:RANKERS",
    "weightings": "prsrank.weighting:WEIGHTINGS",
    "estimators": "prsrank.propensity.estimators:ESTIMATORS",
    "shapes": "prsrank.propensity.shapes:SHAPES",
    "click_models": "prsrank.clicks.models:CLICK_MODELS",
    "designs": "prsrank.clicks.randomise:DESIGNS",
    "production": "prsrank.clicks.production:PRODUCTION_RANKERS",
    "metrics": "prsrank.metrics.ranking:METRICS",
    "click_metrics": "prsrank.evaluation.rank_values:COUNTERFACTUAL_METRICS",
    "assumptions": "prsrank.evaluation.assumptions:KINDS",
    "formats": "prsrank.export.formats:FORMATS",
}


_WRITTEN = ("out", "plot", "html")
"""The options that say where to write; what cannot be written is said before the work."""


class _DataSet:
    data: str
    fold: int
    relevant_from: float | None

    def collection(self) -> "Collection":
        """Open the data set."""
        from prsrank.data.collections import open_collection

        given = {} if self.relevant_from is None else {"relevant_from": self.relevant_from}
        with working(f"reading {self.data}"):
            return open_collection(self.data, **given)

    def everything(self) -> "RankingDataset":
        """Read all lists."""
        with working(f"reading {self.data}"):
            return self.collection().everything()

    def lists(self, split: str) -> "RankingDataset":
        """Read the lists of a split of the fold."""
        from prsrank.data.collections import load_dataset

        with working(f"reading {self.data}"):
            return load_dataset(self.data, split, fold=self.fold, relevant_from=self.relevant_from)


@dataclass(frozen=True)
class DataOptions(_DataSet):
    """A data set as an option, and which of its folds."""

    data: NamedData
    fold: Fold = 1
    relevant_from: RelevantFrom = None


@dataclass(frozen=True)
class WholeData(_DataSet):
    """A data set as the argument of a command, whatever its folds."""

    data: Data
    relevant_from: RelevantFrom = None


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose parameters that are dataclasses are spelled out as options."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {n: hint for n, hint in hints.items() if is_dataclass(hint)}
    spelled: list[inspect.Parameter] = []
    for name, own in inspect.signature(command).parameters.items():
        if name in groups:
            spelled += _parameters(groups[name])
        else:
            spelled.append(own.replace(kind=own.KEYWORD_ONLY, annotation=hints[name]))

    @wraps(command)
    def run(**given: Any) -> None:
        for name in _WRITTEN:
            if isinstance(given.get(name), Path):
                check_writable(given[name])
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    run.__signature__ = inspect.Signature(spelled)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in spelled}
    return run


def _parameters(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(group)
    ]


class Command(TyperCommand):
    """A command whose help names the members of the tables; they are read only then."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        for parameter in self.params:
            if getattr(parameter, "help", None):
                parameter.help = filled(parameter.help)  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)


def filled(text: str) -> str:
    """Return a help text with the names of a table in place of its name in braces.

    >>> filled("How: {designs}.")
    'How: uniform, top-k, adjacent or pivot.'
    """
    return re.sub(r"\{(\w+)\}", lambda found: _names(_TABLES[found[1]]), text)


def _names(table: str) -> str:
    module, _, attribute = table.partition(":")
    *first, last = getattr(import_module(module), attribute)
    return f"{', '.join(first)} or {last}"
