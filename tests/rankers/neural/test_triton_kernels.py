"""The neural rankers on a CUDA GPU against the CPU. Needs only NumPy and PyTorch."""

import gc
import itertools

import numpy as np
import pytest

from prsrank.data.synthetic import synthetic_dataset
from prsrank.rankers.neural.dnn import NeuralRanker

torch = pytest.importorskip("torch")

from prsrank.rankers.neural.list_blocks import (  # noqa: E402
    ListBlock,
    ResidentLists,
    StreamedLists,
    training_lists,
)
from prsrank.rankers.neural.pair_tensors import RowTensors, VectorTensors  # noqa: E402
from prsrank.rankers.neural.score_net import ScoreNet  # noqa: E402
from prsrank.rankers.neural.trainer import Trainer, adamw, sgd  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU"),
]
CPU, GPU = torch.device("cpu"), torch.device("cuda")


class LabelPairs:
    """Relevant against irrelevant docs: what PairSet.from_labels gives, without numba."""

    def __init__(self, data):
        self.offsets = data.offsets
        rows, counts, weights = [], [], []
        for a, b in zip(data.offsets[:-1], data.offsets[1:], strict=True):
            relevance = data.relevance[a:b]
            won = np.flatnonzero(relevance) if relevance.min(initial=1) == 0 else np.zeros(0, int)
            rows.append(won)
            counts.append(len(won))
            weights += [1.0 - relevance] * len(won)
        self.winner_offsets = np.concatenate([[0], np.cumsum(counts)])
        self.winner_row = np.concatenate(rows).astype(np.int32)
        self.weights = np.concatenate(weights)
        ends = np.concatenate([[0], np.cumsum([len(w) for w in weights])])
        self.work_offsets = ends[self.winner_offsets]
        self.weight_sum, self.nbytes = self.weights.sum(), self.weights.nbytes
        self.paired_lists = np.array(counts) > 0


def ndcg_at_10(relevance, scores, offsets):
    """Return the mean NDCG@10 over lists with a relevant doc, without numba."""
    discounts, values = 1 / np.log2(np.arange(2, 12)), []
    for a, b in itertools.pairwise(offsets):
        gains = relevance[a:b][np.argsort(-scores[a:b], kind="stable")][:10]
        best = np.sort(relevance[a:b])[::-1][:10]
        if best.any():
            values.append((gains @ discounts[: len(gains)]) / (best @ discounts[: len(best)]))
    return np.mean(values)


def ragged_block(seed, lists=200, longest=40, columns=16, *, outer=False):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest + 1, lists)
    winners = np.minimum(rng.integers(0, 8, lists), lengths)
    rows = [np.sort(rng.choice(n, k, replace=False)) for n, k in zip(lengths, winners, strict=True)]
    features = rng.normal(size=(lengths.sum(), columns)).astype(np.float32)
    arrays = (
        np.concatenate([[0], np.cumsum(winners)]),
        np.concatenate(rows).astype(np.int32),
        np.concatenate([[0], np.cumsum(lengths * winners)]),
        rng.random(np.sum(lengths * winners)).astype(np.float32),
    )
    pairs = RowTensors(*(torch.from_numpy(a) for a in arrays))
    if outer:
        values = rng.random((2, len(features))).astype(np.float32)
        pairs = VectorTensors(*(torch.from_numpy(a) for a in values))
    offsets = torch.from_numpy(np.concatenate([[0], np.cumsum(lengths)]))
    return ListBlock(torch.from_numpy(features), offsets, pairs)


def moved(block, device=GPU):
    return block.of(part.to(device) for part in block.tensors)


def doubled(block):
    return block.of(p.double() if p.is_floating_point() else p for p in block.tensors)


@pytest.mark.parametrize("outer", [False, True])
@pytest.mark.parametrize("longest", [1, 7, 40, 700, 2500])
def test_kernels_equal_the_plain_forms(longest, outer):
    from prsrank.rankers.neural.triton_kernels import (
        Room,
        gather_lists,
        list_pair_loss,
        loss_entries,
    )

    block = ragged_block(longest, longest=longest, outer=outer)
    batch = torch.from_numpy(np.random.default_rng(1).permutation(200)[:70])
    rows, starts = block.rows(batch)
    order, begins = torch.full((3, 73), -1), torch.zeros((3, 73), dtype=torch.long)
    order[1, :70], begins[1, :70] = batch, starts
    docs = torch.full((len(rows) + 5, 16), 7.0, device=GPU)
    empty = torch.zeros(73, dtype=torch.long, device=GPU)
    room = Room(docs, empty, empty.clone(), torch.full_like(docs[:, 0], 3.0))
    turn, on_gpu = torch.tensor(1, device=GPU), moved(block)
    gather_lists(on_gpu, order.to(GPU), begins.to(GPU), turn, longest, room)
    assert torch.equal(docs[: len(rows)].cpu(), block.features[rows])
    assert torch.all(docs[len(rows) :] == 7)
    assert torch.equal(room.batch.cpu(), order[1])
    scores = torch.from_numpy(np.random.default_rng(2).normal(size=len(rows) + 5)).float() * 5
    total = torch.ones(loss_entries(73, longest), device=GPU)
    grad = list_pair_loss(scores.to(GPU), on_gpu, room, longest, 0.5, total)
    wanted, slope = doubled(block).loss(scores.double(), batch, starts)
    assert total.sum().item() - len(total) == pytest.approx(0.5 * wanted.item(), rel=1e-4)
    torch.testing.assert_close(grad.cpu().double(), 0.5 * slope, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("hidden", "outer"), [((256, 256, 256), False), ((24, 40), True)])
