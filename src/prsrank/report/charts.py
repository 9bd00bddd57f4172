"""The charts of a report: styles of its methods, pictures of its figures, words at its points."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from prsrank.files import FileName, atomic_output
from prsrank.notebook.vega_lite import STYLES, figure_spec, series_names
from prsrank.rankers.base import RANKERS
from prsrank.report.parts import Part, figures_of
from prsrank.weighting import WEIGHTINGS

_PRODUCTION = 5
# what the paper's figures call them -> the weighting or ranker that it is
_TITLES = {
    "full_information": "labels",
    "full_info": "labels",
    "prs_lambdamart": "prs",
    "propensity_svm_rank": "svm",
    "posterior_pairs": "posterior",
}


def style_numbers(figures: Iterable[Sequence[str]]) -> dict[str, int]:
    """Give each name an index into STYLES: the usual methods always the same one.

    Args:
        figures: the names that each figure shows. Names that are new in a figure differ from
            all others there, as long as there are styles enough.

    >>> style_numbers([["new", "ips", "other"], ["third", "new"]])
    {'new': 0, 'ips': 1, 'other': 2, 'third': 3}
    """
    groups = [list(figure) for figure in figures]
    unique = list(dict.fromkeys(name for names in groups for name in names))
    own = {name: _own_style(name) for name in unique}
    numbers = {name: style for name, style in own.items() if style is not None}
    for names in groups:
        for name in names:
            if name not in numbers:
                beside = Counter(numbers[other] for other in names if other in numbers)
                used = Counter(numbers.values())
                numbers[name] = min(range(len(STYLES)), key=lambda i: (beside[i], used[i]))
    return {name: numbers[name] for name in unique}


def _own_style(title: str) -> int | None:
    """Return the style that the weighting or the ranker of a title names as its own."""
    plain = title.casefold().strip().replace(" ", "_").replace("-", "_")
    if plain == "production":
        return _PRODUCTION
    name = _TITLES.get(plain, plain)
    if name in WEIGHTINGS:
        return WEIGHTINGS[name].chart_style
    return RANKERS[name].chart_style if name in RANKERS else None


def write_figures(report: Part, folder: FileName) -> list[Path]:
    """Write each figure of a report as PNG and SVG into a folder; return the files' paths."""
    figures = figures_of(report)
    styles = style_numbers(series_names([figure]) for figure in figures)
    written = []
    for figure, name in zip(figures, file_names(f["id"] for f in figures), strict=True):
        for suffix in (".png", ".svg"):
            path = Path(folder) / f"{name}{suffix}"
            write_picture(path, figure, styles=styles)
            written.append(path)
    return written


def write_picture(path: FileName, *figures: Part, styles: Mapping[str, int] | None = None) -> None:
    """Write whole figures to .svg or .png as one picture, whole or not at all."""
    with atomic_output(path) as draft:
        draft.write_bytes(figure_picture(*figures, suffix=Path(path).suffix, styles=styles))


def figure_picture(*figures: Part, suffix: str, styles: Mapping[str, int] | None = None) -> bytes:
    """Return whole figures as one picture, drawn without a browser: ".png" or ".svg"."""
    import vl_convert

    spec = figure_spec(*figures, styles=styles or style_numbers([series_names(figures)]))
    if suffix == ".svg":
        return str(vl_convert.vegalite_to_svg(spec)).encode()
    return bytes(vl_convert.vegalite_to_png(spec, scale=2))


def file_names(ids: Iterable[str]) -> list[str]:
    """Return a distinct name for each id, of letters, digits, "-" and "_" only.

    >>> file_names(["fig 1", "fig/1", "<b>"])
    ['fig-1', 'fig-1-2', 'b']
    """
    names: list[str] = []
    for text in ids:
        base = re.sub(r"[^A-Za-z0-9_]+", "-", text)[:60].strip("-") or "part"
        name, number = base, 1
        while name in names:
            number += 1
            name = f"{base}-{number}"
        names.append(name)
    return names
