"""The curve of a log: given, logged, or estimated by the best method that its sessions allow."""

import difflib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.logs.click_log import ClickLog
from prsrank.logs.pieces import Extent, LocalPieces, Pieces
from prsrank.propensity.curve import PowerLaw, Propensities, covering, learned_curve
from prsrank.propensity.estimators import ESTIMATORS, estimator
from prsrank.propensity.verdict import Status, Verdict
from prsrank.types import Floats, LogTables

_MOST_REASONS = 3


@dataclass(frozen=True, eq=False)
class LogCurve:
    """A curve, and where it comes from in a sentence."""

    curve: Propensities
    how: str


def curve_of(log: ClickLog, given: str | None = None, *, seed: int = 0) -> LogCurve:
    """Return the curve of all sessions of a log, by the choice of `fit`.

    Args:
        log: the sessions.
        given: a file or "power:ETA"; None: the log's own propensities, else the best estimate.
        seed: of the bootstrap replicates.

    Raises:
        InputError: if the log identifies nothing and nothing is given.
    """
    if given is not None:
        return LogCurve(given_curve(given, log.max_position), f"given: {given}")
    logged = log.ranking_propensities
    if logged is not None:
        return LogCurve(
            logged_curve(log, logged), "the propensities in the log, their mean by position"
        )
    pieces, reasons, curves = LocalPieces([log]), list[str](), dict[Status, Propensities]()
    for method in estimating_methods():
        curve = estimated_curve(method, pieces, seed=seed)
        if _tells_nothing(curve):
            reasons.append(f"{method}: {curve.verdict.reason}")
        curves.setdefault(Status.UNKNOWN if _tells_nothing(curve) else curve.verdict.status, curve)
        if Status.IDENTIFIED in curves:
            break
    best = curves.get(Status.IDENTIFIED, curves.get(Status.WEAK))
    if best is None:
        raise InputError(
            "identifies no propensities: give --propensity FILE or power:ETA (an assumption); "
            + "; ".join(reasons[:_MOST_REASONS])
        )
    curve = covering(best, log.max_position)
    return LogCurve(curve, f"{best.method}, from {log.sessions:,} sessions: {curve.verdict}")


def estimating_methods() -> list[str]:
    """Return the methods that estimate a curve, the best first."""
    return [name for name in ESTIMATORS if name != "known"]


def estimated_curve(method: str, pieces: Pieces[ClickLog], *, seed: int = 0) -> Propensities:
    """Return a method's monotone curve of a log that lies in pieces, from its sessions alone."""
    curve: Propensities = _with_monotone_shape(method).estimate_pieces(pieces, seed=seed)
    return curve


def monotone_curve(
    method: str,
    pieces: Pieces[ClickLog],
    *,
    seed: int = 0,
    featured: Callable[[], tuple[ClickLog, RankingDataset] | None] | None = None,
) -> Propensities | None:
    """Return a method's monotone curve, or None where the sessions do not identify one.

    Args:
        method: name of the estimator.
        pieces: the sessions.
        seed: of the bootstrap replicates.
        featured: returns sessions and lists, if this process can hold them: a method that can use
            features does so where it is given, and it cannot do without.
    """
    curve = estimated_curve(method, pieces, seed=seed)
    if curve.verdict.unknown and featured is not None and estimator(method).uses_features:
        held = featured()
        if held is not None:
            curve = _with_monotone_shape(method).estimate(held[0], dataset=held[1], seed=seed)
    return None if _tells_nothing(curve) else curve


def _with_monotone_shape(method: str) -> Any:
    return replace(estimator(method), shape="monotone")  # type: ignore[type-var]


def _tells_nothing(curve: Propensities) -> bool:
    with np.errstate(invalid="ignore"):
        return curve.verdict.unknown or not (curve.propensity[1:] > 0).any()


def logged_curve(log: ClickLog, logged: Floats) -> Propensities:
    """Return the mean of the logged propensities by position, relative to position 1."""
    shown, clicked = log.slot_statistics()
    index = log.ranking_positions - 1
    sums = np.bincount(index, shown * logged)
    counts = np.bincount(index, shown)
    with np.errstate(invalid="ignore"):
        mean = sums / counts
        curve = learned_curve(mean / mean[0], np.bincount(index, clicked), "logged")
    return covering(replace(curve, verdict=Verdict("logged")), log.max_position, fewest=0)


@dataclass(frozen=True)
class KnownPropensity:
    r"""$(1/k)^\eta$, for all positions of a log.

    Args:
        eta: severity of the position bias.

    >>> KnownPropensity(eta=2).at_depth(2).propensity.tolist()
    [1.0, 0.25]
    """

    method: ClassVar[str] = "known"
    needs: ClassVar[str] = "nothing"
    uses_features: ClassVar[bool] = False
    only_randomised: ClassVar[bool] = False

    eta: float = 1.0

    def __post_init__(self) -> None:
        PowerLaw(self.eta)

    def identify(self, tables: LogTables) -> None:
        """Return None: it is given, whatever the log says."""

    def at_depth(self, depth: int) -> Propensities:
        """Return the curve for positions 1 to `depth`."""
        p = PowerLaw(self.eta).at(np.arange(1, depth + 1))
        return Propensities(
            p, p, p, np.zeros(depth, np.int64), Verdict(Status.IDENTIFIED), self.method
        )

    def estimate(
        self, log: ClickLog, *, dataset: RankingDataset | None = None, seed: int = 0
    ) -> Propensities:
        """Return the curve for the positions of the log; see `Estimator`."""
        return self.at_depth(log.max_position)

    def estimate_pieces(self, pieces: Pieces[ClickLog], *, seed: int = 0) -> Propensities:
        """Return the curve for the positions of a log that lies in pieces."""
        return self.at_depth(pieces.total(Extent.of).depth)


KNOWN = KnownPropensity()


def given_curve(text: str, depth: int) -> Propensities:
    """Return the curve of a file, or of "power:ETA" down to a depth."""
    curve = parse_propensity(text)
    if isinstance(curve, PowerLaw):
        known = KnownPropensity(eta=curve.eta).at_depth(depth)
        return replace(known, verdict=Verdict(Status.GIVEN))
    return curve


def parse_propensity(text: str) -> PowerLaw | Propensities:
    """Return the curve that a command line names: "power:ETA", or a JSON file.

    >>> parse_propensity("power:1.5")
    PowerLaw(eta=1.5)
    """
    if not text.startswith("power:"):
        _refuse_method(text)
        return Propensities.load(text)
    try:
        return PowerLaw(float(text.removeprefix("power:")))
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"'{text}': what follows 'power:' must be a number") from None


def _refuse_method(text: str) -> None:
    """Raise an InputError for the name of a method where a curve is asked for."""
    if Path(text).exists():
        return
    if text in ESTIMATORS:
        raise InputError(
            f"'{text}' is a method, not a curve: 'prsrank propensity --method {text} --out FILE' "
            "writes one"
        )
    close = difflib.get_close_matches(text, ESTIMATORS, n=1)
    if close:
        raise InputError(f"{text}: no such file; did you mean the method '{close[0]}'?")
