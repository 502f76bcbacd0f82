"""Products of Jacobians: what one step's state still says about a later one.

Axes     K lags, B batch, S state: P of an RNN or GRU, P + H of an LSTM with h before c; float64.
Source   Pascanu, Mikolov & Bengio (2013), arXiv:1211.5063, eq. (5): ∂h_T/∂h_k = J_T J_(T-1) … J_(k+1), in this order,
         with the layer's input held fixed. Hochreiter & Schmidhuber (1997) for the path through the cell alone.
Variant  T is each row's own last step, in the order in which its direction is computed; lag k ends k steps earlier. A
         product goes no further back than the step where the row began again. After every factor the product is scaled
         to 1 and the scale kept as a logarithm, so 1e-300 and 1e+300, and what lies beyond, are plain numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from unrolled.equations import gru_jacobian, lstm_jacobian, rnn_jacobian
from unrolled.errors import expected
from unrolled.insight.bounds import log_bound
from unrolled.insight.gates import gates
from unrolled.insight.stepping import Trace

__all__ = ["Products", "jacobians", "products", "step_jacobians"]

MOST_LAGS = 200
WORK = 2e11  # multiplications that the products of one row may take: S³ a lag
EVERY_LAG_TO = 20  # singular values are computed at every lag up to here, then at FAR_LAGS more, spread by ratio
FAR_LAGS = 12
FLOOR = 13  # decades below the largest singular value that rounding leaves readable


@dataclass(frozen=True, eq=False)
class Products:
    """Logarithms to base 10 of what the products of one layer and direction do to a vector; -inf where it is 0.

    A row that is shorter than a lag, or began again since, has NaN there.
    """

    name: str
    layer: int
    direction: int
    kind: str
    path: str  # "state": all of it, (h, c) of an LSTM. "cell": c alone with the gates held fixed, ∏ diag(f)
    lags: tuple[int, ...]
    largest: Tensor  # (K, B) log10 of the largest singular value
    median: Tensor  # (K, B) log10 of the median one; NaN where rounding hides it
    frobenius: Tensor  # (K, B) log10 of the Frobenius norm
    bound: Tensor  # (K, B) log10 of an upper bound on the largest, from the weights' own largest singular values
    reach: tuple[int, ...]  # of each row: the steps that it can go back, up to the last lag
    capped: bool  # the rows go further back than the lags

    @property
    def per_step(self) -> Tensor:
        """(K, B): the geometric mean of the factor of one step, largest ** (1 / lag)."""
        return 10 ** (self.largest / torch.tensor(self.lags, dtype=torch.float64)[:, None])

    def value(self, lag: int, row: int = 0) -> float:
        """The largest singular value itself; 0 or infinite where float64 has no number for it."""
        if lag not in self.lags:
            raise ValueError(expected("lag", f"one of {', '.join(map(str, self.lags))}", lag))
        power = float(self.largest[self.lags.index(lag), row])
        return math.inf if power > 308.25 else 10**power


def jacobians(
    model: nn.Module, *args: Any, max_lag: int | None = None, rows: Sequence[int] | None = None, **kwargs: Any
) -> list[Products]:
    """The products for every recurrent layer and direction, when model(*args, **kwargs) runs.

    An LSTM has two entries: path "state" and path "cell".

    Args:
        max_lag: steps to go back; None: 200, or fewer where the state is so wide that it would take minutes.
        rows: of the batch; None: all.

    Raises:
        RunError: there is no recurrent layer, or it computes something else than its equations.
    """
    return [made for trace in gates(model, *args, **kwargs) for made in products(trace, max_lag=max_lag, rows=rows)]


def products(trace: Trace, *, max_lag: int | None = None, rows: Sequence[int] | None = None) -> list[Products]:
    """The same for one trace."""
    if max_lag is not None and (isinstance(max_lag, bool) or not isinstance(max_lag, int) or max_lag < 1):
        raise ValueError(expected("max_lag", "a whole number of steps, 1 or more", repr(max_lag)))
    chosen = list(range(trace.h.shape[1])) if rows is None else [int(row) for row in rows]
    size = sum(part.shape[-1] for part in trace.before)
    limit = max_lag or max(1, min(MOST_LAGS, int(WORK / size**3)))
    steps = [_uncut(trace, row) for row in chosen]
    longest = max((len(order) for order in steps), default=0)
    lags = spread(min(limit, longest))
    capped = longest > limit
    rows_ = [(row, order[max(0, len(order) - limit) :]) for row, order in zip(chosen, steps, strict=True)]
    reach = tuple(len(order) for _, order in rows_)
    result = [_products(trace, "state", lags, [_row(trace, *one, lags) for one in rows_], reach, capped)]
    if trace.c is not None:
        cell = [_cell_row(trace, *one, lags) for one in rows_]
        result.append(_products(trace, "cell", lags, cell, reach, capped))
    return result


def spread(longest: int) -> tuple[int, ...]:
    """The lags 1 to `longest`: each one at first, then some more, evenly spread by ratio.

    >>> spread(4), spread(1000)[-3:]
    ((1, 2, 3, 4), (521, 722, 1000))
    """
    if longest <= EVERY_LAG_TO:
        return tuple(range(1, longest + 1))
    far = torch.logspace(math.log10(EVERY_LAG_TO), math.log10(longest), FAR_LAGS + 1).round().long().tolist()
    return tuple(sorted({*range(1, EVERY_LAG_TO + 1), *far, longest}))


@torch.no_grad()
def step_jacobians(trace: Trace, row: int, steps: Tensor) -> Tensor:
    """(N, S, S): J[i, j] = ∂ state_t[i] / ∂ state_(t-1)[j] at some steps of a row, with the input held fixed."""
    weights, before = trace.weights, [part[steps, row] for part in trace.before]
    gates = {name: gate[steps, row] for name, gate in trace.gates.items()}
    if trace.kind == "lstm":
        return lstm_jacobian(before[1], **gates, U=weights.U, V=weights.V)
    if trace.kind.startswith("gru"):
        return gru_jacobian(before[0], **gates, U=weights.U, b_h=weights.b_h, reset_after=trace.kind == "gru_after")
    nonlinearity: Any = trace.kind.removeprefix("rnn_")
    return rnn_jacobian(trace.h[steps, row], weights.U[0], nonlinearity=nonlinearity)


def _uncut(trace: Trace, row: int) -> Tensor:
    """The steps of a row in the order of computation, from the last one that began again, its own first left out.

    The first step of all counts: its factor leads to the initial state that was given.
    """
    order = trace.order(row)
    cuts = trace.cut[order, row].nonzero()[:, 0]
    return order if not len(cuts) else order[int(cuts[-1]) + 1 :]


AT_ONCE = 64e6  # bytes of Jacobians that are held
Row = dict[str, list[float]]


def _row(trace: Trace, row: int, order: Tensor, lags: tuple[int, ...]) -> Row:
    """log10 of the numbers of one row, at each lag that it has."""
    size = sum(part.shape[-1] for part in trace.before)
    block = max(1, int(AT_ONCE / (8 * size * size)))
    found: Row = {"largest": [], "median": [], "frobenius": [], "bound": log_bound(trace, row, order, lags)}
    product, scale, lag = torch.eye(size, dtype=torch.float64), 0.0, 0
    back = order.flip(0)  # the last factor stands on the left
    for start in range(0, len(back), block):
        for factor in step_jacobians(trace, row, back[start : start + block]):
            lag += 1
            product, scale = _scaled(product @ factor, scale)
            if lag in lags:
                _measure(product, scale, found)
    return found


def _scaled(product: Tensor, scale: float) -> tuple[Tensor, float]:
    largest = float(product.abs().max())
    if largest == 0 or not math.isfinite(largest):
        return product, scale
    return product / largest, scale + math.log10(largest)


def _measure(product: Tensor, scale: float, found: Row) -> None:
    if not bool(product.isfinite().all()):
        for name in ("largest", "median", "frobenius"):
            found[name].append(math.nan)
        return
    singular = torch.linalg.svdvals(product).sort().values
    top = _log10(float(singular[-1]))
    middle = _log10(float(singular.median()))
    found["largest"].append(scale + top)
    found["median"].append(scale + middle if middle > top - FLOOR or top == -math.inf else math.nan)
    found["frobenius"].append(scale + _log10(float(torch.linalg.matrix_norm(product))))


def _cell_row(trace: Trace, row: int, order: Tensor, lags: tuple[int, ...]) -> Row:
    """The path through the cell is diagonal: its singular values are the products of the forget gates."""
    kept = trace.gates["f"][order.flip(0), row].log10().cumsum(0)  # (n, H)
    at = kept[[lag - 1 for lag in lags if lag <= len(kept)]]
    top = at.amax(-1) if at.numel() else at.new_zeros(len(at))
    middle = at.sort(-1).values[:, (at.shape[-1] - 1) // 2]
    shifted = torch.where(top.isfinite(), top, 0)
    squares = ((at - shifted[:, None]) * 2 * math.log(10)).exp().sum(-1)
    bound = trace.gates["f"][order.flip(0), row].amax(-1).log10().cumsum(0)
    numbers = {"largest": top, "median": middle, "frobenius": shifted + squares.log10() / 2}
    numbers["bound"] = bound[[lag - 1 for lag in lags if lag <= len(kept)]]
    return {name: part.tolist() for name, part in numbers.items()}


def _log10(value: float) -> float:
    return math.log10(value) if value > 0 else -math.inf if value == 0 else math.nan


def _products(
    trace: Trace, path: str, lags: tuple[int, ...], rows: list[Row], reach: tuple[int, ...], capped: bool
) -> Products:
    def column(name: str) -> Tensor:
        padded = [row[name] + [math.nan] * (len(lags) - len(row[name])) for row in rows]
        return torch.tensor(padded, dtype=torch.float64).reshape(len(rows), len(lags)).T

    largest, median, frobenius, bound = map(column, ("largest", "median", "frobenius", "bound"))
    place = (trace.name, trace.layer, trace.direction, trace.kind)
    return Products(*place, path, lags, largest, median, frobenius, bound, reach, capped)
