"""Which inputs an answer rests on.

Axes     B batch, T time, I input of the recurrent layer: embeddings, or standardised features. Scores are (B, T).
Source   gradient: Simonyan et al. (2014), arXiv:1312.6034. gradient × input: Shrikumar et al. (2016), arXiv:1605.01713.
         integrated gradients: Sundararajan et al. (2017), arXiv:1703.01365, eq. (1); its proposition 1 is completeness.
         occlusion: Zeiler & Fergus (2014), arXiv:1311.2901, one step at a time.
Variant  The input that is varied is what enters the first recurrent layer; the baseline is the zero vector (for
         features their mean). Integrals are taken by Gauss-Legendre nodes, twice as many until completeness holds to
         half a percent, or 256 are reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unrolled.errors import RunError, ShapeError, expected
from unrolled.insight.cells import is_recurrent, spells
from unrolled.insight.stepping import as_numbers, copied

__all__ = ["METHODS", "WARNING", "Attribution", "attribute", "occlusions"]

METHODS = ("gradient", "gradient_x_input", "integrated_gradients", "occlusion")
WARNING = (
    "Gradient-based scores in recurrent networks themselves fade toward early steps (Ismail et al., 2019, "
    "arXiv:1910.12370): a low score there may mean that the gradient vanished, not that the input does not matter. "
    "Compare with occlusion."
)
NODES = (32, 64, 128, 256)
CLOSE = 0.005
MOST_VARIANTS = 64  # inputs side by side
NUMBERS = 2**22  # of what enters the layer, in all of them
Target = Callable[[Any], Tensor]


@dataclass(frozen=True, eq=False)
class Attribution:
    """The scores of one method."""

    method: str
    scores: Tensor  # (B, T) float64; of the gradient its norm, else signed; 0 where an input has no effect
    value: Tensor  # (B,) what is explained: target(model(input))
    baseline: Tensor  # (B,) the same with every input at the baseline
    nodes: int | None = None  # of the integral

    @property
    def warning(self) -> str | None:
        """What must be said beside the scores; None for occlusion, which takes no gradient."""
        return None if self.method == "occlusion" else WARNING

    @property
    def gap(self) -> Tensor:
        """(B,): how far the scores' sum is from value - baseline, relative to it: completeness, for integrals."""
        wanted = self.value - self.baseline
        return (self.scores.sum(1) - wanted).abs() / torch.maximum(wanted.abs(), 1e-9 * (1 + self.value.abs()))


def attribute(
    model: nn.Module,
    *args: Any,
    target: Target,
    method: str = "integrated_gradients",
    module: str | None = None,
    nodes: int | None = None,
    rows_alike: bool = False,
    **kwargs: Any,
) -> Attribution:
    """How much each step of the input contributes to a number that the model's output holds.

    >>> attribute(classifier, batch, target=lambda scores: scores[:, 2], method="occlusion")    # doctest: +SKIP

    Args:
        target: from the model's output to one number a row, (B,).
        method: "gradient", "gradient_x_input", "integrated_gradients" or "occlusion".
        module: the recurrent layer whose input is varied, by its name in the model; None: the first that is called and
            does not read the letters of words.
        rows_alike: every tensor in the arguments has the batch first, and `target` treats every row alike: variants of
            the input may then run side by side in one batch, which is much faster.
        nodes: of the integral; None: as many as completeness to half a percent needs, 256 at most.

    Raises:
        RunError: no such layer is called.
        ShapeError: `target` does not give one number a row.
    """
    if method not in METHODS:
        raise ValueError(expected("method", f"one of {', '.join(METHODS)}", repr(method)))
    if method == "occlusion":
        return occlusions(model, *args, targets=[target], module=module, rows_alike=rows_alike, **kwargs)[0]
    probe = _Probe(model, args, kwargs, [target], module, rows_alike)
    x = probe.seen
    value, start = probe(x).detach(), probe(torch.zeros_like(x)).detach()
    if method != "integrated_gradients":
        gradient = _gradient(probe, x[None])[0]
        scores = gradient.norm(dim=-1) if method == "gradient" else (gradient * x).sum(-1)
        return Attribution(method, probe.by_row(scores), value, start)
    made = None
    for count in NODES if nodes is None else (nodes,):
        made = Attribution(method, probe.by_row(_integrate(probe, x, count)), value, start, count)
        if float(made.gap.max()) <= CLOSE:
            break
    assert made is not None
    return made


@torch.no_grad()
def occlusions(
    model: nn.Module,
    *args: Any,
    targets: Sequence[Target],
    module: str | None = None,
    rows_alike: bool = False,
    **kwargs: Any,
) -> list[Attribution]:
    """`attribute` by occlusion for several targets: each variant of the input runs once for all of them.

    Raises:
        RunError, ShapeError: as `attribute`.
    """
    probe = _Probe(model, args, kwargs, targets, module, rows_alike)
    x = probe.seen
    value, start = probe.each(x[None])[:, 0], probe.each(torch.zeros_like(x)[None])[:, 0]
    scores = _occlude(probe, x, value)
    return [Attribution("occlusion", probe.by_row(s), v, b) for s, v, b in zip(scores, value, start, strict=True)]


