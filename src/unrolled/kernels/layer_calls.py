"""One layer and direction as a layer holds it: torch's flat parameters, which every engine can be given.

Axes     x (T, B, I); states (B, P) and (B, H); weight_ih (G·H, I), weight_hh (G·H, P), biases (G·H), weight_hr (P, H).
Variant  a state of None means zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor


class Gates(NamedTuple):
    """The weights of one layer and direction with the gates as an axis: views, no copies."""

    W: Tensor  # (gates, I, H)
    U: Tensor  # (gates, P, H)
    b: Tensor | None  # (gates, H)
    b_h: Tensor | None  # (gates, H)
    V: Tensor | None  # (H, P)

    @classmethod
    def of(cls, weights: tuple[Tensor | None, ...], gates: int) -> Gates:
        """From weight_ih, weight_hh, bias_ih, bias_hh, weight_hr as torch lays them out."""
        W, U, b, b_h, V = weights

        def blocks(flat: Any) -> Any:
            return None if flat is None else flat.unflatten(0, (gates, flat.shape[0] // gates))

        return cls(blocks(W).mT, blocks(U).mT, blocks(b), blocks(b_h), None if V is None else V.mT)


class LayerCall(NamedTuple):
    """The arguments of one layer and direction."""

    x: Tensor
    state: tuple[Tensor | None, ...]
    weights: tuple[Tensor | None, ...]  # weight_ih, weight_hh, bias_ih, bias_hh, weight_hr
    restart: tuple[Tensor, ...] | None  # what a reset starts from, (P,) and (H,); None: zeros
    lengths: Tensor | None
    resets: Tensor | None
    reverse: bool


GATES = {"rnn_scan": 1, "lstm_scan": 4, "gru_scan": 3}


def by_scan(run: Callable[..., tuple[Tensor, ...]], name: str, call: LayerCall, variant: dict) -> tuple[Tensor, ...]:
    """The call through a scan, which takes the gates as an axis and wants every state."""
    W, U, b, b_h, V = Gates.of(call.weights, GATES[name])
    sizes = (U.shape[1], U.shape[2])
    zeros = (call.x.new_zeros(call.x.shape[1], size) for size in sizes)
    state = [given if given is not None else zero for given, zero in zip(call.state, zeros, strict=False)]
    arguments: tuple[Any, ...] = (W, U, b, b_h)
    if name == "lstm_scan":
        arguments = (W, U, b, b_h, V)
    elif name == "rnn_scan":  # no gate, so no gate axis
        arguments = (W[0], U[0], None if b is None else b[0], None if b_h is None else b_h[0])
    restart = dict(zip(("restart_h", "restart_c"), call.restart or (), strict=False))
    options = {"lengths": call.lengths, "resets": call.resets, "reverse": call.reverse, **restart, **variant}
    return run(call.x, *state, *arguments, **options)
