"""The Transformer for pairs: an encoder that sees the whole source, a decoder that sees what it has written.

Axes     B batch, S source steps, T target steps, P steps written so far, L layers of the decoder, H features.
Source   Vaswani et al. (2017), arXiv:1706.03762, section 3.1; norms before each block as in `models.transformer`.
Variant  The decoder's weights are those of torch.nn.TransformerDecoderLayer, and the result is that of
         torch.nn.TransformerDecoder with the same masks; a test holds them together. What does not change while a
         target is written is kept: the source's keys and values, and those of the steps before.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unrolled.errors import RecipeError, expected
from unrolled.models.attention import masked_weights
from unrolled.models.encoder_decoder import Decoded, DecoderState, EncoderDecoder, Source
from unrolled.models.inputs import SOURCE, TokenInput, source_inputs
from unrolled.models.parts import Batch, Inputs, check_rate, lengths_of, valid_steps
from unrolled.models.transformer import Transformer, before, sinusoids

__all__ = ["PairTransformer", "SourceKeys", "build_pair_transformer"]


class SourceKeys(NamedTuple):
    """What the decoder looks at, for each of its layers."""

    keys: Tensor  # (B, L, S, H)
    values: Tensor  # (B, L, S, H)
    valid: Tensor  # (B, S)


class PairTransformer(EncoderDecoder):
    """An `EncoderDecoder` without recurrence. Its decoder's state holds keys and values, and grows with every step.

    Args:
        inputs: of the source: `TokenInput` or `FeatureInput`.
        encoder: a `Transformer` that is not causal.
        target_inputs: `TokenInput` of the target.
        vocabulary: V.
        layers: of the decoder.
        dropout: share of the features before the output set to 0 while training; inside the layers it is the encoder's.
    """

    def __init__(
        self,
        inputs: Inputs,
        encoder: Transformer,
        target_inputs: TokenInput,
        vocabulary: int,
        *,
        layers: int = 1,
        feedforward: int | None = None,
        inner_dropout: float = 0.0,
        dropout: float = 0.0,
    ) -> None:
        nn.Module.__init__(self)
        self.inputs, self.encoder, self.target_inputs = inputs, encoder, target_inputs
        width = encoder.hidden_size
        sizes = (width, encoder.heads, feedforward or 4 * width, check_rate("dropout", inner_dropout))
        self.enter = nn.Linear(target_inputs.width, width)
        self.layers = nn.ModuleList(
            nn.TransformerDecoderLayer(*sizes, activation="gelu", batch_first=True, norm_first=True)
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(check_rate("dropout", dropout))
        self.output = nn.Linear(width, vocabulary)

    def encode(self, batch: Batch) -> Source:
        """Read a batch of sources; the decoder starts with nothing behind it."""
        x = self.inputs.read(batch)
        lengths = lengths_of(batch.lengths, x)
        assert self.encoder is not None
        out, _ = self.encoder(x, lengths=lengths)
        pairs = [_keys_and_values(layer.multihead_attn, out) for layer in self.layers]
        keys, values = (torch.stack(part, 1) for part in zip(*pairs, strict=True))
        nothing = out.new_zeros(len(self.layers), out.shape[0], 0, out.shape[-1])
        return Source((nothing, nothing), SourceKeys(keys, values, valid_steps(lengths, x)))  # type: ignore[arg-type]

    def begin(self, source: Source) -> DecoderState:
        """The state before the first step."""
        return DecoderState(source.start, None)

    def decode(self, ids: Tensor, state: DecoderState, source: Source) -> Decoded:
        """Read target tokens (B, T) from a state on. One call of T steps is T calls of one step."""
        memory: Any = source.memory
        past, new = state.recurrent[0].shape[2], ids.shape[1]
        steps = torch.arange(past, past + new, device=ids.device)
        h = self.enter(self.target_inputs(ids))
        h = h + sinusoids(steps, h.shape[-1]).to(h.dtype)
        mask = None if new == 1 else before(new, past + new, ids.device)
        keys, values, weights = [], [], h.new_zeros(0)
        for number, layer in enumerate(self.layers):
            own = (state.recurrent[0][number], state.recurrent[1][number])
            looked = (memory.keys[:, number], memory.values[:, number], memory.valid)
            h, key, value, weights = _block(layer, h, own, looked, mask)
            keys.append(key)
            values.append(value)
        logits = self.output(self.dropout(self.norm(h)))
        return Decoded(logits, weights, DecoderState((torch.stack(keys), torch.stack(values)), None))


def _block(
    layer: Any, x: Tensor, past: tuple[Tensor, Tensor], source: tuple[Tensor, Tensor, Tensor], mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """One torch.nn.TransformerDecoderLayer on x (B, n, H) → x, keys and values (B, P + n, H), weights (B, n, S)."""
    itself, other, rate = layer.self_attn, layer.multihead_attn, layer.self_attn.dropout if layer.training else 0.0
    query, key, value = F.linear(layer.norm1(x), itself.in_proj_weight, itself.in_proj_bias).chunk(3, -1)
    key, value = torch.cat([past[0], key], 1), torch.cat([past[1], value], 1)
    q, k, v = (_heads(part, itself) for part in (query, key, value))
    mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=rate)
    x = x + layer.dropout1(itself.out_proj(mixed.transpose(1, 2).flatten(-2)))
    width = x.shape[-1]
    q = _heads(F.linear(layer.norm2(x), other.in_proj_weight[:width], other.in_proj_bias[:width]), other)
    k, v = _heads(source[0], other), _heads(source[1], other)
    weights = masked_weights(q @ k.mT / math.sqrt(q.shape[-1]), source[2][:, None, None])
    mixed = F.dropout(weights, rate) @ v
    x = x + layer.dropout2(other.out_proj(mixed.transpose(1, 2).flatten(-2)))
    hidden = layer.dropout(layer.activation(layer.linear1(layer.norm3(x))))
    return x + layer.dropout3(layer.linear2(hidden)), key, value, weights.mean(1)


def _keys_and_values(attention: Any, memory: Tensor) -> tuple[Tensor, Tensor]:
    width = memory.shape[-1]
    both = F.linear(memory, attention.in_proj_weight[width:], attention.in_proj_bias[width:])
    return both[..., :width], both[..., width:]


def _heads(x: Tensor, attention: Any) -> Tensor:
    """(B, n, H) → (B, heads, n, H / heads)."""
    return x.unflatten(-1, (attention.num_heads, -1)).transpose(1, 2)


def build_pair_transformer(
    *,
    target_vocabulary: int,
    vocabulary: int | None = None,
    unknown: int | None = None,
    channels: int | None = None,
    hidden: int = 128,
    layers: int = 1,
    decoder_layers: int | None = None,
    heads: int = 4,
    feedforward: int | None = None,
    embedding: int = 64,
    dropout: float = 0.0,
    input_dropout: float = 0.0,
    output_dropout: float = 0.0,
    word_dropout: float = 0.0,
    feature_noise: float = 0.0,
) -> PairTransformer:
    """A `PairTransformer`; keywords as those of `build_encoder_decoder` and of `Transformer`.

    Raises:
        RecipeError: both or neither of `vocabulary` and `channels`, or heads that do not divide the hidden size.
    """
    given = dict(locals())
    inputs = source_inputs(**{name: given[name] for name in SOURCE})
    if hidden % heads:
        raise RecipeError(expected("hidden", f"a multiple of heads = {heads}", hidden))
    encoder = Transformer(inputs.width, hidden, layers, heads=heads, feedforward=feedforward, dropout=dropout)
    target_inputs = TokenInput(target_vocabulary, embedding, dropout=input_dropout)
    sizes: dict[str, Any] = {"layers": decoder_layers or layers, "feedforward": feedforward}
    sizes |= {"inner_dropout": dropout, "dropout": output_dropout}
    return PairTransformer(inputs, encoder, target_inputs, target_vocabulary, **sizes)
