"""How metrics are called in a report, and whether more or less of one is better."""

from prsrank.errors import InputError
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
    known = base in METRICS or base in COUNTERFACTUAL_METRICS
    return _TITLES.get(metric, metric.upper() if known else metric)


def lower_is_better(metric: str) -> bool:
    """Return the direction of a metric; an InputError where it has none that is known.

    >>> lower_is_better("arp"), lower_is_better("ndcg@10"), lower_is_better("wmrr top")
    (True, False, False)
    """
    found = _higher_is_better(metric)
    if found is None:
        raise InputError(
            f"whether more or less of '{metric}' is better is not known: write above or below"
        )
    return not found


def has_direction(metric: str) -> bool:
    """Whether it is known if more or less of the metric is better."""
    return _higher_is_better(metric) is not None


def _higher_is_better(metric: str) -> bool | None:
    base = metric.partition("@")[0].partition(" ")[0]
    if base in METRICS:
        return METRICS[base].higher_is_better
    known = COUNTERFACTUAL_METRICS.get(base)
    return None if known is None else known.higher_is_better
