"""Unbiased LambdaMART: LambdaMART that learns the position biases of clicks and non-clicks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.logs.click_log import ClickLog
from prsrank.losses.unbiased_lambdas import UnbiasedObjective
from prsrank.pairs.click_counts import ClickCounts
from prsrank.propensity.curve import learned_curve
from prsrank.rankers.lambdamart import LambdaMART, LearnedTrees
from prsrank.types import Floats

if TYPE_CHECKING:
    from prsrank.pairs.click_counts import ClickCounts
    from prsrank.propensity.curve import Propensities


class _Learned(LearnedTrees):
    click_propensities: list[float | None]
    non_click_propensities: list[float | None]
    position_clicks: list[int]


@dataclass(eq=False, repr=False, kw_only=True)
class UnbiasedLambdaMART(LambdaMART):
    r"""LambdaMART whose pairs weigh $1 / (t^+_{k_i} t^-_{k_j})$, learned tree by tree.

    i is clicked at position $k_i$, j is not at $k_j$. After each tree $t^+_k$ is the loss of the
    clicks at position k over that at position 1, to the power 1 / (1 + p), and $t^-_k$ that of the
    non-clicks; `prsrank.losses.unbiased_lambdas` has the formulas. It needs no propensities, and cost
    depends on the distinct rankings and the docs clicked in them, not on the sessions.

    Args:
        p: regularisation of the t; 0, none, is what the authors' tables have; their program and
            XGBoost have 1 by default. Infinity gives LambdaMART on naive pairs.
        positions: this position and all below it share their t; None: each has its own.
        per_showing: divide the loss of a position by how often it was shown. False is the
            published formula; the two are one for lists of one length, but where lengths
            differ the published one takes rare positions for unseen ones.
        trees: this and the others as in LambdaMART; `init_model` of `fit` is grown on from its
            biases. `metric` is "ndcg" or "arp".

    Attributes:
        click_propensities_: $t^+$ of positions 1, 2, ... when the last kept tree was grown; NaN
            where no pair tells. With p > 0 they are nearer to 1 than propensities.
        non_click_propensities_: $t^-$, likewise.
        position_clicks_: clicks at positions 1, 2, ...
        booster_: this and the others as in LambdaMART.

    >>> from prsrank.clicks.position_based import PositionBasedModel
    >>> from prsrank.clicks.simulate import simulate_clicks
    >>> from prsrank.data.synthetic import synthetic_dataset
    >>> data = synthetic_dataset("mq2007", 20)
    >>> log = simulate_clicks(data, data.features[:, 0], PositionBasedModel(), clicks=1000)
    >>> ranker = UnbiasedLambdaMART(trees=5).fit(data, log)
    >>> bool(ranker.click_propensities_[0] == 1 > ranker.click_propensities_[4])
    True

    References:
        Hu, Wang, Peng, Li: Unbiased LambdaMART: an unbiased pairwise learning-to-rank
        algorithm. WWW 2019.
    """

    name: ClassVar[str] = "unbiased_lambdamart"
    takes_propensities: ClassVar[bool] = False
    _learned: ClassVar[Any] = _Learned
    chart_style: ClassVar[int | None] = 8

    click_propensities_: Floats = field(init=False)
    non_click_propensities_: Floats = field(init=False)
    p: float = 0.0
    positions: int | None = None
    per_showing: bool = True

    def _folded(self, log: ClickLog, dataset: RankingDataset) -> "ClickCounts":
        return ClickCounts(log, dataset, normalise=self.metric, truncation=self.truncation)

    def _objective(self, pairs: "ClickCounts", init_model: Any = None) -> UnbiasedObjective:
        if not len(pairs.shown.winner_slots):
            raise InputError("the log has no clicks to learn from")
        own: Any = {"p": self.p, "positions": self.positions, "per_showing": self.per_showing}
        objective = UnbiasedObjective(pairs, **own, **self._objective_options)
        if init_model is not None:
            init_model.check_fitted()
            objective.start(init_model.click_propensities_, init_model.non_click_propensities_)
        return objective

    def _keep(self, objective: UnbiasedObjective, what: "ClickCounts", init_model: Any) -> None:
        grown = init_model.booster_.current_iteration() if init_model is not None else 0
        kept = self.booster_.current_iteration() - grown
        biases = objective.steps[min(max(kept, 1), len(objective.steps)) - 1]
        self.click_propensities_, self.non_click_propensities_ = objective.by_position(biases)
        self.position_clicks_ = what.position_clicks

    def propensities(self) -> "Propensities":
        """Return t+ as a curve, to draw or to save; it has no intervals."""
        self.check_fitted()
        return learned_curve(self.click_propensities_, self.position_clicks_, self.name)

    def _state(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        values, files = super()._state()
        values["click_propensities"] = _plain(self.click_propensities_)
        values["non_click_propensities"] = _plain(self.non_click_propensities_)
        values["position_clicks"] = self.position_clicks_.tolist()
        return values, files

    def _restore(self, values: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
        super()._restore(values, files)
        self.click_propensities_ = np.array(values["click_propensities"], np.float64)
        self.non_click_propensities_ = np.array(values["non_click_propensities"], np.float64)
        self.position_clicks_ = np.array(values["position_clicks"], np.int64)


def _plain(biases: Floats) -> list[float | None]:
    return [None if np.isnan(t) else t for t in biases.tolist()]
