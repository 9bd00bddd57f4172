"""The scoring net: fully connected ReLU layers, its gradient written out by hand."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from prsrank.rankers.neural.torch_library import has_triton, torch
from prsrank.types import Reals

Tensor = torch.Tensor

_ALIGN = 64  # values; matrix units want every weight matrix to begin at a multiple of this


Rooms = dict[str, Tensor]


class Pass(NamedTuple):
    """A forward pass: the layers in the precision used, the input of each, and memory to use."""

    layers: list[tuple[Tensor, Tensor]]
    activations: list[Tensor]
    rooms: Rooms | None


def room_for(rooms: Rooms | None, name: str, rows: int, like: Tensor) -> Tensor | None:
    """Return memory for `rows` rows, kept under a name; None (PyTorch's own) without `rooms`.

    On a CPU, memory that is new in each step costs about a quarter of the step: the system
    clears its pages one by one.

    Args:
        rooms: what is kept.
        name: of the memory.
        rows: how many are needed.
        like: a vector as long as a row, of the same type.
    """
    if rooms is None:
        return None
    if name not in rooms or len(rooms[name]) < rows:
        rooms[name] = like.new_empty(rows, len(like))
    return rooms[name][:rows]


class ScoreNet:
    r"""f(x) = w . h_L + b with h_0 = x and h_l = max(0, W_l h_{l-1} + b_l).

    All weights live in one float32 vector, so an optimiser's step is one kernel; layers are
    views of it. The gradient is written by hand: what autograd would keep besides the
    activations is never made, and a GPU graph can record the step.

    Args:
        columns: width of the input.
        hidden: width of each hidden layer.
        seed: of the initial weights, the same on every device.
        device: where the weights live.
        dtype: type of activations and matrix products. float64 makes all float64.

    >>> net = ScoreNet(3, (4,), seed=0, device=torch.device("cpu"))
    >>> net(torch.ones(2, 3)).shape
    torch.Size([2])
    """

    def __init__(
        self,
        columns: int,
        hidden: Sequence[int],
        *,
        seed: int,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.sizes = (columns, *hidden, 1)
        self.dtype = dtype
        entries = (n for a, b in pairwise(self.sizes) for n in (a * b, b))
        self._room = [-(-n // _ALIGN) * _ALIGN for n in entries]
        master = torch.float64 if dtype == torch.float64 else torch.float32
        self.weights = torch.zeros(sum(self._room), dtype=master)
        generator = torch.Generator().manual_seed(seed)
        for weight, bias in self.layers(self.weights):
            bound = weight.shape[1] ** -0.5
            for part in (weight, bias):
                part.copy_(torch.rand(part.shape, generator=generator).mul_(2).sub_(1).mul_(bound))
        self.weights = self.weights.to(device)
        self.weights.grad = torch.zeros_like(self.weights)
        self._kernels = device.type == "cuda" and has_triton()

    def layers(self, flat: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Return (weight, bias) of each layer as views of a vector laid out like `weights`."""
        parts = torch.split(flat, self._room)
        return [
            (weight[: a * b].view(b, a), bias[:b])
            for (a, b), weight, bias in zip(
                pairwise(self.sizes), parts[::2], parts[1::2], strict=True
            )
        ]

    def __call__(self, x: Tensor) -> Tensor:
        """Return the scores of docs (rows of x), in the weights' own precision."""
        return self.forward(x, self.weights.dtype)[0]

    def score(self, x: Reals) -> Reals:
        """Return the scores of docs as an array."""
        scores: Reals = self(torch.from_numpy(x).to(self.weights.device)).cpu().numpy()
        return scores

    def forward(
        self, x: Tensor, dtype: torch.dtype | None = None, rooms: Rooms | None = None
    ) -> tuple[Tensor, Pass]:
        """Return the scores, and what `backward` needs, valid until `rooms` are used again."""
        dtype = self.dtype if dtype is None else dtype
        with torch.no_grad():
            layers = self.layers(self.weights.to(dtype))
            activations = [x.to(dtype)]
            for level, (matrix, shift) in enumerate(layers[:-1]):
                out = room_for(rooms, f"layer {level}", len(x), shift)
                activations.append(_hidden(activations[-1], matrix, shift, out))
            return self._output(activations[-1], *layers[-1]), Pass(layers, activations, rooms)

    def backward(self, passed: Pass, grad_scores: Tensor) -> None:
        """Set `weights.grad` to the gradient, given the loss's gradient by the scores."""
        layers, activations, rooms = passed
        with torch.no_grad():
            grads = self.layers(self.weights.grad)  # type: ignore[arg-type]
            torch.sum(grad_scores, 0, keepdim=True, out=grads[-1][1])
            grad = self._output_backward(passed, grad_scores, grads)
            for level in range(len(layers) - 2, -1, -1):
                _product_into(grads[level][0], grad, activations[level])
                if level:
                    out = room_for(rooms, f"grad {level - 1}", len(grad), layers[level - 1][1])
                    grad = torch.mm(grad, layers[level][0], out=out)
                    self._relu_backward(grad, activations[level], grads[level - 1][1])

    def _output(self, hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        if self._kernels:
            from prsrank.rankers.neural.triton_kernels import output_scores

            return output_scores(hidden, weight, bias)
        return (hidden @ weight[0] + bias).to(self.weights.dtype)

    def _output_backward(
        self, passed: Pass, grad_scores: Tensor, grads: list[tuple[Tensor, Tensor]]
    ) -> Tensor:
        """Return the gradient before the last ReLU; write that of the weights on both sides."""
        hidden, weight = passed.activations[-1], passed.layers[-1][0][0]
        weight_out, bias_out = grads[-1][0][0], grads[-2][1]
        if self._kernels:
            from prsrank.rankers.neural.triton_kernels import output_backward

            return output_backward(hidden, grad_scores, weight, bias_out, weight_out)
        into = grad_scores.to(hidden.dtype)
        weight_out.copy_(into @ hidden)
        out = room_for(passed.rooms, f"grad {len(self.sizes) - 3}", len(hidden), weight)
        grad = torch.outer(into, weight, out=out)
        self._relu_backward(grad, hidden, bias_out)
        return grad

    def _relu_backward(self, grad: Tensor, hidden: Tensor, bias_out: Tensor) -> None:
        if self._kernels:
            from prsrank.rankers.neural.triton_kernels import relu_backward

            relu_backward(grad, hidden, bias_out)
        else:
            # in one pass; a mask would be made and then turned into numbers
            torch.ops.aten.threshold_backward.grad_input(grad, hidden, 0, grad_input=grad)
            # a product with ones adds up in half the time of a sum
            bias_out.copy_(torch.mv(grad.t(), grad.new_ones(len(grad))))

    def named_weights(self) -> dict[str, Reals]:
        """Return the weights by name, for a file."""
        named = {}
        for number, (weight, bias) in enumerate(self.layers(self.weights.cpu().float()), 1):
            named[f"layer{number}.weight"] = weight.numpy().copy()
            named[f"layer{number}.bias"] = bias.numpy().copy()
        return named

    def set_weights(self, named: Mapping[str, Reals]) -> None:
        """Take back what `named_weights` gave."""
        for number, (weight, bias) in enumerate(self.layers(self.weights), 1):
            weight.copy_(torch.from_numpy(named[f"layer{number}.weight"]))
            bias.copy_(torch.from_numpy(named[f"layer{number}.bias"]))


def _hidden(x: Tensor, matrix: Tensor, shift: Tensor, out: Tensor | None) -> Tensor:
    if x.is_cuda:  # bias and ReLU inside the matrix product
        return torch._addmm_activation(shift, x, matrix.t())
    return torch.addmm(shift, x, matrix.t(), out=out).relu_()


def _product_into(out: Tensor, grad: Tensor, below: Tensor) -> None:
    """Write grad^T below to `out`, summed and kept in the precision of `out`."""
    if grad.is_cuda and grad.dtype != out.dtype:
        torch.mm(grad.t(), below, out_dtype=out.dtype, out=out)
    elif grad.dtype == out.dtype:
        torch.mm(grad.t(), below, out=out)
    else:
        out.copy_(grad.t() @ below)