class _Probe:
    """The model as a function of what enters one of its recurrent layers."""

    def __init__(
        self,
        model: nn.Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        targets: Sequence[Target],
        name: str | None,
        alike: bool,
    ) -> None:
        self.model = copied(model).requires_grad_(False)
        self.args, self.kwargs = as_numbers((args, kwargs))
        self.targets, self.alike = targets, alike
        self.name, self.layer = self._find(name)
        with self._watched(None) as seen, torch.no_grad():
            self.model(*self.args, **self.kwargs)
        if not seen:
            raise RunError(expected("module", "a recurrent layer that the model calls", repr(self.name)))
        self.seen = seen[0].detach()
        if self.seen.dim() != 3:
            raise ShapeError(expected(self.name or "input", "3 axes (a batch of sequences)", tuple(self.seen.shape)))
        self.time = 1 if getattr(self.layer, "batch_first", False) else 0

    def _find(self, name: str | None) -> tuple[str, nn.Module]:
        there = {
            key: one for key, one in self.model.named_modules() if is_recurrent(one) and hasattr(one, "num_layers")
        }
        if name is not None:
            if name not in there:
                raise RunError(expected("module", f"one of {', '.join(map(repr, there)) or 'none'}", repr(name)))
            return name, there[name]
        plain = [key for key in there if not spells(self.model, key)]
        if not plain:
            way_out = "Give a model with RNN, LSTM or GRU layers, of this library or of torch.nn."
            raise RunError(expected("model", "recurrent layers", "none", way_out))
        return plain[0], there[plain[0]]

    @contextmanager
    def _watched(self, x: Tensor | None) -> Iterator[list[Tensor]]:
        """See what enters the layer at its first call, or put x in its place."""
        seen: list[Tensor] = []

        def hook(module: nn.Module, given: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
            del module
            if seen:
                return None
            place = given[0] if given else keywords["input"]
            if not isinstance(place, Tensor):
                raise RunError(expected("input", "padded sequences with lengths", type(place).__name__))
            seen.append(place)
            if x is None:
                return None
            return ((x, *given[1:]), keywords) if given else (given, {**keywords, "input": x})

        handle = self.layer.register_forward_pre_hook(hook, with_kwargs=True)
        try:
            yield seen
        finally:
            handle.remove()

    def __call__(self, x: Tensor) -> Tensor:
        """(B,) the number that is explained, for one input."""
        return self.many(x[None])[0]

    def many(self, variants: Tensor) -> Tensor:
        """(N, B) for N variants of the input: the first target of each."""
        return self.each(variants)[0]

    def each(self, variants: Tensor) -> Tensor:
        """(K, N, B) for K targets and N variants of the input, in one batch where the rows are alike."""
        if not self.alike and len(variants) > 1:
            return torch.cat([self.each(x[None]) for x in variants], 1)
        count, batch = len(variants), self.seen.shape[1 - self.time]
        args, kwargs = _repeated((self.args, self.kwargs), count) if count > 1 else (self.args, self.kwargs)
        joined = variants.flatten(0, 1) if self.time == 1 else variants.transpose(0, 1).flatten(1, 2)
        with self._watched(joined):
            output = self.model(*args, **kwargs)
        values = [target(output) for target in self.targets]
        for one in values:
            if one.shape != (count * batch,):
                raise ShapeError(expected("target", f"one number a row, ({count * batch},)", tuple(one.shape)))
        return torch.stack(values).reshape(len(values), count, batch)

    def at_a_time(self) -> int:
        """How many variants are held at once."""
        return max(1, min(MOST_VARIANTS, int(NUMBERS / self.seen.numel()))) if self.alike else 1

    def by_row(self, scores: Tensor) -> Tensor:
        """(B, T), whatever comes first in the layer."""
        return scores if self.time == 1 else scores.T


def _repeated(value: Any, count: int) -> Any:
    """The same arguments with every row `count` times, all rows one after the other."""
    return as_numbers(value, change=lambda tensor: tensor.repeat(count, *[1] * (tensor.dim() - 1)))


def _gradient(probe: _Probe, variants: Tensor) -> Tensor:
    """(N, …): the gradient for each of N variants of the input."""
    variants = variants.detach().requires_grad_()
    return torch.autograd.grad(probe.many(variants).sum(), variants)[0]


def _integrate(probe: _Probe, x: Tensor, nodes: int) -> Tensor:
    """x · ∫ ∂f(a x) da over a from 0 to 1, summed over the features."""
    places, weights = (torch.from_numpy(part) for part in np.polynomial.legendre.leggauss(nodes))
    total = torch.zeros_like(x)
    size = probe.at_a_time()
    for at, weight in zip(((places + 1) / 2).split(size), (weights / 2).split(size), strict=True):
        axes = [1] * x.dim()
        total += (weight.view(-1, *axes) * _gradient(probe, at.view(-1, *axes) * x)).sum(0)
    return (total * x).sum(-1)


def _occlude(probe: _Probe, x: Tensor, value: Tensor) -> Tensor:
    """f(x) - f(x with one step at the baseline), for each of K targets and each step, in the order of the layer."""
    found = []
    for steps in torch.arange(x.shape[probe.time]).split(probe.at_a_time()):
        variants = x.repeat(len(steps), *[1] * x.dim())
        for variant, step in zip(variants, steps.tolist(), strict=True):
            variant.select(probe.time, step).zero_()
        found.append(value[:, None] - probe.each(variants))
    scores = torch.cat(found, 1) if found else x.new_zeros(len(value), 0, value.shape[1])  # (K, T, B)
    return scores.transpose(1, 2) if probe.time == 1 else scores
