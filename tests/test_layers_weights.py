"""Weights are read at every call: changed, replaced, tied, frozen, pruned, parametrised ones are seen at once."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.utils import parametrize

import unrolled
from oracles.cases import CELLS, case, ours, pair, randomise, split_state
from oracles.compare import assert_bitwise, assert_near, error

BACKENDS = ("native", "reference", "torch")


EACH = pytest.mark.parametrize("backend", BACKENDS)


@EACH
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("kept", ["weight_hh_l0", "bias_ih_l1_reverse", "input", "state"])
def test_any_subset_of_frozen_weights(cell: str, kept: str, backend: str) -> None:
    """Only one tensor is differentiated, and its gradient is what it is when all are."""
    found = []
    for freeze in (True, False):
        for dtype in (torch.float32,):
            layer = randomise(ours(cell, 4, 3, 2, bidirectional=True, dtype=dtype, backend=backend), 1)
            this = case(cell, dtype=dtype)
            x, h0 = this.x.transpose(0, 1), this.h0
            x.requires_grad_(kept == "input" or not freeze)
            h0.requires_grad_(kept == "state" or not freeze)
            for name, parameter in layer.named_parameters():
                parameter.requires_grad_(not freeze or name == kept)
            target = {"input": x, "state": h0}.get(kept)
            target = dict(layer.named_parameters())[kept] if target is None else target
            out, last = layer(x, h0 if this.c0 is None else (h0, this.c0))
            found.append(torch.autograd.grad(out.square().sum() + split_state(last)[0].sum(), target)[0])
    assert_near(found[0], found[1])


CHANGES: dict[str, Callable[[nn.Module], Any]] = {}


def change(function: Callable[[nn.Module], Any]) -> Callable[[nn.Module], Any]:
    CHANGES[function.__name__] = function
    return function


@change
def optimizer_step(layer: nn.Module) -> None:
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.5)
    layer(torch.ones(2, 1, 4, dtype=torch.float64))[0].sum().backward()
    optimizer.step()


@change
def data_in_place(layer: nn.Module) -> None:
    layer.weight_hh_l0.data.mul_(2)


@change
def data_assigned(layer: nn.Module) -> None:
    layer.weight_hh_l0.data = layer.weight_hh_l0.data * 2


@change
def in_place_without_grad(layer: nn.Module) -> None:
    with torch.no_grad():
        layer.weight_ih_l0.mul_(0.5)


@change
def load_state_dict(layer: nn.Module) -> None:
    layer.load_state_dict({k: v * 0.5 for k, v in layer.state_dict().items()})


@change
def load_state_dict_assigned(layer: nn.Module) -> None:
    layer.load_state_dict({k: v * 0.5 for k, v in layer.state_dict().items()}, assign=True)


@change
def parameter_replaced(layer: nn.Module) -> None:
    layer.bias_hh_l0 = nn.Parameter(layer.bias_hh_l0.detach() + 0.3)


@change
def precision_there_and_back(layer: nn.Module) -> None:
    layer.to(torch.float32).to(torch.float64)


@change
def parametrised(layer: nn.Module) -> None:
    class Double(nn.Module):
        def forward(self, value: Tensor) -> Tensor:
            return 2 * value

    parametrize.register_parametrization(layer, "weight_hh_l0", Double())


@pytest.mark.parametrize("how", CHANGES)
@pytest.mark.parametrize("cell", ["tanh", "lstm", "gru"])
def test_new_weights_are_seen_at_once(cell: str, how: str) -> None:
    """Y2 uses the weights of now, equal to a layer built afresh from them."""
    layer, _ = pair(cell, num_layers=2, bidirectional=True)
    x = case(cell).x.transpose(0, 1)
    with torch.no_grad():
        before = layer(x)[0]
    CHANGES[how](layer)
    fresh = ours(cell, 4, 3, 2, bidirectional=True, dtype=torch.float64)
    fresh.load_state_dict({name: getattr(layer, name).detach() for name in fresh.state_dict()})
    with torch.no_grad():
        after = layer(x)[0]
        assert_bitwise(after, fresh(x)[0])
    assert error(after, before) > (1e-9 if how == "precision_there_and_back" else 1e-4)


@EACH
@pytest.mark.parametrize("cell", ["tanh", "lstm", "gru"])
def test_functional_call_uses_and_differentiates_what_it_is_given(cell: str, backend: str) -> None:
    layer, _ = pair(cell, num_layers=2, bidirectional=True, extras={"backend": backend})
    doubled = copy.deepcopy(layer)
    with torch.no_grad():
        for parameter in doubled.parameters():
            parameter.mul_(2)
    x = case(cell).x.transpose(0, 1)
    values = {n: (2 * p).detach().requires_grad_() for n, p in layer.named_parameters()}
    got = functional_call(layer, values, (x,))[0]
    want = doubled(x)[0]
    assert_bitwise(got, want)
    found = torch.autograd.grad(got.square().sum(), list(values.values()))
    for a, b in zip(found, torch.autograd.grad(want.square().sum(), list(doubled.parameters())), strict=True):
        assert_near(a, b)
    assert all(p.grad is None for p in layer.parameters())


@pytest.mark.parametrize("cell", ["tanh", "lstm", "gru"])
def test_a_parametrised_weight_trains(cell: str) -> None:
    """The original behind it gets a gradient; one step changes the output."""
    layer, _ = pair(cell, num_layers=1)
    nn.utils.parametrizations.orthogonal(layer, "weight_hh_l0") if cell == "tanh" else (
        nn.utils.parametrizations.weight_norm(layer, "weight_hh_l0")
    )
    x = case(cell).x.transpose(0, 1)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    out = layer(x)[0]
    out.square().sum().backward()
    originals = [p for n, p in layer.named_parameters() if "parametrizations" in n]
    assert originals
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in originals)
    for name, parameter in layer.named_parameters():
        parameter.requires_grad_("parametrizations" in name)
        if "parametrizations" not in name:
            parameter.grad = None
    optimizer.step()
    assert error(layer(x)[0], out) > 1e-6


@pytest.mark.parametrize("cell", ["tanh", "lstm", "gru"])
def test_tied_weights_sum_their_gradients(cell: str) -> None:
    layer, _ = pair(cell, bidirectional=True)
    x = case(cell).x.transpose(0, 1)
    layer.weight_hh_l0_reverse = layer.weight_hh_l0
    untied = copy.deepcopy(layer)
    untied.weight_hh_l0_reverse = nn.Parameter(layer.weight_hh_l0.detach().clone())
    layer(x)[0].square().sum().backward()
    untied(x)[0].square().sum().backward()
    assert_near(layer.weight_hh_l0.grad, untied.weight_hh_l0.grad + untied.weight_hh_l0_reverse.grad)


@EACH
def test_changing_a_saved_tensor_in_place_is_an_error(backend: str) -> None:
    """Never a wrong number: a weight changed between forward and backward is refused by autograd."""
    for dtype in (torch.float32, torch.float64):
        layer = randomise(unrolled.LSTM(4, 3, dtype=dtype, backend=backend), 1)
        out = layer(case("lstm", dtype=dtype).x.transpose(0, 1))[0]
        with torch.no_grad():
            layer.weight_hh_l0.mul_(2)
        with pytest.raises(RuntimeError, match=r"modified (by an )?inplace"):
            out.sum().backward()


@pytest.mark.parametrize("cell", ["tanh", "lstm", "gru"])
def test_pruning(cell: str) -> None:
    """A mask behind the name of a weight is used, and the original trains."""
    from torch.nn.utils import prune

    layer, _ = pair(cell)
    x = case(cell).x.transpose(0, 1)
    before = layer(x)[0].detach()
    prune.l1_unstructured(layer, "weight_hh_l0", amount=0.5)
    out = layer(x)[0]
    assert error(out, before) > 1e-4
    out.sum().backward()
    gradient, mask = layer.weight_hh_l0_orig.grad, layer.weight_hh_l0_mask
    assert_bitwise(gradient[mask == 0], torch.zeros_like(gradient[mask == 0]))
    assert gradient.abs().max() > 0
