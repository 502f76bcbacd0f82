"""Encoder–decoder: a sequence, or one vector, in; a sequence of another length out.

Axes     B batch, S source steps, T target steps, M memory (encoder's units × directions), V target vocabulary.
Source   Sutskever, Vinyals & Le (2014), arXiv:1409.3215, and Cho et al. (2014), arXiv:1406.1078, without attention.
         additive: Bahdanau, Cho & Bengio (2015), arXiv:1409.0473: the context of the state before the step goes into
         the step, and beside the state into the output. dot and general: Luong, Pham & Manning (2015),
         arXiv:1508.04025: the step first, the context of its state after it, h̃ = tanh([c; h] W + b) (eq. 5), and with
         input feeding h̃ goes into the next step.
Variant  The output layer is linear in all cases (Bahdanau et al. have a maxout before it). Without input feeding and
         sampling, dot and general take the whole target in one call of the layer; all others go step by step.
         What stands past a source's length changes nothing.

Weights  `inputs` and `encoder` (or `vector`) the source side; `bridge.maps`; `target_inputs` and `decoder` the target
         side; `attention.scores`; `combine` (of Luong's kinds); `output`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from unrolled.errors import ShapeError, expected
from unrolled.models.attention import Memory, SourceAttention
from unrolled.models.bridge import Bridge, StateShape
from unrolled.models.inputs import FeatureInput, TokenInput
from unrolled.models.parts import Batch, Inputs, check_fit, check_rate, lengths_of, valid_steps, widened, width_of

__all__ = ["DecoderState", "EncoderDecoder", "Source", "VectorEncoder"]


class Source(NamedTuple):
    """A source that has been read: where the decoder starts, and what it can look at."""

    start: Any  # the decoder's first state
    memory: Memory | None  # None: without attention


class DecoderState(NamedTuple):
    """What goes from one step of the decoder to the next."""

    recurrent: Any  # the layer's state
    fed: Tensor | None  # (B, 1, H): h̃ of the last step, with input feeding


class Decoded(NamedTuple):
    """A run of the decoder over a target."""

    logits: Tensor  # (B, T, V)
    weights: Tensor | None  # (B, T, S); None without attention
    state: DecoderState


class VectorEncoder(nn.Module):
    """One vector a row, (B, 1, D), as the state of a layer: h = tanh(x W + b)."""

    def __init__(self, inputs: FeatureInput, hidden: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(inputs.width, hidden)
        self.shape = StateShape(1, 1, (hidden,))

    def forward(self, x: Tensor) -> Tensor:
        """(B, 1, D) → (1, B, H).

        Raises:
            ShapeError: a row has several vectors.
        """
        if x.shape[1] != 1:
            raise ShapeError(expected("source", "one vector a row, (batch, 1, channels)", tuple(x.shape)))
        return torch.tanh(self.hidden(x)).transpose(0, 1)


class EncoderDecoder(nn.Module):
    """An encoder, a bridge, and a decoder with or without attention.

    Args:
        inputs: of the source: `TokenInput` or `FeatureInput`.
        encoder: RNN, LSTM or GRU with batch_first=True, in one direction or both, or a `VectorEncoder`.
        target_inputs: `TokenInput` of the target.
        decoder: RNN, LSTM or GRU in one direction with batch_first=True. Its input is the target's embedding, with
            additive attention the context beside it, with input feeding h̃ beside it.
        vocabulary: V.
        attention: "none", "additive", "dot" or "general".
        input_feeding: h̃ goes into the next step; with dot and general only.
        bridge: "projection", "copy" or "zeros"; see `models.bridge`.
        dropout: share of the features before the output set to 0 while training.

    Raises:
        ValueError: a combination that cannot work; the message names the way out.
        ShapeError: sizes that do not fit.
    """

    def __init__(
        self,
        inputs: Inputs,
        encoder: Any,
        target_inputs: TokenInput,
        decoder: Any,
        vocabulary: int,
        *,
        attention: str = "general",
        input_feeding: bool = False,
        bridge: str = "projection",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        vector = isinstance(encoder, VectorEncoder)
        _check_kinds(attention, input_feeding, bridge, vector)
        if not vector:
            check_fit(inputs, encoder)
        if decoder.bidirectional:
            way_out = "A target is written from its beginning to its end."
            raise ValueError(expected("decoder", "one direction", "bidirectional=True", way_out))
        self.inputs, self.target_inputs = inputs, target_inputs
        self.vector = encoder if vector else None
        self.encoder = None if vector else encoder
        self.decoder = decoder
        self.kind, self.input_feeding = attention, input_feeding
        width = width_of(decoder)
        memory = 0 if vector else width_of(encoder)
        more = {"additive": memory}.get(attention, width if input_feeding else 0)
        if decoder.input_size != target_inputs.width + more:
            wanted = f"input_size={target_inputs.width} + {more}, the embedding and what attention adds to it"
            raise ShapeError(expected("decoder", wanted, f"input_size={decoder.input_size}"))
        self.bridge = Bridge(bridge, encoder.shape if vector else StateShape.of(encoder), StateShape.of(decoder))
        self.attention = None if attention == "none" else SourceAttention(attention, width, memory)
        self.combine = nn.Linear(memory + width, width) if attention in ("dot", "general") else None
        self.dropout = nn.Dropout(check_rate("dropout", dropout))
        self.output = nn.Linear(width + (memory if attention == "additive" else 0), vocabulary)

    # the source

    def encode(self, batch: Batch) -> Source:
        """Read a batch of sources to their ends."""
        x = self.inputs.read(batch)
        lengths = lengths_of(batch.lengths, x)
        if self.vector is not None:
            return Source(self.bridge(self.vector(x)), None)
        assert self.encoder is not None
        x = x.masked_fill(~valid_steps(lengths, x)[..., None], 0)
        out, state = self.encoder(x, lengths=lengths)
        memory = None if self.attention is None else self.attention.remember(out, lengths)
        return Source(self.bridge(state), memory)

    def begin(self, source: Source) -> DecoderState:
        """The state before the first step."""
        h = source.start[0] if isinstance(source.start, tuple) else source.start
        fed = h.new_zeros(h.shape[1], 1, width_of(self.decoder)) if self.input_feeding else None
        return DecoderState(source.start, fed)

    # the target

    def forward(self, batch: Batch, previous: Tensor, *, lengths: Any = None, own: float = 0.0) -> Tensor:
        """Scores of every target token, given the true tokens before it: (B, T, V).

        Args:
            batch: the sources.
            previous: (B, T) the start symbol, then the target without its last token.
            lengths: (B,) target steps of each row; what stands past them is not read.
            own: the probability with which a step reads a token drawn from the model's own distribution in place of
                the true one (scheduled sampling: Bengio et al. (2015), arXiv:1506.03099). No gradient goes through it.
        """
        return self.run(batch, previous, lengths=lengths, own=own).logits

    def run(self, batch: Batch, previous: Tensor, *, lengths: Any = None, own: float = 0.0) -> Decoded:
        """The same with the weights of the attention, and the state after the last step."""
        if not 0 <= own <= 1:
            raise ValueError(expected("own", "a probability", own))
        if len(previous) != len(batch):
            raise ShapeError(expected("previous", f"({len(batch)}, time), as many rows as sources", len(previous)))
        if lengths is not None:
            previous = previous.masked_fill(~valid_steps(lengths, previous), 0)
        source = self.encode(batch)
        state = self.begin(source)
        if own == 0:
            return self.decode(previous, state, source)
        pieces: list[Decoded] = []
        for t in range(previous.shape[1]):
            ids = previous[:, t : t + 1]
            if pieces:
                drawn = torch.multinomial(widened(pieces[-1].logits[:, 0].detach()).softmax(-1), 1)
                ids = torch.where(torch.rand(ids.shape, device=ids.device) < own, drawn, ids)
            pieces.append(self.decode(ids, state, source))
            state = pieces[-1].state
        return _joined(pieces, state)

    def decode(self, ids: Tensor, state: DecoderState, source: Source) -> Decoded:
        """Read target tokens (B, T) from a state on. One call of T steps is T calls of one step."""
        x = self.target_inputs(ids)
        if self.kind == "none" or (self.combine is not None and not self.input_feeding):
            return self._step(x, state, source)
        pieces = []
        for t in range(x.shape[1]):
            pieces.append(self._step(x[:, t : t + 1], state, source))
            state = pieces[-1].state
        return _joined(pieces, state)

    def _step(self, x: Tensor, state: DecoderState, source: Source) -> Decoded:
        """Embedded tokens (B, T, E), one step, or several where no step waits for the attention of the one before."""
        weights = context = None
        if self.kind == "additive":
            context, weights = self._look(_top(state.recurrent)[:, None], source)
            x = torch.cat([x, context], -1)
        elif state.fed is not None:
            x = torch.cat([x, state.fed], -1)
        out, recurrent = self.decoder(x, state.recurrent)
        if context is not None:
            out = torch.cat([out, context], -1)
        elif self.combine is not None:
            context, weights = self._look(out, source)
            out = torch.tanh(self.combine(torch.cat([context, out], -1)))  # h̃
        fed = out if self.input_feeding else None
        return Decoded(self.output(self.dropout(out)), weights, DecoderState(recurrent, fed))

    def _look(self, query: Tensor, source: Source) -> tuple[Tensor, Tensor]:
        assert self.attention is not None
        assert source.memory is not None
        return self.attention(query, source.memory)


def _top(state: Any) -> Tensor:
    """(B, H): the top layer's h."""
    return (state[0] if isinstance(state, tuple) else state)[-1]


def _joined(pieces: list[Decoded], state: DecoderState) -> Decoded:
    """Steps, one after the other."""
    weights = [piece.weights for piece in pieces if piece.weights is not None]
    logits = torch.cat([piece.logits for piece in pieces], 1)
    return Decoded(logits, torch.cat(weights, 1) if weights else None, state)


def _check_kinds(attention: str, input_feeding: bool, bridge: str, vector: bool) -> None:
    if vector and attention != "none":
        raise ValueError(expected("attention", "none for a vector, which has no positions to look at", attention))
    if input_feeding and attention not in ("dot", "general"):
        way_out = "Additive attention feeds its context already; without attention there is nothing to feed."
        raise ValueError(expected("input_feeding", "False, unless attention is dot or general", "True", way_out))
    if bridge == "zeros" and attention == "none":
        raise ValueError(expected("bridge", "one that brings something of the source, without attention", "zeros"))
