"""The neural ranker's training rate, beside a bare step of the same net on the same docs.

The net is 136 x 256 x 256 x 256 x 1, trained by SGD on lists of 6 docs (1 to 3 winners each) and
of 100 (1 to 10), all random numbers. `lists_per_s` is the rate of whole epochs: random batches
drawn, docs gathered, forward, pair loss, backward, step. The bare steps read docs that lie ready
and have a constant gradient by the scores: `bare` is our own net, `plain` and `compiled` PyTorch's
own layers, eager and by torch.compile; on a GPU all are recorded and replayed (CUDA graphs), over
eight sets of docs in turn. `share` is our rate over the fastest of the bare ones. `whole_plain` is
the whole of our work in plain PyTorch: the same batches and pairs, autograd. `outer` is our rate
with posterior pairs, two vectors per list. First epochs, recording and compilation are not timed.
`epoch_300m_s` is 30 times the epoch over 10 million lists of six; `stream` trains from pinned
host memory; `copy_share` is the time of the same copies without training over its time, and
`copies_beside_gb_per_s` their rate while the device trains on other lists, resident ones. Runs
where only NumPy, PyTorch and safetensors are installed.
"""

import argparse
import collections
import contextlib
import itertools
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np
import torch

from prsrank.rankers.neural.list_blocks import ListBlock, ResidentLists, StreamedLists
from prsrank.rankers.neural.pair_tensors import RowTensors, VectorTensors, ragged
from prsrank.rankers.neural.score_net import Rooms, ScoreNet
from prsrank.rankers.neural.trainer import Trainer, sgd

COLUMNS = 136
HIDDEN = (256, 256, 256)
MOST_WINNERS = {6: 3, 100: 10}
SLICES = 8
REPEATS = 5


def random_lists(lists: int, docs: int, dtype: torch.dtype, *, device: Any, pin: bool) -> ListBlock:
    """Return lists of random features, with random winners and weights."""
    make = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    generator = torch.Generator(make).manual_seed(0)
    winners = torch.randint(1, MOST_WINNERS[docs] + 1, (lists,), generator=generator, device=make)
    ends = winners.cumsum(0)
    total = int(ends[-1])
    # winners of a list are neighbours, from a random row on
    start = torch.randint(0, docs, (lists,), generator=generator, device=make)
    within = torch.arange(total, device=make) - (ends - winners).repeat_interleave(winners)
    row = (start.repeat_interleave(winners) + within) % docs
    weights = torch.rand(total * docs, generator=generator, device=make)
    offsets = torch.arange(lists + 1, device=make) * docs
    winner_offsets = torch.cat([torch.zeros(1, dtype=torch.long, device=make), ends])
    pairs = RowTensors(winner_offsets, row.int(), winner_offsets * docs, weights)
    features = torch.empty((lists * docs, COLUMNS), dtype=dtype, device=device, pin_memory=pin)
    for part in features.split(1 << 20):
        part.copy_(torch.randn(part.shape, generator=generator, device=make))
    return ListBlock(features, offsets, pairs).of(
        part.to(device) if not pin else part.cpu().pin_memory()
        for part in (features, offsets, *pairs)
    )


def synchronise() -> None:
    """Wait for the device."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def seconds(*calls: Callable[[], object]) -> list[float]:
    """Return the median time of each call, after one that is not timed; calls take turns."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(REPEATS + 1):
        for call, own in zip(calls, times, strict=True):
            synchronise()
            start = time.perf_counter()
            call()
            synchronise()
            own.append(time.perf_counter() - start)
    return [statistics.median(own[1:]) for own in times]


def new_trainer(source: Any, batch: int, device: torch.device, dtype: torch.dtype) -> Trainer:
    """Return a trainer with fresh weights."""
    net = ScoreNet(COLUMNS, HIDDEN, seed=0, device=device, dtype=dtype)
    optimiser = sgd(net, 1e-3, 0.0)
    return Trainer(net, optimiser, source, batch_lists=batch, scale=1 / batch, seed=0)


def own_step(docs: int, device: torch.device, dtype: torch.dtype) -> Callable[[torch.Tensor], None]:
    """Return the bare step of our net."""
    net = ScoreNet(COLUMNS, HIDDEN, seed=0, device=device, dtype=dtype)
    optimiser = sgd(net, 1e-3, 0.0)
    grad = torch.randn(docs, device=device) / docs
    rooms: Rooms | None = {} if device.type == "cpu" else None

    def step(x: torch.Tensor) -> None:
        _, passed = net.forward(x, rooms=rooms)
        net.backward(passed, grad)
        optimiser.step()

    return step


def torch_net(device: torch.device) -> tuple[Any, torch.optim.Optimizer]:
    """Return the net of PyTorch's own layers, and its optimiser."""
    sizes = (COLUMNS, *HIDDEN)
    layers: list[torch.nn.Module] = []
    for a, b in itertools.pairwise(sizes):
        layers += [torch.nn.Linear(a, b), torch.nn.ReLU()]
    net = torch.nn.Sequential(*layers, torch.nn.Linear(sizes[-1], 1)).to(device)
    fused = device.type == "cuda"
    return net, torch.optim.SGD(net.parameters(), 1e-3, momentum=0.9, fused=fused)


