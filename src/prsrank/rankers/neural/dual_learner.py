r"""One step of the dual learning algorithm on folded sessions.

Both losses are sums over clicks of terms that depend only on the ranking shown, so the sessions
of a ranking fold into C_i, its clicks on each slot i:

$$L_{rank} = -\sum_i C_i \frac{g_1}{g_i} \log \mathrm{softmax}(f)_i, \qquad
  L_{prop} = -\sum_i C_i \frac{r_1}{r_i} \log \mathrm{softmax}(g)_i$$

with g and r the softmax probabilities of the propensity and the ranking net over the ranking.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from prsrank.ragged import list_of_row, offsets_of
from prsrank.rankers.neural.pair_tensors import ragged
from prsrank.rankers.neural.score_net import ScoreNet
from prsrank.rankers.neural.torch_library import torch
from prsrank.types import Floats, Longs

if TYPE_CHECKING:
    from prsrank.rankers.neural.dla import DLA

Tensor = torch.Tensor


class ClickedRankings(NamedTuple):
    """Rankings with at least one click, their sessions folded.

    Attributes:
        rows: row in the data set of the doc in each slot.
        positions: 1-based position of each slot, rising within a ranking.
        clicks: clicks on each slot in all sessions together.
        offsets: where each ranking's slots begin, and the end.
    """

    rows: Longs
    positions: Longs
    clicks: Longs
    offsets: Longs

    def top(self, positions: int | None) -> "ClickedRankings":
        """Return the slots at the first `positions` positions, and the rankings clicked there."""
        ranking = list_of_row(self.offsets)
        inside = self.positions <= (positions or self.positions.max(initial=0))
        clicked = np.bincount(ranking[inside], self.clicks[inside], len(self.offsets) - 1) > 0
        kept = inside & clicked[ranking]
        lengths = np.bincount(ranking[kept], minlength=len(self.offsets) - 1)[clicked]
        offsets = offsets_of(lengths)
        return ClickedRankings(self.rows[kept], self.positions[kept], self.clicks[kept], offsets)


class DualLearner:
    """A ranking net and one propensity logit per position, trained together by AdaGrad.

    Args:
        net: the ranking net.
        features: its input, all docs of the data set.
        shown: the rankings.
        settings: rates, decay, largest weight and seed.
        batch: rankings per step.

    Attributes:
        net: the ranking net.
        logits: of the propensity of each position.
        state: the tensors that are learned.
    """

    def __init__(
        self,
        net: ScoreNet,
        features: Tensor,
        shown: ClickedRankings,
        settings: "DLA",
        *,
        batch: int,
    ) -> None:
        device = net.weights.device
        self.net, self._features = net, features
        self._rows, self._positions, clicks, self._offsets = (
            torch.from_numpy(np.ascontiguousarray(part)).to(device)
            for part in (shown.rows, shown.positions - 1, shown.clicks, shown.offsets)
        )
        self._clicks = clicks.to(net.weights.dtype)
        self.logits = torch.zeros(int(shown.positions.max()), device=device)
        self.logits.grad = torch.zeros_like(self.logits)
        self.state = [net.weights, self.logits]
        self._optimisers = [
            torch.optim.Adagrad(
                [net.weights], settings.learning_rate, weight_decay=settings.weight_decay
            ),
            torch.optim.Adagrad([self.logits], settings.propensity_rate),
        ]
        self._rankings = len(shown.offsets) - 1
        self._batch = min(batch, self._rankings)
        # a mean over clicks, whatever the size of a batch
        self._scale = self._rankings / (float(shown.clicks.sum()) * self._batch)
        self._largest = float(np.log(settings.max_weight))
        self._generator = torch.Generator(device).manual_seed(settings.seed)

    def epoch(self) -> float:
        """Train on every ranking once; return the mean ranking loss of a click."""
        device = self.net.weights.device
        order = torch.randperm(self._rankings, generator=self._generator, device=device)
        total = torch.zeros((), device=device)
        for batch in torch.split(order, self._batch):
            total += self._step(batch)
        return float(total) * self._batch / self._rankings

    def _step(self, batch: Tensor) -> Tensor:
        lengths = self._offsets[batch + 1] - self._offsets[batch]
        slots = ragged(self._offsets[batch], lengths)
        ranking = torch.arange(len(batch), device=slots.device).repeat_interleave(lengths)
        first = (lengths.cumsum(0) - lengths)[ranking]
        clicks, positions = self._clicks[slots] * self._scale, self._positions[slots]
        scores, passed = self.net.forward(self._features[self._rows[slots]])
        logits = self.logits[positions]
        # no gradient flows through the weights: each net takes the other as given
        seen = (self.logits[0] - logits).clamp(max=self._largest).exp()
        relevant = (scores[first] - scores).clamp(max=self._largest).exp()
        # each loss weighs clicks by the other net's ratio to the first slot
        loss, grad = softmax_loss(scores, clicks * seen, ranking, len(batch))
        self.net.backward(passed, grad)
        _, grad = softmax_loss(logits, clicks * relevant, ranking, len(batch))
        self.logits.grad.zero_().index_add_(0, positions, grad)  # type: ignore[union-attr]
        for optimiser in self._optimisers:
            optimiser.step()
        return loss

    def propensities(self) -> Floats:
        """Return the propensity of each position relative to position 1."""
        ratios: Floats = (self.logits - self.logits[0]).exp().double().cpu().numpy()
        return ratios


def softmax_loss(
    values: Tensor, weights: Tensor, group: Tensor, groups: int
) -> tuple[Tensor, Tensor]:
    r"""Return $-\sum_i w_i \log \mathrm{softmax}(v)_i$, softmax within groups, and its gradient.

    >>> loss, grad = softmax_loss(torch.zeros(2), torch.tensor([1.0, 0.0]), torch.zeros(2).long(), 1)
    >>> round(loss.item(), 4), grad.tolist()
    (0.6931, [-0.5, 0.5])
    """
    # less the largest value of its group: exp cannot overflow
    top = torch.full((groups,), -torch.inf, dtype=values.dtype, device=values.device)
    top = top.scatter_reduce_(0, group, values, "amax")[group]
    powers = (values - top).exp()
    sums = values.new_zeros(groups).index_add_(0, group, powers)
    whole = values.new_zeros(groups).index_add_(0, group, weights)
    loss = weights @ (sums.log()[group] + top - values)
    return loss, powers / sums[group] * whole[group] - weights
