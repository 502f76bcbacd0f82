"""A recurrent layer and one linear map: numbers in, numbers out, at the last step or at every one.

Axes     B batch, T time, D channels, K outputs; (B, T, D) → (B, K), or (B, T, K).
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from unrolled.layers import final_state
from unrolled.models.parts import width_of

__all__ = ["Readout"]


class Readout(nn.Module):
    """What the long-memory tasks are learnt with: nothing but the layer stands between the input and the answer.

    Args:
        recurrent: RNN, LSTM or GRU with batch_first=True.
        outputs: K.
        every_step: answer at every step; otherwise once, from the final state.
    """

    def __init__(self, recurrent: Any, outputs: int, *, every_step: bool) -> None:
        super().__init__()
        self.recurrent = recurrent
        self.every_step = every_step
        self.output = nn.Linear(width_of(recurrent), outputs)

    def forward(self, x: Tensor) -> Tensor:
        out, state = self.recurrent(x)
        return self.output(out if self.every_step else final_state(state, bidirectional=self.recurrent.bidirectional))
