"""Linear-chain conditional random field: scores of whole tag sequences.

Axes     B batch, T time, K tags; scores (B, T, K), tags (B, T), lengths (B,); transitions (K, K) from row to column.
Source   Lafferty, McCallum & Pereira (2001). With emissions s, the score of y_1 … y_n is
             start[y_1] + Σ_t s_t[y_t] + Σ_t transitions[y_t, y_(t+1)] + end[y_n],
         its probability is exp(score − log Z), and log Z sums exp(score) over all K^n sequences.
Variant  It takes lengths, not a mask, so a hole cannot be asked for. A row of length 0 has one sequence, the empty one,
         of score 0 and probability 1. What stands past a row's length is not read and gets no gradient.

The sum over tags is a matrix product of exponentials, the largest taken out first, instead of a (B, K, K) logsumexp at
every step. With R the largest spread inside a column of transitions, the true sum is at least exp(−R) of the scale that
was taken out, so nothing that counts underflows while R is moderate; beyond `SPREAD` the plain logsumexp is taken.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from unrolled import decoding
from unrolled.decoding import Allowed, bio_allowed
from unrolled.errors import DtypeError, ShapeError, expected
from unrolled.models.parts import lengths_of, valid_steps, widened

__all__ = ["CRF", "Allowed", "bio_allowed", "viterbi"]

SPREAD = 50.0  # exp(-50) = 2e-22: what float32 loses below it (1e-38) is 1e-16 of the sum


class CRF(nn.Module):
    """Scores of a first tag, of a last tag, and of each pair of neighbours."""

    def __init__(self, tags: int) -> None:
        super().__init__()
        if tags < 1:
            raise ValueError(expected("tags", "1 or more", tags))
        self.start = nn.Parameter(torch.empty(tags))
        self.end = nn.Parameter(torch.empty(tags))
        self.transitions = nn.Parameter(torch.empty(tags, tags))
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.1, 0.1)

    def nll(self, scores: Tensor, tags: Tensor, lengths: Any) -> Tensor:
        """(B,): −log p(tags) of each row, in nats; 0 for a row of length 0."""
        return self.log_partition(scores, lengths) - self.score(scores, tags, lengths)

    def score(self, scores: Tensor, tags: Tensor, lengths: Any) -> Tensor:
        """(B,): the score of the given tags."""
        scores, lengths = self._checked(scores, lengths)
        valid = valid_steps(lengths, scores)
        tags = _checked_tags(tags, valid, scores.shape[-1])
        if scores.shape[1] == 0:
            return scores.sum((1, 2))
        emitted = scores.gather(-1, tags[..., None]).squeeze(-1)  # (B, T)
        before, after = tags[:, :-1], tags[:, 1:]
        moved = self.transitions[before, after].masked_fill(~valid[:, 1:], 0)
        last = tags.gather(1, (lengths - 1).clamp(min=0)[:, None]).squeeze(1)
        ends = (self.start[tags[:, 0]] + self.end[last]).masked_fill(lengths == 0, 0)
        return emitted.masked_fill(~valid, 0).sum(1) + moved.sum(1) + ends

    def log_partition(self, scores: Tensor, lengths: Any) -> Tensor:
        """(B,): log of the sum of exp(score) over all tag sequences."""
        scores, lengths = self._checked(scores, lengths)
        steps = int(lengths.max()) if len(lengths) else 0
        if steps == 0:
            return scores[:, :0].sum((1, 2))
        # Steps past a row's end are computed and not used: one gather at the end costs less than a choice at each step.
        start, transitions = self.start.to(scores.dtype), self.transitions.to(scores.dtype)
        forward = _forward(scores[:, :steps], start, transitions)  # (T, B, K)
        rows = torch.arange(len(lengths), device=scores.device)
        final = forward[(lengths - 1).clamp(min=0), rows] + self.end
        return final.logsumexp(-1).masked_fill(lengths == 0, 0)

    @torch.no_grad()
    def viterbi(self, scores: Tensor, lengths: Any, *, allowed: Allowed | None = None) -> list[list[int]]:
        """The best tag sequence of each row, among the allowed ones; [] for a row of length 0."""
        scores, lengths = self._checked(scores, lengths)
        return viterbi(scores, lengths, self.start, self.transitions, self.end, allowed=allowed)

    def _checked(self, scores: Tensor, lengths: Any) -> tuple[Tensor, Tensor]:
        """Scores with 0 in the padding, and lengths as a tensor. Half precision is summed in float32."""
        if scores.dim() != 3 or scores.shape[-1] != len(self.start):
            wanted = f"(batch, time, {len(self.start)}) (…, tags)"
            raise ShapeError(expected("scores", wanted, tuple(scores.shape)))
        lengths = lengths_of(lengths, scores)
        return widened(scores).masked_fill(~valid_steps(lengths, scores)[..., None], 0), lengths


def _forward(scores: Tensor, start: Tensor, transitions: Tensor) -> Tensor:
    """(T, B, K): log of the sum of exp(score) over the tag sequences that end at t in the tag k."""
    first, *rest = scores.unbind(1)
    forward = [first + start]
    with torch.no_grad():
        top = transitions.amax(0)  # (K,), by the tag that follows
        moderate = bool((top - transitions.amin(0)).max() <= SPREAD)
    if moderate:
        scale = (transitions - top).exp()
        for step in (scores + top)[:, 1:].unbind(1):
            largest = forward[-1].detach().amax(1, keepdim=True)
            forward.append(((forward[-1] - largest).exp() @ scale).log() + (step + largest))
    else:
        for step in rest:
            forward.append((forward[-1][:, :, None] + transitions).logsumexp(1) + step)
    return torch.stack(forward)


def viterbi(
    scores: Tensor,
    lengths: Tensor,
    start: Tensor | None = None,
    transitions: Tensor | None = None,
    end: Tensor | None = None,
    *,
    allowed: Allowed | None = None,
) -> list[list[int]]:
    """The best path of each row through scores (B, T, K); parts that are None score 0. See `decoding.viterbi`."""
    parts = [None if part is None else part.detach().cpu().numpy() for part in (start, transitions, end)]
    emitted = scores.detach().cpu().numpy()
    pairs = decoding.Pairs.of(scores.shape[-1], *parts, allowed=allowed, dtype=emitted.dtype)
    return decoding.viterbi(emitted, lengths.cpu().numpy(), pairs)


def _checked_tags(tags: Tensor, valid: Tensor, count: int) -> Tensor:
    """Tags with 0 in the padding."""
    if tags.shape != valid.shape:
        raise ShapeError(expected("tags", f"{tuple(valid.shape)} (batch, time)", tuple(tags.shape)))
    if tags.is_floating_point() or tags.dtype == torch.bool:
        raise DtypeError(expected("tags", "integers", tags.dtype))
    tags = tags.long().masked_fill(~valid, 0)
    wrong = (tags < 0) | (tags >= count)
    if wrong.any():
        row, step = wrong.nonzero()[0].tolist()
        raise ValueError(expected(f"tags[{row}, {step}]", f"0 to {count - 1}", int(tags[row, step])))
    return tags
