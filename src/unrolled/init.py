"""Initial weights beyond torch's own, each named after where it was published.

An initialiser is a callable that takes a recurrent layer, whose weights torch's rule has already filled, and fills
them in place. `layer.all_gates()` gives it the weights by gate: W (gates, I, H), U (gates, H, H), b, b_h (gates, H).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

__all__ = ["chrono", "irnn", "keras"]


def keras(layer: Any) -> None:
    """Glorot uniform W, orthogonal U for each gate, zero biases, forget bias 1: the defaults of Keras.

    Source   Glorot & Bengio (2010); Saxe et al. (2014), arXiv:1312.6120; Jozefowicz et al. (2015) for the forget bias.
    """
    for weights in layer.all_gates():
        gates, inputs, hidden = weights.W.shape
        bound = math.sqrt(6 / (inputs + gates * hidden))  # Keras counts the gates side by side, as one wide matrix
        nn.init.uniform_(weights.W, -bound, bound)
        for block in weights.U:
            nn.init.orthogonal_(block)
        _zero_biases(weights)
        if "f" in layer.GATES and weights.b is not None:
            weights.b[layer.GATES.index("f")].fill_(1.0)


def irnn(layer: Any) -> None:
    """Identity U, W from a normal of deviation 0.001, zero biases; meant for relu units.

    Source   Le, Jaitly & Hinton (2015), arXiv:1504.00941, section 3.
    """
    for weights in layer.all_gates():
        nn.init.normal_(weights.W, std=0.001)
        for block in weights.U:
            nn.init.eye_(block)
        _zero_biases(weights)


def chrono(max_lag: int) -> Callable[[Any], None]:
    """Gate biases that spread the memory's time constants over lags from 1 to max_lag steps.

    LSTM: b_f ~ log U(1, max_lag - 1) and b_i = -b_f. GRU: b_z ~ log U(1, max_lag - 1): here z = 1 keeps the state.

    Source   Tallec & Ollivier (2018), arXiv:1804.11188, eq. (16).

    Raises:
        ValueError: max_lag below 3, or a cell without gates.
    """
    if max_lag < 3:
        raise ValueError(f"max_lag: expected at least 3 steps, found {max_lag}.")

    def fill(layer: Any) -> None:
        if not layer.GATES or not layer.bias:
            raise ValueError(f"init=chrono sets gate biases, and this {type(layer).__name__} has none.")
        for weights in layer.all_gates():
            lag_bias = torch.empty_like(weights.b[0]).uniform_(1, max_lag - 1).log_()
            keep = layer.GATES.index("f" if "f" in layer.GATES else "z")
            _set_bias(weights, keep, lag_bias)
            if "i" in layer.GATES:
                _set_bias(weights, layer.GATES.index("i"), -lag_bias)

    return fill


NAMED: dict[str, Callable[[Any], None] | None] = {"torch": None, "keras": keras, "irnn": irnn}


def set_forget_bias(layer: Any, forget_bias: float | None) -> None:
    """Make the effective forget bias exactly this number: where there are two biases, each gets half."""
    if forget_bias is None:
        return
    forget = layer.GATES.index("f")
    for weights in layer.all_gates():
        biases = [bias for bias in (weights.b, weights.b_h) if bias is not None]
        for bias in biases:
            bias[forget].fill_(forget_bias / len(biases))


def _zero_biases(weights: Any) -> None:
    for bias in (weights.b, weights.b_h):
        if bias is not None:
            bias.zero_()


def _set_bias(weights: Any, gate: int, value: torch.Tensor) -> None:
    weights.b[gate] = value
    if weights.b_h is not None:
        weights.b_h[gate].zero_()
