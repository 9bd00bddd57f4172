"""Docstrings as the site shows them: doctests as blocks, formulas as MathML, which browsers draw by themselves."""

import re
from typing import Any

from griffe import Extension, Object
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
