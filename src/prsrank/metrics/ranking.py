r"""Ranking metrics, one value per list: NDCG, average precision, MRR, precision, ARP.

Every metric is a `prsrank.types.Metric`, which describes the arguments they share. Docs of
equal score form a *tie group*; it counts by the exact expectation over all orders of its docs,
so no value depends on the order of rows.
In the formulas a group has n docs, r of them relevant, and comes after s docs, R of them
relevant: it fills the ranks s + 1 to s + n.

>>> relevance, scores, offsets = [0, 1, 1, 0, 0], [0.3, 0.9, 0.3, 0.5, 0.1], [0, 3, 5]
>>> average(metric("ndcg@10")(relevance, scores, offsets))
Average(mean=0.95986..., lists=1, skipped=1)
"""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from prsrank.errors import InputError, nearest_name
from prsrank.families import Family
from prsrank.metrics.tie_groups import RankedDocs
from prsrank.types import Floats, Longs, Marks

GAINS = {"exponential": 1000.0, "linear": 1e300}
"""The gains, each with the largest label: sums of larger gains could overflow."""
ARP_FORMS = ("paper", "mean_rank")


@dataclass(frozen=True)
class Average:
    """The mean of a metric over the lists on which it has a meaning.

    Attributes:
        mean: the mean; NaN if no list counts.
        lists: how many lists count.
        skipped: how many lists do not.
    """

    mean: float
    lists: int
    skipped: int


def average(values: npt.ArrayLike) -> Average:
    """Average a metric over lists; NaN values are skipped and counted.

    >>> average([1.0, float("nan"), 0.5])
    Average(mean=0.75, lists=2, skipped=1)
    """
    array = np.asarray(values, dtype=np.float64).ravel()
    counted = array[~np.isnan(array)]
    mean = float(counted.mean()) if len(counted) else float("nan")
    return Average(mean, len(counted), len(array) - len(counted))


def ndcg(
    labels: npt.ArrayLike,
    scores: npt.ArrayLike,
    offsets: npt.ArrayLike,
    *,
    k: int | None = None,
    gain: str = "exponential",
) -> Floats:
    r"""Normalised discounted cumulative gain of each list.

    DCG@k = sum over ranks 1..k of gain(label) / log2(1 + rank), divided by the DCG@k of the
    docs in order of their labels. A tie group counts its mean gain times the sum of its
    discounts at ranks up to k.

    Args:
        labels: not negative, at most 1000 if the gain is exponential.
        scores: see `Metric`.
        offsets: see `Metric`.
        k: only the first k ranks count; default all.
        gain: "exponential" (2^label - 1) or "linear" (label).

    Returns:
        One value per list; NaN where no doc has a gain.

    >>> ndcg([2, 0, 1], [0.1, 0.2, 0.2], [0, 3], gain="linear").round(6)
    array([0.690047])
    """
    _check_choice(gain, GAINS, "gain")
    values, flat_scores, bounds = _checked(labels, scores, offsets, "label")
    _check_labels(values, GAINS[gain])
    depth = _depth(k, bounds)
    discounts = np.append(1.0 / np.log2(np.arange(2.0, depth + 2.0)), 0.0)

    def gains(docs: RankedDocs) -> Floats:
        return 2.0**docs.values - 1.0 if gain == "exponential" else docs.values

    ranked = RankedDocs(values, flat_scores, bounds, depth=depth)
    shares = ranked.by_group(gains(ranked)) / ranked.sizes
    dcg = ranked.by_list(shares * ranked.by_group(discounts[np.minimum(ranked.ranks, depth)]))
    best = RankedDocs(values, values, bounds, depth=depth)
    best_gains = gains(best) * discounts[np.minimum(best.ranks, depth)]
    ideal = np.bincount(best.lists, best_gains, len(bounds) - 1)
    return np.minimum(_ratio(dcg, ideal), 1.0)