def test_gradients_of_one_step_agree_with_the_cpu(hidden, outer):
    block = ragged_block(3, outer=outer)
    grads = []
    for device in (CPU, GPU):
        net = ScoreNet(16, hidden, seed=0, device=device)
        source = ResidentLists(moved(block, device))
        trainer = Trainer(net, sgd(net, 0.1, 0.0), source, batch_lists=200, scale=0.01, seed=0)
        trainer.epoch()
        grads.append(net.weights.grad.cpu())
    assert grads[0].abs().max() > 1e-3
    torch.testing.assert_close(grads[1], grads[0], rtol=0, atol=1e-5 * float(grads[0].abs().max()))


@pytest.mark.parametrize(("make", "large"), [(sgd, 1 << 20), (sgd, 0), (adamw, 1 << 20)])
def test_recorded_steps_equal_plain_steps(make, large, monkeypatch):
    monkeypatch.setattr("prsrank.rankers.neural.trainer._LARGE", large)
    block = moved(ragged_block(4, lists=512))
    weights = []
    for recording in (True, False):
        net = ScoreNet(16, (32, 32), seed=0, device=GPU)
        optimiser = make(net, 1e-3, 0.0)
        trainer = Trainer(
            net, optimiser, ResidentLists(block), batch_lists=48, scale=1 / 48, seed=0
        )
        trainer._recording = recording
        losses = [trainer.epoch() for _ in range(3)]
        assert losses[2] < losses[0]
        weights.append((net.weights.clone(), losses))
    assert weights[0][1] == pytest.approx(weights[1][1], rel=1e-3)
    assert (weights[0][0] - weights[1][0]).norm() < 5e-3 * weights[1][0].norm()


def test_streamed_lists_train_like_resident_ones():
    data = synthetic_dataset("mq2007", 300)
    pairs = LabelPairs(data)
    results = []
    for room in (None, 200_000):
        source = training_lists(
            data, pairs, lambda x: np.pad(x, ((0, 0), (0, 2))).astype(np.float32), 48,
            device=GPU, dtype=torch.float32, seed=0, room=room,
        )  # fmt: skip
        assert isinstance(source, StreamedLists) == (room is not None)
        net = ScoreNet(48, (64,), seed=0, device=GPU)
        scale = source.lists / (pairs.weights.sum() * 16)
        trainer = Trainer(net, sgd(net, 0.01, 0.0), source, batch_lists=16, scale=scale, seed=0)
        results.append([trainer.epoch() for _ in range(8)])
    assert results[1][-1] == pytest.approx(results[0][-1], rel=0.05)
    assert results[1][-1] < 0.9 * results[1][0]


def test_streaming_shows_every_list_once():
    host = ragged_block(5, lists=300)
    host = host._replace(features=torch.arange(len(host.features)).float()[:, None].repeat(1, 16))
    source = StreamedLists(host.of(part.pin_memory() for part in host.tensors), GPU, 64)
    next(source.blocks(9))  # given up after a chunk
    for seed in (0, 1, 2, 7):  # in a row, so the first chunks are there already; and not
        seen, weight = [], 0.0
        for block in source.blocks(seed):
            rows, _ = block.rows(torch.arange(block.lists, device=GPU))
            seen.append(block.features[rows, 0].clone())
            weight += block.pairs.weights.sum().item()
        assert torch.equal(torch.cat(seen).sort()[0].cpu(), host.features[:, 0])
        assert weight == pytest.approx(host.pairs.weights.sum().item(), rel=1e-4)


def test_final_ndcg_agrees_with_the_cpu_in_every_precision():
    data = synthetic_dataset("web10k", 400)
    train, test = data.select(np.arange(150)), data.select(np.arange(150, 400))
    pairs, values = LabelPairs(train), {}
    for device, precision in (("cpu", "float32"), ("cuda", "float32"), ("cuda", "bf16")):
        found = []
        for seed in range(6):
            ranker = NeuralRanker(epochs=20, device=device, precision=precision, seed=seed)
            scores = ranker.fit(train, pairs).score(test.features)
            found.append(ndcg_at_10(test.relevance, scores, test.offsets))
        values[device, precision] = np.mean(found)
        print(device, precision, np.round(found, 4), round(values[device, precision], 4))
    reference = values["cpu", "float32"]
    assert reference > 0.7
    for value in values.values():
        assert value == pytest.approx(reference, abs=0.005)


def test_an_old_recording_is_freed_without_harm():
    block = moved(ragged_block(6))
    for seed in range(6):  # each leaves a graph behind in a reference cycle
        net = ScoreNet(16, (8,), seed=seed, device=GPU)
        trainer = Trainer(
            net, sgd(net, 0.1, 0.0), ResidentLists(block), batch_lists=16, scale=0.1, seed=0
        )
        trainer.itself = trainer
        assert np.isfinite(trainer.epoch())
    gc.collect()
