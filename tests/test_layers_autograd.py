"""Differentiate any way: once, twice, three times, per sample, forwards, recomputed. Never a wrong number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, jvp, vmap

import unrolled
from oracles.cases import CELLS, case, ours, pair, randomise, split_state
from oracles.compare import assert_bitwise, assert_near, error

BACKENDS = ("native", "reference", "torch")
EACH = pytest.mark.parametrize("backend", BACKENDS)
# torch compiles its own forward-mode rules with torch.jit.script at first use, and warns about itself.
FORWARD = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
LENGTHS = [2, 3, 0]
RESETS = torch.tensor([[0, 1, 0], [0, 0, 1], [1, 0, 0]], dtype=torch.bool)


def small(cell: str, backend: str, **options: Any) -> nn.Module:
    layer = ours(cell, 2, 2, 2, bidirectional=True, batch_first=True, dtype=torch.float64, backend=backend, **options)
    return randomise(layer, 1)


def as_function(layer: nn.Module, lstm: bool, lengths: Any, resets: Any) -> tuple[Callable[..., Any], list[Tensor]]:
    """The layer as a function of x, its state and all of its weights."""
    names = [n for n, _ in layer.named_parameters()]
    this = case("lstm" if lstm else "gru", steps=3, width=2, hidden=2)
    inputs = [t.requires_grad_() for t in (this.x, this.h0, this.c0) if t is not None]
    parameters = [p.detach().clone().requires_grad_() for p in layer.parameters()]

    def run(*tensors: Tensor) -> tuple[Tensor, ...]:
        state = (tensors[1], tensors[2]) if lstm else tensors[1]
        values = dict(zip(names, tensors[len(inputs) :], strict=True))
        out, last = functional_call(layer, values, (tensors[0], state), {"lengths": lengths, "resets": resets})
        return (out, *(p for p in split_state(last) if p is not None))

    return run, [*inputs, *parameters]


@EACH
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(("lengths", "resets"), [(None, None), (LENGTHS, RESETS)], ids=["plain", "ragged"])
def test_gradcheck(cell: str, lengths: Any, resets: Any, backend: str) -> None:
    """On every path."""
    run, tensors = as_function(small(cell, backend), cell == "lstm", lengths, resets)
    assert torch.autograd.gradcheck(run, tensors, fast_mode=True)


@EACH
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(("lengths", "resets"), [(None, None), (LENGTHS, RESETS)], ids=["plain", "ragged"])
def test_gradgradcheck(cell: str, lengths: Any, resets: Any, backend: str) -> None:
    run, tensors = as_function(small(cell, backend), cell == "lstm", lengths, resets)
    assert torch.autograd.gradgradcheck(run, tensors, fast_mode=True, atol=1e-4)


@pytest.mark.parametrize("reset_after", [True, False])
def test_gradcheck_of_options(reset_after: bool) -> None:
    options = {"single_bias": True, "learn_initial_state": True}
    for memory in ("store", "recompute"):
        layer = small("gru", "auto", reset_after=reset_after, memory=memory, **options)
        run, tensors = as_function(layer, False, LENGTHS, RESETS)
        assert torch.autograd.gradcheck(run, tensors, fast_mode=True)
    layer = small("lstm", "auto", proj_size=1)
    this = case("lstm", steps=3, width=2, hidden=2, proj_size=1)
    inputs = [t.requires_grad_() for t in (this.x, this.h0, this.c0)]
    assert torch.autograd.gradcheck(
        lambda x, h, c: layer(x, (h, c), lengths=LENGTHS, resets=RESETS)[0], inputs, fast_mode=True
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@EACH
@pytest.mark.parametrize("cell", CELLS)
def test_a_gradient_penalty_is_right_in_both_precisions(cell: str, backend: str, dtype: torch.dtype) -> None:
    """The fused float32 kernels have no second derivative of their own; what comes out is the reference's."""
    found = []
    for engine in (backend, "reference"):
        layer = randomise(ours(cell, 4, 3, 2, bidirectional=True, dtype=dtype, backend=engine), 1)
        x = case(cell, dtype=dtype).x.transpose(0, 1).requires_grad_()
        (first,) = torch.autograd.grad(layer(x)[0].square().sum(), x, create_graph=True)
        second = torch.autograd.grad(first.square().sum(), [x, *layer.parameters()], allow_unused=True)
        found.append([first, *(s for s in second if s is not None)])
    assert len(found[0]) == len(found[1])
    for got, want in zip(*found, strict=True):
        assert_near(got, want, ulps=256)


