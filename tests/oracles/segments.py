"""The second oracle: torch.nn itself, run on one row and one segment at a time, with its gradients.

A row of a batch with `lengths` must be as the row alone, cut to its length. A row with `resets` must be as its
segments, each run alone: the given state enters the first segment forwards and the last one backwards, every other
segment starts from zeros. Both hold through any number of layers. torch.nn can run each piece, so autograd gives
the gradient that a masked scan has to give.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


def _pieces(length: int, cuts: Sequence[bool] | None) -> list[tuple[int, int]]:
    starts = [0] + [t for t in range(1, length) if cuts is not None and cuts[t]]
    return list(zip(starts, [*starts[1:], length], strict=True))


def by_pieces(
    layer: nn.RNNBase,
    x: Tensor,
    h0: Tensor,
    c0: Tensor | None = None,
    *,
    lengths: Sequence[int],
    resets: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """x (B, T, I), h0 and c0 (layers * directions, B, .) -> out (B, T, .), h_n, c_n."""
    directions = 2 if layer.bidirectional else 1
    backward = torch.arange(h0.shape[0]) % directions == 1
    outs, h_ns, c_ns = [], [], []
    for row, length in enumerate(lengths):
        length = int(length)
        if length == 0:
            outs.append(x.new_zeros(x.shape[1], directions * h0.shape[2]))
            h_ns.append(h0[:, row])
            c_ns.append(None if c0 is None else c0[:, row])
            continue
        cuts = None if resets is None else [bool(v) for v in resets[row]]
        pieces = _pieces(length, cuts)
        outputs, h_parts, c_parts = [], [], []
        for number, (start, stop) in enumerate(pieces):
            enters = (~backward) & (number == 0 and not (cuts is not None and cuts[0]))
            enters = (enters | (backward & (number == len(pieces) - 1)))[:, None]
            piece = x[row, start:stop]
            piece = piece[:, None] if not layer.batch_first else piece[None]
            h = torch.where(enters, h0[:, row], 0.0)[:, None]
            if c0 is None:
                out, h = layer(piece, h)
            else:
                out, (h, c) = layer(piece, (h, torch.where(enters, c0[:, row], 0.0)[:, None]))
                c_parts.append(c[:, 0])
            outputs.append(out[0] if layer.batch_first else out[:, 0])
            h_parts.append(h[:, 0])
        rest = x.new_zeros(x.shape[1] - length, outputs[0].shape[1])
        outs.append(torch.cat([*outputs, rest]))
        h_ns.append(torch.where(backward[:, None], h_parts[0], h_parts[-1]))
        c_ns.append(torch.where(backward[:, None], c_parts[0], c_parts[-1]) if c_parts else None)
    c_n = None if c0 is None else torch.stack([c for c in c_ns if c is not None], dim=1)
    return torch.stack(outs), torch.stack(h_ns, dim=1), c_n
