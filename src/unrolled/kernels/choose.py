"""Which engine runs a scan, decided in one place, with the reason.

An engine is a module with the three scans and `refusal`, a reason or None. "auto" takes the first engine, in the
order of ENGINES, that does not refuse; a named backend runs or raises, it never falls back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad

from unrolled.kernels import native, reference, torch_kernels
from unrolled.kernels.autograd import under_transform
from unrolled.kernels.layer_calls import LayerCall, by_scan
from unrolled.kernels.recompute import can_recompute, recomputed

Run = Callable[..., tuple[Tensor, ...]]


class Choice(NamedTuple):
    """An engine's scan and why it was taken."""

    run: Run
    name: str
    reason: str
    each: Callable[..., list[tuple[Tensor, ...]]]  # (layer calls, variant): directions side by side, where it can


def _torch_refusal(name: str, x: Tensor, *, reset_after: bool = True) -> str | None:
    if name == "gru_scan" and not reset_after:
        return "torch has no GRU with the reset before the product"
    if not x.is_floating_point():
        return f"torch's kernels take real floating-point numbers, x is {x.dtype}"
    if under_transform():
        return "inside a torch.func transform, for which torch's kernels have no rule"
    if forward_ad._current_level >= 0:
        return "forward-mode differentiation, for which torch's kernels have no rule"
    if torch.compiler.is_compiling():
        return "the graph is being compiled or exported, and torch's kernels break it"
    if name == "lstm_scan" and x.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
        return _onednn_refusal(torch.get_autocast_dtype("cpu"))
    return None


def _onednn_refusal(dtype: torch.dtype) -> str | None:
    """oneDNN computes torch's LSTM in the type of autocast; it trains in no float16, and bfloat16 needs AVX-512."""
    if not torch.backends.mkldnn.is_available():
        return None
    if dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return None
    return f"torch's LSTM on this CPU cannot train in {dtype}"


def _reference_refusal(_name: str, x: Tensor, **_options: object) -> str | None:
    if not (x.is_floating_point() or x.is_complex()):
        return f"the equations take floating-point numbers, x is {x.dtype}"
    return None


class Engine(NamedTuple):
    module: ModuleType
    refusal: Callable[..., str | None]
    merit: str


ENGINES = {
    "native": Engine(native, native.refusal, "fused over the whole sequence"),
    "torch": Engine(torch_kernels, _torch_refusal, "torch's own kernel computes this cell"),
    "reference": Engine(reference, _reference_refusal, "the equation, once a step"),
}


def choose(name: str, x: Tensor, *, reset_after: bool = True, backend: str = "auto", memory: str = "store") -> Choice:
    """The engine for the scan `name` ("rnn_scan", "lstm_scan", "gru_scan") on an input x (T, B, I), and why.

    memory="recompute" gives a scan that keeps less for backward and computes the rest again.

    >>> import torch
    >>> choose("gru_scan", torch.zeros(5, 3, 4), reset_after=False, backend="reference").name
    'reference'

    Raises:
        ValueError: the backend has no such name.
        RuntimeError: a named backend cannot run this; the message says why.
    """
    options = {"reset_after": reset_after}
    if backend != "auto":
        if backend not in ENGINES:
            raise ValueError(f"backend: expected one of 'auto', {', '.join(map(repr, ENGINES))}, found {backend!r}.")
        refusal = ENGINES[backend].refusal(name, x, **options)
        if refusal is not None:
            raise RuntimeError(
                f"backend={backend!r} for {name}: {refusal}. Use backend='auto' to take what can run it."
            )
        return _choice(name, backend, f"backend={backend!r} was asked for", memory)

    refusals: list[str] = []
    for engine, (_, refuses, merit) in ENGINES.items():
        refusal = refuses(name, x, **options)
        if refusal is None:
            return _choice(name, engine, "; ".join([merit, *refusals]), memory)
        refusals.append(f"not {engine}: {refusal}")
    raise RuntimeError(f"no engine can run {name}: {'; '.join(refusals)}.")


def _choice(name: str, engine: str, reason: str, memory: str) -> Choice:
    again = memory == "recompute" and can_recompute()
    if engine == "native":
        scan = partial(native.recomputing, name) if again else getattr(native, name)
        return Choice(scan, engine, reason, partial(native.run_layers, name, recompute=again))
    run: Run = getattr(ENGINES[engine].module, name)
    run = recomputed(run, 2 if name == "lstm_scan" else 1) if again else run
    return Choice(run, engine, reason, partial(_one_by_one, run, name))


def _one_by_one(run: Run, name: str, calls: Sequence[LayerCall], variant: dict) -> list[tuple[Tensor, ...]]:
    return [by_scan(run, name, call, variant) for call in calls]


def engine_status() -> dict[str, str]:
    """What each engine would answer for an ordinary float32 GRU on the CPU: for `unrolled doctor`."""
    x = torch.zeros(2, 2, 2)
    return {name: engine.refusal("gru_scan", x) or f"ready: {engine.merit}" for name, engine in ENGINES.items()}
