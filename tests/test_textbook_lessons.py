"""What the two textbook chapters teach, as checks: their samples run, order matters, and the quiz answers hold."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor
from torch import nn as torch_nn

import unrolled
from oracles.compare import assert_bitwise, assert_near, error

DTYPE = torch.float64


def count(module: torch_nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize("cell", ["RNN", "LSTM", "GRU"])
def test_samples_run_with_nn_replaced(cell: str) -> None:
    nn = unrolled
    layer = getattr(nn, cell)(input_size=4, hidden_size=8, batch_first=True)
    x, h0 = torch.randn(3, 5, 4), torch.zeros(1, 3, 8)
    if cell == "LSTM":
        c0 = torch.zeros(1, 3, 8)
        out, (hn, cn) = layer(x, (h0, c0))
        assert list(cn.shape) == [1, 3, 8]
    else:
        out, hn = layer(x, h0)
    assert list(out.shape) == [3, 5, 8]
    assert list(hn.shape) == [1, 3, 8]
    assert_bitwise(out[:, -1, :], hn[0])  # right here: forward, nothing padded
    torch.nn.utils.clip_grad_norm_(layer.parameters(), max_norm=1.0)


def test_the_hand_written_cell_is_the_layer_without_biases() -> None:
    """The sample's cell of four pairs of matrices, each gate on its own."""
    layer = unrolled.LSTM(4, 8, batch_first=True, bias=False, dtype=DTYPE)
    x = torch.randn(3, 5, 4, dtype=DTYPE)
    W_i, W_f, W_c, W_o = (m.T for m in layer.weight_ih_l0.chunk(4))
    U_i, U_f, U_c, U_o = (m.T for m in layer.weight_hh_l0.chunk(4))
    h = c = torch.zeros(3, 8, dtype=DTYPE)
    for x_t in x.unbind(1):
        forget, write = torch.sigmoid(x_t @ W_f + h @ U_f), torch.sigmoid(x_t @ W_i + h @ U_i)
        shown = torch.sigmoid(x_t @ W_o + h @ U_o)
        c = forget * c + write * torch.tanh(x_t @ W_c + h @ U_c)
        h = shown * torch.tanh(c)
    _, (h_n, c_n) = layer(x)
    assert_near(h_n[0], h)
    assert_near(c_n[0], c)


def test_tensors_of_the_chapters_flow() -> None:
    """(2, 5, 4) → states (2, 5, 3), H_5 and C_5 (2, 3); two directions side by side; source 5 to target (2, 4, V)."""
    x, V = torch.randn(2, 5, 4), 11
    out, (h, c) = unrolled.LSTM(4, 3, batch_first=True)(x)
    assert out.shape == (2, 5, 3)
    assert h[0].shape == c[0].shape == (2, 3)
    assert unrolled.LSTM(4, 3, batch_first=True, bidirectional=True)(x)[0].shape == (2, 5, 6)
    deep_h, _ = unrolled.LSTM(4, 3, 3, batch_first=True)(x)[1]
    assert deep_h.shape == (3, 2, 3)

    encoder, decoder = unrolled.GRU(4, 3, batch_first=True), unrolled.GRU(4, 3, batch_first=True)
    start, output = torch_nn.Linear(3, 3), torch_nn.Linear(3, V)
    _, source = encoder(x)
    prefix = torch.randn(2, 4, 4)  # the start token and the true target, one step behind
    states, _ = decoder(prefix, start(source))
    assert output(states).shape == (2, 4, V)


def test_a_residual_connection_shortens_the_path_between_layers() -> None:
    """x + layer(x): the gradient of the input keeps the identity even where the layer passes next to nothing."""
    layer = unrolled.RNN(3, 3, batch_first=True)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.mul_(1e-3)
    x = torch.randn(1, 5, 3, requires_grad=True)
    (plain,) = torch.autograd.grad(layer(x)[0].sum(), x)
    (short,) = torch.autograd.grad((x + layer(x)[0]).sum(), x)
    assert float(plain.abs().max()) < 0.01
    assert error(short, torch.ones_like(short)) < 0.01


