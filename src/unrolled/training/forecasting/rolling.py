"""Forecasts of PyTorch's forecaster: `runtime.rolling` with an adapter before the network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from unrolled.data.series import Series
from unrolled.models import Forecaster
from unrolled.runtime import rolling
from unrolled.runtime.plan import Frame, Plan
from unrolled.runtime.rolling import Ask, Left, State, origins_of

__all__ = ["Ask", "Left", "TorchNetwork", "forecast_from", "forecast_left", "go_on", "keep", "origins_of", "remember"]


class TorchNetwork:
    """A `models.Forecaster` over NumPy arrays, as `runtime.rolling` asks for it; no gradient is recorded."""

    def __init__(self, model: Forecaster) -> None:
        self.model, self.is_direct = model, model.is_direct
        self.states: tuple[str, ...] = tuple(model.recurrent.STATES)
        self.device = next(model.parameters()).device

    def _given(self, array: np.ndarray) -> Any:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)

    @torch.no_grad()
    def read(
        self, inputs: np.ndarray, series: np.ndarray, state: State | None, lengths: np.ndarray | None = None
    ) -> tuple[np.ndarray, State]:
        """See `Network.read`."""
        before: Any = None if state is None else tuple(self._given(part) for part in state)
        if before is not None and len(before) == 1:
            before = before[0]
        ends = None if lengths is None else self._given(lengths)
        out, after = self.model.read(self._given(inputs), self._given(series), before, lengths=ends)
        parts = after if isinstance(after, tuple) else (after,)
        return out.cpu().numpy(), tuple(part.cpu().numpy() for part in parts)

    @torch.no_grad()
    def say(self, out: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        """See `Network.say`."""
        return self.model.say(self._given(out), self._given(inputs)).cpu().numpy()

    @torch.no_grad()
    def look_ahead(self, states: np.ndarray, ahead: np.ndarray) -> np.ndarray:
        """See `Network.look_ahead`."""
        return self.model.look_ahead(self._given(states), self._given(ahead)).cpu().numpy()

    def memory(self, name: str) -> np.ndarray:
        """See `Network.memory`."""
        return getattr(self.model, f"memory_{name}").cpu().numpy()

    @torch.no_grad()
    def keep(self, name: str, rows: np.ndarray, values: np.ndarray) -> None:
        """See `Network.keep`."""
        memory = getattr(self.model, f"memory_{name}")
        memory[self._given(rows)] = self._given(values).to(memory)


def forecast_from(
    model: Forecaster,
    plan: Plan,
    frames: Sequence[Frame],
    origins: Sequence[int],
    ask: Ask,
    shifts: Sequence[np.ndarray] | None = None,
) -> Iterator[np.ndarray]:
    """See `runtime.rolling.forecast_from`."""
    return rolling.forecast_from(TorchNetwork(model), plan, frames, origins, ask, shifts)


def remember(model: Forecaster, plan: Plan, frames: Sequence[Frame]) -> None:
    """See `runtime.rolling.remember`."""
    rolling.remember(TorchNetwork(model), plan, frames)


def go_on(model: Forecaster, plan: Plan, series: Series, horizon: int) -> Left:
    """See `runtime.rolling.go_on`."""
    return rolling.go_on(TorchNetwork(model), plan, series, horizon)


def forecast_left(model: Forecaster, plan: Plan, left: Left, ask: Ask) -> np.ndarray:
    """See `runtime.rolling.forecast_left`."""
    return rolling.forecast_left(TorchNetwork(model), plan, left, ask)


def keep(model: Forecaster, left: Left) -> None:
    """See `runtime.rolling.keep`."""
    rolling.keep(TorchNetwork(model), left)
