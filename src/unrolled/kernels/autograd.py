"""A fast kernel that can be differentiated once, made safe to differentiate again.

A fused backward has no derivative of its own. Asked for one (`create_graph=True`, gradgradcheck, a gradient penalty),
it would raise or, worse, treat the first gradient as a constant. Here the backward looks whether its own result will be
differentiated; if so, it recomputes with the reference scan, which autograd follows to any order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

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
        wanted = [i in ctx.wanted for i in range(len(tensors))]
        if torch.is_grad_enabled():
            return (None, None, *differentiate_again(ctx.slow, tensors, wanted, gradients))
        outputs, inputs = ctx.graph
        keep = torch._C._autograd._get_current_graph_task_keep_graph()
        if not keep:
            ctx.graph = None  # else a loss that somebody holds would hold every activation
        found = iter(_gradients(outputs, inputs, gradients, retain_graph=keep))
        return (None, None, *(next(found) if want else None for want in wanted))


def differentiate_again(
    slow: Run,
    tensors: Sequence[Tensor | None],
    wanted: Sequence[bool],
    gradients: Sequence[Tensor | None],
    *,
    further: bool = True,
) -> tuple[Tensor | None, ...]:
    """The gradients of the wanted tensors, through `slow`; with `further`, they can be differentiated again."""
    inputs = [t for t, want in zip(tensors, wanted, strict=True) if want]
    found = iter(_gradients(slow(*tensors), inputs, gradients, retain_graph=True, create_graph=further))
    return tuple(next(found) if want else None for want in wanted)


def _gradients(
    outputs: Sequence[Tensor], inputs: Sequence[Any], gradients: Sequence[Tensor | None], **options: bool
) -> tuple[Tensor, ...]:
    # A batch of empty rows returns tensors that no weight had a part in.
    reached = [
        (out, gradient)
        for out, gradient in zip(outputs, gradients, strict=True)
        if out.requires_grad and gradient is not None
    ]
    if not reached:
        return tuple(torch.zeros_like(t) for t in inputs)
    outs, grads = zip(*reached, strict=True)
    return torch.autograd.grad(outs, inputs, grads, materialize_grads=True, allow_unused=True, **options)


def under_transform() -> bool:
    """Are we inside vmap, grad, jvp or another transform of torch.func?"""
    return torch._C._are_functorch_transforms_active()  # which a compiler can follow too
