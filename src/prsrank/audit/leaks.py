r"""Signs that a feature knows what happened to the doc in this very log.

All of them compare a feature with what chance allows one that does not know this log's clicks. A
good feature tells a doc's click *rate*; which of its impressions were clicked is chance, and
only a feature made from the clicks themselves goes with that chance.
"""

from typing import NamedTuple

import numpy as np

from prsrank.audit.doc_sample import DocSample, FeatureValues
from prsrank.types import Floats, Marks

_FEW_DOCS, _FEW_QUERIES = 50, 10
_LESS, _SURE = 0.6, 4.0
_ONCE = 0.95
_RANKS = 0.98
_EXPECTED, _MOST = 20.0, 0.9
_WITHIN = 0.5


class ChanceRatio(NamedTuple):
    """How much clicks of docs with neighbouring values differ.

    Attributes:
        ratio: mean square of the differences by what chance alone gives; at least 1 for a feature
            that does not know the clicks.
        z: standard errors that the mean square lies above chance's; below 0 for a leak.
    """

    ratio: float
    z: float

    @property
    def leaks(self) -> bool:
        """Whether docs with neighbouring values are more alike than chance allows."""
        return self.ratio < _LESS and self.z < -_SURE


def click_rate_ratio(sample: DocSample, values: FeatureValues) -> ChanceRatio:
    r"""Compare clicks of docs that are neighbours in the order of a feature.

    With c clicks of n impressions $s = \hat p (1 - \hat p) / (n - 1)$ is an unbiased estimate
    of the variance that chance gives $\hat p = c / n$. Whatever the feature says of the docs'
    true rates, $E (\hat p_i - \hat p_j)^2 \ge E (s_i + s_j)$ for neighbours i and j, unless their
    order was made from c. The same holds of the counts c, with variances $n^2 s$. Returns the
    smaller ratio of both.
    """
    use = np.flatnonzero(sample.shown > 1)
    # docs without a value stay: which docs have one may depend on their clicks
    order = use[np.argsort(np.nan_to_num(values.mean[use], nan=-np.inf), kind="stable")]
    n, c = sample.shown[order], sample.clicked[order]
    if len(order) < _FEW_DOCS:
        return ChanceRatio(1.0, 0.0)
    rate = c / n
    chance = rate * (1 - rate) / (n - 1)
    weight = n[1:] * n[:-1] / (n[1:] + n[:-1])
    by_rate = _ratio(weight * np.diff(rate) ** 2, weight * (chance[1:] + chance[:-1]))
    counted = chance * n**2
    # counts of many impressions would rule the sum
    weight = 1 / (n[1:] + n[:-1])
    by_count = _ratio(weight * np.diff(c) ** 2, weight * (counted[1:] + counted[:-1]))
    return min(by_rate, by_count)


def _ratio(found: Floats, expected: Floats) -> ChanceRatio:
    total = expected.sum()
    if not total > 0:
        return ChanceRatio(1.0, 0.0)
    excess = found - expected
    # each doc is in two differences, so that up to twice the sum of squares is their variance
    return ChanceRatio(
        float(found.sum() / total), float(excess.sum() / np.sqrt(2 * (excess**2).sum()))
    )


def is_click_of_docs_shown_once(sample: DocSample, values: FeatureValues) -> float:
    """Return the correlation with the click of docs that were shown once, 0 if it can be honest."""
    use = (sample.shown == 1) & np.isfinite(values.mean)
    found = abs(_correlation(values.mean[use], sample.clicked[use]))
    return found if use.sum() >= _FEW_DOCS and found > _ONCE else 0.0


def position_correlation(sample: DocSample, values: FeatureValues) -> float:
    """Return the rank correlation with the docs' mean or first position, over all queries.

    Within a query any production score goes with the position; only a position in disguise has
    the same value at the same position of every query. It is 0 where it can be honest.
    """
    from scipy.stats import rankdata

    use = np.isfinite(values.mean) & np.isfinite(sample.position)
    if use.sum() < _FEW_DOCS or len(np.unique(sample.query[use])) < _FEW_QUERIES:
        return 0.0
    x = rankdata(values.mean[use])
    ranks = sample.position_ranks
    if not use.all():  # else they are those of every feature
        ranks = tuple(rankdata(some[use]) for some in ranks)
    found = [_correlation(x, some) for some in ranks]
    best = max(found, key=abs)
    return best if abs(best) > _RANKS else 0.0


def only_clicked_have_it(sample: DocSample, values: FeatureValues) -> int:
    r"""Return how many docs have a value that none has without a click; 0 if chance may do that.

    All docs that were never clicked are missing the value, or share one (such as 0). Of honest
    docs that have another value, clicked at the rate p, $\sum (1 - p)^n$ would have no click;
    p counts as 0.9 at most, since no feature makes a click certain.
    """
    never = sample.clicked == 0
    x = values.mean
    if not never.any() or (values.variance[never] > 0).any():
        return 0
    default = x[never][0]
    has = _differs(x, default)
    if has[never].any() or not has.any():
        return 0
    n = sample.shown[has]
    p = min(float(sample.clicked[has].sum() / n.sum()), _MOST)
    return int(has.sum()) if ((1 - p) ** n).sum() >= _EXPECTED else 0


def _differs(values: Floats, default: float) -> Marks:
    if np.isnan(default):
        return np.isfinite(values)
    return np.asarray(~(values == default))


def click_within_docs(sample: DocSample, values: FeatureValues) -> float:
    """Return how far the value, or that there is one, goes with the click in rows of the same doc.

    It is 0 where it can be honest: what a row has of its own (a price, a reader) may go with
    the click, but not nearly as well as what came after it.
    """
    known, with_click, mean_clicked = values.known, values.known_clicked, values.mean_clicked
    if known is None or with_click is None or mean_clicked is None:
        return 0.0
    both = (with_click > 0) & (with_click < known)
    moved = np.where(both, with_click * (mean_clicked - values.mean), 0.0)
    value = _within(
        moved, known * values.variance, with_click - with_click**2 / np.maximum(known, 1)
    )
    n, c = sample.shown, sample.clicked
    presence = _within(with_click - known * c / n, known - known**2 / n, c - c**2 / n)
    found = max(abs(value), abs(presence))
    enough = ((c > 0) & (c < n)).sum() >= _FEW_DOCS
    return found if enough and found > _WITHIN else 0.0


def _within(product: Floats, first: Floats, second: Floats) -> float:
    """Return a correlation from sums of products and squares within docs."""
    squares = np.nansum(first) * np.nansum(second)
    return float(np.nansum(product) / np.sqrt(squares)) if squares > 0 else 0.0


def _correlation(one: Floats, other: Floats) -> float:
    if len(one) < 2 or np.ptp(one) == 0 or np.ptp(other) == 0:
        return 0.0
    return float(np.corrcoef(one, other)[0, 1])
