"""Settings that are written once: what a field of a dataclass means, and functions that take them.

The command line makes options of such fields (`prsrank.cli.options`), and a function called with
them has them in its signature and its help.
"""

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import wraps
from importlib import import_module
from textwrap import fill
from typing import Any, ParamSpec, TypeVar, get_type_hints

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")

# what stands in braces in a help text -> the table whose names belong there
_TABLES = {
    "rankers": "prsrank.rankers.base:RANKERS",
    "weightings": "prsrank.weighting:WEIGHTINGS",
    "estimators": "prsrank.propensity.estimators:ESTIMATORS",
    "shapes": "prsrank.propensity.shapes:SHAPES",
    "click_models": "prsrank.clicks.models:CLICK_MODELS",
    "designs": "prsrank.clicks.simulate:DESIGNS",
    "production": "prsrank.clicks.production:PRODUCTION_RANKERS",
    "metrics": "prsrank.metrics.ranking:METRICS",
    "click_metrics": "prsrank.evaluation.rank_values:COUNTERFACTUAL_METRICS",
    "assumptions": "prsrank.evaluation.sensitivity:KINDS",
    "formats": "prsrank.export.formats:FORMATS",
    "judgements": "prsrank.evaluation.judgements:JUDGEMENT_FORMATS",
}


def filled(text: str) -> str:
    """Return a help text with the names of a table in place of its name in braces.

    >>> filled("How: {designs}.")
    'How: uniform, top-k, adjacent or pivot.'
    """
    return re.sub(r"\{(\w+)\}", lambda match: _names(_TABLES[match[1]]), text)


def _names(table: str) -> str:
    module, _, attribute = table.partition(":")
    *first, last = getattr(import_module(module), attribute)
    return f"{', '.join(first)} or {last}"


_PLACE = "        {settings}\n"


@dataclass(frozen=True)
class Setting:
    """What a setting means, as a note in `Annotated[TYPE, Setting(...)]`.

    Attributes:
        help: in a sentence or two.
        form: how its values are written.
        bounds: the least and the greatest value of a number, and whether the least is left out.
        option: whether the command line has it; else only Python has.
    """

    help: str
    form: str | None = None
    bounds: tuple[float, float, bool] | None = None
    option: bool = True


def settings_of(kind: Any) -> Iterator[tuple[str, Setting]]:
    """Yield the settings among the fields of a dataclass by name."""
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        for note in getattr(hints[field.name], "__metadata__", ()):
            if isinstance(note, Setting):
                yield field.name, note


def called_with(request: Callable[P, T]) -> Callable[[Callable[[T], R]], Callable[P, R]]:
    """Let a function of a dataclass be called with what the dataclass is made of.

    In the docstring `{settings}`, on a line of its own among the arguments, becomes the settings.

    >>> @dataclass
    ... class Cake:
    ...     eggs: int = 2
    >>> @called_with(Cake)
    ... def bake(cake: Cake) -> str:
    ...     return f"a cake of {cake.eggs} eggs"
    >>> bake(eggs=3), str(inspect.signature(bake))
    ('a cake of 3 eggs', '(eggs: int = 2)')
    """

    def made(function: Callable[[T], R]) -> Callable[P, R]:
        @wraps(function)
        def call(*values: P.args, **named: P.kwargs) -> R:
            return function(request(*values, **named))

        lines = (_described(name, note) for name, note in settings_of(request))
        call.__doc__ = (function.__doc__ or "").replace(_PLACE, "".join(lines))
        types, parameters = get_type_hints(request), inspect.signature(request).parameters
        call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [own.replace(annotation=types[name]) for name, own in parameters.items()]
        )
        return call

    return made


def _described(name: str, note: Setting) -> str:
    text = filled(f"{name}: {note.help}")
    return f"{fill(text, 100, initial_indent=' ' * 8, subsequent_indent=' ' * 12)}\n"
