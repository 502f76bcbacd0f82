"""The native engine inside autograd: recomputation, hooks, modes, batched gradients, and gradients of any form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import unrolled
from oracles.cases import CELLS, case, ours, randomise, split_state
from oracles.compare import assert_bitwise, assert_near
from oracles.native import GATES, Problem, arguments, by_native, run
from unrolled.kernels import native, reference
from unrolled.kernels.layer_calls import LayerCall

EACH = pytest.mark.parametrize("cell", GATES)


def problem(cell: str, dtype: torch.dtype = torch.float64, **options: Any) -> Problem:
    wanted = {"is_ragged": True, "has_resets": True, "has_restart": True} | options
    return Problem(cell, 6, 5, 7, 9, 5 if cell == "lstm_projected" else 9, dtype, seed=950, **wanted)


def leaves(this: Problem) -> list[Tensor | None]:
    return [None if t is None else t.requires_grad_() for t in this.tensors()]


def results(this: Problem, tensors: Sequence[Tensor | None]) -> tuple[Tensor, ...]:
    positional, options = arguments(this, tensors)
    return by_native(this)(*positional, **options)


# Recomputation


def saved_bytes(layer: nn.Module, x: Tensor) -> int:
    """What autograd saves of one call; a storage that is saved twice counts once."""
    storages: dict[int, int] = {}

    def count(value: Tensor) -> Tensor:
        storages[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes()
        return value

    with torch.autograd.graph.saved_tensors_hooks(count, lambda value: value):
        layer(x)
    return sum(storages.values())


@pytest.mark.parametrize(("cell", "extra"), [("tanh", 0), ("gru", 0), ("lstm", 1)])
def test_recomputation_keeps_states_only(cell: str, extra: int) -> None:
    """Beside the input and the output: nothing, and an LSTM's memory, padded to whole vectors."""
    steps, width, hidden = 3000, 8, 64
    layer, x = ours(cell, width, hidden, memory="recompute"), torch.randn(steps, 2, width)
    weights = sum(p.numel() for p in layer.parameters())
    needed = 4 * (x.numel() + steps * 2 * hidden * (1 + extra) + weights)
    assert saved_bytes(layer, x) < 1.35 * needed
    assert saved_bytes(ours(cell, width, hidden), x) > saved_bytes(layer, x)


