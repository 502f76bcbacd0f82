"""Several processes that train one model: who has which part, and what they tell each other.

torchrun starts the processes and says who they are; Accelerate opens torch.distributed among them (gloo on CPUs, NCCL
on GPUs). Every process holds the whole model, takes its share of each batch, and all take the same step: gradients are
added up with the weight of their positions, so the loss is the mean over all processes' positions, as in one process.

Axes     R processes ("ranks"). Rank r takes the rows r, r + R, r + 2R, … of a batch; a row is in one share only.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from unrolled.errors import RecipeError, RunError, expected, require

__all__ = ["Ranks", "is_first"]

T = TypeVar("T")

LONGEST_WAIT = timedelta(days=2)  # for another process, which may be reading data for hours; one that ends is noticed


def is_first() -> bool:
    """Whether this process is the one that writes and speaks; true where there is only one."""
    return int(os.environ.get("WORLD_SIZE", "1")) <= 1 or os.environ.get("RANK", "0") == "0"


@dataclass(frozen=True)
class Ranks:
    """Which of how many processes this is. The default is one alone, which asks nobody."""

    index: int = 0
    count: int = 1

    @classmethod
    def join(cls, wanted: int | None, device: str) -> Ranks:
        """Meet the others, where torchrun has started some.

        Args:
            wanted: how many there should be; None: as many as there are.
            device: of the recipe.

        Raises:
            RunError: there is another number of processes than was asked for.
        """
        there = int(os.environ.get("WORLD_SIZE", "1"))
        if wanted not in (None, there):
            way_out = f"Start them with: torchrun --nproc-per-node {wanted} -m unrolled train …"
            raise RunError(expected("processes", wanted, there, way_out))
        if there == 1:
            return cls()
        require("accelerate", "distributed")
        on_cpu = device == "cpu" or not torch.cuda.is_available()
        state = importlib.import_module("accelerate").PartialState(cpu=on_cpu, timeout=LONGEST_WAIT)
        if state.num_processes != there:
            raise RunError(expected("processes", f"{there}, as WORLD_SIZE says", state.num_processes))
        return cls(state.process_index, there)

    @property
    def first(self) -> bool:
        """Whether this is the process that writes files and speaks."""
        return self.index == 0

    def device(self, name: str) -> str:
        """The device of this process: on a machine with several GPUs, one of its own."""
        if self.count == 1 or name in ("cpu", "mps") or not torch.cuda.is_available():
            return name
        if name not in ("auto", "cuda"):
            raise RecipeError(expected("device", "auto, cpu or cuda with several processes", name))
        return f"cuda:{os.environ.get('LOCAL_RANK', '0')}"

    # shares

    def share(self, rows: Any) -> Any:
        """The rows of a list, or of an array's first axis, that this process takes."""
        return rows[self.index :: self.count]

    def woven(self, shares: Sequence[Sequence[T]]) -> list[T]:
        """The rows of all shares in their first order: the inverse of `share`."""
        rows: list[Any] = [None] * sum(len(share) for share in shares)
        for index, share in enumerate(shares):
            rows[index :: self.count] = share
        return rows

    # talk

    def total(self, numbers: Sequence[float]) -> list[float]:
        """Each number added up over all processes."""
        if self.count == 1:
            return list(numbers)
        return self._sum(torch.tensor(numbers, dtype=torch.float64)).tolist()

    def added(self, array: np.ndarray) -> np.ndarray:
        """The sum of all processes' arrays, each of which holds its own rows and zeros elsewhere."""
        return array if self.count == 1 else self._sum(torch.from_numpy(array)).numpy()

    def add_gradients(self, model: nn.Module, factor: float) -> None:
        """In place of each gradient the sum of all processes' gradients, this one's times `factor`.

        A parameter that has none in every process keeps none.
        """
        parameters = [p for p in model.parameters() if p.requires_grad]
        there = torch.tensor([float(p.grad is not None) for p in parameters])
        parts = [p.new_zeros(p.numel()) if p.grad is None else p.grad.reshape(-1) * factor for p in parameters]
        summed = self._sum(torch.cat([there.to(parts[0]), *parts]))
        there, flat = summed[: len(parameters)], summed[len(parameters) :]
        for parameter, has, part in zip(parameters, there, flat.split([p.numel() for p in parameters]), strict=True):
            parameter.grad = part.view_as(parameter).clone() if has else None

    def exchange(self, value: Any) -> list[Any]:
        """What each process said, in the order of the ranks; anything that JSON can hold."""
        if self.count == 1:
            return [value]
        return [json.loads(one) for one in self._bytes(json.dumps(value).encode())]

    def exchange_arrays(self, arrays: dict[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
        """The arrays of each process, by their names."""
        if self.count == 1:
            return [arrays]
        shapes = {name: [array.dtype.str, list(array.shape)] for name, array in arrays.items()}
        content = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays.values())
        found = []
        for said, raw in zip(self.exchange(shapes), self._bytes(content), strict=True):
            made, at = {}, 0
            for name, (dtype, shape) in said.items():
                size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
                made[name] = np.frombuffer(raw[at : at + size], dtype).reshape(shape).copy()
                at += size
            found.append(made)
        return found

    def _bytes(self, content: bytes) -> list[bytes]:
        operations = importlib.import_module("accelerate.utils")
        sizes = self._on_device(torch.tensor([len(content)]))
        lengths = self._ask(operations.gather, sizes).tolist()
        room = torch.zeros(1, max(1, *lengths), dtype=torch.uint8)
        room[0, : len(content)] = torch.frombuffer(bytearray(content or b"\0"), dtype=torch.uint8)[: len(content)]
        rows = self._ask(operations.gather, self._on_device(room)).cpu().numpy()
        return [row[:length].tobytes() for row, length in zip(rows, lengths, strict=True)]

    def _sum(self, tensor: Tensor) -> Tensor:
        operations = importlib.import_module("accelerate.utils")
        return self._ask(operations.reduce, self._on_device(tensor), "sum").to(tensor.device)

    def _on_device(self, tensor: Tensor) -> Tensor:
        return tensor.to(importlib.import_module("accelerate").PartialState().device)

    def _ask(self, question: Any, *given: Any) -> Any:
        try:
            return question(*given)
        except RuntimeError as error:  # the connection is gone, and with it the process at its other end
            why = str(error).strip().splitlines()[0]
            what = "has not answered" if "timed out" in why.lower() else "has ended, and said why"
            raise RunError(f"process {self.index}: another process {what} ({why})") from None