@pytest.mark.parametrize("cell", CELLS)
def test_third_derivatives(cell: str) -> None:
    layer, _ = pair(cell, batch_first=True, dtype=torch.float64)
    slow = ours(cell, 4, 3, batch_first=True, dtype=torch.float64, backend="reference")
    slow.load_state_dict(layer.state_dict())
    found = []
    for module in (layer, slow):
        x = case(cell).x.requires_grad_()
        value = module(x)[0].pow(2).sum()
        for _ in range(3):
            (g,) = torch.autograd.grad(value, x, create_graph=True)
            value = g.pow(2).sum()
        found.append(value)
    assert_near(found[0], found[1], ulps=1024)


@EACH
@pytest.mark.parametrize("cell", CELLS)
def test_gradient_twice_from_one_forward(cell: str, backend: str) -> None:
    for dtype in (torch.float32, torch.float64):
        layer = randomise(ours(cell, 4, 3, 2, bidirectional=True, dtype=dtype, backend=backend), 1)
        out = layer(case(cell, dtype=dtype).x.transpose(0, 1))[0]
        first = torch.autograd.grad(out.square().sum(), list(layer.parameters()), retain_graph=True)
        again = torch.autograd.grad(out.square().sum(), list(layer.parameters()))
        for a, b in zip(first, again, strict=True):
            assert_bitwise(a, b)


@EACH
@pytest.mark.parametrize("cell", CELLS)
def test_backward_in_eval_mode(cell: str, backend: str) -> None:
    """Saliency of a trained model."""
    mine, other = pair(cell, num_layers=2, bidirectional=True, dropout=0.5, extras={"backend": backend})
    mine.eval()
    other.eval()
    found = []
    for layer in (mine, other):
        x = case(cell).x.transpose(0, 1).requires_grad_()
        found.append(torch.autograd.grad(layer(x)[0].square().sum(), x)[0])
    assert_near(*found)


@pytest.mark.parametrize("cell", CELLS)
def test_vmap_of_grad_is_a_loop(cell: str) -> None:
    """Per-sample gradients of all weights."""
    layer, _ = pair(cell, num_layers=2, bidirectional=True, batch_first=True)
    parameters = {n: p.detach() for n, p in layer.named_parameters()}
    x = case(cell).x

    def loss(values: dict[str, Tensor], row: Tensor) -> Tensor:
        return functional_call(layer, values, (row[None],))[0].square().sum()

    together = vmap(grad(loss), in_dims=(None, 0))(parameters, x)
    for row in range(3):
        layer.zero_grad()
        layer(x[row : row + 1])[0].square().sum().backward()
        for name, parameter in layer.named_parameters():
            assert_near(together[name][row], parameter.grad)


@pytest.mark.parametrize("cell", CELLS)
def test_vmap_over_models(cell: str) -> None:
    """An ensemble in one call."""
    layers = [randomise(ours(cell, 4, 3, bidirectional=True, batch_first=True, dtype=torch.float64), s) for s in (1, 2)]
    parameters, buffers = torch.func.stack_module_state(layers)
    x = case(cell).x
    together = vmap(lambda p, b: functional_call(layers[0], (p, b), (x,))[0])(parameters, buffers)
    for number, layer in enumerate(layers):
        assert_near(together[number], layer(x)[0])


@FORWARD
@pytest.mark.parametrize("cell", CELLS)
def test_jvp_is_the_transposed_vjp(cell: str) -> None:
    layer, _ = pair(cell, num_layers=2, bidirectional=True, batch_first=True)
    x, direction = case(cell).x, case(cell, seed=9).x
    out, forward = jvp(lambda v: layer(v)[0], (x,), (direction,))
    x.requires_grad_()
    out = layer(x)[0]
    weight = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).reshape(out.shape)
    (backward,) = torch.autograd.grad((out * weight).sum(), x)
    assert_near((forward * weight).sum(), (backward * direction).sum())


@FORWARD
@pytest.mark.parametrize("cell", CELLS)
def test_forward_mode_without_torch_func(cell: str) -> None:
    from torch.autograd import forward_ad

    layer, _ = pair(cell, batch_first=True)
    x, direction = case(cell).x, case(cell, seed=9).x
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(layer(forward_ad.make_dual(x, direction))[0]).tangent
    assert_near(tangent, jvp(lambda v: layer(v)[0], (x,), (direction,))[1])


@FORWARD
def test_jacobian_and_hessian_of_torch_func() -> None:
    layer, _ = pair("gru", batch_first=True)
    x = case("gru", batch=1, steps=3).x
    jacobian = torch.func.jacrev(lambda v: layer(v)[0].sum((0, 1)))(x)
    assert_near(torch.func.jacfwd(lambda v: layer(v)[0].sum((0, 1)))(x), jacobian)
    hessian = torch.func.hessian(lambda v: layer(v)[0].sum())(x).reshape(12, 12)
    assert_near(hessian, hessian.T)
    assert error(hessian, torch.zeros(12, 12)) > 1e-3


