"""Training in bounded memory: keep the state at every √T-th step, compute the rest again on the way back.

Axes     as in `reference`.
Source   Chen et al. (2016), arXiv:1604.06174, section 3; Gruslys et al. (2016), arXiv:1606.03401.
Variant  one level: memory grows with √T, and a training step pays one more forward pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from unrolled.kernels.autograd import under_transform
from unrolled.kernels.reference import restarted


def can_recompute() -> bool:
    """Nothing is stored without gradients, and neither a compiler nor torch.func can follow the recomputation."""
    return torch.is_grad_enabled() and not torch.compiler.is_compiling() and not under_transform()


def recomputed(run: Callable[..., tuple[Tensor, ...]], states: int) -> Callable[..., tuple[Tensor, ...]]:
    """A scan like `run` that stores the state once a chunk of √T steps, and nothing within a chunk.

    `states` is how many tensors the cell's state has: they stand first in the scan's signature, before the weights.
    """

    def scan(
        x: Tensor,
        *tensors: Any,
        lengths: Tensor | None = None,
        resets: Tensor | None = None,
        reverse: bool = False,
        **options: Any,
    ) -> tuple[Tensor, ...]:
        steps = x.shape[0]
        size = max(1, math.isqrt(steps))
        state, weights = tensors[:states], tensors[states:]
        restart = (options.get("restart_h"), options.get("restart_c"))[:states]
        outputs = []
        starts = range(0, steps, size)
        for start in reversed(starts) if reverse else starts:
            stop = min(start + size, steps)
            if reverse and resets is not None and stop < steps:  # the cut that lies between two chunks
                within = stop < (lengths if lengths is not None else steps)
                state = restarted(state, restart, resets[:, stop] & within)
            out, *state = checkpoint(
                run,
                x[start:stop],
                *state,
                *weights,
                use_reentrant=False,
                lengths=None if lengths is None else (lengths - start).clamp(0, stop - start),
                resets=None if resets is None else resets[:, start:stop],
                reverse=reverse,
                **options,
            )
            state = tuple(state)
            outputs.append(out)
        if not outputs:
            return run(x, *tensors, lengths=lengths, resets=resets, reverse=reverse, **options)
        return (torch.cat(outputs[::-1] if reverse else outputs), *state)

    return scan
