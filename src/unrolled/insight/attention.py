"""The weights of attention, where a model has it.

Axes     B batch, N queries (steps of a decoder; one where a classifier pools), S positions that are looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from unrolled.insight.stepping import as_numbers, copied
from unrolled.models.attention import SourceAttention
from unrolled.models.pooling import Attention

__all__ = ["Weights", "attention"]


@dataclass(frozen=True, eq=False)
class Weights:
    """What one module of a model looked at."""

    name: str  # of the module in the model
    kind: str  # "pooling" of a classifier, "source" of a decoder
    weights: Tensor  # (B, N, S) float64; each row sums to 1, or to 0 where there is nothing to look at


@torch.no_grad()
def attention(model: nn.Module, *args: Any, **kwargs: Any) -> list[Weights]:
    """The weights when model(*args, **kwargs) runs, in float64 and eval mode; [] for a model without attention.

    A decoder that looks once a step gives one entry with a row for each step.
    """
    made = copied(model)
    seen: dict[str, list[Tensor]] = {}

    def watch(name: str) -> Any:
        def hook(module: nn.Module, given: tuple[Any, ...], output: Any) -> None:
            weights = module.weights(*given)[:, None] if isinstance(module, Attention) else output[1]
            seen.setdefault(name, []).append(weights)

        return hook

    kinds = {}
    for name, module in made.named_modules():
        if isinstance(module, Attention | SourceAttention):
            kinds[name] = "pooling" if isinstance(module, Attention) else "source"
            module.register_forward_hook(watch(name))
    args, kwargs = as_numbers((args, kwargs))
    made(*args, **kwargs)
    return [Weights(name, kinds[name], torch.cat(parts, dim=1)) for name, parts in seen.items()]