def torch_step(
    docs: int, device: torch.device, dtype: torch.dtype, *, compiled: bool
) -> Callable[[torch.Tensor], None]:
    """Return the bare step of PyTorch's own layers under autocast."""
    net, optimiser = torch_net(device)
    grad = torch.randn(docs, device=device) / docs
    if compiled:
        net = torch.compile(net, dynamic=False)

    def step(x: torch.Tensor) -> None:
        optimiser.zero_grad(set_to_none=False)
        lower = dtype == torch.bfloat16
        with torch.autocast(device.type, torch.bfloat16) if lower else contextlib.nullcontext():
            scores = net(x)[:, 0]
        scores.float().backward(grad)
        optimiser.step()

    return step


def torch_epoch(block: ListBlock, batch_lists: int) -> Callable[[], None]:
    """Return an epoch of the whole work in plain PyTorch: pairs by their indices, autograd."""
    net, optimiser = torch_net(block.features.device)
    pairs, docs = block.pairs, int(block.offsets[1])
    assert isinstance(pairs, RowTensors)

    def epoch() -> None:
        for batch in torch.randperm(block.lists).split(batch_lists):
            rows = (block.offsets[batch][:, None] + torch.arange(docs)).view(-1)
            count = pairs.winner_offsets[batch + 1] - pairs.winner_offsets[batch]
            winners = ragged(pairs.winner_offsets[batch], count)
            first = (torch.arange(len(batch)) * docs).repeat_interleave(count)
            other = first[:, None] + torch.arange(docs)
            weights = pairs.weights.view(-1, docs)[winners]
            optimiser.zero_grad()
            scores = net(block.features[rows])[:, 0]
            margin = scores[other] - scores[first + pairs.winner_row[winners]][:, None]
            ((weights * torch.nn.functional.softplus(margin)).sum() / batch_lists).backward()
            optimiser.step()

    return epoch


def outer(block: ListBlock) -> ListBlock:
    """Return the same lists with posterior pairs of random theta."""
    theta = torch.rand(len(block.features), device=block.features.device)
    return block._replace(pairs=VectorTensors(theta, 1 - theta))


