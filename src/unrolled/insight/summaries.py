"""A cheap look at gates and gradients while a model trains: a few rows, a few steps, a line of numbers.

Axes     T time (the first `STEPS` of a batch), B rows (the first `ROWS`), H hidden.
Source   the quantities of `insight.gates` and `insight.jacobians`, estimated: a random sign vector v in place of all
         directions, so that E ‖v ∂h_T/∂h_k‖² is the squared Frobenius norm of the Jacobian (Hutchinson, 1990).
Variant  It sees what the layer sees in training (its own type of number), draws its signs from a generator of its own,
         and leaves weights, gradients and random state as they were.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from unrolled.insight.cells import KEEPS, Cell, cell_of, is_recurrent, spells, twin_of
from unrolled.insight.gates import CANDIDATES, at_the_ends, half_life
from unrolled.insight.packing import number, numbers
from unrolled.layers import Recurrent

__all__ = ["ROWS", "STEPS", "Watcher", "summary"]

ROWS, STEPS = 4, 24
BINS = 10
POWER_STEPS = 8


class Watcher:
    """Looks at a model every so many optimizer steps.

    `arm` is called before a step and does nothing unless the step is due: the first one, and each that is a multiple of
    `every`. Then a hook on every recurrent layer keeps a slice of what comes in, and `take`, after the step, sums up.

    Args:
        every: optimizer steps between two looks; None: never.
    """

    def __init__(self, model: nn.Module, every: int | None) -> None:
        self.model, self.every = model, every
        self.seen: dict[str, Tensor] = {}
        self._handles: list[Any] = []

    def arm(self, step: int) -> None:
        """Watch the next forward pass, if step (they count from 1) is due."""
        if self.every is None or (step != 1 and step % self.every) or self._handles:
            return
        for name, module in self.model.named_modules():
            if is_recurrent(module) and hasattr(module, "num_layers") and not spells(self.model, name):
                self._handles.append(module.register_forward_pre_hook(self._hook(name), with_kwargs=True))

    def disarm(self) -> None:
        """Stop watching."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self.seen.clear()

    def _hook(self, name: str) -> Any:
        def hook(module: Any, given: tuple[Any, ...], keywords: dict[str, Any]) -> None:
            x = given[0] if given else keywords.get("input")
            if name in self.seen or not isinstance(x, Tensor) or x.dim() != 3:
                return
            x = x.detach().transpose(0, 1) if module.batch_first else x.detach()
            lengths = keywords.get("lengths")
            rows = slice(0, ROWS)
            if lengths is not None:  # the longest rows: padding would say nothing
                rows = torch.as_tensor(lengths, device=x.device).argsort(descending=True, stable=True)[:ROWS]  # type: ignore[assignment]
                steps = int(torch.as_tensor(lengths, device=x.device)[rows].min())
                x = x[: max(steps, 1)]
            self.seen[name] = x[:STEPS, rows].clone()

        return hook

    def take(self, model: nn.Module) -> dict[str, Any] | None:
        """What was seen, and the gradients (clipped, where they were); None where no look was due.

        layers      one dict a layer and direction, as `summary` gives them
        gradients   the norm of the gradient of each part of the model
        """
        if not self._handles:
            return None
        layers = [entry for name, x in self.seen.items() for entry in summary(model.get_submodule(name), x, name)]
        self.disarm()
        parts: dict[str, list[Tensor]] = {}
        for name, parameter in model.named_parameters():
            if parameter.grad is not None:
                parts.setdefault(name.partition(".")[0], []).append(parameter.grad)
        norms = {name: number(nn.utils.get_total_norm(gradients)) for name, gradients in parts.items()}
        return {"layers": layers, "gradients": norms}


