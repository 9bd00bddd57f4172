"""Docstrings as the site shows them: doctests as blocks, formulas as MathML, which browsers draw by themselves.

A function that is called with a dataclass's fields (`prsrank.fit.settings.called_with`) has them as parameters.
"""

import inspect
import re
from importlib import import_module
from typing import Any

from griffe import Extension, Function, Object, Parameter, ParameterKind, Parameters
from latex2mathml.converter import convert

# Markdown takes >>> for three quotes within each other
_DOCTEST = re.compile(r"^([ \t]*)>>> .*(?:\n\1 *\S.*)*", re.MULTILINE)
_FORMULA = re.compile(r"\$([^$]+)\$")


def shown(docstring: str) -> str:
    """Return a docstring as Markdown that can be rendered."""
    fenced = _DOCTEST.sub(r"\1```pycon\n\g<0>\n\1```", docstring)
    # in a span, for a line that begins with <math> would be a block of its own
    return _FORMULA.sub(lambda found: f"<span>{convert(found[1])}</span>", fenced)


class Shown(Extension):
    """Rewrites each docstring before it is parsed."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rewrite the docstring of one module, class, function or attribute."""
        if obj.docstring:
            obj.docstring.value = shown(obj.docstring.value)

    def on_function(self, *, func: Function, **_: Any) -> None:
        """Give a function that is made of a dataclass the parameters and words that it has when it is called."""
        if not any("called_with" in str(decorator.value) for decorator in func.decorators):
            return
        made = getattr(import_module(func.module.path), func.name)
        func.docstring.value = shown(inspect.getdoc(made) or "")
        func.parameters = Parameters(
            *(
                Parameter(
                    name,
                    kind=ParameterKind[own.kind.name.lower()],
                    annotation=inspect.formatannotation(own.annotation),
                    default=None if own.default is own.empty else repr(own.default),
                )
                for name, own in inspect.signature(made).parameters.items()
            )
        )
