"""DLA, the dual learning algorithm: a ranking net and propensities from the same clicks."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.propensity.curve import learned_curve
from prsrank.rankers.neural.net_ranker import (
    FeatureInput,
    LearnedNet,
    NetRanker,
    default_batch,
)

if TYPE_CHECKING:
    from prsrank.logs.click_log import ClickLog
    from prsrank.propensity.curve import Propensities
    from prsrank.rankers.neural.dual_learner import ClickedRankings


class _Learned(LearnedNet):
    propensities: list[float]


@dataclass(eq=False, repr=False)
class DLA(NetRanker):
    r"""A ranking net f and a propensity net g over positions, each weighing the other's clicks.

    Minimises together, the ratios held constant and C_i the clicks on slot i of a ranking,

    $$-\sum_i C_i \frac{g_1}{g_i} \log \mathrm{softmax}(f)_i \quad\text{and}\quad
      -\sum_i C_i \frac{r_1}{r_i} \log \mathrm{softmax}(g)_i$$

    by AdaGrad. g has one logit per position. Where the clicks are position-based, both have
    their minimum at the truth: softmax(f) proportional to relevance, g to propensity. All
    sessions of a ranking are folded into C, exactly, so cost does not grow with the log.

    Two limits of the method: where every list was shown in one order only, clicks do not tell
    relevance from position, and with noisy clicks g stays near where it began; and a ranking
    net that knows single docs by heart makes r_1 / r_i a matter of whether doc 1 is relevant,
    which pulls g below the truth. More lists, several rankings per list and weight decay help.

    Args:
        learning_rate: of the ranking net.
        propensity_rate: of the propensity logits.
        weight_decay: of the ranking net.
        max_positions: only docs shown at these first positions take part; None: all. Deep
            positions have few clicks, of large weight.
        max_weight: largest ratio g_1 / g_i or r_1 / r_i.
        batch_rankings: rankings per step; default: a 32nd of them, from 16 to 4,096.
        hidden: this and the others as in `NetRanker`.

    Attributes:
        propensities_: propensity of positions 1, 2, ... relative to position 1.

    Reference: Ai, Bi, Luo, Guo, Croft, "Unbiased Learning to Rank with Unbiased Propensity
    Estimation", SIGIR 2018.
    """

    name: ClassVar[str] = "dla"
    takes_propensities: ClassVar[bool] = False
    _learned: ClassVar[Any] = _Learned
    search_grid: ClassVar[Sequence[Mapping[str, Any]]] = [
        {"learning_rate": rate, "weight_decay": decay, "missing": "impute"}
        for rate in (0.005, 0.02)
        for decay in (0.003, 0.03)
    ]
    chart_style: ClassVar[int | None] = 6

    _: KW_ONLY
    learning_rate: float = 0.005
    propensity_rate: float = 0.05
    weight_decay: float = 0.003
    max_positions: int | None = 10
    max_weight: float = 100.0
    batch_rankings: int | None = None
    epochs: int = 50

    def _folded(self, log: "ClickLog", dataset: RankingDataset) -> "ClickedRankings":
        from prsrank.logs.array_checks import warn_of_weights
        from prsrank.rankers.neural.dual_learner import ClickedRankings

        warn_of_weights(log, "dla")
        rows = log.doc_rows(dataset)[log.ranking_docs]
        positions, clicks = log.ranking_positions.astype(np.int64), log.slot_statistics()[1]
        return ClickedRankings(rows, positions, clicks, log.ranking_offsets)

    def _learner(self, lists: RankingDataset, what: Any, net_input: FeatureInput) -> Any:
        from prsrank.rankers.neural.dual_learner import ClickedRankings, DualLearner
        from prsrank.rankers.neural.score_net import ScoreNet
        from prsrank.rankers.neural.torch_library import find_device, torch

        shown = what if isinstance(what, ClickedRankings) else self.pairs(what, lists)
        if len(shown.rows) and int(shown.rows.max()) >= lists.docs:
            raise InputError("the rankings are of other lists than the data set's")
        device = find_device(self.device)
        shown = shown.top(self.max_positions)
        if not len(shown.rows):
            raise InputError("there are no clicks to learn from")
        net = ScoreNet(net_input.columns, self.hidden, seed=self.seed, device=device)
        features = torch.from_numpy(net_input(lists.features)).to(device)
        batch = self.batch_rankings or default_batch(len(shown.offsets) - 1)
        return DualLearner(net, features, shown, self, batch=batch)

    def _take(self, learner: Any) -> None:
        super()._take(learner)
        self.propensities_ = learner.propensities()

    def propensities(self) -> "Propensities":
        """Return g as a curve, to draw or to save; it has no intervals."""
        self.check_fitted()
        return learned_curve(self.propensities_, None, self.name)

    def _state(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        values, files = super()._state()
        return values | {"propensities": self.propensities_.tolist()}, files

    def _restore(self, values: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
        super()._restore(values, files)
        self.propensities_ = np.array(values["propensities"])
