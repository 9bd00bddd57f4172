r"""Is a curve right? The clicks judge it, without labels.

A curve is *tempered* by a power: $p_k^s$. For each s the prior is fitted anew and the clicks of
the queries left out are scored by their likelihood. If the curve is right, s = 1 is best; a
curve with an exponent twice too large is best at s = .5. Where features explain the positions as
well as the curve does, no s is better than another, and nothing is decided.

What a power is found from is relevance by features. A ranker that knew more of relevance than the
features do put better docs on top than they say, and the curve looks steeper than it is: a power
below 1 cannot come from that, but one above 1 can. Docs that were shown at several positions tell
the two apart, since a doc is compared with itself there: given a doc's clicks, how they fall on
its positions does not depend on relevance.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.logs.click_log import LogOrFrame, as_click_log
from prsrank.notebook import Chart, Columns, Shown
from prsrank.propensity.cells import ENOUGH_QUERIES
from prsrank.propensity.counted_clicks import DOCS_FOR_JUDGING, CountedClicks, SampledClicks
from prsrank.propensity.curve import MOST_POSITIONS, PowerLaw, Propensities, PropensityCurve
from prsrank.propensity.estimators import ESTIMATORS, estimator
from prsrank.propensity.verdict import Status, Verdict
from prsrank.ragged import list_of_row
from prsrank.relevance.prior import PriorModel, cross_fitting, find_prior, sampled_queries
from prsrank.relevance.tree_prior import TreePrior
from prsrank.threads import one_blas_thread
from prsrank.types import ClickModel, Floats, Marks

# Powers are tried that make the curve about as steep as (1/k)^eta for these eta.
ETAS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)
_NEAR = 0.25
# An interval of eta wider than this does not tell one curve from another.
WIDEST_INTERVAL = 0.6
# A ranker whose score is label + noise, which no feature tells, makes any curve look steeper: as if
# eta were larger by .10 to .18 (noise of 2), .16 to .25 (1) or .25 to .36 (.5: it all but knows).
# So a power above 1 must be beyond this addition to eta, and half as steep again: a curve twice too
# flat ((1/k)^.5 for 1/k) still is.
HIDDEN = 0.3
HALF_AS_STEEP_AGAIN = 0.5
# With the log of the position as the only feature, nothing but the form of the prior tells powers
# apart: it left a share of .03 to .04 and a power of 2.4 where 1 is right. Features of docs left
# .10 and more. Such features pull the power towards the fall of the clicks themselves, which is
# steeper than the curve wherever the order shown was better than none: a power below 1 says that
# clicks fall less than the curve does, and needs no features to be believed.
LEAST_SHARE = 0.05
_ASIDE = 0.5
# Clicks that look like a power outside of these do not look like the shape of the curve either.
_FAR = (0.33, 3.0)
_Z = 1.96
# A curve flatter than this has no shape that a power could change.
_FLATTEST = 0.02
# Few, quick trees: powers are compared with one another, not with a better prior.
JUDGE = TreePrior(trees=60, learning_rate=0.2, patience=5)
_JUDGE_PARTS = 3
_REPLICATES = 500
_ANY = (0.0, np.inf)


@dataclass(frozen=True, eq=False, repr=False)
class Tempering(Shown):
    """What the clicks say about a curve.

    Attributes:
        power: the s at which held-out clicks are most likely.
        low: lower end of its 95 % interval, by a bootstrap of queries.
        high: upper end.
        decides: whether the likelihood is clear; if not, leave the curve alone.
        share: information about the power that features leave, as a share of what there would
            be if relevance were known: 0 where features explain the positions.
        within: 95 % interval of the power by docs shown at several positions alone, each
            compared with itself, without features; 0 to infinity where there are none.
        steepness: the eta of the (1/k)^eta that the curve is most like.
        powers: the powers that were tried, rising.
        log_likelihood: of held-out clicks at each of them.
    """

    power: float
    low: float
    high: float
    decides: bool
    share: float
    within: tuple[float, float]
    steepness: float
    powers: Floats
    log_likelihood: Floats

    @property
    def contradicts(self) -> bool:
        """Whether the clicks clearly prefer another power than 1."""
        return self.decides and not self.low <= 1 <= self.high

    @property
    def followed(self) -> float:
        """The power to use; 1 where the curve is better left as it is.

        A power below 1 is safe to follow. One above 1 may be hidden knowledge of the ranker
        that was logged: it is followed if that cannot explain it, or if docs shown at several
        positions say so too. It is never larger than these allow.
        """
        if not self.contradicts:
            return 1.0
        power = min(self.power, self.within[1])
        if self.power < 1:
            return power
        beyond = self.low > 1 + max(HALF_AS_STEEP_AGAIN, HIDDEN / self.steepness)
        safe = beyond or self.within[0] > 1
        return max(1.0, power) if safe else 1.0

    @property
    def error(self) -> float:
        """The standard error of the power to use; what held it back is doubt as well.

        A curve that is left as it is keeps its own intervals.
        """
        if self.followed == 1:
            return 0.0
        return max((self.high - self.low) / (2 * _Z), abs(self.followed - self.power))

    def left(self, curve: Propensities) -> Propensities:
        """Return a curve, or nothing of a weak estimate that the clicks are far from."""
        weak = curve.method in ESTIMATORS and curve.verdict.status == Status.WEAK
        far = self.contradicts and not _FAR[0] <= self.power <= _FAR[1]
        if not weak or not far or estimator(curve.method).only_randomised:
            return curve
        nothing = np.where(np.arange(curve.positions) > 0, np.nan, 1.0)
        verdict = Verdict.of(Status.UNKNOWN, self.sentence)
        unknown = replace(curve, propensity=nothing, low=nothing, high=nothing, verdict=verdict)
        return replace(unknown, contexts={}, covariance=None)

    def _line(self) -> str:
        return self.sentence

    def _table(self) -> Columns:
        return {"power": self.powers, "log likelihood": self.log_likelihood}

    def _chart(self) -> Chart:
        return Chart("lines", self._table(), "power", "log likelihood")

    def to_json_dict(self) -> dict[str, Any]:
        """Return the finding as plain data; an end that is infinite becomes None."""
        ends = {"low": self.low, "high": self.high}
        return {
            "power": self.power,
            **{name: end if np.isfinite(end) else None for name, end in ends.items()},
            "decides": self.decides,
            "contradicts": self.contradicts,
            "followed": self.followed,
            "sentence": self.sentence,
        }

    @property
    def interval(self) -> str:
        """The power and its interval as text."""
        return f"{self.power:.2f} (95 % interval {self.low:.2f} to {self.high:.2f})"

    @property
    def sentence(self) -> str:
        """The finding in plain words."""
        if not self.decides:
            why = f"features explain them with powers from {self.low:.2f} to {self.high:.2f} alike"
            if np.isinf(self.high):
                why = "it is flat, or too few lists have clicks"
            return f"the clicks cannot judge this curve: {why}; it is left as it is"
        if not self.contradicts:
            return f"the clicks agree with this curve: they look like its power {self.interval}"
        said = f"the clicks contradict this curve: they look like its power {self.interval}"
        if self.followed == 1:
            return (
                f"{said}, but a logged ranker that knew more than the features do has the same "
                "look; it is left as it is"
            )
        if self.followed < self.power:
            return f"{said}, docs shown at several positions like {self.followed:.2f} at most"
        return said


def temper(
    log: LogOrFrame,
    lists: RankingDataset,
    propensities: PropensityCurve | npt.ArrayLike | None = None,
    *,
    model: ClickModel | None = None,
    prior: str | PriorModel = JUDGE,
    context: str | None = None,
    seed: int = 0,
    threads: int | None = None,
) -> Tempering:
    """Let the clicks judge a curve; arguments as those of `prsrank.pairs.posterior.posterior`."""
    counted = CountedClicks.of_log(as_click_log(log), lists, propensities, context=context)
    return temper_counts(counted, lists, model=model, prior=prior, seed=seed, threads=threads)


def temper_sampled(
    curve: Propensities, sampled: SampledClicks, *, seed: int = 0
) -> Tempering | None:
    """Let some lists of a log judge a curve; None where there are none, or there is no curve."""
    if curve.verdict.unknown or not sampled.parts:
        return None
    lists, counted = sampled.on_curve(curve)
    return temper_counts(counted, lists, seed=seed)


@one_blas_thread()
def temper_counts(
    counted: CountedClicks,
    lists: RankingDataset,
    *,
    model: ClickModel | None = None,
    prior: str | PriorModel = JUDGE,
    seed: int = 0,
    threads: int | None = None,
) -> Tempering:
    """Let counts of clicks judge their propensities."""
    shown = np.diff(counted.cells.offsets) > 0
    chosen = np.bincount(list_of_row(lists.offsets), shown, lists.lists) > 0
    most = DOCS_FOR_JUDGING / max(int(lists.list_lengths[chosen].sum()), 1)
    if most < 1:
        chosen &= sampled_queries(lists.query_ids, most)
    docs, some = np.repeat(chosen, lists.list_lengths), lists.select(chosen)
    owner = list_of_row(some.offsets)
    clicks, judge = float(counted.cells.clicked.sum()), find_prior(prior)
    fit = cross_fitting(some, clicks, judge, parts=_JUDGE_PARTS, fits=1, seed=seed, threads=threads)

    def heights(power: float) -> Floats:
        fitted = fit(counted.evidence(model, power=power).of_docs(docs))
        return np.bincount(owner, fitted.log_likelihood, some.lists).astype(np.float64)

    steepness = _steepness(counted)
    # the spread between a handful of lists cannot be seen
    if steepness < _FLATTEST or some.lists < ENOUGH_QUERIES:
        unknown = np.full(1, np.nan)
        return Tempering(1.0, 0.0, np.inf, False, 0.0, _ANY, steepness, np.ones(1), unknown)
    first = [eta / steepness for eta in ETAS]
    # the curve as it is takes the place of the nearest power
    first[int(np.argmin(np.abs(np.array(first[1:]) - 1))) + 1] = 1.0
    tried = {power: heights(power) for power in first}
    best = max(tried, key=lambda power: tried[power].sum())
    near = _NEAR / steepness
    for power in (best - near, best + near):
        # a spline through two powers that are all but the same is wild between the others
        if 0 < power < max(first) and min(abs(power - other) for other in tried) > near / 2:
            tried[power] = heights(power)
    powers = np.array(sorted(tried))
    values = np.array([tried[power] for power in powers])
    tempering = _verdict(powers, values, steepness, _information(counted, docs), seed)
    drawn = within_powers(counted, lists, powers, seed=seed)
    if drawn is None:
        return tempering
    return replace(tempering, within=tuple(np.quantile(drawn, [0.025, 0.975]).tolist()))


def _steepness(counted: CountedClicks) -> float:
    r"""Return the eta of the $(1/k)^\eta$ that the curve is most like, where clicks are."""
    clicks = counted.cells.clicked
    with np.errstate(divide="ignore"):
        fall = np.where(clicks > 0, -np.log(counted.propensity), 0.0)
    depth = float((clicks * np.log(counted.cells.positions)).sum())
    return max(float((clicks * fall).sum()) / depth, 0.0) if depth > 0 else 0.0


def _information(counted: CountedClicks, docs: Marks) -> float:
    r"""Return about the information on the power if relevance were known: $\sum n (\log p)^2$."""
    cells = docs[counted.cells.cell_docs] & (counted.cells.clicked > 0)
    logs = np.log(counted.propensity[cells])
    return float((counted.cells.clicked[cells] * logs**2).sum())


def within_powers(
    counted: CountedClicks, lists: RankingDataset, powers: Floats, *, seed: int = 0
) -> Floats | None:
    r"""Return the power by docs shown at several positions, drawn by a bootstrap of lists.

    Given its clicks, those of a doc fall on its positions as $N_k p_k^s$ over the sum of these,
    whatever its relevance: a likelihood of the power without features. With clicks of 0 or 1 it
    is not exact, but the expectation of its derivative is 0 at the right power. None where too
    few lists have such docs.
    """
    cells = counted.cells
    several = np.diff(cells.offsets) > 1
    some, p = cells.of_docs(several), counted.propensity[several[cells.cell_docs]]
    units, unit = np.unique(list_of_row(lists.offsets)[several], return_inverse=True)
    if len(units) < ENOUGH_QUERIES or not some.clicked.any() or np.ptp(p) == 0:
        return None
    clicks = some.sums(some.clicked)

    def heights(power: float) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            own = np.where(some.clicked > 0, some.clicked * power * np.log(p), 0.0)
            other = np.log(some.sums(some.shown * p**power))
        of_doc = some.sums(own) - np.where(clicks > 0, clicks * other, 0.0)
        return np.asarray(np.bincount(unit, of_doc, len(units)), np.float64)

    return _peaks(powers, np.array([heights(power) for power in powers]), seed)[1]


def _verdict(
    powers: Floats, by_list: Floats, steepness: float, information: float, seed: int
) -> Tempering:
    """Find the best power, and by drawing the lists again how sure that is."""
    fine, replicates, profile = _peaks(powers, by_list, seed)
    low, high = np.quantile(replicates, [0.025, 0.975])
    best = int(np.argmax(profile))
    # how far the likelihood falls on either side, on the side where it falls less
    aside = _ASIDE / steepness
    falls = [profile[best] - np.interp(fine[best] + s * aside, fine, profile) for s in (-1, 1)]
    inside = [fine[best] - aside >= powers[0], fine[best] + aside <= powers[-1]]
    fall = min(np.array(falls)[inside])
    share = float(2 * fall / aside**2 / information)
    decides = bool(
        (high - low) * steepness <= WIDEST_INTERVAL
        and fine[best] < powers[-1]
        and (share >= LEAST_SHARE or high < 1)
    )
    ends, total = (float(low), float(high)), by_list.sum(axis=1)
    return Tempering(float(fine[best]), *ends, decides, share, _ANY, steepness, powers, total)


def _peaks(powers: Floats, by_list: Floats, seed: int) -> tuple[Floats, Floats, Floats]:
    """Return a fine grid of powers, the best of it in each replicate, and the likelihood on it.

    The likelihood between the powers tried is a cubic spline. A spline is linear in the values
    that it goes through, so that a replicate costs one product.
    """
    from scipy.interpolate import CubicSpline

    fine = np.linspace(powers[0], powers[-1], 601)
    between = np.asarray(CubicSpline(powers, np.eye(len(powers)))(fine))
    rng, lists = np.random.default_rng(seed), by_list.shape[1]
    drawn = rng.multinomial(lists, np.full(lists, 1 / lists), size=_REPLICATES)
    replicates = fine[np.argmax(drawn @ by_list.T @ between.T, axis=1)]
    return fine, replicates, between @ by_list.sum(axis=1)


def tempered(curve: Any, power: float, error: float = 0.0) -> Any:
    r"""Return a curve, or propensities of slots, raised to a power that has a standard error.

    The variance of log p becomes $\max(s, 1)^2 \mathrm{var}(\log p) + e^2 (\log p)^2$, s being
    the power and e its error: a power below 1 does not make a curve surer than it was.

    >>> tempered(PowerLaw(2.0), 0.5)
    PowerLaw(eta=1.0)
    """
    if isinstance(curve, PowerLaw):
        return PowerLaw(curve.eta * power)
    if not isinstance(curve, Propensities):
        return np.asarray(curve, np.float64) ** power
    scale = max(power, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_p, moves = np.log(curve.propensity), error * np.log(curve.propensity)
        low, high = (
            np.exp(power * log_p + sign * np.hypot(scale * (np.log(end) - log_p), _Z * moves))
            for sign, end in ((-1, curve.low), (1, curve.high))
        )
    together = np.where(np.isfinite(moves), moves, 0.0)[:MOST_POSITIONS]
    return replace(
        curve,
        propensity=curve.propensity**power,
        low=low,
        high=high,
        contexts={name: tempered(part, power, error) for name, part in curve.contexts.items()},
        covariance=curve.log_covariance * scale**2 + np.outer(together, together),
    )
