"""What commands share: options and their help, how far they are, and how results are shown."""

import inspect
import json
import json as json_text
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand
from typer.models import OptionInfo

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
Model = Annotated[str, typer.Argument(metavar="MODEL", help="A folder that train or fit wrote.")]
Run = Annotated[str, typer.Argument(metavar="RUN", help="A folder that fit wrote.")]
AnyLog = Annotated[
    str,
    typer.Argument(
        metavar="LOG",
        help="A click log: Parquet, CSV or JSONL of events, a folder or glob of them, a compact "
        "log, or a folder with ubi_queries and ubi_events; - reads standard input. A folder that fit "
        "wrote stands for its inputs.",
    ),
]
NamedData = Annotated[str, typer.Option("--data", metavar="DATA", help="The data set.")]
Seed = Annotated[
    int, typer.Option(min=0, max=2**31 - 1, help="The same seed gives the same result.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]


@dataclass(frozen=True)
class Where:
    """Where a command runs: in this process, or on Spark.

    Attributes:
        spark: Run on Spark (extra 'spark'), on all local cores.
        master (URL): Spark's master, such as local[4] or spark://host:7077. Default: what Spark's
            own configuration says, else all local cores.
    """

    spark: bool = False
    master: str | None = None

    def engine(self) -> "Engine":
        """Return the engine: the local one without --spark."""
        if self.spark:
            from prsrank.spark import SparkEngine

            return SparkEngine(master=self.master)
        if self.master is not None:
            raise InputError("--master is of --spark: give both")
        from prsrank.fit.engine import LocalEngine

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


_DESCRIBED = re.compile(r"\n(?:Args|Attributes):\n((?: {4}.+\n?)+)")
_ITEM = re.compile(r"^ {4}(\w+)(?: \((.+?)\))?: (.+(?:\n {8}.+)*)", re.MULTILINE)


def described(documented: Any) -> dict[str, Setting]:
    """Return what a docstring says of the arguments of a function or the fields of a class.

    >>> def bake(eggs):
    ...     '''Bake.
    ...
    ...     Args:
    ...         eggs (N): How many
    ...             eggs there are.
    ...     '''
    >>> described(bake)["eggs"].help, described(bake)["eggs"].form
    ('How many eggs there are.', 'N')
    """
    part = _DESCRIBED.search(inspect.cleandoc(documented.__doc__ or ""))
    items = _ITEM.findall(part[1]) if part else ()
    return {name: Setting(" ".join(text.split()), form or None) for name, form, text in items}


def help_text(command: Any) -> str:
    """Return the docstring of a command without what it says of the arguments."""
    text = _DESCRIBED.sub("", inspect.getdoc(command) or "")
    # raw docstrings spell the mark that keeps an example's lines with two characters
    return text.replace("\\b\n", "\b\n")


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose arguments are options, and so are the fields of its dataclasses.

    An option is described in the docstring, as `NAME (FORM OF ITS VALUE): HELP`, or by a note of
    typer or a setting in its type.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    settings = described(command)
    spelled: list[inspect.Parameter] = []
    for name, own in inspect.signature(command).parameters.items():
        if name in groups:
            spelled += _fields(groups[name])
        else:
            spelled.append(_parameter(name, hints[name], own.default, settings.get(name)))

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


def _fields(group: Any) -> Iterator[inspect.Parameter]:
    hints, settings = get_type_hints(group, include_extras=True), dict(settings_of(group))
    for kind in group.__mro__:
        settings = described(kind) | settings
    for field in fields(group):
        setting = settings.get(field.name)
        if field.name in getattr(group, "WITHOUT", ()) or (setting and not setting.option):
            continue
        default = inspect.Parameter.empty if field.default is MISSING else field.default
        yield _parameter(field.name, hints[field.name], default, setting)


def _parameter(name: str, hint: Any, default: Any, setting: Setting | None) -> inspect.Parameter:
    if setting is not None:
        notes = getattr(hint, "__metadata__", ())
        option = copy(next((n for n in notes if isinstance(n, OptionInfo)), typer.Option()))
        option.param_decls = (f"--{name.strip('_').replace('_', '-')}",)
        option.help, option.metavar = setting.help, setting.form
        if setting.bounds:
            option.min, option.max = setting.bounds[:2]
        hint = Annotated[hint.__origin__ if notes else hint, option]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


class Command(TyperCommand):
    """A command whose help names the members of the tables; they are read only then."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        for parameter in self.params:
            if getattr(parameter, "help", None):
                parameter.help = filled(parameter.help)  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)


_SECONDS_BETWEEN_LINES = 30.0


def show(lines: Iterable[str], value: Any, *, json: bool) -> None:
    """Print a result in lines, or its value as JSON."""
    for line in [json_text.dumps(value, indent=2)] if json else lines:
        typer.echo(line)


def refuse_other_files(folder: Path, *ours: str) -> None:
    """Raise an InputError if a folder to write, which is replaced, holds files that are not ours."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: exists and is not a folder")
    if folder.is_dir() and {path.name for path in folder.iterdir()} - set(ours):
        raise InputError(f"{folder}: is a folder with other things in it")


@contextmanager
def working(message: str) -> Iterator[Callable[[str], object]]:
    """Show what is being done while it is done, on a terminal only; it may change meanwhile."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console

    with Console(stderr=True).status(message) as status:
        yield status.update


@contextmanager
def shown_progress() -> "Iterator[Progress]":
    """Show how far long work is: on a terminal as it goes on, else in a line now and then."""
    with working("starting") as tell:
        if sys.stderr.isatty():
            yield Progress(tell, seconds=0.0)
        else:
            yield Progress(lambda line: typer.echo(line, err=True), seconds=_SECONDS_BETWEEN_LINES)


class Progress:
    """Tells the progress in lines, with the time left, so many seconds apart."""

    def __init__(self, tell: Callable[[str], object], *, seconds: float) -> None:
        self.tell, self.seconds = tell, seconds
        self.work, self.first, self.started, self.last = "", 0, 0.0, 0.0

    def __call__(self, work: str, done: int, total: int) -> None:
        """Say it, if it is time to."""
        now = time.monotonic()
        if work != self.work:
            self.work, self.first, self.started, self.last = work, done, now, now
            return
        if done < total and now - self.last < self.seconds:
            return
        self.last = now
        left = (now - self.started) / max(done - self.first, 1) * (total - done)
        self.tell(f"{work}: {done:,} of {total:,}, about {left:,.0f} s left")
