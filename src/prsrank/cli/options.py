"""Options that several commands share, how groups of them are spelled out, and their help."""

import inspect
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand

from prsrank.errors import InputError
from prsrank.files import check_writable
from prsrank.fit.settings import Setting, filled, settings_of

if TYPE_CHECKING:
    from prsrank.fit.engine import Engine

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A file (LETOR or converted), a collection's folder, or synthetic:SHAPE:LISTS[:SEED]; "
        "with @N behind it fold N, else the first.",
    ),
]
NamedData = Annotated[str, typer.Option("--data", metavar="DATA", help="The data set.")]
Model = Annotated[str, typer.Argument(metavar="MODEL", help="A folder that train or fit wrote.")]
Run = Annotated[str, typer.Argument(metavar="RUN", help="A folder that fit wrote.")]
Seed = Annotated[
    int, typer.Option(min=0, max=2**31 - 1, help="The same seed gives the same result.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
Propensity = Annotated[
    str | None,
    typer.Option(
        "--propensity",
        metavar="FILE|power:ETA",
        help="The propensities: a file that 'prsrank propensity --out' wrote, or (1/k)^ETA. "
        "Default: those in the log; judge and plan estimate them where it has none.",
    ),
]
SetValues = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="A parameter of the ranker or of the weighting, such as trees=300 or tau=0.05; "
        "may be repeated.",
    ),
]
AnyLog = Annotated[
    str,
    typer.Argument(
        metavar="LOG",
        help="A click log: Parquet, CSV or JSONL of events, a folder or glob of them, a compact "
        "log, or a folder with ubi_queries and ubi_events; - reads standard input. A folder that fit "
        "wrote stands for its inputs.",
    ),
]
NamedLog = Annotated[
    str | None, typer.Option("--log", metavar="LOG", help="A click log, as for audit.")
]
Column = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="MEANING=COLUMN",
        help="Which column of the log means what, such as query_id=srch_id; may be repeated.",
    ),
]
MappingFile = Annotated[
    Path | None,
    typer.Option(
        "--mapping",
        metavar="TOML",
        help="A file that says which columns mean what, which actions count, and how odd values "
        "are to be read.",
    ),
]
Features = Annotated[
    str | None,
    typer.Option(
        "--features", metavar="TABLE", help="A table of features, keyed by query_id and doc_id."
    ),
]
FeatureData = Annotated[
    str | None,
    typer.Option("--data", metavar="DATA", help="Data set with the features of the docs."),
]
Memory = Annotated[
    str | None,
    typer.Option("--memory", metavar="SIZE", help="How much to hold at once, such as 4GB."),
]


@dataclass(frozen=True)
class Where:
    """Where a command runs: in this process, or on Spark."""

    spark: Annotated[
        bool, typer.Option("--spark", help="Run on Spark (extra 'spark'), on all local cores.")
    ] = False
    master: Annotated[
        str | None,
        typer.Option(
            "--master",
            metavar="URL",
            help="Spark's master, such as local[4] or spark://host:7077. Default: what Spark's own "
            "configuration says, else all local cores.",
        ),
    ] = None

    def engine(self) -> "Engine":
        """Return the engine: the local one without --spark."""
        if self.spark:
            from prsrank.spark import SparkEngine

            return SparkEngine(master=self.master)
        if self.master is not None:
            raise InputError("--master is of --spark: give both")
        from prsrank.fit.local import LocalEngine

        return LocalEngine()


def parse_values(assignments: Sequence[str] | None, option: str) -> list[tuple[str, Any]]:
    """Read every NAME=VALUE; values are JSON where they can be, else text.

    >>> parse_values(["trees=300", "missing=impute", "hidden=[8, 8]"], "--set")
    [('trees', 300), ('missing', 'impute'), ('hidden', [8, 8])]
    """
    values: list[tuple[str, Any]] = []
    for assignment in assignments or ():
        name, equals, text = assignment.partition("=")
        if not equals:
            raise InputError(f"{option} takes NAME=VALUE, not '{assignment}'")
        try:
            values.append((name, json.loads(text)))
        except RecursionError:
            raise InputError(f"{option} {name}: is nested too deep") from None
        except ValueError:  # also a number of too many digits
            values.append((name, text))
    return values


def parse_counted(text: str, option: str) -> tuple[str, int | None]:
    """Read NAME or NAME:N.

    >>> parse_counted("top-k:5", "--design"), parse_counted("uniform", "--design")
    (('top-k', 5), ('uniform', None))
    """
    name, colon, number = text.partition(":")
    if not colon:
        return name, None
    if not re.fullmatch(r"[0-9]{1,7}", number):
        raise InputError(f"{option} takes NAME or NAME:N, not '{text}'")
    return name, int(number)


_WRITTEN = ("out", "plot", "html")
"""The options that say where to write; what cannot be written is said before the work."""


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose parameters that are dataclasses are spelled out as options."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    spelled: list[inspect.Parameter] = []
    for name, own in inspect.signature(command).parameters.items():
        if name in groups:
            spelled += _parameters(groups[name])
        else:
            spelled.append(own.replace(kind=own.KEYWORD_ONLY, annotation=hints[name]))

    @wraps(command)
    def run(**values: Any) -> None:
        for name in _WRITTEN:
            if isinstance(values.get(name), Path):
                check_writable(values[name])
        for name, group in groups.items():
            taken = [field.name for field in fields(group) if field.name in values]
            values[name] = group(**{field: values.pop(field) for field in taken})
        command(**values)

    run.__signature__ = inspect.Signature(spelled)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in spelled}
    return run


def _parameters(group: Any) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    settings = dict(settings_of(group))
    for field in fields(group):
        if field.name in getattr(group, "WITHOUT", ()):
            continue
        default = inspect.Parameter.empty if field.default is MISSING else field.default
        hint = hints[field.name]
        if field.name in settings:
            if not settings[field.name].option:
                continue
            option = _option(field.name, settings[field.name], flag=default is False)
            hint = Annotated[hint.__origin__, option]
        yield inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint
        )


def _option(name: str, setting: Setting, *, flag: bool) -> Any:
    """Return a setting of the library as an option."""
    least, most = setting.bounds[:2] if setting.bounds else (None, None)
    names = [f"--{name}"] if flag else []
    return typer.Option(*names, help=setting.help, metavar=setting.form, min=least, max=most)


class Command(TyperCommand):
    """A command whose help names the members of the tables; they are read only then."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        for parameter in self.params:
            if getattr(parameter, "help", None):
                parameter.help = filled(parameter.help)  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)