def summary(module: nn.Module, x: Tensor, name: str = "") -> list[dict[str, Any]]:
    """What a layer does with a slice of input x (T, B, I), from the zero state.

    One dict a layer and direction:
        name, layer, direction, kind
        saturated    {gate: [share at the lower end, share at the upper end]}; h for an RNN
        histogram    {gate: shares of 10 equal bins} of the gates in (0, 1); of h over (-1, 1) for a tanh RNN
        half_life    of what the gate that keeps leaves, in steps (median over units); none of an RNN
        norm         the largest singular value of each block of the recurrent weights, by power iteration (from below)
        gradient     log10 of ‖v ∂h_T/∂h_(T-k)‖ / ‖v‖ for k = 0, 1, …: one random direction v, mean over the rows
    """
    layer: Any = twin_of(module)
    made: list[dict[str, Any]] = []
    below = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    for index in range(layer.num_layers):
        outs = []
        for direction in range(2 if layer.bidirectional else 1):
            cell = cell_of(layer, index, direction)
            cell = Cell(cell.kind, *(None if w is None else w.detach().to(below.dtype) for w in cell[1:]))  # type: ignore[arg-type]
            nodes, gates = _run(cell, layer, below.flip(0) if direction else below)
            entry = {"name": name, "layer": index, "direction": direction, "kind": cell.kind}
            made.append(entry | _gates(cell, gates, nodes) | _norms(cell) | {"gradient": _back(nodes)})
            out = torch.stack([node.detach() for node in nodes])
            outs.append(out.flip(0) if direction else out)
        below = torch.cat(outs, -1)
    return made


@torch.enable_grad()
def _run(cell: Cell, layer: Recurrent, x: Tensor) -> tuple[list[Tensor], dict[str, Tensor]]:
    """The states h after each step as parts of a graph, and the gates (T, B, H)."""
    state = tuple(x.new_zeros(x.shape[1], size) for size in layer.state_sizes)
    state[0].requires_grad_()
    nodes, gates = [], []
    for x_t in x:
        made = cell.step(x_t, *state)
        state = made.state
        nodes.append(state[0])
        gates.append(made.gates)
    return nodes, {name: torch.stack([one[name] for one in gates]).detach() for name in cell.names}


def _gates(cell: Cell, gates: dict[str, Tensor], nodes: list[Tensor]) -> dict[str, Any]:
    h = torch.stack([node.detach() for node in nodes])
    shown = gates or {"h": h}
    saturated, histogram = {}, {}
    for name, values in shown.items():
        saturated[name] = numbers([end.float().mean() for end in at_the_ends(values, name, cell.kind)])
        if cell.kind != "rnn_relu":
            ends = (-1.0, 1.0) if name in CANDIDATES else (0.0, 1.0)
            counts = torch.histc(values.float().nan_to_num(0), BINS, *ends)
            histogram[name] = numbers((counts / counts.sum().clamp(min=1)).tolist())
    found: dict[str, Any] = {"saturated": saturated} | ({"histogram": histogram} if histogram else {})
    if cell.kind in KEEPS:
        kept = gates[KEEPS[cell.kind]].double().log().mean((0, 1)).exp()  # (H,) geometric means
        found["half_life"] = number(half_life(kept).median())
    return found


def _norms(cell: Cell) -> dict[str, Any]:
    """A few power iterations for all blocks at once: it comes from below, and near enough to see a trend."""
    U = cell.U.float()
    generator = torch.Generator().manual_seed(0)
    v = torch.randn(U.shape[0], U.shape[2], 1, generator=generator).to(U.device)
    for _ in range(POWER_STEPS):
        v = nn.functional.normalize(U.mT @ (U @ v), dim=1)
    return {"norm": numbers((U @ v).norm(dim=(1, 2)))}


def _back(nodes: list[Tensor]) -> list[Any]:
    generator = torch.Generator().manual_seed(0)
    last = nodes[-1]
    signs = (torch.randint(0, 2, last.shape, generator=generator) * 2 - 1).to(last.device, last.dtype)
    gradients = torch.autograd.grad(last, nodes, signs, allow_unused=True)
    size = math.sqrt(last.shape[-1])
    norms = torch.stack([g.float().norm(dim=-1) / size for g in reversed(gradients) if g is not None])
    return numbers(norms.log10().mean(-1))
