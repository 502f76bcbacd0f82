"""The bridge: from the state in which an encoder ends to the one in which a decoder begins.

Axes     L layers, D directions, B batch, H units; encoder's state (L·D, B, H) → decoder's (L', B, H').
Source   projection: s_0 = tanh(h W + b), Bahdanau, Cho & Bengio (2015), arXiv:1409.0473, appendix A.2.2, here from
         both directions. copy: Sutskever, Vinyals & Le (2014), arXiv:1409.3215.
Variant  Layers are matched from the top: the decoder's top layer starts from the encoder's top layer, and where the
         decoder is deeper its lower layers start from the encoder's lowest. The cell state of an LSTM comes from the
         encoder's cell state; where the encoder has none, from its h (projection) or from zeros (copy). It is
         projected without the tanh, since a cell state may be larger than 1.

    copy        the directions side by side; the decoder has as many units as both directions have
    projection  a linear map a layer and part, with tanh for h; any sizes
    zeros       the decoder starts from zeros, and sees the source by attention only
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from unrolled.errors import ShapeError, expected
from unrolled.layers import state_by_layer

__all__ = ["BRIDGES", "Bridge", "StateShape"]

BRIDGES = ("projection", "copy", "zeros")


class StateShape(NamedTuple):
    """What a recurrent layer's state looks like."""

    layers: int
    directions: int
    sizes: tuple[int, ...]  # of h, and of c where there is one

    @classmethod
    def of(cls, recurrent: Any) -> StateShape:
        """The shape of the state of an RNN, LSTM or GRU of this library."""
        return cls(recurrent.num_layers, recurrent.num_directions, recurrent.state_sizes)


class Bridge(nn.Module):
    """One of the three bridges, between states of given shapes.

    Args:
        kind: "projection", "copy" or "zeros".
        encoder: the shape that comes in.
        decoder: the shape that goes out; one direction.

    Raises:
        ShapeError: copy, and the sizes differ.
    """

    def __init__(self, kind: str, encoder: StateShape, decoder: StateShape) -> None:
        super().__init__()
        if kind not in BRIDGES:
            raise ValueError(expected("bridge", "one of " + ", ".join(BRIDGES), repr(kind)))
        self.kind, self.encoder, self.decoder = kind, encoder, decoder
        # (the encoder's layer and part that each part of each of the decoder's layers starts from)
        self.sources = [max(0, encoder.layers - decoder.layers + layer) for layer in range(decoder.layers)]
        widths = [encoder.directions * size for size in encoder.sizes]
        if kind == "copy" and widths[0] != decoder.sizes[0]:
            found = f"{decoder.sizes[0]}"
            way_out = "Give the decoder that many units, or use bridge='projection'."
            wanted = f"{widths[0]} units, {encoder.directions} × {encoder.sizes[0]}, for bridge='copy'"
            raise ShapeError(expected("decoder", wanted, found, way_out))
        self.maps = nn.ModuleList()
        if kind == "projection":
            for _ in range(decoder.layers):
                row = [nn.Linear(widths[min(p, len(widths) - 1)], size) for p, size in enumerate(decoder.sizes)]
                self.maps.append(nn.ModuleList(row))

    def forward(self, state: Any) -> Any:
        """The decoder's first state: a tensor (L', B, H'), or for an LSTM the pair (h, c)."""
        given = state if isinstance(state, tuple) else (state,)
        joined = [
            torch.cat(tuple(part), -1)
            for whole in given
            for part in state_by_layer(whole, bidirectional=self.encoder.directions == 2)
        ]  # part by part, layer by layer: (B, D·H)
        parts = [
            torch.stack([self._start(joined, layer, part) for layer in range(self.decoder.layers)])
            for part in range(len(self.decoder.sizes))
        ]
        return parts[0] if len(parts) == 1 else tuple(parts)

    def _start(self, joined: list[Tensor], layer: int, part: int) -> Tensor:
        has_part = part < len(self.encoder.sizes)
        source = joined[(part if has_part else 0) * self.encoder.layers + self.sources[layer]]
        if self.kind == "projection":
            row = self.maps[layer]
            assert isinstance(row, nn.ModuleList)
            projected = row[part](source)
            return torch.tanh(projected) if part == 0 else projected
        if self.kind == "copy" and has_part:
            return source
        return source.new_zeros(source.shape[0], self.decoder.sizes[part])
