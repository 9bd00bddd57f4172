"""Estimates from clicks that are assumed to be noisy, or to trust the top."""

from dataclasses import dataclass
from typing import Unpack

import numpy as np
import numpy.typing as npt

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.evaluation.assumptions import Assumption
from prsrank.evaluation.log_sums import QueryUnits
from prsrank.evaluation.query_bootstrap import Sampling, ratio_intervals
from prsrank.evaluation.rank_values import Pools, find_rank_value
from prsrank.logs.click_log import ClickLog
from prsrank.ragged import list_of_row, row_in_list


@dataclass(frozen=True)
class Interval:
    """An estimate with the ends of its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class JudgedRanker:
    """A ranker's value under an assumption, and its gain over the logged ranking."""

    value: Interval
    gain: Interval


class AffineJudge:
    r"""Estimates of a metric from the slots of a log, clicked or not.

    The estimate is $\frac{1}{N} \sum_{\text{sessions, slots}} v(r) (c - \text{floor}) /
    \text{slope}$, v(r) the value of the slot's rank r under the new scores among the docs shown,
    and N the number of sessions: unbiased where the assumption holds. Without noise and trust it
    is the "ips" estimate of `prsrank.evaluation.counterfactual`, intervals included. Where the log
    weighs its clicks, c is the weight of the click, and the floor is one of clicks of the mean
    weight.

    Args:
        log: held-out sessions.
        dataset: the lists that rankers score.
        propensities: one per slot of the log.
        metric: "dcg@10" or another that is not self-normalised.
        sampling: how intervals are bootstrapped.
    """

    def __init__(
        self,
        log: ClickLog,
        dataset: RankingDataset,
        propensities: npt.ArrayLike,
        *,
        metric: str = "dcg@10",
        **sampling: Unpack[Sampling],
    ) -> None:
        form = find_rank_value(metric)
        if form.self_normalised:
            raise InputError(f"{metric} is self-normalised: take dcg@K, dcg or arp")
        if not len(log.clicks):
            raise InputError(f"the log has no clicks in {log.sessions} sessions to estimate from")
        self.higher_is_better = form.higher_is_better
        self._log = log
        self._propensities = np.asarray(propensities, np.float64)
        self._rows = log.doc_rows(dataset)[log.ranking_docs]
        self._ranking = list_of_row(log.ranking_offsets)
        self._shown, self._clicked = log.slot_statistics()
        self._weight = log.slot_click_weights()
        self._mean_weight = float(self._weight.sum() / len(log.clicks))
        self._check_clicked()
        # every slot counts, so every doc of a ranking is one that was clicked
        starts, shown = log.ranking_offsets, row_in_list(log.ranking_offsets)
        self._pools = Pools(dataset.docs, starts, self._rows, starts, shown)
        self._rank_values = form.of_ranks(self._pools.longest)
        self._divisors = form.divisors(self._pools.lengths)
        # by the same running sums as other orders: what ranks alike has no gain at all
        values = np.diff(np.cumsum(self._rank_values), prepend=0.0)
        self._logged = values[shown] / self._divisors
        self._sampling = sampling

    def _check_clicked(self) -> None:
        bad = (self._clicked > 0) & ~(self._propensities > 0)
        if bad.any():
            raise InputError(
                f"{self._log.name_slot(int(bad.argmax()))} was clicked, but its propensity is "
                f"{self._propensities[int(bad.argmax())]}"
            )

    def __call__(self, scores: npt.ArrayLike, assumption: Assumption) -> JudgedRanker:
        """Judge a ranker by its scores of the data set's docs."""
        values = self._pools.expected_values(self._rank_values, scores) / self._divisors
        slope, floor = assumption.clicks(self._propensities, self._log.ranking_positions)
        relevance = np.zeros(len(slope))
        # the clicks that the slot would have without relevance
        expected = self._shown * floor * self._mean_weight
        np.divide(self._weight - expected, slope, out=relevance, where=slope > 0)
        # the gain is a column of its own: its interval is that of a paired difference
        weighed = [values * relevance, (values - self._logged) * relevance]
        units, query = QueryUnits.of(self._log), self._log.ranking_query
        sums = [units.sums(query[self._ranking], column) for column in weighed]
        sessions = units.sums(query[self._log.session_ranking], np.ones(self._log.sessions))
        used = sessions > 0
        found = ratio_intervals(np.stack(sums, 1)[used], sessions[used], **self._sampling)
        columns = zip(found.values.tolist(), found.low.tolist(), found.high.tolist(), strict=True)
        return JudgedRanker(*(Interval(*column) for column in columns))
