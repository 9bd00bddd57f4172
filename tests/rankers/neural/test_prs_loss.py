"""Losses and gradients of the neural rankers against autograd of their plain definitions."""

import itertools

import numpy as np
import pytest

from prsrank.clicks.position_based import PositionBasedModel
from prsrank.clicks.simulate import simulate_clicks
from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.pairs.pair_set import PairSet
from prsrank.propensity.curve import PowerLaw

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.neural

from prsrank.rankers.neural.list_blocks import ListBlock  # noqa: E402
from prsrank.rankers.neural.pair_tensors import RowTensors, VectorTensors, _pieces  # noqa: E402
from prsrank.rankers.neural.prs_loss import prs_loss  # noqa: E402
from prsrank.rankers.neural.score_net import ScoreNet  # noqa: E402

CPU = torch.device("cpu")


def definition(scores, clicks, propensities, mask, gamma, tau, sigma):
    """Each pair of each session on its own."""
    total = scores.new_zeros(())
    for q in range(len(scores)):
        docs = [d for d in range(scores.shape[1]) if mask[q, d]]
        for i, j in itertools.permutations(docs, 2):
            if clicks[q, i] and not clicks[q, j]:
                ratio = float(propensities[q, j]) / max(float(propensities[q, i]), tau)
                margin = sigma * (scores[q, i] - scores[q, j])
                total = total + min(gamma, ratio) * torch.log1p(torch.exp(-margin))
    return total


def sessions(seed=0, lists=7, docs=9):
    rng = np.random.default_rng(seed)
    scores = torch.tensor(rng.normal(size=(lists, docs)) * 2, requires_grad=True)
    clicks = torch.tensor(rng.random((lists, docs)) < 0.3)
    propensities = torch.tensor(rng.uniform(0.05, 1, (lists, docs)))
    mask = torch.tensor(np.arange(docs) < rng.integers(1, docs + 1, (lists, 1)))
    return scores, clicks, propensities, mask


@pytest.mark.parametrize(
    ("gamma", "tau", "sigma"), [(1.0, 0.0, 1.0), (0.6, 0.0, 2.0), (3.0, 0.3, 0.5)]
)
def test_prs_loss_and_gradient_equal_the_definition(gamma, tau, sigma):
    scores, clicks, propensities, mask = sessions()
    plain = definition(scores, clicks, propensities, mask, gamma, tau, sigma)
    (expected,) = torch.autograd.grad(plain, scores)
    loss = prs_loss(
        scores, clicks, propensities, mask=mask, gamma=gamma, tau=tau, sigma=sigma, reduction="sum"
    )
    (grad,) = torch.autograd.grad(loss, scores)
    assert loss.item() == pytest.approx(plain.item(), abs=1e-10)
    torch.testing.assert_close(grad, expected, rtol=0, atol=1e-10)


def test_reductions_agree_and_mix_with_a_model():
    scores, clicks, propensities, mask = sessions(1)
    each = prs_loss(scores, clicks, propensities, mask=mask, reduction="none")
    assert each.shape == (len(scores),)
    assert prs_loss(scores, clicks, propensities, mask=mask).item() == pytest.approx(
        each.mean().item()
    )
    weights = torch.arange(1.0, len(scores) + 1, dtype=scores.dtype)
    (grad,) = torch.autograd.grad((each * weights).sum(), scores)
    parts = [
        torch.autograd.grad(
            w * definition(*(t[q : q + 1] for t in (scores, clicks, propensities, mask)), 1, 0, 1),
            scores,
            allow_unused=True,
        )[0]
        for q, w in enumerate(weights)
        if clicks[q][mask[q]].any() and not clicks[q][mask[q]].all()
    ]
    torch.testing.assert_close(grad, sum(parts), rtol=0, atol=1e-10)


def test_weights_do_not_depend_on_the_scores():
    clicks, propensities = torch.tensor([[0, 1]]), torch.tensor([1.0, 0.25])
    for sign in (1.0, -1.0):  # whether the model has the pair in order or not
        scores = torch.tensor([[0.0, sign]], dtype=torch.float64, requires_grad=True)
        prs_loss(scores, clicks, propensities, gamma=10.0).backward()
        expected = 4.0 / (1.0 + np.exp(sign))  # p_j / p_i = 4 either way
        assert scores.grad[0, 0].item() == pytest.approx(expected, rel=1e-12)


