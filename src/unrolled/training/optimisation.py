"""The optimizer, the learning rate as a pure function of time, and averaged weights.

Source   cosine: Loshchilov and Hutter (2017), arXiv:1608.03983, without restarts. Averaging: Polyak and Juditsky
         (1992), with exponential weights.
Variant  The average starts with short memory, min(decay, (1 + n) / (10 + n)) at step n, so that the first weights
         are soon forgotten. Weight decay acts on matrices, not on biases.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from unrolled.training.recipe import Recipe

__all__ = ["Average", "learning_rate", "optimizer_for", "optimizer_state", "restore_optimizer"]


def learning_rate(recipe: Recipe, epochs_done: float) -> float:
    """The learning rate at a moment of training, in epochs since the start (2.5: in the middle of the third).

    >>> recipe = Recipe(task="classify", data="x", learning_rate=1.0, decay=0.5, decay_after=4)
    >>> [learning_rate(recipe, epoch) for epoch in (0, 3, 4, 5)]
    [1.0, 1.0, 0.5, 0.25]
    """
    rate = recipe.learning_rate * recipe.decay ** max(0, int(epochs_done) + 1 - recipe.decay_after)
    if recipe.schedule == "cosine":
        rate *= 0.5 * (1 + math.cos(math.pi * min(epochs_done / recipe.epochs, 1.0)))
    if epochs_done < recipe.warmup:
        rate *= epochs_done / recipe.warmup
    return rate


def optimizer_for(recipe: Recipe, model: nn.Module) -> torch.optim.Optimizer:
    parameters = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": recipe.weight_decay},
        {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0},
    ]
    if recipe.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=recipe.learning_rate, momentum=recipe.momentum)
    kind = torch.optim.AdamW if recipe.optimizer == "adamw" else torch.optim.Adam
    return kind(groups, lr=recipe.learning_rate)


def optimizer_state(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """NUMBER.KEY → what an optimizer remembers of its parameters, such as 3.exp_avg."""
    found: dict[str, Tensor] = {}
    for number, parts in optimizer.state_dict()["state"].items():
        found |= {f"{number}.{key}": torch.as_tensor(value) for key, value in parts.items() if value is not None}
    return found


def restore_optimizer(optimizer: torch.optim.Optimizer, saved: dict[str, Tensor]) -> None:
    """The inverse of `optimizer_state`."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in saved.items():
        number, _, key = name.partition(".")
        state.setdefault(int(number), {})[key] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


class Average:
    """A moving average of a model's parameters; with decay None it is the parameters themselves."""

    def __init__(self, model: nn.Module, decay: float | None) -> None:
        self.model, self.decay, self.updates = model, decay, 0
        self.values: dict[str, Tensor] = {}
        if decay is not None:
            self.values = {name: p.detach().clone() for name, p in model.named_parameters()}

    @torch.no_grad()
    def update(self) -> None:
        """Take in the parameters after an optimizer step."""
        if self.decay is None:
            return
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        self.updates += 1
        for name, parameter in self.model.named_parameters():
            self.values[name].lerp_(parameter, 1 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The model with averaged weights, for as long as the block runs."""
        if self.decay is None:
            yield
            return
        own = {name: p.detach().clone() for name, p in self.model.named_parameters()}
        try:
            self._write(self.values)
            yield
        finally:
            self._write(own)

    @torch.no_grad()
    def _write(self, values: dict[str, Tensor]) -> None:
        for name, parameter in self.model.named_parameters():
            parameter.copy_(values[name])
