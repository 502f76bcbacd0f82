"""What stands on the recurrent layers: one linear map, and the poolings of a classifier, at once or step by step.

Axes     T time, B batch, H features, C classes. Outputs come time first, (T, B, H), and are 0 past a row's length.
Source   as `unrolled.models.pooling`; the running attention is the softmax of Milakov & Gimelshein (2018),
         arXiv:1805.02867: a new largest score scales down what was summed before.
Variant  `running` gives the pooled vector after every step, as if the row had ended there. Sums are kept in float64, so
         that chunks of any size give the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unrolled.errors import BundleError, expected
from unrolled.runtime.weights import Weights

__all__ = ["POOLINGS", "Linear", "Pooling", "pooling_of"]


class Linear:
    """x W + b."""

    def __init__(self, weights: Weights, prefix: str, width: int, outputs: int, *, bias: bool = True) -> None:
        self.weight = weights.take(f"{prefix}weight", outputs, width).T
        self.bias = weights.take(f"{prefix}bias", outputs) if bias else np.zeros(outputs, np.float32)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return x @ self.weight + self.bias


class Pooling:
    """The last state, as it is: nothing is added up."""

    NAMES: tuple[str, ...] = ()

    def __init__(self, width: int) -> None:
        self.width = width

    def start(self, rows: int) -> dict[str, np.ndarray]:
        """What is added up, before the first step: arrays (B, …)."""
        del rows
        return {}

    def running(self, out: np.ndarray, valid: np.ndarray, sums: dict[str, np.ndarray], steps: np.ndarray) -> np.ndarray:
        """(T, B, H) after each step; `valid` (T, B), `steps` (T, B) read so far. `sums` moves on."""
        del valid, sums, steps
        return out

    def scores(
        self,
        out: np.ndarray,
        valid: np.ndarray,
        sums: dict[str, np.ndarray],
        steps: np.ndarray,
        picked: tuple[np.ndarray, np.ndarray],
        head: Linear,
    ) -> np.ndarray:
        """(N, C) what the head says after the steps `picked`, (N,) places and (N,) rows. `sums` moves on."""
        return head(self.running(out, valid, sums, steps)[picked].astype(np.float32))

    def step(self, out: np.ndarray, sums: dict[str, np.ndarray], count: int) -> np.ndarray:
        """(B, H) after one more step of every row, the `count`th. `sums` moves on."""
        del sums, count
        return out


class Mean(Pooling):
    NAMES = ("sum",)

    def start(self, rows: int) -> dict[str, np.ndarray]:
        return {"sum": np.zeros((rows, self.width))}

    def running(self, out: np.ndarray, valid: np.ndarray, sums: dict[str, np.ndarray], steps: np.ndarray) -> np.ndarray:
        del valid
        total = sums["sum"] + (out if len(out) == 1 else np.cumsum(out, axis=0, dtype=np.float64))
        if len(out):
            sums["sum"] = total[-1]
        return total / np.maximum(steps, 1)[..., None]

    def scores(
        self,
        out: np.ndarray,
        valid: np.ndarray,
        sums: dict[str, np.ndarray],
        steps: np.ndarray,
        picked: tuple[np.ndarray, np.ndarray],
        head: Linear,
    ) -> np.ndarray:
        """The head is linear: the sums of its scores are smaller than those of the states."""
        if len(out) == 1 or head.weight.shape[1] >= self.width:
            return super().scores(out, valid, sums, steps, picked, head)
        total = np.cumsum(out @ head.weight, axis=0, dtype=np.float64)
        total += sums["sum"] @ head.weight
        sums["sum"] = sums["sum"] + out.sum(axis=0, dtype=np.float64)
        return total[picked] / np.maximum(steps[picked], 1)[:, None] + head.bias

    def step(self, out: np.ndarray, sums: dict[str, np.ndarray], count: int) -> np.ndarray:
        total = sums["sum"]
        total += out
        return total / count


class Max(Pooling):
    NAMES = ("max",)

    def start(self, rows: int) -> dict[str, np.ndarray]:
        return {"max": np.full((rows, self.width), -np.inf, np.float32)}

    def running(self, out: np.ndarray, valid: np.ndarray, sums: dict[str, np.ndarray], steps: np.ndarray) -> np.ndarray:
        del steps
        largest = np.maximum.accumulate(np.where(valid[..., None], out, -np.inf), axis=0)
        largest = np.maximum(largest, sums["max"]).astype(np.float32)
        if len(out):
            sums["max"] = largest[-1]
        return largest

    def step(self, out: np.ndarray, sums: dict[str, np.ndarray], count: int) -> np.ndarray:
        del count
        return np.maximum(sums["max"], out, out=sums["max"])


class Attention(Pooling):
    NAMES = ("largest", "weight", "sum")

    def __init__(self, width: int, weights: Weights, prefix: str) -> None:
        super().__init__(width)
        self.hidden = Linear(weights, f"{prefix}hidden.", width, width)
        self.query = Linear(weights, f"{prefix}query.", width, 1, bias=False)

    def start(self, rows: int) -> dict[str, np.ndarray]:
        lowest = np.full(rows, -np.inf)
        return {"largest": lowest, "weight": np.zeros(rows), "sum": np.zeros((rows, self.width))}

    def running(self, out: np.ndarray, valid: np.ndarray, sums: dict[str, np.ndarray], steps: np.ndarray) -> np.ndarray:
        del steps
        scores = np.where(valid, self.query(np.tanh(self.hidden(out)))[..., 0].astype(np.float64), -np.inf)
        pooled = np.zeros(out.shape)
        for t in range(len(out)):
            largest = np.maximum(sums["largest"], scores[t])
            finite = np.where(np.isneginf(largest), 0, largest)  # a row that has read nothing: exp(-inf), which is 0
            before, now = np.exp(sums["largest"] - finite), np.exp(scores[t] - finite)
            sums["weight"] = sums["weight"] * before + now
            sums["sum"] = sums["sum"] * before[:, None] + now[:, None] * out[t]
            sums["largest"] = largest
            pooled[t] = sums["sum"] / np.maximum(sums["weight"], 1e-300)[:, None]
        return pooled

    def step(self, out: np.ndarray, sums: dict[str, np.ndarray], count: int) -> np.ndarray:
        return self.running(out[None], np.ones((1, len(out)), bool), sums, np.full((1, len(out)), count))[0]


POOLINGS = ("last", "mean", "max", "attention")


def pooling_of(name: Any, width: int, weights: Weights) -> Pooling:
    """The pooling of that name."""
    if name == "attention":
        return Attention(width, weights, "attention.")
    kinds: dict[Any, type[Pooling]] = {"last": Pooling, "mean": Mean, "max": Max}
    if name not in kinds:
        raise BundleError(expected(f"{weights.where}: pooling", "one of " + ", ".join(POOLINGS), repr(name)[:40]))
    return kinds[name](width)