@pytest.mark.parametrize("cell", CELLS)
def test_a_hundred_thousand_steps_train(cell: str) -> None:
    """The same gradients as with everything kept, from a few numbers a step."""
    found = []
    for memory in ("recompute", "store"):
        layer = randomise(ours(cell, 2, 3, dtype=torch.float64, memory=memory), 1, scale=0.3)
        x = torch.randn(100_000, 1, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        if memory == "recompute":
            assert saved_bytes(layer, x) < 100_000 * 8 * 32
        out = layer(x)[0]
        found.append([out, *torch.autograd.grad(out.square().sum(), list(layer.parameters()))])
        assert found[0][1].abs().max() > 1
    for got, want in zip(*found, strict=True):
        assert_near(got, want, ulps=256)


# The gradients that come in


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@EACH
def test_gradients_that_come_in_any_form(cell: str, dtype: torch.dtype) -> None:
    """Expanded, transposed, spread; and none at all for some of the results."""
    this = problem(cell, dtype)
    tensors = leaves(this)
    outs = results(this, tensors)
    wanted = [t for t in tensors if t is not None]

    def gradients(given: Sequence[Tensor | None]) -> tuple[Tensor, ...]:
        pairs = [(out, g) for out, g in zip(outs, given, strict=True) if g is not None]
        return torch.autograd.grad(
            [out for out, _ in pairs], wanted, [g for _, g in pairs], retain_graph=True, materialize_grads=True
        )

    seeds = this.seeds(outs)
    for form in (
        lambda g: g.flatten()[0].expand_as(g), lambda g: g[..., :1].expand_as(g), lambda g: g[:1].expand_as(g),
        lambda g: g.mT.contiguous().mT, lambda g: torch.stack([g, g], -1)[..., 0],
    ):  # fmt: skip
        views = [form(g) for g in seeds]
        for got, want in zip(gradients(views), gradients([v.contiguous() for v in views]), strict=True):
            assert_bitwise(got, want)
    for number in range(len(outs)):
        alone = [g if k == number else None for k, g in enumerate(seeds)]
        zeros = [g if k == number else torch.zeros_like(g) for k, g in enumerate(seeds)]
        for got, want in zip(gradients(alone), gradients(zeros), strict=True):
            assert_bitwise(got, want)


@EACH
def test_any_subset_of_the_ten_tensors(cell: str) -> None:
    """Each alone, and all but each: the gradient is the one that it has when all are wanted."""
    for recompute in (False, True):
        this = problem(cell, recompute=recompute)
        whole = leaves(this)
        seeds = this.seeds(results(this, whole))
        want = torch.autograd.grad(results(this, whole), [t for t in whole if t is not None], seeds)
        places = [k for k, t in enumerate(whole) if t is not None]
        for chosen in [{k} for k in places] + [set(places) - {k} for k in places]:
            tensors = this.tensors()
            for k in chosen:
                tensors[k] = tensors[k].requires_grad_()  # type: ignore[union-attr]
            got = torch.autograd.grad(
                [r for r in results(this, tensors) if r.requires_grad], [tensors[k] for k in sorted(chosen)], seeds
            )
            for k, gradient in zip(sorted(chosen), got, strict=True):
                assert_near(gradient, want[places.index(k)], ulps=8)


# Around the call


def test_the_output_changed_in_place_is_an_error() -> None:
    layer, x = unrolled.GRU(4, 3, backend="native"), torch.randn(5, 2, 4)
    out, _ = layer(x)
    with torch.no_grad():
        out.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


@pytest.mark.parametrize("cell", CELLS)
def test_checkpoints_and_hooks_of_the_user(cell: str) -> None:
    """torch's own checkpoint, and hooks that keep copies somewhere else."""
    layer = randomise(ours(cell, 4, 3, 2, bidirectional=True, dtype=torch.float64, backend="native"), 1)
    x = case(cell).x.transpose(0, 1)

    def gradients(out: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(out.square().sum(), list(layer.parameters()))

    want = gradients(layer(x)[0])
    again = gradients(torch.utils.checkpoint.checkpoint(lambda v: layer(v)[0], x, use_reentrant=False))
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.numpy().copy(), torch.from_numpy):
        copied = gradients(layer(x)[0])
    for got in (again, copied):
        for a, b in zip(got, want, strict=True):
            assert_bitwise(a, b)


@pytest.mark.parametrize("memory", ["store", "recompute"])
@pytest.mark.parametrize("cell", CELLS)
def test_many_gradients_at_once(cell: str, memory: str) -> None:
    """`is_grads_batched`, as the vectorised Jacobian of torch.autograd uses it."""
    layer = randomise(ours(cell, 2, 3, batch_first=True, dtype=torch.float64, backend="native", memory=memory), 1)
    x = case(cell, batch=2, steps=3, width=2).x.requires_grad_()
    out = layer(x, lengths=[3, 2])[0]
    seeds = torch.randn(4, *out.shape, dtype=torch.float64)
    batched = torch.autograd.grad(out, [x, *layer.parameters()], seeds, is_grads_batched=True, retain_graph=True)
    for number, seed in enumerate(seeds):
        one = torch.autograd.grad(out, [x, *layer.parameters()], seed, retain_graph=True)
        for got, want in zip(batched, one, strict=True):
            assert_near(got[number], want)
    fast, slow = (
        torch.autograd.functional.jacobian(lambda v: layer(v)[0], x.detach(), vectorize=vectorize)
        for vectorize in (True, False)
    )
    assert_near(fast, slow)


# Modes: what watches torch's operators sees one of ours


class Seen(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


@EACH
def test_a_dispatch_mode_sees_the_operator(cell: str) -> None:
    """And the numbers are those of the direct call, double backward included."""
    for recompute in (False, True):
        this = problem(cell, recompute=recompute)
        want = run(this, native)
        with Seen() as mode:
            got = run(this, native)
        assert mode.names.count("unrolled.scan.default") == 1
        assert mode.names.count("unrolled.scan_backward.default") == 1
        for a, b in zip(got, want, strict=True):
            assert_near(a, b, ulps=8)


@EACH
def test_fake_tensors_have_the_shapes(cell: str) -> None:
    from torch._subclasses import FakeTensorMode

    this = problem(cell)
    with FakeTensorMode() as mode:
        tensors = [None if t is None else mode.from_tensor(t).requires_grad_() for t in this.tensors()]
        positional, options = arguments(this, tensors)
        for name in ("lengths", "resets"):
            options[name] = mode.from_tensor(options[name])
        outs = getattr(native, this.name)(*positional, **options)
        wanted = [t for t in tensors if t is not None]
        gradients = torch.autograd.grad([out.sum() for out in outs], wanted)
    real = run(this, native)
    assert [tuple(t.shape) for t in (*outs, *gradients)] == [tuple(t.shape) for t in real]
    assert {t.dtype for t in (*outs, *gradients)} == {this.dtype}


def test_a_flop_counter_runs_over_a_layer() -> None:
    from torch.utils.flop_counter import FlopCounterMode

    layer, x = unrolled.LSTM(4, 3, bidirectional=True), torch.randn(5, 2, 4)
    want = layer(x)[0]
    with FlopCounterMode(display=False):
        got = layer(x)[0]
        got.sum().backward()
    assert_bitwise(got, want)
    assert layer.weight_hh_l0_reverse.grad is not None


def test_a_tensor_of_another_type_is_named() -> None:
    this = problem("gru_after")
    for place in (1, 3, 5, 8):
        tensors = this.tensors()
        tensors[place] = tensors[place].float()  # type: ignore[union-attr]
        positional, options = arguments(this, tensors)
        with pytest.raises(TypeError, match=r"expected torch.float64 on the CPU as x, found torch.float32"):
            native.gru_scan(*positional, **options)


# Half precision is computed in float32, and rounded once


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("cell", CELLS)
def test_half_precision_by_conversion(cell: str, dtype: torch.dtype) -> None:
    half = randomise(ours(cell, 4, 9, 2, bidirectional=True, dtype=dtype, backend="native"), 1)
    single = ours(cell, 4, 9, 2, bidirectional=True, backend="reference")
    single.load_state_dict(half.state_dict())
    x = torch.randn(5, 3, 4).to(dtype)
    got, want = half(x, lengths=[5, 0, 3]), single(x.float(), lengths=[5, 0, 3])
    assert got[0].dtype == dtype
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(got[0].float(), want[0], rtol=eps, atol=1e-6)
    torch.testing.assert_close(split_state(got[1])[0].float(), split_state(want[1])[0], rtol=eps, atol=1e-6)
    got[0].float().square().sum().backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in half.parameters())


def layer_call(this: Problem, tensors: Sequence[Any]) -> LayerCall:
    """The same scan as a layer hands it over: weights as torch lays them out."""
    x, h, c, W, U, b, b_h, V, *restart = tensors
    weights = (W.mT.flatten(0, 1), U.mT.flatten(0, 1), b.flatten(), b_h.flatten(), None if V is None else V.mT)
    options = this.options()
    state = (h, c) if this.name == "lstm_scan" else (h,)
    fresh = tuple(t for t in restart if t is not None)
    return LayerCall(x, state, weights, fresh, options["lengths"], options["resets"], this.reverse)


VARIANTS: dict[str, dict[str, Any]] = {
    "rnn_tanh": {"nonlinearity": "tanh"}, "rnn_relu": {"nonlinearity": "relu"}, "lstm": {}, "lstm_projected": {},
    "gru_after": {"reset_after": True}, "gru_before": {"reset_after": False},
}  # fmt: skip


@pytest.mark.parametrize("recompute", [False, True])
@EACH
def test_both_directions_side_by_side_are_each_alone(cell: str, recompute: bool) -> None:
    """Two layers in one call, by torch's own layout: as two scans one after the other, on any number of threads."""
    scans = [problem(cell, recompute=recompute), problem(cell, recompute=recompute, reverse=True)]
    want = [run(this, native) for this in scans]
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        try:
            tensors = [leaves(this) for this in scans]
            calls = [layer_call(this, own) for this, own in zip(scans, tensors, strict=True)]
            outs = native.run_layers(scans[0].name, calls, VARIANTS[cell], recompute=recompute)
            flat = [out for own in outs for out in own]
            seeds = [g for this, own in zip(scans, outs, strict=True) for g in this.seeds(own)]
            gradients = iter(torch.autograd.grad(flat, [t for own in tensors for t in own if t is not None], seeds))
        finally:
            torch.set_num_threads(1)
        for own, out, exact in zip(tensors, outs, want, strict=True):
            found = [*out, *(next(gradients) for t in own if t is not None)]
            for a, b in zip(found, exact, strict=True):
                assert_near(a, b, ulps=8)


@EACH
def test_no_state_is_a_state_of_zeros(cell: str) -> None:
    this = problem(cell, has_restart=False)
    found = []
    for zeros in (False, True):
        tensors = leaves(this)
        for k in (1, 2):
            if tensors[k] is not None:
                tensors[k] = torch.zeros_like(tensors[k]) if zeros else None  # type: ignore[arg-type]
        call = layer_call(this, tensors)
        if not zeros:
            call = call._replace(state=(None, None) if this.name == "lstm_scan" else (None,))
        outs = native.run_layers(this.name, [call], VARIANTS[cell], recompute=False)[0]
        wanted = [t for t in tensors if t is not None and t.requires_grad]
        found.append([*outs, *torch.autograd.grad(outs, wanted, this.seeds(outs), retain_graph=True)])
        first = torch.autograd.grad(outs, wanted, this.seeds(outs), create_graph=True)
        found[-1] += torch.autograd.grad(sum(g.square().sum() for g in first), wanted)
    for got, exact in zip(*found, strict=True):
        assert_bitwise(got, exact)


def test_the_second_derivative_is_that_of_the_equations() -> None:
    for cell in GATES:
        this = problem(cell)
        found = []
        for engine in (native, reference):
            tensors = leaves(this)
            positional, options = arguments(this, tensors)
            outs = getattr(engine, this.name)(*positional, **options)
            wanted = [t for t in tensors if t is not None]
            first = torch.autograd.grad(outs, wanted, this.seeds(outs), create_graph=True)
            second = torch.autograd.grad(
                sum(g.square().sum() for g in first), wanted, materialize_grads=True, allow_unused=True
            )
            found.append([*first, *second])
        for got, want in zip(*found, strict=True):
            assert_near(got, want, ulps=512)
