"""A fast kernel that can be differentiated once, made safe to differentiate again.

A fused backward has no derivative of its own. Asked for one (`create_graph=True`, gradgradcheck, a gradient penalty),
it would raise or, worse, treat the first gradient as a constant. Here the backward looks whether its own result will be
differentiated; if so, it recomputes with the reference scan, which autograd follows to any order.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Run = Callable[..., tuple[Tensor, ...]]


def once_differentiable(fast: Run, slow: Run) -> Run:
    """A callable like `fast` whose gradients, from the second order on, are those of `slow`.

    Both take the same tensors (or None), return the same tuple of tensors, and compute the same function.
    """

    def run(*tensors: Tensor | None) -> tuple[Tensor, ...]:
        if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors):
            return _Fused.apply(fast, slow, *tensors)
        return fast(*tensors)

    return run


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fast: Run, slow: Run, *tensors: Tensor | None) -> tuple[Tensor, ...]:
        ctx.slow = slow
        ctx.save_for_backward(*tensors)
        ctx.wanted = [i for i, t in enumerate(tensors) if t is not None and t.requires_grad]
        with torch.enable_grad():
            inputs = [None if t is None else t.detach().requires_grad_(t.requires_grad) for t in tensors]
            outputs = fast(*inputs)
        ctx.graph = (outputs, [inputs[i] for i in ctx.wanted])
        return tuple(out.detach() for out in outputs)

    @staticmethod
    def backward(ctx, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        tensors = ctx.saved_tensors  # also raises torch's own error when an input was changed in place
        again = torch.is_grad_enabled()
        if again:
            outputs, inputs = ctx.slow(*tensors), [tensors[i] for i in ctx.wanted]
        else:
            outputs, inputs = ctx.graph
        keep = torch._C._autograd._get_current_graph_task_keep_graph()
        if not keep:
            ctx.graph = None  # else a loss that somebody holds would hold every activation
        # A batch of empty rows returns tensors that no weight had a part in.
        reached = [i for i, out in enumerate(outputs) if out.requires_grad]
        found = torch.autograd.grad(
            [outputs[i] for i in reached],
            inputs,
            [gradients[i] for i in reached],
            retain_graph=keep or again,
            create_graph=again,
            materialize_grads=True,
            allow_unused=True,
        )
        result: list[Tensor | None] = [None] * (2 + len(tensors))
        for i, gradient in zip(ctx.wanted, found, strict=True):
            result[2 + i] = gradient
        return tuple(result)
