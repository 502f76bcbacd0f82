"""What a conversion gives back: one of our layers, or a stack of embedding, recurrent layers and dense heads.

Axes     B batch, T time: ids (B, T) or features (B, T, I) where batch_first, else (T, B, …); the output is what the
         network that was converted would give: every step's, or the final one's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unrolled.convert.spec import Dense, Embedding, Network, Recurrent, Unit, refuse
from unrolled.errors import ShapeError, expected
from unrolled.layers import GRU, LSTM, RNN, hold_last, lengths_from_mask
from unrolled.layers.lengths import as_lengths

__all__ = ["ACTIVATIONS", "Block", "Stack", "layer_of", "module_of"]

ACTIVATIONS: dict[str, Any] = {
    "linear": lambda x: x,
    "relu": torch.relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "softmax": lambda x: torch.softmax(x, -1),
    "log_softmax": lambda x: torch.log_softmax(x, -1),
}


class Block(nn.Module):
    """One of our layers, and what the other framework does with its input and output. See `spec.Recurrent`."""

    def __init__(self, layer: Any, part: Recurrent) -> None:
        super().__init__()
        self.layer = layer
        self.merge, self.every, self.hold = part.merge, part.every, part.hold
        self.backwards, self.reverse = part.backwards, part.reverse

    def extra_repr(self) -> str:
        """The settings that differ from a plain layer."""
        shown = {"merge": self.merge if self.layer.bidirectional else "concat", "every": self.every}
        usual = {"merge": "concat", "every": True}
        said = [f"{name}={value!r}" for name, value in shown.items() if value != usual[name]]
        return ", ".join(said + [name for name in ("backwards", "reverse", "hold") if getattr(self, name)])

    def forward(self, x: Tensor, hx: Any = None, *, lengths: Tensor | None = None) -> tuple[Any, Any]:
        """The output, (…, T, width) or (…, width) of the final step, and the layer's own state."""
        time = 1 if self.layer.batch_first else 0
        if self.backwards or self.reverse:
            x = _turned(x, lengths, time)
        out, state = self.layer(x, hx, lengths=lengths)
        if not self.every:
            return self._merged(self._final(state)), state
        if self.hold and lengths is not None:
            out = hold_last(out, lengths, batch_first=self.layer.batch_first)
        size = out.shape[-1] // self.layer.num_directions
        out = self._merged(out.split(size, -1))
        return (_turned(out, lengths, time) if self.reverse else out), state

    def _final(self, state: Any) -> tuple[Tensor, ...]:
        h = state[0] if isinstance(state, tuple) else state
        return tuple(h[-self.layer.num_directions :])

    def _merged(self, halves: Sequence[Tensor]) -> Any:
        if len(halves) == 1:
            return halves[0]
        forward, backward = halves
        if self.merge == "sum":
            return forward + backward
        if self.merge == "ave":
            return (forward + backward) / 2
        if self.merge == "mul":
            return forward * backward
        return torch.cat([forward, backward], -1) if self.merge == "concat" else (forward, backward)


class Stack(nn.Module):
    """An embedding, recurrent blocks and dense heads, called as the network that it was converted from.

    `blocks` are the recurrent parts; the layer inside each is one of ours, with everything that it can do.
    """

    def __init__(self, parts: Sequence[nn.Module], batch_first: bool, mask_zero: bool = False) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.batch_first = batch_first
        self.mask_zero = mask_zero

    @property
    def blocks(self) -> list[Block]:
        """The recurrent parts, first to last."""
        return [part for part in self.parts if isinstance(part, Block)]

    def forward(self, input: Tensor, hx: Any = None, *, lengths: Any = None) -> Any:
        """Run over whole sequences.

        Args:
            input: ids (B, T), or features (B, T, I); (T, B, …) without batch_first.
            hx: None for zeros, or one state for each block, as its layer takes it.
            lengths: (B,) steps of each row. Where the embedding masks id 0, they are read from the ids if left out.

        Returns:
            The output alone: (B, T, width), or (B, width) where the last block gives its final step only.
        """
        return self.run(input, hx, lengths=lengths)[0]

    def run(self, input: Tensor, hx: Any = None, *, lengths: Any = None) -> tuple[Any, list[Any]]:
        """The output, and the final state of each block: what `hx` takes to go on from there."""
        if hx is not None and len(hx) != len(self.blocks):
            raise ShapeError(expected("hx", f"{len(self.blocks)} states, one for each block", len(hx)))
        lengths = self._lengths(input, lengths)
        given, states = iter(hx if hx is not None else [None] * len(self.blocks)), []
        x: Any = input
        for part in self.parts:
            if isinstance(part, Block):
                x, state = part(x, next(given), lengths=lengths)
                states.append(state)
            else:
                x = part(x)
        return x, states

    def _lengths(self, input: Tensor, lengths: Any) -> Tensor | None:
        if lengths is None and not self.mask_zero:
            return None
        if lengths is None:
            return lengths_from_mask((input if self.batch_first else input.T) != 0)
        batch, time = (0, 1) if self.batch_first else (1, 0)
        return as_lengths(lengths, input.shape[batch], input.shape[time], input.device)


