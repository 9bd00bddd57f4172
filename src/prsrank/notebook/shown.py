"""What shows itself in a notebook without printing its arrays."""

from html import escape
from textwrap import shorten
from typing import Any

from prsrank.errors import InputError
from prsrank.notebook.charts import Chart, Columns
from prsrank.notebook.vega_lite import plain_number

_MOST_ROWS = 20
_LONGEST_LINE = 200


class Shown:
    """A result that shows itself: a short `repr`, a table in a notebook, a frame, a chart.

    A subclass says `_line`, `_table` and `_chart`; a dataclass passes `repr=False`, for it would
    write a `repr` of its own.

    >>> class Curve(Shown):
    ...     def _line(self): return "2 positions"
    ...     def _table(self): return {"position": [1, 2], "propensity": [1.0, 0.5]}
    >>> Curve()
    <Curve: 2 positions>
    >>> Curve().to_frame().to_dict("list")
    {'position': [1, 2], 'propensity': [1.0, 0.5]}
    """

    def _line(self) -> str:
        """Return what it is in one line."""
        raise NotImplementedError

    def _table(self) -> Columns:
        """Return what is worth seeing of it, as columns."""
        raise NotImplementedError

    def _chart(self) -> Chart:
        """Return what `plot` draws."""
        raise NotImplementedError

    def __repr__(self) -> str:
        line = shorten(self._line(), _LONGEST_LINE, placeholder=" ...")
        return f"<{type(self).__name__}: {line}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the line and the first rows of the table."""
        title = f"<p><b>{type(self).__name__}</b>: {escape(self._line())}</p>"
        return title + html_table(self._table())

    def to_frame(self) -> Any:
        """Return the table as a pandas frame."""
        return frame_of(self._table())

    def plot(self) -> Any:
        """Return an altair chart; a notebook draws it, `.save("chart.png")` writes it."""
        return self._chart().draw()


def frame_of(columns: Columns) -> Any:
    """Return columns as a pandas frame; an InputError where there is no pandas."""
    try:
        import pandas
    except ImportError:
        raise InputError("to_frame needs pandas: pip install pandas") from None
    return pandas.DataFrame(dict(columns))


def html_table(columns: Columns) -> str:
    """Return the first rows of a table as HTML in which no text is taken for markup.

    >>> html_table({"a<b": ["<i>"], "n": [1234567]})
    '<table><tr><th>a&lt;b</th><th>n</th></tr><tr><td>&lt;i&gt;</td><td>1,234,567</td></tr></table>'
    """
    rows = list(zip(*columns.values(), strict=True))
    head = "".join(f"<th>{escape(str(name))}</th>" for name in columns)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(_text(value))}</td>' for value in row)}</tr>"
        for row in rows[:_MOST_ROWS]
    )
    more = len(rows) - _MOST_ROWS
    rest = f"<p>and {more:,} more rows: to_frame() has all</p>" if more > 0 else ""
    return f"<table><tr>{head}</tr>{body}</table>{rest}"


def _text(value: Any) -> str:
    value = plain_number(value)
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
