"""Output layer, softmax and the cross-entropy that counts valid positions only.

Axes     ... any leading axes (B, or B T), H hidden, C classes.
Source   Bridle (1990) for softmax; the masked mean is -(1/N) Σ m_bt log p_bt[y_bt] with N = Σ m_bt.
Variant  probabilities are never formed on the way to a loss: log p = o - logsumexp(o) stays finite where p underflows.
"""

from __future__ import annotations

from jaxtyping import Bool, Float, Int
from torch import Tensor


def output_logits(
    h: Float[Tensor, "*N H"], W: Float[Tensor, "H C"], b: Float[Tensor, "C"] | None = None
) -> Float[Tensor, "*N C"]:
    """o = h W + b, one score per class."""
    return h @ W if b is None else h @ W + b


def softmax(o: Float[Tensor, "*N C"]) -> Float[Tensor, "*N C"]:
    """p_c = exp(o_c) / Σ_j exp(o_j), shifted by the largest score so that nothing overflows."""
    e = (o - o.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)


def cross_entropy(o: Float[Tensor, "*N C"], y: Int[Tensor, "*N"]) -> Float[Tensor, "*N"]:
    """-log p_y at each position, in nats."""
    return o.logsumexp(-1) - o.gather(-1, y.unsqueeze(-1)).squeeze(-1)


def masked_cross_entropy(o: Float[Tensor, "*N C"], y: Int[Tensor, "*N"], m: Bool[Tensor, "*N"]) -> Float[Tensor, ""]:
    """The mean of -log p_y over the positions where m is True; 0 where there is none.

    What stands at the other positions does not matter, NaN and labels out of range included: they are replaced before
    the loss is formed, since NaN * 0 is NaN, in the gradient too.
    """
    o = o.masked_fill(~m.unsqueeze(-1), 0)
    y = y.masked_fill(~m, 0)
    return (cross_entropy(o, y) * m).sum() / m.sum().clamp(min=1)
