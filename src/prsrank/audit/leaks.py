r"""Signs that a feature knows what happened to the doc in this very log.

All of them compare a feature with what chance allows one that does not know this log's clicks. A
good feature tells a doc's click *rate*; which of its impressions were clicked is chance, and
only a feature made from the clicks themselves goes with that chance. The docs compared are a sample,
one row per (query, doc).
"""
# ruff: noqa: S608 -- queries hold constants and numbered columns, never a user's text

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from prsrank.audit.event_tables import EventTables
from prsrank.hashing import chosen_sql
from prsrank.logs.row_rules import finite_sql
from prsrank.types import Floats, Longs

_DOCS = 20_000
_VALUES = 4_000_000
# of each feature in rows of a doc: mean, variance, how many, how many clicked, mean where clicked
_COLUMNS = 5
_FEW_DOCS, _FEW_QUERIES = 50, 10
_LESS, _SURE = 0.6, 4.0
_ONCE = 0.95
_RANKS = 0.98
_EXPECTED, _MOST = 20.0, 0.9
_WITHIN = 0.5


@dataclass(frozen=True, eq=False)
class FeatureValues:
    """A feature of each doc of a sample.

    Attributes:
        mean: mean value over the rows; NaN where there is none (docs).
        variance: of the value over the rows of the doc (docs).
        known: rows with a finite value (docs); NaN, as the next two, for a table beside
            the log, whose rows have no clicks.
        known_clicked: those of them with a click (docs).
        mean_clicked: mean value over the clicked rows; NaN where there is none (docs).
    """

    mean: Floats
    variance: Floats
    known: Floats
    known_clicked: Floats
    mean_clicked: Floats


@dataclass(frozen=True, eq=False)
class DocSample:
    """Some docs of a log, in an order that means nothing.

    Attributes:
        query: a number for the query of each doc.
        shown: rows of each doc.
        clicked: clicked rows of each doc.
        position: mean position.
        first: first position.
        features: by name; one table holds the features of either the rows or the docs.
    """

    query: Longs
    shown: Floats
    clicked: Floats
    position: Floats
    first: Floats
    features: dict[str, FeatureValues]

    @cached_property
    def position_ranks(self) -> tuple[Floats, ...]:
        """The ranks of the docs by mean and by first position."""
        from scipy.stats import rankdata

        return tuple(rankdata(of, nan_policy="omit") for of in (self.position, self.first))


