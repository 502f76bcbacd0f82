"""The Transformer, to be compared with: layers of torch.nn, called and batched like a recurrent layer.

Axes     B batch, T time, I input, H features (heads × H/heads), L layers, P steps in the cache.
Source   Vaswani et al. (2017), arXiv:1706.03762: sections 3.1-3.5. The norm stands before each block and once after the
         last, as in Xiong et al. (2020), arXiv:2002.04745, and trains without warm-up.
Variant  The weights are those of torch.nn.TransformerEncoderLayer, and the result is that of
         torch.nn.TransformerEncoder with the same masks; a test holds them together. The product with the keys goes
         through scaled_dot_product_attention, which never stores T × T numbers where a kernel of torch allows it.
         Positions are sinusoids, so nothing limits the length.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unrolled.errors import RunError, ShapeError, expected
from unrolled.models.parts import check_rate, lengths_of, valid_steps

__all__ = ["AttentionState", "Transformer", "before", "sinusoids"]


class AttentionState(NamedTuple):
    """What a causal Transformer must remember: it grows with every step, where a recurrent state does not."""

    inputs: Tensor  # (P, B, I) what was read since the window began
    keys: Tensor  # (L, P, B, H)
    values: Tensor  # (L, P, B, H)
    ended: Tensor  # (1, B, 1) boolean: the row has had its last step


class Transformer(nn.Module):
    """Self-attention in place of recurrence. `out, state = layer(x, hx, lengths=…, resets=…)`, batch first.

    Args:
        input_size: I.
        hidden_size: H, a multiple of `heads`.
        depth: L.
        heads: parts that attend by themselves.
        feedforward: width of the network between two attentions; None: 4 H.
        causal: a step sees only itself and what came before. Then `state` can be carried on in evaluation.
        window: steps that a causal Transformer sees at most. While training, a longer input is cut into windows that
            start afresh. In evaluation a full window drops its older half and goes on, so that every step but the
            first ones sees between half a window and a whole one; how the input is cut into calls changes nothing.
        dropout: share set to 0 while training, in each layer: of the attention weights, and after each block.
    """

    bidirectional = False  # one output a step, not a forward and a backward half: a non-causal step sees both sides
    batch_first = True

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        depth: int = 1,
        *,
        heads: int = 4,
        feedforward: int | None = None,
        causal: bool = False,
        window: int = 512,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if hidden_size % heads:
            found = f"{hidden_size} with {heads} heads"
            raise ValueError(expected("hidden_size", "a multiple of heads", found, "Each head takes an equal part."))
        if window < 2:
            raise ValueError(expected("window", "2 steps or more", window))
        self.input_size, self.hidden_size, self.depth, self.heads = input_size, hidden_size, depth, heads
        self.causal, self.window = causal, window
        self.enter = nn.Linear(input_size, hidden_size)
        sizes = (hidden_size, heads, feedforward or 4 * hidden_size, check_rate("dropout", dropout))
        # Not torch.nn.TransformerEncoder, which copies one layer: all of them would start with the same weights.
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(*sizes, activation="gelu", batch_first=True, norm_first=True)
            for _ in range(depth)
        )
        self.norm = nn.LayerNorm(hidden_size)

    def forward(self, input: Tensor, hx: Any = None, *, lengths: Any = None, resets: Any = None) -> tuple[Tensor, Any]:
        """Run over whole sequences.

        Args:
            input: (B, T, I). What stands past a row's length is not read.
            hx: the state that an earlier call in evaluation returned, of a causal Transformer.
            lengths: (B,) steps of each row, 0 allowed; all T where None.
            resets: bool (B, T); a step sees nothing from before the last True at or before it.

        Returns:
            The output (B, T, H), 0 past each row's length. The state: of a causal Transformer in evaluation an
            `AttentionState`, while training or with resets None (each call is a window of its own); of one that is not
            causal the output (1, B, H) at each row's last step.

        Raises:
            ShapeError: the input has other axes.
            RunError: a state where none can be carried on.
        """
        if input.dim() != 3 or input.shape[-1] != self.input_size:
            raise ShapeError(expected("input", f"(batch, time, {self.input_size}) (…, input)", tuple(input.shape)))
        rows = None if lengths is None else lengths_of(lengths, input)
        if rows is not None:
            input = input.masked_fill(~valid_steps(rows, input)[..., None], 0)
        self._check_state(hx, rows, resets)
        if not self.causal:
            out = _blank(self._window(input, rows, resets), rows)
            return out, _last(out, rows)
        if self.training or resets is not None:
            cut = range(0, max(input.shape[1], 1), self.window)
            parts = [self._window(input[:, i : i + self.window], None, _part(resets, i, self.window)) for i in cut]
            return _blank(torch.cat(parts, 1), rows), None
        out, state = self._carry_on(input, hx)
        return _blank(out, rows), state._replace(ended=_ended(state.ended, rows, input.shape[1]))

    def _window(self, x: Tensor, rows: Tensor | None, resets: Tensor | None) -> Tensor:
        """(B, T, I) → (B, T, H): one window, without a past."""
        mask = None if rows is None else _own_keys(rows, x)
        if resets is not None:
            same = _same_document(resets)
            mask = same if mask is None else mask & same
            if self.causal:
                mask = mask & before(x.shape[1], x.shape[1], x.device)
        steps = torch.arange(x.shape[1], device=x.device) if resets is None else _steps_since(resets)
        h = self.enter(x) + sinusoids(steps, self.hidden_size).to(x.dtype)
        for layer in self.layers:
            h, _, _ = _block(layer, h, mask=mask, causal=self.causal and mask is None)
        return self.norm(h)

    def _carry_on(self, x: Tensor, state: AttentionState | None) -> tuple[Tensor, AttentionState]:
        """Go on from a cache, as far as the window has room, then drop its older half, and again."""
        state = self._empty(x) if state is None else state
        outs = [x.new_zeros(x.shape[0], 0, self.hidden_size)]
        while x.shape[1]:
            if len(state.inputs) == self.window:
                kept = state.inputs[-(self.window // 2) :].transpose(0, 1)
                _, state = self._extend(kept, self._empty(x, state.ended))
            room = self.window - len(state.inputs)
            out, state = self._extend(x[:, :room], state)
            outs.append(out)
            x = x[:, room:]
        return torch.cat(outs, 1), state

    def _extend(self, x: Tensor, state: AttentionState) -> tuple[Tensor, AttentionState]:
        """Steps (B, n, I) behind the P steps of the cache → (B, n, H)."""
        past, new = len(state.inputs), x.shape[1]
        steps = torch.arange(past, past + new, device=x.device)
        mask = None if new == 1 or past == 0 else before(new, past + new, x.device)
        h = self.enter(x) + sinusoids(steps, self.hidden_size).to(x.dtype)
        keys, values = [], []
        for layer, key, value in zip(self.layers, state.keys, state.values, strict=True):
            given = (key.transpose(0, 1), value.transpose(0, 1))
            h, key, value = _block(layer, h, given, mask=mask, causal=past == 0 and new > 1)
            keys.append(key.transpose(0, 1))
            values.append(value.transpose(0, 1))
        inputs = torch.cat([state.inputs, x.transpose(0, 1)])
        return self.norm(h), AttentionState(inputs, torch.stack(keys), torch.stack(values), state.ended)

    def _empty(self, x: Tensor, ended: Tensor | None = None) -> AttentionState:
        batch = x.shape[0]
        none = x.new_zeros(self.depth, 0, batch, self.hidden_size)
        running = torch.zeros(1, batch, 1, dtype=torch.bool, device=x.device) if ended is None else ended
        return AttentionState(x.new_zeros(0, batch, self.input_size), none, none, running)

    def _check_state(self, state: Any, rows: Tensor | None, resets: Any) -> None:
        if state is None:
            return
        if not self.causal or self.training or resets is not None:
            why = "without resets" if resets is not None else "in evaluation, of a causal Transformer"
            raise RunError(expected("hx", f"None: a state is carried on only {why}", type(state).__name__))
        again = state.ended[0, :, 0] & (rows > 0 if rows is not None else torch.ones_like(state.ended[0, :, 0]))
        if bool(again.any()):
            row = int(again.nonzero()[0, 0])
            way_out = "Its cache is shorter than that of the others: give such rows a state of their own."
            raise RunError(expected("hx", "rows that have not ended", f"row {row}, which ended earlier", way_out))


def sinusoids(steps: Tensor, width: int) -> Tensor:
    """Positions of any shape → (…, width): sine and cosine by turns, wavelengths from 2π to 10,000 · 2π.

    Source: Vaswani et al. (2017), section 3.5.
    """
    rates = torch.exp(torch.arange(0, width, 2, device=steps.device) * (-math.log(10_000.0) / width))
    angles = steps[..., None].to(rates.dtype) * rates
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)[..., :width]


def _block(
    layer: Any, x: Tensor, past: tuple[Tensor, Tensor] | None = None, *, mask: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """One torch.nn.TransformerEncoderLayer on x (B, n, H), behind keys and values (B, P, H) → x, keys, values."""
    attention = layer.self_attn
    query, key, value = F.linear(layer.norm1(x), attention.in_proj_weight, attention.in_proj_bias).chunk(3, -1)
    if past is not None:
        key, value = torch.cat([past[0], key], 1), torch.cat([past[1], value], 1)
    q, k, v = (part.unflatten(-1, (attention.num_heads, -1)).transpose(1, 2) for part in (query, key, value))
    rate = attention.dropout if layer.training else 0.0
    mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=rate, is_causal=causal)
    x = x + layer.dropout1(attention.out_proj(mixed.transpose(1, 2).flatten(-2)))
    hidden = layer.dropout(layer.activation(layer.linear1(layer.norm2(x))))
    return x + layer.dropout2(layer.linear2(hidden)), key, value


def _own_keys(rows: Tensor, x: Tensor) -> Tensor:
    """(B, 1, 1, T): True at the keys that are not padding. A row without steps keeps one, as 0/0 would be NaN."""
    return (torch.arange(x.shape[1], device=x.device) < rows.clamp(min=1)[:, None])[:, None, None]


def _same_document(resets: Tensor) -> Tensor:
    """(B, 1, T, T): True where no reset stands between query and key."""
    number = resets.long().cumsum(1)
    return (number[:, :, None] == number[:, None])[:, None]


def _steps_since(resets: Tensor) -> Tensor:
    """(B, T): how far each step is from the last reset, or from the beginning."""
    steps = torch.arange(resets.shape[1], device=resets.device).expand(resets.shape)
    return steps - steps.masked_fill(~resets, 0).cummax(1).values


def before(queries: int, keys: int, device: torch.device) -> Tensor:
    """(n, m) boolean: the last n of m steps may look at themselves and at what came before."""
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)


def _part(resets: Tensor | None, start: int, steps: int) -> Tensor | None:
    return None if resets is None else resets[:, start : start + steps]


def _blank(out: Tensor, rows: Tensor | None) -> Tensor:
    return out if rows is None else out.masked_fill(~valid_steps(rows, out)[..., None], 0)


def _last(out: Tensor, rows: Tensor | None) -> Tensor:
    """(1, B, H): the output at each row's last step, 0 in a row without steps."""
    batch, steps = out.shape[:2]
    if not steps:
        return out.new_zeros(1, batch, out.shape[-1])
    last = torch.full((batch,), steps - 1, device=out.device) if rows is None else (rows - 1).clamp(min=0)
    return out[torch.arange(batch, device=out.device), last][None]


def _ended(before: Tensor, rows: Tensor | None, steps: int) -> Tensor:
    return before if rows is None else before | (rows < steps)[None, :, None]
