"""The engines under autocast: they err by its roundings and no more, and the native one not at all."""

from __future__ import annotations

import pytest
import torch

import unrolled
from unrolled.kernels import choose

BF16 = torch.finfo(torch.bfloat16).eps  # 2^-7: what the significand's last place is worth
HALF = BF16 / 2  # the most by which one rounding errs

# In units of HALF, and of the largest number of each tensor, or 1: two layers, two directions, five steps.
BUDGET = {"output": 8, "gradient": 24}
CELLS = {"rnn": ("RNN", {}), "lstm": ("LSTM", {}), "gru": ("GRU", {}), "gru_before": ("GRU", {"reset_after": False})}
PAIRS = [
    (cell, engine) for cell in CELLS for engine in ("torch", "reference") if (cell, engine) != ("gru_before", "torch")
]


def layer_of(cell, backend):
    name, options = CELLS[cell]
    torch.manual_seed(7)
    layer = getattr(unrolled, name)(4, 3, 2, bidirectional=True, backend=backend, **options)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(0, 0.5)
    return layer


def given(layer):
    """Unequal rows, one of them empty, resets at a beginning and inside."""
    torch.manual_seed(3)
    state = torch.randn(4, 3, 3)
    resets = torch.zeros(3, 5, dtype=torch.bool)
    resets[0, 0] = resets[1, 2] = True
    hx = (state, torch.randn(4, 3, 3)) if isinstance(layer, unrolled.LSTM) else state
    return {"x": torch.randn(5, 3, 4), "hx": hx, "lengths": torch.tensor([3, 5, 0]), "resets": resets}


def ran(layer, call, dtype=None):
    """Outputs and states; gradients of the input and of every weight."""
    wide = layer.weight_ih_l0.dtype
    x = call["x"].to(wide).requires_grad_()
    hx = tuple(part.to(wide) for part in call["hx"]) if isinstance(call["hx"], tuple) else call["hx"].to(wide)
    with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
        out, state = layer(x, hx, lengths=call["lengths"], resets=call["resets"])
    results = [out, *(state if isinstance(state, tuple) else (state,))]
    torch.manual_seed(5)
    sum((part * torch.randn(part.shape).to(wide)).sum() for part in results).backward()
    parameters = list(layer.parameters())
    return {"output": [part.detach() for part in results], "gradient": [x.grad, *(p.grad for p in parameters)]}


def errors(found, truth):
    """The largest error of each kind, in units of HALF."""
    scaled = {}
    for kind in truth:
        pairs = zip(found[kind], truth[kind], strict=True)
        scaled[kind] = max(
            float((a.double() - b).abs().max() / max(1.0, float(b.abs().max()))) / HALF for a, b in pairs
        )
    return scaled


def truth_of(cell):
    layer = layer_of(cell, "reference").double()
    return ran(layer, given(layer))


@pytest.mark.parametrize(("cell", "backend"), PAIRS)
def test_an_engine_in_bfloat16_errs_by_its_roundings(cell, backend):
    layer = layer_of(cell, backend)
    found = errors(ran(layer, given(layer), torch.bfloat16), truth_of(cell))
    assert all(found[kind] <= BUDGET[kind] for kind in BUDGET), found
    assert found["output"] > 0.01  # it was rounded at all: float32 errs by 0.0001


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("cell", CELLS)
def test_the_native_engine_computes_float32_also_there(cell, dtype):
    layer = layer_of(cell, "native")
    found, plain = ran(layer, given(layer), dtype), ran(layer_of(cell, "native"), given(layer))
    for kind in found:
        for one, other in zip(found[kind], plain[kind], strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=0)
    assert max(errors(found, truth_of(cell)).values()) < 0.001


def _swap(first, second):
    def mutate(layer, _):
        for parameter in layer.parameters():
            gates = parameter.unflatten(0, (-1, 3))
            gates[[first, second]] = gates[[second, first]].clone()

    return mutate


def _drop(gate):
    """The bias of the hidden side."""

    def mutate(layer, _):
        for name, parameter in layer.named_parameters():
            if name.startswith("bias_hh"):
                parameter.unflatten(0, (-1, 3))[gate] = 0

    return mutate


def _flip(layer, _):
    for parameter in layer.parameters():
        parameter.unflatten(0, (-1, 3))[1].neg_()


def _pad_step(_, call):
    call["lengths"] = torch.tensor([4, 5, 0])


def _late_reset(_, call):
    call["resets"] = call["resets"].roll(1, 1)


MUTANTS = {
    "rnn": [_drop(0), _pad_step, _late_reset],
    "lstm": [_swap(0, 1), _drop(2), _pad_step, _late_reset],
    "gru": [_swap(0, 1), _flip, _drop(2), _pad_step, _late_reset],
    "gru_before": [_swap(0, 1), _flip, _drop(2), _pad_step, _late_reset],
}


@pytest.mark.parametrize(("cell", "number"), [(cell, i) for cell, many in MUTANTS.items() for i in range(len(many))])
def test_the_budget_tells_other_equations_apart(cell, number):
    """Even if they were computed without any rounding."""
    layer = layer_of(cell, "reference").double()
    call = given(layer)
    with torch.no_grad():
        MUTANTS[cell][number](layer, call)
    found = errors(ran(layer, call), truth_of(cell))
    assert all(found[kind] > 1.5 * BUDGET[kind] for kind in BUDGET), found


def test_who_runs_what_and_who_refuses():
    x = torch.zeros(5, 3, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert choose("lstm_scan", x).name == "native"
        assert choose("lstm_scan", x, backend="torch").name == "torch"
    with torch.autocast("cpu", dtype=torch.float16):
        assert choose("gru_scan", x, backend="torch").name == "torch"
        with pytest.raises(
            RuntimeError, match=r"torch's LSTM on this CPU cannot train in torch.float16\. Use backend='auto'"
        ):
            choose("lstm_scan", x, backend="torch")