def sample_docs(log: EventTables, features: EventTables, names: Sequence[str]) -> DocSample:
    """Return some docs of a log, by a hash that DuckDB and Spark share.

    Args:
        log: the events.
        features: what has the features: the log itself, or a table beside it.
        names: of the features.
    """
    (docs,) = log.row("SELECT count(*) FROM {docs}")
    most = min(_DOCS, _VALUES // (_COLUMNS * len(names)))
    chosen = chosen_sql("d", most / max(docs, 1))
    counts = "sum(shown), sum(clicked), sum(k::BIGINT * shown) / sum(shown), min(k)"
    rows = log.rows(
        f"SELECT q::VARCHAR, d::VARCHAR, {counts} FROM {{cells}} WHERE {chosen} GROUP BY q, d"
    )
    of_rows = ", count({0}), count({0}) FILTER (c), avg({0}) FILTER (c)"
    columns = "avg({0}), var_pop({0})" + (of_rows if log is features else ", NULL, NULL, NULL")

    def sql(x: str) -> str:
        # huge values overflow DuckDB's sums, which is an error; no feature that large is a leak
        return columns.format(f"CASE WHEN {finite_sql(x)} AND abs({x}) < 1e100 THEN {x} END")

    values = features.values_of_docs(names, sql, where=chosen)
    # engines return rows in orders of their own; sorted, and then mixed so that equal values of
    # a feature do not stand in the order of ids
    rows = sorted((row for row in rows if row[:2] in values), key=lambda row: row[:2])
    rows = [rows[i] for i in np.random.default_rng(0).permutation(len(rows))]
    codes = {query: code for code, query in enumerate(dict.fromkeys(row[0] for row in rows))}
    numbers = np.array([np.concatenate(values[row[:2]]) for row in rows])
    of_names = numbers.reshape(len(rows), len(names), _COLUMNS).transpose(1, 2, 0)
    query = np.array([codes[row[0]] for row in rows], np.int64)
    shown, clicked, position, first = np.array([row[2:] for row in rows], float).reshape(-1, 4).T
    by_name = {name: FeatureValues(*block) for name, block in zip(names, of_names, strict=True)}
    return DocSample(query, shown, clicked, position, first, by_name)


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


def _ratio(squares: Floats, expected: Floats) -> ChanceRatio:
    total = expected.sum()
    if not total > 0:
        return ChanceRatio(1.0, 0.0)
    excess = squares - expected
    # each doc is in two differences, so that up to twice the sum of squares is their variance
    z = excess.sum() / np.sqrt(2 * (excess**2).sum())
    return ChanceRatio(float(squares.sum() / total), float(z))


def is_click_of_docs_shown_once(sample: DocSample, values: FeatureValues) -> float:
    """Return the correlation with the click of docs that were shown once, 0 if it can be honest."""
    use = (sample.shown == 1) & np.isfinite(values.mean)
    correlation = abs(_correlation(values.mean[use], sample.clicked[use]))
    return correlation if use.sum() >= _FEW_DOCS and correlation > _ONCE else 0.0


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
        ranks = tuple(rankdata(places[use]) for places in ranks)
    best = max((_correlation(x, places) for places in ranks), key=abs)
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
    has = np.isfinite(x) if np.isnan(default) else ~(x == default)
    if has[never].any() or not has.any():
        return 0
    n = sample.shown[has]
    p = min(float(sample.clicked[has].sum() / n.sum()), _MOST)
    return int(has.sum()) if ((1 - p) ** n).sum() >= _EXPECTED else 0


def click_within_docs(sample: DocSample, values: FeatureValues) -> float:
    """Return how far the value, or that there is one, goes with the click in rows of the same doc.

    It is 0 where it can be honest: what a row has of its own (a price, a reader) may go with
    the click, but not nearly as well as what came after it.
    """
    with_value, with_click = values.known, values.known_clicked
    both = (with_click > 0) & (with_click < with_value)
    moved = np.where(both, with_click * (values.mean_clicked - values.mean), 0.0)
    value = _within(
        moved, with_value * values.variance, with_click - with_click**2 / np.maximum(with_value, 1)
    )
    n, c = sample.shown, sample.clicked
    presence = _within(
        with_click - with_value * c / n, with_value - with_value**2 / n, c - c**2 / n
    )
    strength = max(abs(value), abs(presence))
    enough = ((c > 0) & (c < n)).sum() >= _FEW_DOCS
    return strength if enough and strength > _WITHIN else 0.0


def _within(product: Floats, first: Floats, second: Floats) -> float:
    """Return a correlation from sums of products and squares within docs."""
    squares = np.nansum(first) * np.nansum(second)
    return float(np.nansum(product) / np.sqrt(squares)) if squares > 0 else 0.0


def _correlation(first: Floats, second: Floats) -> float:
    if len(first) < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])


def _leaking_ratio(sample: DocSample, values: FeatureValues) -> float:
    chance = click_rate_ratio(sample, values)
    return max(chance.ratio, 1e-9) if chance.leaks else 0.0


_SIGNS: tuple[tuple[str, str, Callable[[DocSample, FeatureValues], float]], ...] = (
    ("feature-after-click", "correlation {:.2f}", click_within_docs),
    (
        "feature-click-rate",
        "docs with nearly equal values differ by {:.2f} of what chance gives",
        _leaking_ratio,
    ),
    ("feature-click-rate", "correlation {:.2f}", is_click_of_docs_shown_once),
    ("feature-only-clicked", "{:,} docs, all clicked", only_clicked_have_it),
    ("feature-is-doc-position", "rank correlation {:.2f}", position_correlation),
)
"""Kinds of finding, words about a feature, and what measures it: 0 if it can be honest."""


def first_sign(sample: DocSample, values: FeatureValues) -> tuple[str, str]:
    """Return the first kind of finding that a feature gives a sign of, and words about it."""
    for code, words, measure in _SIGNS:
        value = measure(sample, values)
        if value:
            return code, words.format(value)
    return "", ""
