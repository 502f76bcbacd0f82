"""Inputs: tokens, the characters inside them, or rows of measurements, as vectors.

Axes     B batch, T time, W characters of a word, E embedding, D channels; (B, T, width) comes out.
Source   dropout on the vectors that enter the recurrent layer: Zaremba et al. (2014), arXiv:1409.2329.
         A bidirectional LSTM over the characters of each word: Ling et al. (2015), arXiv:1508.02096, and, with the
         sizes that `build` takes by default, Lample et al. (2016), arXiv:1603.01360.
         Embeddings uniform on ±√(3/E): Ma & Hovy (2016), arXiv:1603.01354.
Variant  Each distinct word of a batch is read once and its vector copied to where it stands. The character
         encoder has no dropout of its own, so this is the same function.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from unrolled.errors import DtypeError, RecipeError, ShapeError, expected
from unrolled.layers import LSTM, final_state
from unrolled.models.parts import Batch, Inputs, check_rate

# What `source_inputs` takes, for builders with more keywords than these.
SOURCE = ("vocabulary", "channels", "embedding", "input_dropout", "word_dropout", "unknown", "feature_noise")

__all__ = ["SOURCE", "CharacterInput", "FeatureInput", "TokenInput", "source_inputs"]


class TokenInput(Inputs):
    """Token ids (B, T) → (B, T, width): an embedding, beside the vector of each token's characters where there is one.

    Args:
        vocabulary: how many ids there are.
        size: features of an embedding.
        dropout: share of the features set to 0 while training, drawn anew at every step.
        word_dropout: share of the tokens replaced by `unknown` while training, so that its vector is trained too.
            Their characters stay: an unknown word still shows how it is written.
        unknown: id of the unknown token.
        characters: encoder of the characters; `forward` then needs them.
        unit: embeddings start normal with variance 1, as torch.nn.Embedding's, instead of 1/E: a language model of
            characters then learns faster at first.
    """

    def __init__(
        self,
        vocabulary: int,
        size: int,
        *,
        dropout: float = 0.0,
        word_dropout: float = 0.0,
        unknown: int | None = None,
        characters: CharacterInput | None = None,
        unit: bool = False,
    ) -> None:
        super().__init__()
        if word_dropout and unknown is None:
            raise ValueError(
                expected("word_dropout", "0 where unknown is None", word_dropout, "Name the unknown token's id.")
            )
        self.embedding = nn.Embedding(vocabulary, size) if unit else _embedding(vocabulary, size)
        self.characters = characters
        self.dropout = nn.Dropout(check_rate("dropout", dropout))
        self.word_dropout = check_rate("word_dropout", word_dropout)
        self.unknown = unknown
        self.width = size + (characters.width if characters is not None else 0)

    def forward(self, ids: Tensor, characters: Tensor | None = None, widths: Tensor | None = None) -> Tensor:
        """ids (B, T), characters (B, T, W) and widths (B, T) → (B, T, width)."""
        _check_ids("ids", ids, self.embedding.num_embeddings, axes=2)
        if self.training and self.word_dropout and self.unknown is not None:
            dropped = torch.rand(ids.shape, device=ids.device) < self.word_dropout
            ids = ids.masked_fill(dropped, self.unknown)
        vectors = self.embedding(ids)
        if self.characters is not None:
            if characters is None or widths is None:
                raise ShapeError(expected("characters", "ids (batch, time, characters), with their widths", "none"))
            vectors = torch.cat([vectors, self.characters(characters, widths)], dim=-1)
        return self.dropout(vectors)

    def read(self, batch: Batch) -> Tensor:
        """The same, of a batch whose padding may hold anything."""
        valid = batch.valid
        ids = batch.inputs.masked_fill(~valid, 0)
        if self.characters is None or batch.widths is None:
            return self(ids)
        return self(ids, batch.characters, batch.widths.masked_fill(~valid, 0))


class CharacterInput(nn.Module):
    """The characters of each word → (B, T, 2·hidden): the final states of a bidirectional LSTM, side by side.

    A word without characters, such as padding, has the vector 0.
    """

    def __init__(self, vocabulary: int, size: int, hidden: int, **layer: Any) -> None:
        super().__init__()
        self.embedding = _embedding(vocabulary, size)
        self.recurrent = LSTM(size, hidden, batch_first=True, bidirectional=True, **layer)
        self.width = 2 * hidden

    def forward(self, characters: Tensor, widths: Tensor) -> Tensor:
        """characters (B, T, W), widths (B, T) → (B, T, width)."""
        if characters.dim() != 3 or characters.shape[:2] != widths.shape:
            wanted = f"{tuple(widths.shape)} + (characters,), as widths (batch, time)"
            raise ShapeError(expected("characters", wanted, tuple(characters.shape)))
        vectors = self.embedding.weight.new_zeros(widths.numel(), self.width)
        spelled = widths.reshape(-1).nonzero().squeeze(-1)
        if len(spelled):
            words, lengths, where = _distinct(characters.flatten(0, 1)[spelled], widths.reshape(-1)[spelled])
            _check_ids("characters", words, self.embedding.num_embeddings, axes=2)
            _, state = self.recurrent(self.embedding(words), lengths=lengths)
            vectors = vectors.index_copy(0, spelled, final_state(state, bidirectional=True)[where])
        return vectors.view(*widths.shape, self.width)


class FeatureInput(Inputs):
    """Measurements (B, T, D), standardised: (x − mean) / scale, by numbers that are saved with the model.

    Args:
        channels: D.
        dropout: share of the channels set to 0 while training, that is, to their mean.
        noise: deviation of the Gaussian noise added while training, in units of each channel's scale.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, channels: int, *, dropout: float = 0.0, noise: float = 0.0) -> None:
        super().__init__()
        if noise < 0:
            raise ValueError(expected("noise", "0 or more", noise))
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("scale", torch.ones(channels))
        self.dropout = nn.Dropout(check_rate("dropout", dropout))
        self.noise = noise
        self.width = channels

    @torch.no_grad()
    def standardise(self, mean: Any, scale: Any) -> None:
        """Take the mean and the scale of each channel, as measured on the training part."""
        for name, values in (("mean", mean), ("scale", scale)):
            given = torch.as_tensor(values)
            if given.shape != (self.width,):
                raise ShapeError(expected(name, f"({self.width},) (channels)", tuple(given.shape)))
            if not given.isfinite().all() or (name == "scale" and (given <= 0).any()):
                way_out = "Give a constant channel the scale 1." if name == "scale" else ""
                wanted = "finite, positive numbers" if name == "scale" else "finite numbers"
                raise ValueError(expected(name, wanted, given.tolist(), way_out))
            getattr(self, name).copy_(given)

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() != 3 or x.shape[-1] != self.width:
            raise ShapeError(expected("inputs", f"(batch, time, {self.width}) (…, channels)", tuple(x.shape)))
        if not x.is_floating_point():
            raise DtypeError(expected("inputs", "floating-point features", x.dtype))
        x = (x - self.mean) / self.scale
        if self.training and self.noise:
            x = x + self.noise * torch.randn_like(x)
        return self.dropout(x)

    def read(self, batch: Batch) -> Tensor:
        """The vectors (B, T, width) of a batch."""
        return self(batch.inputs)


