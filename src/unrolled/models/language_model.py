"""Language model: the scores of the next token at every step.

Axes     B batch, T time, V vocabulary; ids (B, T) → logits (B, T, V), and the state that goes in and comes out.
Source   Mikolov et al. (2010) for the recurrent model; Zaremba et al. (2014), arXiv:1409.2329, for dropout on what goes
         in, between layers and out, never from step to step; Press & Wolf (2017), arXiv:1608.05859, for tied weights.
Variant  One direction only. The logits at step t are for the token at t + 1.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unrolled.errors import ShapeError, expected
from unrolled.models.inputs import TokenInput
from unrolled.models.parts import check_fit, check_rate, valid_steps, width_of

__all__ = ["LanguageModel"]


class LanguageModel(nn.Module):
    """Embedding, recurrent layer, scores over the vocabulary.

    Args:
        inputs: `TokenInput` without characters (a generated token brings none).
        recurrent: RNN, LSTM or GRU in one direction with batch_first=True. A layer of torch.nn can take its place
            as long as neither `lengths` nor `resets` are used.
        vocabulary: how many tokens.
        tie_weights: the embedding is the output's matrix as well; embedding and hidden state must be equally wide.
            The `state_dict` then holds it once.
        dropout: share of the output's features set to 0 while training.
    """

    def __init__(
        self,
        inputs: TokenInput,
        recurrent: Any,
        vocabulary: int,
        *,
        tie_weights: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_fit(inputs, recurrent)
        if recurrent.bidirectional:
            raise ValueError(
                expected(
                    "recurrent",
                    "one direction",
                    "bidirectional=True",
                    "The next token is what a language model predicts: the future is not there yet.",
                )
            )
        if inputs.characters is not None:
            raise ValueError(expected("inputs", "tokens without a character encoder", "one with it"))
        width, embedding = width_of(recurrent), inputs.embedding
        if tie_weights and (embedding.num_embeddings, embedding.embedding_dim) != (vocabulary, width):
            raise ShapeError(
                expected(
                    "tie_weights",
                    f"an embedding of ({vocabulary}, {width}) (vocabulary, hidden)",
                    f"({embedding.num_embeddings}, {embedding.embedding_dim})",
                    "Make embedding and hidden size equal, or do not tie.",
                )
            )
        self.inputs = inputs
        self.recurrent = recurrent
        self.tie_weights = tie_weights
        self.dropout = nn.Dropout(check_rate("dropout", dropout))
        bound = 1 / math.sqrt(width)  # as torch.nn.Linear
        self.output_weight = None if tie_weights else nn.Parameter(torch.empty(vocabulary, width))
        if self.output_weight is not None:
            nn.init.uniform_(self.output_weight, -bound, bound)
        self.output_bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(
        self, ids: Tensor, state: Any = None, *, lengths: Any = None, resets: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        """ids (B, T) → logits (B, T, V) and the state after each row's last step.

        `lengths` (B,) and `resets` (B, T) as the layers take them: `resets` is True where a document begins.
        """
        given = {name: part for name, part in (("lengths", lengths), ("resets", resets)) if part is not None}
        if lengths is not None:
            ids = ids.masked_fill(~valid_steps(lengths, ids), 0)
        out, state = self.recurrent(self.inputs(ids), state, **given)
        weight = self.inputs.embedding.weight if self.output_weight is None else self.output_weight
        return F.linear(self.dropout(out), weight, self.output_bias), state