def average_precision(
    relevance: npt.ArrayLike, scores: npt.ArrayLike, offsets: npt.ArrayLike
) -> Floats:
    r"""Average precision of each list; its mean over lists is MAP.

    The mean, over the relevant docs, of the share of relevant docs down to that doc's rank. A
    tie group adds sum_{m=1..n} (r / n) (R + 1 + (m - 1)(r - 1) / (n - 1)) / (s + m).

    Args:
        relevance: 0 or 1 for each doc.
        scores: see `Metric`.
        offsets: see `Metric`.

    Returns:
        One value per list; NaN where no doc is relevant.

    >>> average_precision([1, 0, 1], [0.9, 0.5, 0.1], [0, 3]).round(6)
    array([0.833333])
    """
    ranked = RankedDocs(*_checked_relevance(relevance, scores, offsets))
    relevant, group = ranked.by_group(ranked.values), ranked.group
    total = ranked.by_list(relevant)
    before = np.cumsum(relevant) - relevant - (np.cumsum(total) - total)[ranked.list_of_group]
    slope = (relevant - 1.0) / np.maximum(ranked.sizes - 1, 1)
    within = ranked.ranks - ranked.above[group]
    share = (before[group] + 1.0 + within * slope[group]) / (ranked.ranks + 1)
    summed = np.bincount(ranked.lists, (relevant / ranked.sizes)[group] * share, len(total))
    return _ratio(summed, total)


def mrr(
    relevance: npt.ArrayLike,
    scores: npt.ArrayLike,
    offsets: npt.ArrayLike,
    *,
    k: int | None = None,
) -> Floats:
    r"""Reciprocal rank of the first relevant doc of each list; its mean over lists is MRR.

    In the first tie group with a relevant doc, the first relevant doc is the group's m-th with
    probability C(n - m, r - 1) / C(n, r).

    Args:
        relevance: 0 or 1 for each doc.
        scores: see `Metric`.
        offsets: see `Metric`.
        k: a first relevant doc below rank k counts 0; default no limit.

    Returns:
        One value per list; NaN where no doc is relevant.

    >>> mrr([0, 1, 0, 1], [0.9, 0.5, 0.5, 0.1], [0, 4]).round(6)
    array([0.416667])
    """
    values, flat_scores, bounds = _checked_relevance(relevance, scores, offsets)
    ranked, depth = RankedDocs(values, flat_scores, bounds), _depth(k, bounds)
    relevant = ranked.by_group(ranked.values)
    hits = np.flatnonzero(relevant)
    lists, first = np.unique(ranked.list_of_group[hits], return_index=True)
    n, r, s = (of_group[hits[first]] for of_group in (ranked.sizes, relevant, ranked.above))
    mean, none_yet = np.zeros(len(lists)), np.ones(len(lists))
    for m in range(int((n - r).max(initial=-1)) + 1):
        left = np.maximum(n - m, 1)
        mean += np.where(s + m < depth, none_yet * r / left / (s + m + 1), 0.0)
        none_yet *= np.maximum(n - r - m, 0) / left
    out = np.full(len(bounds) - 1, np.nan)
    out[lists] = mean
    return out


def precision(
    relevance: npt.ArrayLike, scores: npt.ArrayLike, offsets: npt.ArrayLike, *, k: int
) -> Floats:
    r"""Precision at k of each list: relevant docs at ranks 1..k, divided by k.

    A list of fewer than k docs is divided by k all the same. A tie group that rank k cuts
    counts the share of its relevant docs that its first k - s docs hold on average.

    Args:
        relevance: 0 or 1 for each doc.
        scores: see `Metric`.
        offsets: see `Metric`.
        k: the number of ranks that count.

    Returns:
        One value per list; 0 where no doc is relevant, NaN only for an empty list.

    >>> precision([1, 0, 1, 1], [0.9, 0.5, 0.5, 0.1], [0, 4], k=2)
    array([0.75])
    """
    values, flat_scores, bounds = _checked_relevance(relevance, scores, offsets)
    depth = _depth(k, bounds)
    ranked = RankedDocs(values, flat_scores, bounds, depth=depth)
    inside = np.minimum(ranked.sizes, depth - ranked.above)
    relevant = ranked.by_list(ranked.by_group(ranked.values) * inside / ranked.sizes)
    return np.where(np.diff(bounds) > 0, relevant, np.nan) / k


