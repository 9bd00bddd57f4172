"""How a method is drawn: one colour, dash and shape in all figures of a report."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from prsrank.rankers.base import RANKERS
from prsrank.weighting import WEIGHTINGS


@dataclass(frozen=True)
class Style:
    """Colour on white and on dark, dash of the line, and shape of the points.

    The shape is an SVG path within -1 to 1, which both Vega and a page can draw.
    """

    light: str
    dark: str
    dash: tuple[int, ...]
    shape: str


_CIRCLE = "M-1,0A1,1,0,1,1,1,0A1,1,0,1,1,-1,0Z"
_SQUARE = "M-.88,-.88H.88V.88H-.88Z"
_UP = "M0,-1.05L1,.75H-1Z"
_DOWN = "M0,1.05L1,-.75H-1Z"
_DIAMOND = "M0,-1.2L1.1,0L0,1.2L-1.1,0Z"
_CROSS = "M-1.1,-.38H-.38V-1.1H.38V-.38H1.1V.38H.38V1.1H-.38V.38H-1.1Z"

# After Okabe and Ito, told apart with any colour vision; every colour has a contrast of at
# least 3 to its background, and neighbours differ in dash and shape too.
STYLES = (
    Style("#0072b2", "#55b0ee", (), _CIRCLE),
    Style("#d55e00", "#f58c4a", (7, 3), _SQUARE),
    Style("#a97100", "#e8b84a", (2, 2), _UP),
    Style("#a5477f", "#e093c0", (9, 3, 2, 3), _DIAMOND),
    Style("#00795a", "#3fc79d", (14, 3), _DOWN),
    Style("#646b75", "#a6aeb9", (1, 3), _CROSS),
    Style("#1d2227", "#e8ebef", (5, 2, 1, 2, 1, 2), _DIAMOND),
    Style("#8a5a2c", "#cfa274", (4, 4), _DOWN),
    Style("#5b45b0", "#a99bf5", (11, 4), _SQUARE),
    Style("#667400", "#b9c54b", (3, 2), _CIRCLE),
    Style("#b3123a", "#ff7d98", (), _UP),
    Style("#007784", "#45c4d3", (6, 2), _CROSS),
)

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
        figures: the names that each figure shows. Those of one figure differ, as long as
            there are styles enough.

    >>> style_numbers([["new", "ips", "other"], ["third", "new"]])
    {'new': 0, 'ips': 1, 'other': 2, 'third': 3}
    """
    groups = [list(figure) for figure in figures]
    unique = list(dict.fromkeys(name for names in groups for name in names))
    own = {name: _own_style(name) for name in unique}
    numbers = {name: style for name, style in own.items() if style is not None}
    for name in unique:
        if name not in numbers:
            beside = {other for names in groups if name in names for other in names}
            taken = Counter(numbers[other] for other in beside if other in numbers)
            used = Counter(numbers.values())
            numbers[name] = min(range(len(STYLES)), key=lambda i: (taken[i], used[i]))
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