@pytest.mark.parametrize("cell", ["tanh", "lstm", "gru"])
def test_length_of_time_changes_every_call(cell: str) -> None:
    """T = 50, 49, ... 1; each call equals a fresh layer's."""
    layer, _ = pair(cell, num_layers=2, input_size=5, hidden_size=10)
    for steps in range(50, 0, -7):
        x = torch.randn(steps, 2, 5, dtype=torch.float64)
        fresh = ours(cell, 5, 10, 2, dtype=torch.float64)
        fresh.load_state_dict(layer.state_dict())
        assert_bitwise(layer(x)[0], fresh(x)[0])


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(
    "options", [{}, {"lengths": [5, 3, 0]}, {"lengths": [5, 3, 0], "resets": torch.eye(3, 5).bool()}], ids=str
)
def test_recomputed_training_is_the_same(cell: str, options: dict[str, Any]) -> None:
    """memory="recompute" stores less and gives the same values and gradients."""
    found = []
    for memory in ("store", "recompute"):
        layer = randomise(
            ours(cell, 4, 3, 2, bidirectional=True, batch_first=True, dtype=torch.float64, memory=memory), 1
        )
        this = case(cell)
        this.x.requires_grad_()
        this.h0.requires_grad_()
        out, last = layer(this.x, this.state, **options)
        loss = out.square().sum() + split_state(last)[0].sum()
        found.append([out, split_state(last)[0], *torch.autograd.grad(loss, [this.x, this.h0, *layer.parameters()])])
    for got, want in zip(*found, strict=True):
        assert_near(got, want)


@pytest.mark.parametrize("cell", ["tanh", "lstm", "gru"])
def test_recompute_under_torch_func(cell: str) -> None:
    """Falls back to storing by itself: per-sample gradients, second derivatives."""
    found = []
    for memory in ("store", "recompute"):
        layer = randomise(ours(cell, 4, 3, batch_first=True, dtype=torch.float64, memory=memory), 1)
        values, x = {n: p.detach() for n, p in layer.named_parameters()}, case(cell).x

        def loss(values: dict[str, Tensor], row: Tensor, layer: nn.Module = layer) -> Tensor:
            return functional_call(layer, values, (row[None],))[0].square().sum()

        per_sample = vmap(grad(loss), in_dims=(None, 0))(values, x)
        x.requires_grad_()
        (first,) = torch.autograd.grad(layer(x)[0].square().sum(), x, create_graph=True)
        second = torch.autograd.grad(first.square().sum(), list(layer.parameters()), allow_unused=True)
        found.append([*per_sample.values(), *(s for s in second if s is not None)])
    assert len(found[0]) == len(found[1])
    for got, want in zip(*found, strict=True):
        assert_near(got, want)


def test_inference_mode_leaves_training_alone() -> None:
    layer = unrolled.LSTM(4, 3, 2)
    x = torch.randn(5, 3, 4)
    with torch.inference_mode():
        layer(x, lengths=[5, 1, 0])
    layer(x)[0].sum().backward()
    assert layer.weight_ih_l0.grad.abs().max() > 0


def test_vmap_over_lengths() -> None:
    layer = unrolled.LSTM(4, 3, bidirectional=True)
    x, lengths = torch.randn(3, 5, 2, 4), torch.tensor([[5, 0], [2, 3], [1, 5]])
    got = vmap(lambda x, n: layer(x, lengths=n)[0])(x, lengths)
    assert_near(got, torch.stack([layer(a, lengths=n)[0] for a, n in zip(x, lengths, strict=True)]).double())


@EACH
@pytest.mark.parametrize("create_graph", [False, True])
def test_lengths_and_resets_changed_after_the_call_do_not_change_the_gradient(backend: str, create_graph: bool) -> None:
    layer, x = unrolled.LSTM(4, 3, backend=backend), torch.randn(5, 2, 4, requires_grad=True)
    lengths, resets = torch.tensor([3, 2]), torch.eye(2, 5).bool()
    out, _ = layer(x, lengths=lengths, resets=resets)
    (want,) = torch.autograd.grad(out.sum(), x, create_graph=create_graph)
    for longer in (1, 5):
        changed, cuts = lengths.clone(), resets.clone()
        out, _ = layer(x, lengths=changed, resets=cuts)
        changed.fill_(longer)
        cuts.fill_(True)
        (got,) = torch.autograd.grad(out.sum(), x, create_graph=create_graph)
        assert_bitwise(got, want)


def test_a_backward_pass_frees_the_activations() -> None:
    """Also where the loss is kept, as in a list of losses."""
    out, _ = unrolled.LSTM(4, 3, backend="torch")(torch.randn(5, 2, 4))
    node = out.grad_fn
    while node is not None and not hasattr(node, "graph"):
        node = node.next_functions[0][0]
    assert node is not None
    out.sum().backward(retain_graph=True)
    assert node.graph is not None
    out.sum().backward()
    assert node.graph is None