def arp(
    relevance: npt.ArrayLike,
    scores: npt.ArrayLike,
    offsets: npt.ArrayLike,
    *,
    form: str = "paper",
) -> Floats:
    r"""Average relevance position of each list; lower is better.

    "paper": sum of the 0-based ranks of the relevant docs / length of the list.
    "mean_rank": mean 1-based rank of the relevant docs.
    A doc of a tie group has the 0-based rank s + (n - 1) / 2.

    Args:
        relevance: 0 or 1 for each doc.
        scores: see `Metric`.
        offsets: see `Metric`.
        form: "paper" or "mean_rank".

    Returns:
        One value per list; NaN where no doc is relevant, in both forms: 0 would make such a
        list the best there is.

    >>> arp([0, 1, 1], [0.9, 0.5, 0.5], [0, 3]), arp([0, 1], [2, 1], [0, 2], form="mean_rank")
    (array([1.]), array([2.]))
    """
    _check_choice(form, ARP_FORMS, "form")
    values, flat_scores, bounds = _checked_relevance(relevance, scores, offsets)
    ranked = RankedDocs(values, flat_scores, bounds)
    relevant = ranked.by_group(ranked.values)
    ranks = ranked.by_list(relevant * (2 * ranked.above + ranked.sizes - 1) / 2.0)
    total = ranked.by_list(relevant)
    if form == "mean_rank":
        return _ratio(ranks, total) + 1.0
    return _ratio(np.where(total > 0, ranks, np.nan), np.diff(bounds))


@dataclass(frozen=True)
class RankingMetric:
    """A metric of the table `METRICS`, with or without a cut-off.

    Attributes:
        function: the metric; one with a cut-off takes it as `k`, and one that cannot do without
            has no default for it.
        title: how readers know it; "" where that is the name in capitals.
        higher_is_better: whether a better ranker has a higher value.
        cutoff: only ranks down to this one count; None: all.
    """

    function: Callable[..., Floats]
    title: str = ""
    higher_is_better: bool = True
    cutoff: int | None = None

    def __call__(
        self, labels: npt.ArrayLike, scores: npt.ArrayLike, offsets: npt.ArrayLike
    ) -> Floats:
        """Return one value per list; see `Metric`."""
        options = {} if self.cutoff is None else {"k": self.cutoff}
        return self.function(labels, scores, offsets, **options)

    @property
    def sign(self) -> int:
        """1, or -1 for a metric of which less is better."""
        return 1 if self.higher_is_better else -1

    def at(self, name: str, cutoff: str | None) -> "RankingMetric":
        """Return the metric with the cut-off that its name states, if any."""
        base, k = name.partition("@")[0], inspect.signature(self.function).parameters.get("k")
        if cutoff is None:
            if k is not None and k.default is k.empty:
                raise InputError(f"metric '{name}' needs a cut-off, such as '{base}@10'")
            return self
        if k is None:
            raise InputError(f"metric '{name}': {base} takes no cut-off; write '{base}'")
        if not (cutoff.isdecimal() and int(cutoff) > 0):
            raise InputError(f"metric '{name}': the cut-off must be a whole number above 0")
        return replace(self, cutoff=int(cutoff))


