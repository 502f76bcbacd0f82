"""What a task brings to the one loop: its vocabularies, its model, its losses, its scores, its answers.

The loop asks for `steps`, a generator of losses. It takes an optimizer step between two of them, so the generator
computes each loss when it is asked for, with the weights of that moment; a state that goes from chunk to chunk
stays inside the generator and, for the checkpoints, in the `Place`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from unrolled.data import Dataset, Item
from unrolled.data.streaming import Part, Table
from unrolled.errors import DataError
from unrolled.training.ranks import Ranks
from unrolled.training.recipe import Recipe
from unrolled.training.report import Numbers, Report
from unrolled.training.tasks.encoded import Encoded, Place, batches, unknown_notes
from unrolled.training.tasks.ondisk import on_disk
from unrolled.training.tasks.packing import packed, unpacked

__all__ = ["Encoded", "Place", "StepLoss", "Task", "TrainingPart", "batches", "unknown_notes"]

# Asks for the training part, for a baseline that is too large to be saved; None where the data are not at hand.
TrainingPart = Callable[[], Dataset | None]


class StepLoss(NamedTuple):
    """One loss to go down by, and how to find what broke it."""

    loss: Tensor  # () what the gradient is taken of
    mean: Tensor  # () nats a position, for the log
    positions: int  # how many positions `mean` is the mean of
    rows: Sequence[str]  # what to call the rows: "reviews.csv:17"
    call: tuple[tuple[Any, ...], dict[str, Any]]  # the model's arguments
    by_row: Callable[[], Tensor]  # (B,) computes each row's own loss again
    weight: float | None = None  # what `loss` was divided by, if it was not the positions

    @classmethod
    def of_nothing(cls) -> StepLoss:
        """The step of a process that has no row of this batch, and takes the step with the others all the same."""
        return cls(torch.zeros(()), torch.zeros(()), 0, (), ((), {}), lambda: torch.zeros(0))


class Task(ABC):
    """A task, with what it learnt about the data before training."""

    name: ClassVar[str]
    unit: ClassVar[str]  # what the report counts

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.epoch = 1  # the one that is being trained; the loop counts
        self.ranks = Ranks()  # which processes share the work; the loop says

    # before training

    @classmethod
    @abstractmethod
    def prepare(cls, recipe: Recipe, train: Dataset) -> Task:
        """Measure the training part: vocabularies, labels, scale, the baseline."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """What `prepare` measured, for the header of the bundle."""

    @classmethod
    @abstractmethod
    def from_dict(cls, recipe: Recipe, saved: dict[str, Any]) -> Task:
        """The inverse of `to_dict`."""

    @abstractmethod
    def build(self) -> nn.Module:
        """The model, with its first weights."""

    def encode(self, dataset: Dataset) -> Encoded:
        """A labelled data set as numbers; one that is larger than memory stays on the disk."""
        return on_disk(self, dataset) if isinstance(dataset, Part) else self.encode_items(dataset)

    def pack(self, block: Dataset) -> tuple[Table, int, int]:
        """Items as numbers that are kept on the disk, how many tokens are not known, and of how many."""
        data = self.encode_items(block)
        return packed(data), data.unknown, data.tokens

    def unpack(self, table: Table, place: str) -> Encoded:
        """The inverse of `pack`; `place` is what stands before a row's line in its name."""
        return unpacked(table, place)

    @abstractmethod
    def encode_items(self, dataset: Dataset) -> Encoded:
        """A labelled data set that is in memory, as numbers."""

    # training

    @abstractmethod
    def step_count(self, data: Encoded) -> int:
        """Batches of one epoch."""

    @abstractmethod
    def steps(
        self, model: nn.Module, data: Encoded, rng: np.random.Generator, place: Place | None = None
    ) -> Iterator[StepLoss]:
        """The losses of one epoch, each computed when it is asked for.

        Args:
            rng: as it stood when the epoch began.
            place: where in the epoch to begin, and what to move on; None: at its beginning.
        """

    # afterwards

    @abstractmethod
    def measure(self, model: nn.Module, data: Encoded) -> Numbers:
        """The metrics, and `nats`: the mean loss, which decides between equal scores."""

    @abstractmethod
    def score(self, metrics: Numbers) -> tuple[str, float, bool]:
        """What early stopping looks at: its name, its value, and whether more is better."""

    @abstractmethod
    def baselines(self, dataset: Dataset, train: TrainingPart) -> dict[str, Numbers]:
        """The metrics of what a trivial model would have said, by its name."""

    @abstractmethod
    def item(self, given: Any, where: str) -> Item:
        """An item from what a caller of `predict` gave."""

    @abstractmethod
    def predict(self, model: nn.Module, items: Sequence[Item]) -> list[dict[str, Any]]:
        """One dict an item, in order."""

    def rank(self, metrics: Numbers) -> tuple[float, float]:
        """Better results compare greater: the score first, then the loss."""
        _, value, more = self.score(metrics)
        return (value if more else -value, -metrics["nats"])

    def report(self, model: nn.Module, dataset: Dataset, train: TrainingPart) -> Report:
        """Score a labelled data set."""
        encoded = self.encode(dataset)
        metrics = self.measure(model, encoded)
        notes = [*dataset.notes, *encoded.notes, *self.remarks(metrics)]
        baselines = self.baselines_or_note(dataset, train, notes)
        return Report(dataset.name, metrics, baselines, int(metrics["items"]), self.unit, notes)

    def baselines_or_note(self, dataset: Dataset, train: TrainingPart, notes: list[str]) -> dict[str, Numbers]:
        """The baselines; a note why there are none, where a file that is larger than memory cannot be read any more."""
        try:
            return self.baselines(dataset, train)
        except DataError as error:
            if not isinstance(dataset, Part):
                raise
            notes.append(f"no baselines: {error}")
            return {}

    def calibrate(self, model: nn.Module, dataset: Dataset) -> None:
        """Measure on the validation part, when training is over, what the answers must be corrected by."""
        del model, dataset

    def remember(self, model: nn.Module, parts: Sequence[Dataset]) -> bool:
        """Keep in the model what it must know of the data when training is over; whether there is any such thing."""
        del model, parts
        return False

    def remarks(self, metrics: Numbers) -> list[str]:
        """Lines that a reader of the numbers should know."""
        del metrics
        return []
