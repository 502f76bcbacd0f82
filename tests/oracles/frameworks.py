"""What the tests of conversion share: modules with awkward sizes, random weights and biases, and comparisons."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

import unrolled

INPUTS, HIDDEN, ROWS, STEPS = 5, 3, 4, 6

# name → what makes it; every bias is random and none is zero
LAYERS: dict[str, Any] = {
    "rnn": lambda **o: nn.RNN(INPUTS, HIDDEN, **o),
    "relu": lambda **o: nn.RNN(INPUTS, HIDDEN, nonlinearity="relu", **o),
    "lstm": lambda **o: nn.LSTM(INPUTS, HIDDEN, **o),
    "gru": lambda **o: nn.GRU(INPUTS, HIDDEN, **o),
    "gru before": lambda **o: unrolled.GRU(INPUTS, HIDDEN, reset_after=False, **o),
    "gru single": lambda **o: unrolled.GRU(INPUTS, HIDDEN, single_bias=True, **o),
    "lstm single": lambda **o: unrolled.LSTM(INPUTS, HIDDEN, single_bias=True, **o),
    "lstm projected": lambda **o: nn.LSTM(INPUTS, HIDDEN, proj_size=2, **o),
}
SHAPES = {
    "one": {},
    "two layers": {"num_layers": 2},
    "both ways": {"num_layers": 2, "bidirectional": True},
    "no bias": {"bias": False},
}


def layer_of(name: str, shape: str = "one", seed: int = 5) -> Any:
    """One of `LAYERS` in one of `SHAPES`, batch first."""
    torch.manual_seed(seed)
    layer = LAYERS[name](batch_first=True, **SHAPES[shape])
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.5)
    return layer


def features(rows: int = ROWS, steps: int = STEPS, width: int = INPUTS) -> np.ndarray:
    return np.random.default_rng(3).normal(size=(rows, steps, width)).astype(np.float32)


def states(layer: Any, rows: int = ROWS) -> Any:
    """A random initial state in the layer's own form."""
    rng = np.random.default_rng(4)
    count = layer.num_layers * (2 if layer.bidirectional else 1)
    sizes = (getattr(layer, "proj_size", 0) or layer.hidden_size, layer.hidden_size)
    made = [torch.from_numpy(rng.normal(size=(count, rows, size)).astype(np.float32)) for size in sizes]
    return tuple(made) if isinstance(layer, nn.LSTM | unrolled.LSTM) else made[0]


def assert_same(got: Any, want: Any, tolerance: float = 2e-6) -> None:
    """Outputs and states, flattened, are equal but for the rounding of float32."""
    got, want = list(_flat(got)), list(_flat(want))
    assert len(got) == len(want)
    for one, other in zip(got, want, strict=True):
        assert one.shape == other.shape
        scale = max(1.0, float(np.abs(other).max(initial=0.0)))
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * scale)


def assert_bits(got: Any, want: Any) -> None:
    """The same tensors under the same names, to the last bit."""
    assert sorted(got) == sorted(want)
    for name in want:
        np.testing.assert_array_equal(np.asarray(got[name]), np.asarray(want[name]), err_msg=name)


def _flat(value: Any) -> Any:
    if isinstance(value, tuple | list):
        for one in value:
            yield from _flat(one)
    else:
        yield value.detach().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)


def weights(module: Any) -> dict[str, np.ndarray]:
    return {name: value.detach().numpy() for name, value in module.state_dict().items()}
