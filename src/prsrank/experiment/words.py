"""How a report calls metrics and numbers."""

from prsrank.evaluation.rank_values import COUNTERFACTUAL_METRICS
from prsrank.metrics.ranking import METRICS

_TITLES = {"wmrr top": "WMRR, clicked at top", "wmrr others": "WMRR, clicked at others"}


def metric_title(metric: str) -> str:
    """Return a metric's name as a reader knows it.

    >>> metric_title("ndcg@10"), metric_title("average_precision"), metric_title("share")
    ('NDCG@10', 'MAP', 'share')
    """
    base, at, cutoff = metric.partition("@")
    if base in METRICS and METRICS[base].title:
        return f"{METRICS[base].title}{at}{cutoff}"
    is_known = base in METRICS or base in COUNTERFACTUAL_METRICS
    return _TITLES.get(metric, metric.upper() if is_known else metric)


def direction(metric: str) -> int:
    """Return 1 if more of a metric is better, -1 if less is, and 0 where it is not known.

    >>> direction("ndcg@10"), direction("wmrr top"), direction("arp"), direction("bound")
    (1, 1, -1, 0)
    """
    base = metric.partition("@")[0].partition(" ")[0]
    family = METRICS.get(base) or COUNTERFACTUAL_METRICS.get(base)
    return 0 if family is None else 1 if family.higher_is_better else -1


def p_text(value: float) -> str:
    """Return a p value in text.

    >>> p_text(0.0312), p_text(1e-9)
    ('0.031', '< 0.0001')
    """
    return "< 0.0001" if value < 0.0001 else f"{value:.2g}"


def decimal_text(value: float) -> str:
    """Return a number with four decimals, fewer the larger it is.

    >>> decimal_text(0.5), decimal_text(123.456), decimal_text(12345.6)
    ('0.5000', '123.46', '12,346')
    """
    size = abs(value)
    return f"{value:.4f}" if size < 10 else f"{value:.2f}" if size < 1000 else f"{value:,.0f}"


def signed_text(value: float) -> str:
    """Return a difference, with its sign.

    >>> signed_text(0.01234), signed_text(-1234.5)
    ('+0.0123', '-1,234')
    """
    return f"{'-' if value < 0 else '+'}{decimal_text(abs(value))}"


def percent_text(value: float) -> str:
    """Return a change in per cent.

    >>> percent_text(0.391)
    '+0.39 %'
    """
    return f"{value:+.2f} %"
