"""What a log can say about a curve, in words."""

from collections.abc import Mapping
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from prsrank.types import Floats, Longs, Marks

WIDE = 0.5
"""An interval is wide if half its width is more than this share of the propensity."""

FEW_CARRIERS = 2
"""A position that no more queries than this carry is weak, however narrow its interval."""

LEAST_SECOND = 0.01
"""A curve below this at position 2 is not one: the clicks that were compared do not tell it."""

_CARRIED_BY_FEW = f"carried by {FEW_CARRIERS} queries or fewer"
_ONLY_FIRST = "only position 1 was shown; nothing can be compared with it"
_Z = 1.96


class Status(StrEnum):
    """How far a curve is known."""

    IDENTIFIED = "identified"
    WEAK = "weak"
    UNKNOWN = "not identified"
    GIVEN = "given"


class Verdict(str):
    """A status and a reason, as the text that files and outputs hold.

    >>> verdict = Verdict.of(Status.WEAK, "positions 3: few clicks")
    >>> verdict, verdict.status, verdict.reason
    ('weak: positions 3: few clicks', <Status.WEAK: 'weak'>, 'positions 3: few clicks')
    """

    __slots__ = ()

    @classmethod
    def of(cls, status: Status, reason: str = "") -> "Verdict":
        """Return the verdict of a status and a reason."""
        return cls(f"{status}: {reason}" if reason else status)

    @property
    def status(self) -> Status:
        """How far the curve is known; text that begins with no status is that of a given curve."""
        return next((status for status in Status if self.startswith(status)), Status.GIVEN)

    @property
    def reason(self) -> str:
        """Why; "" if nothing is to be said."""
        return self.removeprefix(self.status).lstrip(":; ")

    @property
    def unknown(self) -> bool:
        """Whether there is no curve beyond position 1."""
        return self.status == Status.UNKNOWN


def judge_counts(
    estimated: Marks, clicks: Longs, *, why_unknown: str, few: Marks | None = None
) -> Verdict:
    r"""Judge by the clicks behind each position, as an audit can before anything is estimated.

    A position has few clicks if the interval $1.96 \sqrt{1/c_1 + 1/c_k}$ of log p is wide.

    Args:
        estimated: positions that comparisons link to position 1.
        clicks: clicks behind each position.
        why_unknown: why positions may be unknown, and what would help.
        few: positions that no more than FEW_CARRIERS queries carry; default: none.

    >>> judge_counts(np.array([True, True, True]), np.array([900, 90, 9]), why_unknown="")
    'weak: positions 3: few clicks'
    """
    if len(estimated) < 2:
        return Verdict.of(Status.UNKNOWN, _ONLY_FIRST)
    beyond = np.arange(len(estimated)) > 0
    if not estimated[beyond].any():
        return Verdict.of(Status.UNKNOWN, why_unknown)
    few = estimated & beyond & (np.zeros_like(estimated) if few is None else few)
    thin = estimated & beyond & ~few & has_few_clicks(clicks)
    marks = {_CARRIED_BY_FEW: few, "few clicks": thin, why_unknown: ~estimated & beyond}
    return _of_parts(marks)


def has_few_clicks(clicks: Longs) -> Marks:
    r"""Tell of each position whether the interval $1.96 \sqrt{1/c_1 + 1/c_k}$ of log p is wide."""
    with np.errstate(divide="ignore"):
        reach = _Z * np.sqrt(1 / np.float64(clicks[0]) + 1 / clicks.astype(np.float64))
    return np.asarray(~(reach <= WIDE))


def verdict_of(propensity: Floats, low: Floats, high: Floats, *, why_unknown: str) -> Verdict:
    """Judge by intervals, where more than a curve's own clicks stands behind it.

    Args:
        propensity: the curve; NaN where the log says nothing.
        low: lower ends of the intervals.
        high: upper ends.
        why_unknown: why positions may be unknown, and what would help.

    >>> p = np.array([1.0, 0.5, 0.2])
    >>> verdict_of(p, p * [1, 0.9, 0.2], p * [1, 1.1, 3], why_unknown="")
    'weak: positions 3: few clicks, wide intervals'
    """
    if len(propensity) < 2:
        return Verdict.of(Status.UNKNOWN, _ONLY_FIRST)
    unknown = np.isnan(propensity)
    if unknown[1:].all():
        return Verdict.of(Status.UNKNOWN, why_unknown)
    wide = ~unknown & ~((high - low) / 2 <= WIDE * propensity)
    wide[0] = False
    return _of_parts({"few clicks, wide intervals": wide, why_unknown: unknown})


def _of_parts(marks: Mapping[str, Marks]) -> Verdict:
    """Return the verdict from what is wrong with which positions."""
    parts = [
        f"positions {in_words(np.flatnonzero(at) + 1)}: {why}"
        for why, at in marks.items()
        if at.any()
    ]
    return Verdict.of(Status.WEAK, "; ".join(parts)) if parts else Verdict(Status.IDENTIFIED)


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