METRICS: Family[RankingMetric] = Family(
    "metric",
    {
        "ndcg": RankingMetric(ndcg),
        "average_precision": RankingMetric(average_precision, "MAP"),
        "map": RankingMetric(average_precision),
        "mrr": RankingMetric(mrr),
        "precision": RankingMetric(precision, "precision"),
        "arp": RankingMetric(arp, higher_is_better=False),
        "arp_mean_rank": RankingMetric(
            partial(arp, form="mean_rank"), "mean rank of relevant docs", higher_is_better=False
        ),
    },
)


def metric(name: str) -> RankingMetric:
    """Return the metric of a name of `METRICS`, with a cut-off where it takes one.

    >>> metric("precision@2")([1, 0, 0], [3, 2, 1], [0, 3])
    array([0.5])
    """
    base, at, cutoff = name.partition("@")
    if base not in METRICS:
        raise InputError(f"no metric '{name}'{nearest_name(base, METRICS)}")
    return METRICS[base].at(name, cutoff if at else None)


def _ratio(numerator: npt.NDArray, denominator: npt.NDArray) -> Floats:
    """Divide, list by list; NaN where the denominator is 0."""
    out = np.full(len(denominator), np.nan)
    np.divide(numerator, denominator, out=out, where=denominator > 0)
    return out


def _checked(
    values: npt.ArrayLike, scores: npt.ArrayLike, offsets: npt.ArrayLike, name: str
) -> tuple[Floats, Floats, Longs]:
    first, second = _flat(values, name), _flat(scores, "score")
    bounds = np.asarray(offsets)
    if bounds.ndim != 1 or bounds.dtype.kind not in "iu" or len(bounds) == 0:
        raise InputError("offsets must be integers, one more than there are lists")
    if bounds[0] != 0 or np.any(bounds[1:] < bounds[:-1]):
        raise InputError("offsets must start at 0 and never fall")
    if not len(first) == len(second) == bounds[-1]:
        raise InputError(
            f"{len(first)} {name} values and {len(second)} scores, but offsets end at {bounds[-1]}"
        )
    if np.isnan(second.min(initial=0)):
        _refuse(np.isnan(second), second, "score", "; scores must be numbers")
    return first, second, _read_only(bounds.astype(np.int64))


def _checked_relevance(
    relevance: npt.ArrayLike, scores: npt.ArrayLike, offsets: npt.ArrayLike
) -> tuple[Floats, Floats, Longs]:
    inputs = _checked(relevance, scores, offsets, "relevance")
    _refuse(
        (inputs[0] != 0) & (inputs[0] != 1), inputs[0], "relevance", "; relevance must be 0 or 1"
    )
    return inputs


def _check_labels(labels: Floats, largest: float) -> None:
    if not labels.min(initial=0) >= 0:
        _refuse(~(labels >= 0), labels, "label", "; labels must be 0 or more")
    if labels.max(initial=0) > largest:
        _refuse(labels > largest, labels, "label", f"; this gain takes at most {largest:g}")


def _refuse(bad: Marks, values: Floats, name: str, why: str) -> None:
    if bad.any():
        row = int(bad.argmax())
        raise InputError(f"the {name} of doc {row} is {values[row]:g}{why}")


def _flat(values: npt.ArrayLike, name: str) -> Floats:
    try:
        array = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} values must be numbers in one flat array: {error}") from error
    if array.ndim != 1:
        raise InputError(f"{name} values must be one flat array, not of shape {array.shape}")
    return _read_only(array)


def _read_only(array: npt.NDArray) -> npt.NDArray:
    # One type for writeable and read-only input, so that each kernel is compiled once.
    view = array.view()
    view.flags.writeable = False
    return view


def _depth(k: int | None, offsets: Longs) -> int:
    longest = int(np.diff(offsets).max(initial=0))
    if k is None:
        return longest
    if k < 1 or k != int(k):
        raise InputError(f"k must be a whole number of at least 1, not {k}")
    return min(int(k), longest)


def _check_choice(name: str, choices: Iterable[str], option: str) -> None:
    if name not in choices:
        raise InputError(f"{option} must be one of {', '.join(choices)}, not '{name}'")
