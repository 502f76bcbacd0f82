"""A decoder as the step function that `unrolled.decoding` searches with.

Axes     N rows (hypotheses), V vocabulary, S source positions; a state's arrays have one row a hypothesis.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from unrolled.models.encoder_decoder import DecoderState, EncoderDecoder, Source

__all__ = ["DecoderStep"]


class DecoderStep:
    """`scores, state, weights = step(tokens, state)` of a model and its sources; `first` is the state before the start.

    The state holds which source each row belongs to, so the memory is picked again only when a source is done.
    """

    def __init__(self, model: EncoderDecoder, source: Source) -> None:
        self.model, self.source = model, source
        begun = model.begin(source)
        self.rows = (source.start[0] if isinstance(source.start, tuple) else source.start).shape[1]
        self.first = self._to_numpy(begun, np.arange(self.rows))
        self._owners = np.arange(self.rows)
        self._picked = source

    @torch.no_grad()
    def __call__(self, tokens: np.ndarray, state: dict[str, Any]) -> tuple[np.ndarray, Any, np.ndarray | None]:
        """One step for all rows."""
        device = self.model.output.weight.device
        ids = torch.from_numpy(tokens).to(device)[:, None]
        parts = tuple(torch.from_numpy(part).to(device).transpose(0, 1).contiguous() for part in state["recurrent"])
        recurrent = parts if len(parts) > 1 else parts[0]
        fed = None if state["fed"] is None else torch.from_numpy(state["fed"]).to(device)
        owners = state["source"]
        done = self.model.decode(ids, DecoderState(recurrent, fed), self._of(owners))
        weights = None if done.weights is None else done.weights[:, 0].cpu().numpy()
        return done.logits[:, 0].cpu().numpy(), self._to_numpy(done.state, owners), weights

    def _of(self, owners: np.ndarray) -> Source:
        if self.source.memory is not None and (
            len(owners) != len(self._owners) or not bool((owners == self._owners).all())
        ):
            rows = torch.from_numpy(owners).to(self.source.memory.values.device)
            memory = type(self.source.memory)(*(part[rows] for part in self.source.memory))
            self._owners, self._picked = owners, Source(self.source.start, memory)
        return self._picked

    def _to_numpy(self, state: DecoderState, owners: np.ndarray) -> dict[str, Any]:
        parts = state.recurrent if isinstance(state.recurrent, tuple) else (state.recurrent,)

        def array(part: Tensor) -> np.ndarray:
            return part.detach().cpu().numpy()

        recurrent = tuple(array(part.transpose(0, 1)) for part in parts)
        return {"source": owners, "recurrent": recurrent, "fed": None if state.fed is None else array(state.fed)}
