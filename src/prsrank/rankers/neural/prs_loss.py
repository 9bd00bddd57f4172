r"""The PRS loss for PyTorch, its gradient computed with it in one pass.

A pair's loss is log(1 + exp(-sigma (s_i - s_j))). Its weight depends on what was logged, never
on the current scores, so the gradient by the scores is known as soon as the loss is: nothing of
the pairs is kept for the backward pass.
"""

from collections.abc import Callable
from typing import Any

from prsrank.errors import InputError
from prsrank.rankers.neural.torch_library import torch

Tensor = torch.Tensor

REDUCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "mean": torch.mean,
    "sum": torch.sum,
    "none": lambda losses: losses,
}


def prs_loss(
    scores: Tensor,
    clicks: Tensor,
    propensities: Tensor,
    *,
    mask: Tensor | None = None,
    gamma: float = 1.0,
    tau: float = 0.0,
    sigma: float = 1.0,
    reduction: str = "mean",
) -> Tensor:
    r"""The PRS loss of a batch of sessions, differentiable in the scores.

    $$\sum_{i: c_i = 1} \sum_{j: c_j = 0} \min(\gamma, p_j / \max(p_i, \tau))
      \log(1 + e^{-\sigma (s_i - s_j)})$$

    Memory and time grow with clicks x docs, not with docs x docs. Second derivatives are not
    supported; propensities are constants.

    Args:
        scores: s of your model (sessions x docs), padded.
        clicks: c, 0 or 1 (sessions x docs).
        propensities: p of the position at which each doc was shown (sessions x docs), or one
            row for all sessions (docs).
        mask: true for docs, false for padding; default: all are docs.
        gamma: largest weight of a pair.
        tau: least propensity of a click; 0 is off.
        sigma: steepness of the loss.
        reduction: "mean" over sessions, "sum", or "none" for one loss per session.

    Raises:
        InputError: if shapes differ, a propensity is negative or not finite, or a click has
            propensity 0.

    Reference: Wang, Qin, Wang, Wang, "Non-Clicks Mean Irrelevant? Propensity Ratio Scoring As
    a Correction", WSDM 2021.

    >>> scores = torch.zeros(1, 3, requires_grad=True)
    >>> loss = prs_loss(scores, torch.tensor([[0, 1, 0]]), torch.tensor([1.0, 0.5, 0.25]))
    >>> loss.backward()
    >>> scores.grad.tolist()
    [[0.5, -0.75, 0.25]]
    """
    if reduction not in REDUCTIONS:
        raise InputError(f"no reduction '{reduction}': one of {', '.join(REDUCTIONS)}")
    if not gamma > 0 or not tau >= 0 or not sigma > 0:
        raise InputError(f"gamma {gamma} and sigma {sigma} must be above 0, tau {tau} at least 0")
    clicked, shown, seen = _checked(scores, clicks, propensities, mask)
    losses: Tensor = _PrsLoss.apply(  # type: ignore[no-untyped-call]
        scores, clicked, shown & ~clicked, seen, gamma, tau, sigma
    )
    return REDUCTIONS[reduction](losses)


class _PrsLoss(torch.autograd.Function):
    """One dense row per click, against the docs of its session that were not clicked."""

    @staticmethod
    def forward(
        ctx: Any,
        scores: Tensor,
        clicked: Tensor,
        losers: Tensor,
        propensities: Tensor,
        gamma: float,
        tau: float,
        sigma: float,
    ) -> Tensor:
        session, doc = clicked.nonzero(as_tuple=True)
        # rows of clicks alone: most docs have none
        p_clicked = propensities[session, doc].clamp(min=tau)[:, None]
        weights = (propensities[session] / p_clicked).clamp(max=gamma) * losers[session]
        margin = sigma * (scores[session] - scores[session, doc][:, None])
        push = sigma * weights * torch.sigmoid(margin)
        # the gradient is at hand now: keeping it costs less than keeping the rows
        grad = torch.zeros_like(scores).index_add_(0, session, push)
        grad[session, doc] -= push.sum(1)
        ctx.save_for_backward(grad)
        rows = (weights * torch.nn.functional.softplus(margin)).sum(1)
        return scores.new_zeros(len(scores)).index_add_(0, session, rows)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grad_losses: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = ctx.saved_tensors
        return grad * grad_losses[0][:, None], None, None, None, None, None, None


def _checked(
    scores: Tensor, clicks: Tensor, propensities: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return clicked, shown (both boolean) and the propensities, all shaped like the scores."""
    if scores.ndim != 2:
        raise InputError(f"scores must be sessions x docs, not of shape {tuple(scores.shape)}")
    shown = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.bool()
    seen = propensities.detach().to(scores.dtype)
    seen = seen.expand_as(scores) if seen.ndim == 1 and len(seen) == scores.shape[1] else seen
    for name, values in (("clicks", clicks), ("propensities", seen), ("mask", shown)):
        if values.shape != scores.shape:
            raise InputError(
                f"{name} have shape {tuple(values.shape)}, the scores {tuple(scores.shape)}"
            )
    clicked = (clicks != 0) & shown
    # padding may hold anything, NaN too
    seen = torch.where(shown, seen, 0.0)
    if not bool((torch.isfinite(seen) & (seen >= 0)).all()):
        raise InputError("propensities must be finite and at least 0")
    if bool((clicked & (seen <= 0)).any()):
        session, doc = (clicked & (seen <= 0)).nonzero()[0].tolist()
        raise InputError(f"doc {doc} of session {session} was clicked but has propensity 0")
    return clicked, shown, seen