class Activation(nn.Module):
    """One of `ACTIVATIONS`, by name."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return ACTIVATIONS[self.name](x)

    def extra_repr(self) -> str:
        """Its name."""
        return self.name


def module_of(network: Network) -> Any:
    """A layer of ours where the network is called like one and is nothing more, else a `Stack`."""
    groups = _groups(network.parts)
    if network.layer and len(groups) == 1 and isinstance(groups[0], list) and all(p.plain for p in groups[0]):
        return layer_of([part.units for part in groups[0]], network.batch_first)
    made: list[nn.Module] = []
    for group in groups:
        if isinstance(group, list):
            made.append(Block(layer_of([part.units for part in group], network.batch_first), group[-1]))
        elif isinstance(group, Embedding):
            made.append(nn.Embedding.from_pretrained(_tensor(group.weight), freeze=False))
        else:
            made += _dense(group)
    masks = any(isinstance(part, Embedding) and part.mask_zero for part in network.parts)
    return Stack(made, network.batch_first, masks).eval()


def layer_of(levels: Sequence[Sequence[Unit]], batch_first: bool) -> Any:
    """One of our layers from its units, layer by layer; all of one variant."""
    first = levels[0][0]
    for unit in (unit for units in levels for unit in units):
        if unit.variant != first.variant:
            raise refuse(unit.where, f"sizes, biases and numbers as in {first.where}, which it goes with", "others")
    options: dict[str, Any] = {"batch_first": batch_first, "bidirectional": len(levels[0]) == 2}
    options |= {"bias": first.b is not None, "single_bias": first.b is not None and first.b_h is None}
    if first.cell == "rnn":
        options["nonlinearity"] = first.nonlinearity
    if first.cell == "gru":
        options["reset_after"] = first.reset_after
    if first.V is not None:
        options["proj_size"] = first.state_size
    make: Any = {"rnn": RNN, "lstm": LSTM, "gru": GRU}[first.cell]
    # On the meta device nothing is filled with random numbers that would be thrown away.
    layer = make(first.input_size, first.hidden_size, len(levels), device="meta", **options)
    layer.load_state_dict(dict(_state(levels)), assign=True)
    for parameter in layer.parameters():
        parameter.requires_grad_(True)
    return layer.eval()


def _state(levels: Sequence[Sequence[Unit]]) -> Iterator[tuple[str, Tensor]]:
    """torch's names and shapes."""
    for number, units in enumerate(levels):
        for direction, unit in enumerate(units):
            suffix = f"_l{number}" + ("_reverse" if direction else "")
            for name, array in (("weight_ih", unit.W), ("weight_hh", unit.U)):
                yield name + suffix, _tensor(array.transpose(0, 2, 1).reshape(-1, array.shape[1]))
            for name, bias in (("bias_ih", unit.b), ("bias_hh", unit.b_h)):
                if bias is not None:
                    yield name + suffix, _tensor(bias.reshape(-1))
            if unit.V is not None:
                yield f"weight_hr{suffix}", _tensor(unit.V.T)


def _groups(parts: Sequence[Embedding | Recurrent | Dense]) -> list[list[Recurrent] | Embedding | Dense]:
    """Neighbouring layers that one layer of ours can hold, as one list; the other parts one by one."""
    groups: list[list[Recurrent] | Embedding | Dense] = []
    for part in parts:
        last = groups[-1] if groups else None
        if isinstance(part, Recurrent) and isinstance(last, list) and _one_layer(last[-1], part):
            last.append(part)
        else:
            groups.append([part] if isinstance(part, Recurrent) else part)
    return groups


def _one_layer(below: Recurrent, above: Recurrent) -> bool:
    variants = {unit.variant for part in (below, above) for unit in part.units}
    alike = len(variants) == 1 and len(below.units) == len(above.units)
    return alike and below.plain and replace(above, every=True).plain


def _turned(x: Any, lengths: Tensor | None, time: int) -> Any:
    """Each row read from its own end; padding stays where it is."""
    if isinstance(x, tuple):
        return tuple(_turned(half, lengths, time) for half in x)
    if lengths is None:
        return x.flip(time)
    steps = torch.arange(x.shape[time], device=x.device)
    index = torch.where(steps < lengths[:, None], lengths[:, None] - 1 - steps, steps)  # (B, T)
    index = index if time else index.T
    return x.gather(time, index[:, :, None].expand_as(x))


def _dense(part: Dense) -> list[nn.Module]:
    inputs, outputs = part.weight.shape
    linear = nn.Linear(inputs, outputs, bias=part.bias is not None, device="meta")
    state = {"weight": _tensor(part.weight.T)}
    if part.bias is not None:
        state["bias"] = _tensor(part.bias)
    linear.load_state_dict(state, assign=True)
    for parameter in linear.parameters():
        parameter.requires_grad_(True)
    return [linear] if part.activation == "linear" else [linear, Activation(part.activation)]


def _tensor(array: np.ndarray) -> Tensor:
    return torch.from_numpy(np.array(array, order="C"))  # a copy: what is read from a file may be read-only