def test_padding_may_hold_anything():
    scores, clicks, propensities, mask = sessions(2)
    loss = prs_loss(scores, clicks, propensities, mask=mask)
    dirty = torch.where(mask, propensities, torch.nan)
    assert prs_loss(scores, clicks | ~mask, dirty, mask=mask).item() == loss.item()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reduction": "median"}, "no reduction"),
        ({"gamma": 0.0}, "gamma"),
        ({"propensities": torch.ones(2, 4)}, "propensities have shape"),
        ({"propensities": torch.full((3,), -1.0)}, "at least 0"),
        ({"propensities": torch.tensor([1.0, 0.0, 1.0])}, "doc 1 of session 0 was clicked"),
        ({"scores": torch.zeros(3)}, "sessions x docs"),
    ],
)
def test_bad_input_is_refused(change, message):
    arguments = {
        "scores": torch.zeros(1, 3),
        "clicks": torch.tensor([[0, 1, 0]]),
        "propensities": torch.ones(3),
    } | change
    with pytest.raises(InputError, match=message):
        prs_loss(**arguments)


def small_log():
    rng = np.random.default_rng(3)
    lengths = rng.integers(1, 9, 30)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    labels = rng.integers(0, 2, offsets[-1])
    data = RankingDataset(rng.normal(size=(offsets[-1], 3)), offsets, labels=labels)
    model = PositionBasedModel(eta=1, mu=0.1)
    return data, simulate_clicks(data, rng.normal(size=data.docs), model, clicks=300)


def test_pair_set_and_prs_loss_are_the_same_loss():
    data, log = small_log()
    pairs = PairSet.from_log(log, data, PowerLaw(1.0), "prs")
    scores = torch.tensor(np.random.default_rng(4).normal(size=data.docs))
    block = as_block(data, pairs)
    batch = torch.arange(data.lists)
    rows, starts = block.rows(batch)
    folded, grad = block.loss(scores[rows], batch, starts)
    whole = torch.zeros_like(scores).index_add_(0, rows, grad)
    docs, total = log.doc_rows(data), scores.new_zeros(())
    leaf = scores.clone().requires_grad_()
    for s in range(log.sessions):
        ranking = log.session_ranking[s]
        a, b = log.ranking_offsets[ranking : ranking + 2]
        clicked = torch.zeros(1, b - a)
        clicked[0, log.clicks[log.click_offsets[s] : log.click_offsets[s + 1]].copy()] = 1
        seen = torch.tensor(1.0 / log.ranking_positions[a:b])
        total = total + prs_loss(leaf[docs[log.ranking_docs[a:b]]][None], clicked, seen)
    total.backward()
    assert folded.item() == pytest.approx(total.item(), rel=1e-12)
    torch.testing.assert_close(whole, leaf.grad, rtol=0, atol=1e-10)


def as_block(data, pairs):
    starts = pairs.weight_offsets[pairs.winner_offsets]
    arrays = pairs.winner_offsets, pairs.winner_row, starts, pairs.weights
    rows = RowTensors(*(torch.tensor(a) for a in arrays))
    return ListBlock(torch.tensor(data.features), torch.tensor(pairs.offsets), rows)


@pytest.mark.parametrize("hidden", [(5,), (16, 8), (7, 5, 3)])
def test_gradient_of_the_net_equals_autograd(hidden):
    net = ScoreNet(6, hidden, seed=1, device=CPU, dtype=torch.float64)
    rng = np.random.default_rng(5)
    x = torch.tensor(rng.normal(size=(40, 6)))
    target = torch.tensor(rng.normal(size=40))
    leaf = net.weights.detach().clone().requires_grad_()
    value = x
    layers = net.layers(leaf)
    for weight, bias in layers[:-1]:
        value = torch.relu(value @ weight.T + bias)
    scores = (value @ layers[-1][0].T + layers[-1][1])[:, 0]
    (scores @ target).backward()
    own, passed = net.forward(x)
    net.backward(passed, target)
    torch.testing.assert_close(own, scores.detach(), rtol=0, atol=1e-12)
    torch.testing.assert_close(net.weights.grad, leaf.grad, rtol=0, atol=1e-10)


@pytest.mark.parametrize("at_a_time", [1, 20, 1 << 20])
def test_gradient_of_ragged_lists_equals_autograd_of_the_definition(at_a_time, monkeypatch):
    monkeypatch.setattr("prsrank.rankers.neural.pair_tensors._PAIRS", at_a_time)
    data, log = small_log()
    pairs = PairSet.from_log(log, data, PowerLaw(1.0), "ips")
    block = as_block(data, pairs)
    batch = torch.tensor([17, 3, 3, 25, 0])  # any order, a list twice
    rows, starts = block.rows(batch)
    scores = torch.tensor(np.random.default_rng(6).normal(size=len(rows)), requires_grad=True)
    plain = scores.new_zeros(())
    for place, q in zip(starts.tolist(), batch.tolist(), strict=True):
        for v in range(pairs.winner_offsets[q], pairs.winner_offsets[q + 1]):
            won = scores[place + pairs.winner_row[v]]
            for j, weight in enumerate(pairs.row(v)):
                plain = plain + weight * torch.log1p(torch.exp(scores[place + j] - won))
    (expected,) = torch.autograd.grad(plain, scores)
    loss, grad = block.loss(scores.detach(), batch, starts)
    assert loss.item() == pytest.approx(plain.item(), rel=1e-12)
    torch.testing.assert_close(grad, expected, rtol=0, atol=1e-10)


