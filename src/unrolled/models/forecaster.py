"""Forecaster: a recurrent network over a series, and the numbers that say what its next values may be.

Axes     B batch, T time, F numbers of a step, N forks, h steps of the horizon, A numbers of a step ahead, R raw numbers
         of one output (see `decoding.distributions`). Batch first.
Source   autoregressive: Salinas et al. (2020), "DeepAR", Int. J. Forecasting 36(3). direct: Wen et al. (2017),
         arXiv:1711.11053, with forking sequences: many origins of one window are trained at once. The straight line
         past the recurrent layer: Lai et al. (2018), arXiv:1703.07015, section 3.6.
Variant  The input of step t holds the value at t − 1 (`decoding.forecasting.Layout`), so the output of step t speaks
         about the value at t, and the direct head's state at t about t … t + h − 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from unrolled.decoding.calibration import memory_shapes
from unrolled.errors import ShapeError, expected
from unrolled.models.parts import check_rate, width_of

__all__ = ["Forecaster", "Window"]


@dataclass(frozen=True, eq=False)
class Window:
    """One batch of windows. What stands past a row's length is never looked at."""

    inputs: Tensor  # (B, T, F)
    lengths: Tensor  # (B,)
    series: Tensor  # (B,) int64, which series each row is cut from
    targets: Tensor  # (B, T), or (B, N, h) of the direct head; 0 where missing
    mask: Tensor  # bool, as targets: where a value is there to be learnt
    scale: Tensor  # (B,) of the series
    forks: Tensor | None = None  # (B, N) int64, the steps from which the direct head looks ahead
    ahead: Tensor | None = None  # (B, N, h, A)

    def to(self, device: torch.device | str) -> Window:
        """The same batch on another device."""
        return replace(self, **{name: part.to(device) for name, part in vars(self).items() if part is not None})

    def __len__(self) -> int:
        return self.inputs.shape[0]


class Forecaster(nn.Module):
    """Recurrent layer and output; `forward` for training, `read` and `step` for use.

    Args:
        recurrent: RNN, LSTM or GRU in one direction with batch_first=True and F + `embedding` inputs.
        outputs: R.
        ahead: A, for a direct head; None: autoregressive.
        series: how many series there are; each has a vector of `embedding` numbers where that is not 0, and its place
            in the memory.
        memory: how many last values are kept of each series.
        past: how many past covariates are kept of each series.
        skip: add a straight line from the inputs to the output.
        dropout: share of the recurrent output set to 0 while training.
        follow: steps of the horizon and quantile levels, where an adaptive calibration follows each series; None: none.

    The buffers `memory_*` hold where each series was left, so that a saved model goes on without the history:
    recent (series, memory), past (series, P), place and scale (series,), time (series,) int64, and the recurrent
    state h, c (series, layers, units), which has consumed all but the newest value; with `follow`, what
    `decoding.calibration.memory_shapes` says.
    """

    memory_recent: Tensor
    memory_past: Tensor
    memory_place: Tensor
    memory_scale: Tensor
    memory_time: Tensor
    memory_h: Tensor

    def __init__(
        self,
        recurrent: Any,
        *,
        inputs: int,
        outputs: int,
        ahead: int | None = None,
        series: int = 1,
        embedding: int = 0,
        memory: int = 1,
        past: int = 0,
        skip: bool = True,
        dropout: float = 0.0,
        follow: tuple[int, int] | None = None,
    ) -> None:
        super().__init__()
        _check_fit(recurrent, inputs + embedding)
        width = width_of(recurrent)
        self.recurrent = recurrent
        self.embedding = nn.Embedding(series, embedding) if embedding else None
        self.dropout = nn.Dropout(check_rate("dropout", dropout))
        self.output = nn.Linear(width, outputs)
        self.mix_state = self.mix_ahead = None
        if ahead is not None:
            self.mix_state = nn.Linear(width, width)
            self.mix_ahead = nn.Linear(ahead, width, bias=False)
        self.skip = nn.Linear(inputs if ahead is None else ahead, outputs, bias=False) if skip else None
        if self.skip is not None:
            nn.init.zeros_(self.skip.weight)
        kept = {"recent": (memory,), "past": (past,), "place": (), "scale": ()}
        states = dict(zip(recurrent.STATES, recurrent.state_sizes, strict=True))
        kept |= {name: (recurrent.num_layers, size) for name, size in states.items()}
        kept |= memory_shapes(*follow) if follow is not None else {}
        for name, shape in kept.items():
            self.register_buffer(f"memory_{name}", torch.zeros(series, *shape))
        self.register_buffer("memory_time", torch.zeros(series, dtype=torch.int64))

    @property
    def is_direct(self) -> bool:
        """Whether the whole horizon comes from one state."""
        return self.mix_state is not None

    def forward(self, batch: Window) -> Tensor:
        """Raw numbers (B, T, R), or (B, N, h, R) of the direct head."""
        steps = batch.inputs.shape[1]
        ragged = bool((batch.lengths < steps).any())
        out, _ = self.read(batch.inputs, batch.series, lengths=batch.lengths if ragged else None)
        if batch.forks is None or batch.ahead is None:
            return self.say(out, batch.inputs)
        states = out.gather(1, batch.forks[..., None].expand(-1, -1, out.shape[-1]))
        return self.look_ahead(states, batch.ahead)

    def read(self, inputs: Tensor, series: Tensor, state: Any = None, *, lengths: Any = None) -> tuple[Tensor, Any]:
        """(B, T, F) → recurrent outputs (B, T, width) and the state after each row's last step."""
        if self.embedding is not None:
            own = self.embedding(series)[:, None].expand(-1, inputs.shape[1], -1)
            inputs = torch.cat([inputs, own], dim=-1)
        given = {} if lengths is None else {"lengths": lengths}
        return self.recurrent(inputs, state, **given)

    def say(self, out: Tensor, inputs: Tensor) -> Tensor:
        """Autoregressive head: (…, width) and the inputs (…, F) of the same steps → raw (…, R)."""
        raw = self.output(self.dropout(out))
        return raw if self.skip is None else raw + self.skip(inputs)

    def look_ahead(self, states: Tensor, ahead: Tensor) -> Tensor:
        """Direct head: states (…, width) and what is known of the steps ahead (…, h, A) → raw (…, h, R)."""
        assert self.mix_state is not None
        assert self.mix_ahead is not None
        mixed = torch.relu(self.mix_state(self.dropout(states))[..., None, :] + self.mix_ahead(ahead))
        raw = self.output(mixed)
        return raw if self.skip is None else raw + self.skip(ahead)


def _check_fit(recurrent: Any, width: int) -> None:
    if not recurrent.batch_first:
        raise ShapeError(expected("recurrent", "batch_first=True", "False", "Models read (batch, time, …)."))
    if recurrent.bidirectional:
        way_out = "The future is what a forecaster predicts: a backward direction would have read it."
        raise ValueError(expected("recurrent", "one direction", "bidirectional=True", way_out))
    if recurrent.input_size != width:
        found = f"input_size={recurrent.input_size}"
        raise ShapeError(expected("recurrent", f"input_size={width}, as inputs and embedding are wide", found))