def bare_run(
    step: Callable[[torch.Tensor], None], features: torch.Tensor, docs: int, batch: int
) -> tuple[Callable[[], None], int]:
    """Return a call of many bare steps, and the number of lists in it."""
    rows = docs * batch
    slices = [features[k * rows : (k + 1) * rows] for k in range(SLICES)]
    slices = [x for x in slices if len(x) == rows]
    calls: list[Callable[[], object]] = []
    if features.is_cuda:
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(3):
                step(slices[0])
        synchronise()
        pool = torch.cuda.graph_pool_handle()  # shared: the graphs never run side by side
        for x in slices:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool):
                step(x)
            calls.append(graph.replay)
    else:
        calls = [lambda x=x: step(x) for x in slices]  # type: ignore[misc]
    rounds = max(1, (2_000_000 if features.is_cuda else 10_000) // rows)

    def run() -> None:
        for _ in range(rounds):
            for call in calls:
                call()

    return run, rounds * len(calls) * batch


def compare(
    block: ListBlock, docs: int, batch: int, device: torch.device, dtype: torch.dtype
) -> dict[str, float]:
    """Return our rate and the bare ones; on a CPU, whose speed drifts, they take turns."""

    def ours(lists: ListBlock) -> tuple[Callable[[], object], int]:
        return new_trainer(ResidentLists(lists), batch, device, dtype).epoch, block.lists

    def bare(step: Callable[[torch.Tensor], None]) -> tuple[Callable[[], object], int]:
        return bare_run(step, block.features, docs, batch)

    rows = docs * batch
    makers: dict[str, Callable[[], tuple[Callable[[], object], int]]] = {
        "lists_per_s": lambda: ours(block),
        "outer": lambda: ours(outer(block)),
        "bare": lambda: bare(own_step(rows, device, dtype)),
        "plain": lambda: bare(torch_step(rows, device, dtype, compiled=False)),
    }
    if device.type == "cpu":
        makers["whole_plain"] = lambda: (torch_epoch(block, batch), block.lists)
        calls, lists = zip(*(make() for make in makers.values()), strict=True)
        times = seconds(*calls)
        result = {name: n / t for name, n, t in zip(makers, lists, times, strict=True)}
    else:
        makers["compiled"] = lambda: bare(torch_step(rows, device, dtype, compiled=True))
        result = {}
        for name, make in makers.items():  # one at a time: each takes gigabytes
            call, number = make()
            result[name] = number / seconds(call)[0]
            del call
            torch.cuda.empty_cache()
    fastest = max(result[name] for name in ("bare", "plain", "compiled") if name in result)
    return result | {"share": result["lists_per_s"] / fastest}


def stream(lists: int, batch: int, device: torch.device, dtype: torch.dtype) -> dict[str, float]:
    """Return the rate of training from pinned host memory, beside that of the copy alone."""
    host = random_lists(lists, 6, dtype, device="cpu", pin=True)
    room = torch.empty_like(host.features[: 1 << 21], device=device)
    source = host.features[: 1 << 21]
    bare = source.nbytes / seconds(lambda: room.copy_(source, non_blocking=True))[0]
    chunk = max(batch, (1 << 29) // (6 * COLUMNS * dtype.itemsize) // batch * batch)
    size = sum(part.nbytes for part in host.tensors)
    streamed, seeds = StreamedLists(host, device, chunk), itertools.count()
    copies = seconds(lambda: collections.deque(streamed.blocks(next(seeds)), maxlen=0))[0]
    resident = host.slice(0, chunk)
    resident = resident.of(part.to(device) for part in resident.tensors)
    trainer = new_trainer(ResidentLists(resident), batch, device, dtype)
    # every second seed, so that nothing was sent ahead
    beside = [copies_beside(streamed, 2 * k, trainer) for k in range(REPEATS, 2 * REPEATS + 1)]
    training = seconds(new_trainer(streamed, batch, device, dtype).epoch)[0]
    return {
        "lists": lists,
        "lists_per_s": lists / training,
        "gb_per_s": size / training / 1e9,
        "copies_gb_per_s": size / copies / 1e9,
        "copies_beside_gb_per_s": size / statistics.median(beside[1:]) / 1e9,
        "bare_copy_gb_per_s": bare / 1e9,
        "copy_share": copies / training,
    }


def copies_beside(streamed: StreamedLists, seed: int, trainer: Trainer) -> float:
    """Return the time of an epoch's copies while the device trains on other, resident lists."""
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    synchronise()
    with torch.cuda.stream(torch.cuda.Stream()):
        first.record()
        collections.deque(streamed.blocks(seed), maxlen=0)
        last.record()
    while not last.query():
        trainer.epoch()
    synchronise()
    return first.elapsed_time(last) / 1e3


def agreement(device: torch.device) -> dict[str, float]:
    """Return how far one step's gradients are from those of float64 on the CPU (relative)."""
    cpu, out = torch.device("cpu"), {}
    block = random_lists(64, 100, torch.float32, device="cpu", pin=False)
    kinds = {"cpu_float32": (cpu, torch.float32), "float32": (device, torch.float32)}
    if device.type == "cuda":
        kinds["bf16"] = (device, torch.bfloat16)
    reference = _gradient(block, cpu, torch.float64)
    for name, (place, dtype) in kinds.items():
        difference = _gradient(block, place, dtype) - reference
        out[name] = float(difference.norm() / reference.norm())
        out[name + "_largest"] = float(difference.abs().max() / reference.abs().max())
    return out


def _gradient(block: ListBlock, device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    """Return the gradient of one step on all lists."""
    block = block.of(part.to(device) for part in block.tensors)
    block = block._replace(features=block.features.to(dtype))
    if dtype == torch.float64:
        block = block.of(p.double() if p.is_floating_point() else p for p in block.tensors)
    trainer = new_trainer(ResidentLists(block), block.lists, device, dtype)
    trainer.epoch()
    grad: torch.Tensor = trainer._net.weights.grad  # type: ignore[assignment]
    return grad.cpu().double()


def machine(device: torch.device) -> dict[str, Any]:
    """Describe where this ran."""
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "cpu_threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "date": datetime.now(UTC).date().isoformat(),
    }


def main() -> None:
    """Run what the device allows and print it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--docs-in-memory", type=int, default=60_000_000, help="on the GPU")
    parser.add_argument("--cpu-docs", type=int, default=400_000)
    parser.add_argument("--stream-lists", type=int, default=6_000_000)
    parser.add_argument("--cpu-only", action="store_true")
    options = parser.parse_args()
    gpu = torch.cuda.is_available() and not options.cpu_only
    device = torch.device("cuda" if gpu else "cpu")
    dtype = torch.bfloat16 if gpu else torch.float32
    result: dict[str, Any] = {"machine": machine(device), "agreement": agreement(device)}
    places = [("gpu", device, dtype, options.docs_in_memory, (65_536, 4_096))] if gpu else []
    places.append(("cpu", torch.device("cpu"), torch.float32, options.cpu_docs, (4_096,)))
    for name, place, kind, total, batches in places:
        for docs in (6, 100):
            lists = max(1, total // docs // batches[0]) * batches[0]  # whole batches
            block = random_lists(lists, docs, kind, device=place, pin=False)
            for batch in batches:
                size = batch if name == "gpu" or docs == 6 else 256
                key = f"{name}_lists_of_{docs}_batch_{size}"
                result[key] = compare(block, docs, size, place, kind)
                print(key, result[key], file=sys.stderr, flush=True)
            del block
    if gpu:
        rate = result["gpu_lists_of_6_batch_65536"]["lists_per_s"]
        result["epoch_300m_s"] = 300e6 / rate
        small = result["gpu_lists_of_6_batch_4096"]["lists_per_s"]
        result["epoch_300m_small_batches_s"] = 300e6 / small
        result["small_batch_ratio"] = small / rate
        result["stream"] = stream(options.stream_lists, 65_536, device, dtype)
    print(json.dumps(result) if options.json else json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
