"""A prior without features: what the other docs of the same list say."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from prsrank.clicks.likelihood import ClickEvidence
from prsrank.data.dataset import RankingDataset
from prsrank.ragged import list_of_row
from prsrank.relevance.prior import Prior
from prsrank.relevance.workers import Workers
from prsrank.types import Floats, Marks

_LEAST, _GREATEST = 1e-4, 1 - 1e-4


@dataclass(frozen=True, kw_only=True)
class QueryPrior:
    r"""Each doc's q is the rate of the other docs of its list, drawn to the rate of all lists.

    $$q_d = \frac{C_q - c_d + m r}{E_q - e_d + m}$$

    with clicks c and impressions at propensity 1, e; r is the rate of all docs. A doc's own clicks
    are left out, so that the posterior does not count them twice. m is the one of `strengths`
    that makes the clicks most likely.
    """

    strengths: tuple[float, ...] = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 1000.0)

    def cross_fit(
        self,
        dataset: RankingDataset,
        evidence: ClickEvidence,
        parts: Sequence[Marks],
        *,
        seed: int,
        threads: int | None,
        workers: Workers,
    ) -> Prior:
        """Return the prior of each doc; see `PriorModel`."""
        rate = evidence.base_rate(sums=workers.sums)
        tried = [self._logits(dataset, evidence, rate, m) for m in self.strengths]
        heights = [evidence.log_likelihood(1 / (1 + np.exp(-logit))) for logit in tried]
        totals = workers.sums([height.sum() for height in heights])
        best = int(np.argmax(totals))
        details: dict[str, Any] = {"strength": self.strengths[best]}
        return Prior(tried[best], heights[best], details)

    def _logits(
        self, dataset: RankingDataset, evidence: ClickEvidence, rate: float, m: float
    ) -> Floats:
        of_list = list_of_row(dataset.offsets)
        exposure = evidence.sums(evidence.shown * evidence.gain)
        clicks = evidence.sums(evidence.clicked - evidence.shown * evidence.floor)
        others = [
            np.bincount(of_list, values, dataset.lists)[of_list] - values
            for values in (clicks, exposure)
        ]
        q = np.clip((others[0] + m * rate) / (others[1] + m), _LEAST, _GREATEST)
        return np.asarray(np.log(q / (1 - q)))