def _embedding(vocabulary: int, size: int) -> nn.Embedding:
    embedding = nn.Embedding(vocabulary, size)
    bound = math.sqrt(3 / size)
    nn.init.uniform_(embedding.weight, -bound, bound)
    return embedding


def _distinct(words: Tensor, widths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Words (N, W) → the distinct ones (M, W'), their widths (M,), and where each word went (N,)."""
    longest = int(widths.max())
    words = words[:, :longest]
    padding = torch.arange(words.shape[1], device=words.device) >= widths[:, None]
    keys = torch.cat([widths[:, None], words.masked_fill(padding, 0)], dim=1)
    rows, where = torch.unique(keys, dim=0, return_inverse=True)
    return rows[:, 1:], rows[:, 0], where


def _check_ids(name: str, ids: Tensor, vocabulary: int, *, axes: int) -> None:
    if ids.is_floating_point() or ids.dtype == torch.bool:
        raise DtypeError(expected(name, "integer ids", ids.dtype))
    if ids.dim() != axes:
        raise ShapeError(expected(name, f"{axes} axes, batch first", tuple(ids.shape)))
    if torch.compiler.is_compiling() or ids.device.type != "cpu" or not ids.numel():
        return  # elsewhere the look-up itself complains, and a check here would wait for the device
    low, high = (int(end) for end in ids.aminmax())
    if low < 0 or high >= vocabulary:
        found = low if low < 0 else high
        raise ValueError(
            expected(name, f"ids from 0 to {vocabulary - 1}", found, "Is this the vocabulary of the model?")
        )


def source_inputs(
    *,
    vocabulary: int | None,
    channels: int | None,
    embedding: int,
    input_dropout: float,
    word_dropout: float,
    unknown: int | None,
    feature_noise: float,
) -> TokenInput | FeatureInput:
    """What an encoder reads: tokens, or rows of features.

    Raises:
        RecipeError: both or neither of `vocabulary` and `channels`.
    """
    if channels is not None and vocabulary is None:
        return FeatureInput(channels, dropout=input_dropout, noise=feature_noise)
    if channels is None and vocabulary is not None:
        return TokenInput(vocabulary, embedding, dropout=input_dropout, word_dropout=word_dropout, unknown=unknown)
    found = "neither" if vocabulary is None else "both"
    raise RecipeError(expected("vocabulary", "either it, for tokens, or channels, for features", found))