def outer_batch(seed=7, lists=30, longest=9):
    """Return ragged lists whose pairs are outer products, and a batch of them with scores."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, longest, lists))])
    u, v = rng.random((2, offsets[-1]))
    u[rng.random(len(u)) < 0.3] = 0.0
    vectors = VectorTensors(torch.tensor(u), torch.tensor(v))
    block = ListBlock(torch.zeros(len(u), 8), torch.tensor(offsets), vectors)
    batch = torch.tensor([17, 3, 3, 25, 0])
    scores = torch.tensor(rng.normal(size=len(block.rows(batch)[0])) * 3, requires_grad=True)
    return block, batch, scores


@pytest.mark.parametrize("at_a_time", [1, 20, 1 << 20])  # a doc, a few lists, the batch
def test_gradient_of_outer_pairs_equals_autograd_of_the_definition(at_a_time, monkeypatch):
    monkeypatch.setattr("prsrank.rankers.neural.pair_tensors._PAIRS", at_a_time)
    block, batch, scores = outer_batch()
    rows, starts = block.rows(batch)
    plain = scores.new_zeros(())
    for start, q in zip(starts.tolist(), batch.tolist(), strict=True):
        n = int(block.offsets[q + 1] - block.offsets[q])
        for i, j in itertools.permutations(range(start, start + n), 2):
            weight = block.pairs.winning[rows[i]] * block.pairs.losing[rows[j]]
            plain = plain + weight * torch.log1p(torch.exp(scores[j] - scores[i]))
    (expected,) = torch.autograd.grad(plain, scores)
    loss, grad = block.loss(scores.detach(), batch, starts)
    assert loss.item() == pytest.approx(plain.item(), rel=1e-12)
    torch.testing.assert_close(grad, expected, rtol=0, atol=1e-10)


def test_slices_of_lists_have_the_same_losses():
    data, log = small_log()
    rows = as_block(data, PairSet.from_log(log, data, PowerLaw(1.0), "prs"))
    for block in (rows, outer_batch()[0]):
        part, inside = block.slice(11, 20), torch.tensor([5, 0, 8])
        scores = torch.tensor(np.random.default_rng(8).normal(size=len(part.rows(inside)[0])))
        loss, grad = part.loss(scores, inside, part.rows(inside)[1])
        wanted, slope = block.loss(scores, inside + 11, block.rows(inside + 11)[1])
        assert loss.item() == pytest.approx(wanted.item(), rel=1e-12)
        assert torch.equal(grad, slope)
        assert len(part.features) == int(part.offsets[-1])


@pytest.mark.parametrize("hidden", [(5,), (7, 5, 3)])
def test_memory_that_is_used_again_changes_nothing(hidden):
    rng, rooms = np.random.default_rng(9), {}
    net = ScoreNet(6, hidden, seed=1, device=CPU, dtype=torch.float64)
    for rows in (40, 12, 90):  # fewer rows than there is room for, then more
        x, target = torch.tensor(rng.normal(size=(rows, 6))), torch.tensor(rng.normal(size=rows))
        found = []
        for kept in (rooms, None):
            scores, passed = net.forward(x, rooms=kept)
            net.backward(passed, target)
            found.append((scores.clone(), net.weights.grad.clone()))
        assert torch.equal(found[0][0], found[1][0])
        assert torch.equal(found[0][1], found[1][1])


def test_a_long_list_makes_no_long_rows_of_short_ones():
    rng = np.random.default_rng(10)
    lengths = torch.tensor([*rng.integers(2, 12, 4000), 5000, 7])
    winners = torch.tensor(rng.integers(1, 3, len(lengths)))
    pieces = list(_pieces(lengths, winners))
    assert sorted(torch.cat(pieces).tolist()) == list(range(len(lengths)))
    for piece in pieces:
        n, rows = lengths[piece], winners[piece]
        assert n[-1] == n.max()
        assert int(rows.sum() * n.max()) <= 2 * int((rows * n).sum())