class Bag(torch_nn.Module):
    """Averages its inputs, so it cannot tell an order."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.embedding = torch_nn.Embedding(words, 8)
        self.output = torch_nn.Sequential(torch_nn.Linear(8, 16), torch_nn.Tanh(), torch_nn.Linear(16, 2))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.output(self.embedding(tokens).mean(1))


class Reader(torch_nn.Module):
    def __init__(self, words: int) -> None:
        super().__init__()
        self.embedding = torch_nn.Embedding(words, 8)
        self.rnn = unrolled.RNN(8, 8, batch_first=True)
        self.output = torch_nn.Linear(8, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.output(self.rnn(self.embedding(tokens))[1][0])


def test_order_is_learnt_by_an_rnn_and_not_by_an_average() -> None:
    """Who bites whom: "a v b" has the label 1 where a < b, and "b v a", of the same words, the label 0."""
    pairs = list(itertools.permutations(range(6), 2))
    tokens = torch.tensor([[a, 6, b] for a, b in pairs])
    labels = torch.tensor([int(a < b) for a, b in pairs])
    accuracy = {}
    for build in (Bag, Reader):
        torch.manual_seed(0)
        model = build(7)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
        for _ in range(120):
            loss = torch_nn.functional.cross_entropy(model(tokens), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        accuracy[build] = (model(tokens).argmax(1) == labels).double().mean().item()
        if build is Bag:
            turned = tokens.flip(1)
            torch.testing.assert_close(model(turned), model(tokens))
    assert accuracy[Reader] == 1.0
    assert accuracy[Bag] <= 0.5 + 1e-9


def test_quiz_the_highway_is_from_memory_to_memory() -> None:
    """Quiz 2: with open forget gates the gradient of c crosses 100 steps whole; an RNN's dies on the way."""
    lstm = unrolled.LSTM(1, 1, batch_first=True, dtype=DTYPE)
    rnn = unrolled.RNN(1, 1, batch_first=True, dtype=DTYPE)
    with torch.no_grad():
        for layer in (lstm, rnn):
            for parameter in layer.parameters():
                parameter.fill_(0.0)
            layer.weight_hh_l0.fill_(0.5 if layer is rnn else 0.0)
        lstm.bias_ih_l0[1] = 20.0
    x, h0 = torch.zeros(1, 100, 1, dtype=DTYPE), torch.zeros(1, 1, 1, dtype=DTYPE)
    c0 = torch.full((1, 1, 1), 0.5, dtype=DTYPE, requires_grad=True)
    (along_c,) = torch.autograd.grad(lstm(x, (h0, c0))[1][1].sum(), c0)
    start = torch.full((1, 1, 1), 0.5, dtype=DTYPE, requires_grad=True)
    (along_h,) = torch.autograd.grad(rnn(x, start)[1].sum(), start)
    assert along_c.item() > 0.999
    assert along_h.item() < 1e-29


def test_quiz_both_directions_see_both_sides() -> None:
    """Quiz 4: one position depends on every input; forwards alone it does not know the future. Twice the parameters."""
    both, one = unrolled.GRU(4, 3, batch_first=True, bidirectional=True), unrolled.GRU(4, 3, batch_first=True)
    assert count(both) == 2 * count(one)
    for layer, future in ((both, True), (one, False)):
        x = torch.randn(1, 5, 4, requires_grad=True)
        (gradient,) = torch.autograd.grad(layer(x)[0][0, 2].sum(), x)
        seen = gradient[0].abs().amax(1) > 0
        assert seen.tolist() == [True, True, True, future, future]


def test_quiz_a_step_waits_for_the_one_before_it_and_attention_does_not() -> None:
    """Quiz 5: the path from the first input to the last output is T steps long; attention connects any two in one."""
    layer = unrolled.RNN(4, 4, batch_first=True)
    x = torch.randn(1, 6, 4)
    by_steps, state = [], None
    for step in x.split(1, dim=1):
        out, state = layer(step, state)
        by_steps.append(out)
    assert_near(torch.cat(by_steps, 1), layer(x)[0])  # serial: the state of a step is the input of the next

    attention = torch_nn.MultiheadAttention(4, 1, batch_first=True)
    order = torch.tensor([5, 2, 0, 4, 1, 3])
    whole = attention(x, x, x, need_weights=False)[0]
    rows = attention(x[:, order], x, x, need_weights=False)[0]
    assert_near(rows, whole[:, order])  # any position on its own, in any order
    assert error(layer(x[:, order])[0], layer(x)[0][:, order]) > 1e-2
