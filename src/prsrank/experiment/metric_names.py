"""How metrics are called in a report, and whether more or less of one is better."""

from prsrank.errors import InputError

HIGHER_IS_BETTER = ("ndcg", "dcg", "map", "average_precision", "mrr", "wmrr", "precision")
LOWER_IS_BETTER = ("arp", "arp_mean_rank")
TITLES = {
    "map": "MAP",
    "average_precision": "MAP",
    "mrr": "MRR",
    "arp": "ARP",
    "arp_mean_rank": "mean rank of relevant docs",
    "wmrr": "WMRR",
    "wmrr top": "WMRR, clicked at top",
    "wmrr others": "WMRR, clicked at others",
}


def metric_title(metric: str) -> str:
    """Return a metric's name as a reader knows it.

    >>> metric_title("ndcg@10"), metric_title("map"), metric_title("share")
    ('NDCG@10', 'MAP', 'share')
    """
    base = metric.partition("@")[0]
    return TITLES.get(metric, metric.upper() if base in ("ndcg", "dcg", "mrr") else metric)


def lower_is_better(metric: str) -> bool:
    """Return the direction of a metric; an InputError where it has none that is known.

    >>> lower_is_better("arp"), lower_is_better("ndcg@10"), lower_is_better("wmrr top")
    (True, False, False)
    """
    base = _base(metric)
    if base not in HIGHER_IS_BETTER + LOWER_IS_BETTER:
        raise InputError(
            f"whether more or less of '{metric}' is better is not known: write above or below"
        )
    return base in LOWER_IS_BETTER


def has_direction(metric: str) -> bool:
    """Whether it is known if more or less of the metric is better."""
    return _base(metric) in HIGHER_IS_BETTER + LOWER_IS_BETTER


def _base(metric: str) -> str:
    return metric.partition("@")[0].partition(" ")[0]
