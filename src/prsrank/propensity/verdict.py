"""What a log can say about a curve, in words."""

import numpy as np
import numpy.typing as npt

from prsrank.types import Floats, Marks

WIDE = 0.5
"""An interval is wide if half its width is more than this share of the propensity."""

FEW_CARRIERS = 2
"""A position that no more queries than this carry is weak, however narrow its interval."""

CARRIED_BY_FEW = f"carried by {FEW_CARRIERS} queries or fewer"


def verdict_of(
    propensity: Floats,
    low: Floats,
    high: Floats,
    *,
    why_unknown: str,
    few: Marks | None = None,
) -> str:
    """Return "identified", "weak: positions ..." or "not identified: ...".

    Args:
        propensity: the curve; NaN where the log says nothing.
        low: lower ends of the intervals.
        high: upper ends.
        why_unknown: why positions may be unknown, and what would help.
        few: positions that no more than FEW_CARRIERS queries carry; default: none.

    >>> p = np.array([1.0, 0.5, 0.2])
    >>> verdict_of(p, p * [1, 0.9, 0.2], p * [1, 1.1, 3], why_unknown="")
    'weak: positions 3: few clicks, wide intervals'
    """
    if len(propensity) < 2:
        return "not identified: only position 1 was shown; nothing can be compared with it"
    unknown = np.isnan(propensity)
    if unknown[1:].all():
        return f"not identified: {why_unknown}"
    wide = ~unknown & ~((high - low) / 2 <= WIDE * propensity)
    few = np.zeros_like(wide) if few is None else ~unknown & few
    wide[0] = few[0] = False
    wide &= ~few
    parts = []
    if few.any():
        parts.append(f"positions {in_words(np.flatnonzero(few) + 1)}: {CARRIED_BY_FEW}")
    if wide.any():
        parts.append(f"positions {in_words(np.flatnonzero(wide) + 1)}: few clicks, wide intervals")
    if unknown.any():
        parts.append(f"positions {in_words(np.flatnonzero(unknown) + 1)}: {why_unknown}")
    return f"weak: {'; '.join(parts)}" if parts else "identified"


def in_words(positions: npt.ArrayLike) -> str:
    """Return rising positions as text, runs of three or more shortened.

    >>> in_words([2, 4, 5, 7, 8, 9])
    '2, 4, 5, 7-9'
    """
    values = np.asarray(positions, dtype=np.int64)
    runs = np.split(values, np.flatnonzero(np.diff(values) != 1) + 1)
    words = []
    for run in runs:
        words += [f"{run[0]}-{run[-1]}"] if len(run) > 2 else [str(k) for k in run]
    return ", ".join(words)
