"""Forecaster: the next values of many series, with intervals, from where each was left or from its own rows.

Axes     B rows, T steps, F numbers of a step, A numbers of a step ahead, R raw numbers of one output, h steps of the
         horizon, L layers, N series.
Source   the parts are those of `unrolled.models.Forecaster`, which cites the papers; what goes in and what is made of
         what comes out stands in `runtime.rolling`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unrolled.data.items import Dataset, Item
from unrolled.data.reading import Reading
from unrolled.decoding.calibration import memory_shapes
from unrolled.errors import BundleError, expected
from unrolled.runtime.forecasts import Forecasts, series_of
from unrolled.runtime.heads import Linear
from unrolled.runtime.model import Model, Parts
from unrolled.runtime.plan import Plan
from unrolled.runtime.recurrent import Recurrent, State
from unrolled.runtime.weights import Weights

__all__ = ["Forecaster", "Net"]


class Net:
    """The network as `runtime.rolling` asks for it."""

    def __init__(self, parts: Parts, plan: Plan) -> None:
        recipe, weights, layout = parts.recipe, parts.weights, plan.layout
        count, embedding = len(plan.scaler.ids), int(recipe.get("series_embedding") or 0)
        self.vectors = weights.take("embedding.weight", count, embedding) if embedding else None
        hidden, layers = parts.get("hidden", int), parts.get("layers", int)
        shape = parts.shape(layout.width + embedding, learned=parts.get("learn_initial_state", bool))
        self.recurrent = Recurrent(weights, "recurrent.", shape)
        self.states = ("h", "c")[: self.recurrent.parts]
        self.is_direct = recipe.get("head") == "direct"
        self._mix_state = self._mix_ahead = None
        if self.is_direct:
            self._mix_state = Linear(weights, "mix_state.", hidden, hidden)
            self._mix_ahead = Linear(weights, "mix_ahead.", layout.ahead, hidden, bias=False)
        self._output = Linear(weights, "output.", hidden, layout.outputs)
        seen = layout.ahead if self.is_direct else layout.width
        skip = parts.get("skip", bool)
        self._skip = Linear(weights, "skip.", seen, layout.outputs, bias=False) if skip else None
        kept: dict[str, tuple[int, ...]] = {name: (layers, hidden) for name in self.states}
        if recipe.get("calibrate") == "adaptive" and layout.output != "point":
            kept |= memory_shapes(plan.horizon, len(recipe["quantiles"]))
        self._memory = _memory(weights, count, plan, kept)

    def read(
        self, inputs: np.ndarray, series: np.ndarray, state: State | None, lengths: np.ndarray | None = None
    ) -> tuple[np.ndarray, State]:
        """(B, T, F) → the recurrent outputs (B, T, width) and the state after each row's last step."""
        x = inputs.swapaxes(0, 1)
        if self.vectors is not None:
            own = np.broadcast_to(self.vectors[series], (len(x), len(series), self.vectors.shape[1]))
            x = np.concatenate([x, own], axis=-1)
        out, after = self.recurrent.run(x, state, lengths)
        return out.swapaxes(0, 1), after

    def say(self, out: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        """(B, width) and the inputs (B, F) of the same steps → raw (B, R)."""
        raw = self._output(out)
        return raw if self._skip is None else raw + self._skip(inputs)

    def look_ahead(self, states: np.ndarray, ahead: np.ndarray) -> np.ndarray:
        """The direct head: (B, width) and (B, h, A) → raw (B, h, R)."""
        assert self._mix_state is not None
        assert self._mix_ahead is not None
        raw = self._output(np.maximum(self._mix_state(states)[:, None] + self._mix_ahead(ahead), 0))
        return raw if self._skip is None else raw + self._skip(ahead)

    def memory(self, name: str) -> np.ndarray:
        """What is kept of each series, (N, …)."""
        return self._memory[name]

    def keep(self, name: str, rows: np.ndarray, values: np.ndarray) -> None:
        """Write into it."""
        self._memory[name][rows] = values


def _memory(weights: Weights, count: int, plan: Plan, states: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    shapes = {"recent": (plan.layout.memory,), "past": (plan.layout.past,), "place": (), "scale": (), **states}
    kept = {name: weights.take(f"memory_{name}", count, *shape).copy() for name, shape in shapes.items()}
    return kept | {"time": weights.take("memory_time", count, dtype=np.int64).copy()}


class Forecaster(Model):
    """As `unrolled.models.Forecaster`. It remembers where each series was left; `forecast(keep=True)` moves that on."""

    task = "forecast"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self.reading = Reading()  # of nothing: series are not items of text or features
        self.plan = Plan.from_dict(parts.task["plan"])
        layout = self.plan.layout
        if len(self.plan.scaler.ids) < 1 or layout.memory < 1 or layout.memory > 10**6:
            raise BundleError(expected(f"{parts.where}: plan", "series, and lags of a million steps or less", layout))
        recipe = parts.recipe
        quantiles = tuple(float(level) for level in recipe["quantiles"])
        own = bool(recipe.get("series_embedding"))
        self.asked = Forecasts(self.plan, quantiles, parts.get("paths", int), own)
        self.network = Net(parts, self.plan)

    @property
    def recurrent(self) -> Recurrent:
        """The recurrent layers by themselves."""
        return self.network.recurrent

    def item(self, given: Any, where: str) -> Item:
        """A history: an array (T,), or a mapping with id, start, target, known and past."""
        return self.asked.item(given, where)

    def answer(self, items: Sequence[Item]) -> list[dict[str, Any]]:
        """id, and for each step ahead its time, the forecast and its quantiles; each series from its own rows alone."""
        return self.asked.predict(self.network, items)

    def forecast(
        self,
        rows: Dataset | None = None,
        *,
        horizon: int | None = None,
        quantiles: Sequence[float] = (),
        paths: int | None = None,
        seed: int = 0,
        keep: bool = False,
        **options: Any,
    ) -> list[dict[str, Any]]:
        """Each series from where it was left: id, time, forecast and quantiles, a list of `horizon` numbers each.

        Args:
            rows: what came since, and at its end the known covariates of the steps ahead; None: nothing came.
            keep: leave the series after these rows, in this object.

        Raises:
            DataError: the rows do not begin where the series was left, or a known covariate is missing.
        """
        if options:
            raise TypeError(expected("forecast", "horizon, quantiles, paths, seed and keep", ", ".join(options)))
        ask = self.asked.ask(horizon, quantiles, paths, seed)
        return self.asked.forecast(self.network, series_of(rows), ask, keep_state=keep)
