"""What the numbers say, in words, with the numbers: vanishing, exploding or healthy.

Source   Pascanu, Mikolov & Bengio (2013), arXiv:1211.5063, for clipping and what it cannot do; Gers et al. (2000) and
         Jozefowicz et al. (2015) for the forget bias; Le, Jaitly & Hinton (2015) for identity weights; Tallec &
         Ollivier (2018), arXiv:1804.11188, for biases by the length of the memory.
Variant  The judgement is about the span that was seen: over it the largest singular value of the product of Jacobians
         may change by two powers of ten and count as healthy. Each sentence has a key and its numbers, so that a page
         can say it in another language.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from unrolled.insight.gates import memory, saturation
from unrolled.insight.jacobians import Products
from unrolled.insight.stepping import Trace

__all__ = ["Clipping", "Finding", "Verdict", "judge", "worst"]

DECADES = 2.0  # change over the span that still counts as healthy; and what is left of a memory that has faded: 1 %
WORDS = ("healthy", "too short", "vanishing", "exploding", "not finite")  # from good to bad


class Finding(NamedTuple):
    """One sentence: what it is about, the sentence, its numbers."""

    key: str
    text: str
    values: dict[str, Any]


class Clipping(NamedTuple):
    """What clipping did in training."""

    limit: float | None  # the largest norm that was let through; None: no clipping
    seen: int  # optimizer steps whose norm was logged
    touched: tuple[int, ...]  # the numbers of those that were clipped
    largest: float  # norm before clipping


@dataclass(frozen=True)
class Verdict:
    """What is said of one layer and direction."""

    word: str  # one of WORDS
    title: str  # the layer
    slope: float  # powers of ten a step of the largest singular value: 0 neither grows nor shrinks
    span: int  # steps that the slope is over
    memory: float  # steps until 1 % is left; infinite where nothing fades
    evidence: tuple[Finding, ...]
    remedies: tuple[Finding, ...]

    @property
    def factor(self) -> float:
        """The geometric mean of the factor of one step."""
        return 10**self.slope

    def __str__(self) -> str:
        lines = [f"{self.title}: {self.word}", *(f"  {one.text}" for one in self.evidence)]
        return "\n".join(lines + [f"  try: {one.text}" for one in self.remedies])


def judge(
    products: Sequence[Products],
    trace: Trace | None = None,
    *,
    chunk: int | None = None,
    clipping: Clipping | None = None,
    layers: int = 1,
    causal: bool = False,
) -> Verdict:
    """The verdict on one layer and direction.

    Args:
        products: of that layer, as `jacobians` gives them: path "state", and for an LSTM path "cell" too.
        trace: of that layer, for half-lives and saturation.
        chunk: steps that a gradient goes back in training, where it is cut.
        layers: of the stack.
        causal: the model must not see the future, so a backward direction is no remedy.
    """
    state = next(one for one in products if one.path == "state")
    cell = next((one for one in products if one.path == "cell"), None)
    slope, span = _slope(state)
    steps = _memory(state, slope)
    word = _word(state, slope, span)
    title = f"{state.name or 'the layer'}, layer {state.layer}, {'backward' if state.direction else 'forward'}"
    evidence = [_about_slope(slope, span), _about_memory(word, steps, span)]
    evidence += [_about_bound(state)] if span else []
    evidence += [_about_cell(cell)] if cell is not None and span else []
    evidence += _about_gates(trace) if trace is not None else []
    evidence += [_about_clipping(clipping, word)] if clipping is not None else []
    evidence += [_about_chunk(chunk, steps)] if chunk else []
    remedies = _remedies(word, state.kind, trace, chunk, steps, clipping, layers, causal)
    return Verdict(word, title, slope, span, steps, tuple(evidence), tuple(remedies))


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """The one that needs attention most; of equal words, the steepest."""
    return max(verdicts, key=lambda one: (WORDS.index(one.word), abs(one.slope) if math.isfinite(one.slope) else 0))


def _slope(state: Products) -> tuple[float, int]:
    """The median over rows of log10(largest) / lag at the longest lag of each row, and the longest of these."""
    slopes, spans = [], [0]
    for row in state.largest.T:
        there = (~row.isnan()).nonzero()[:, 0]
        if len(there):
            lag = state.lags[int(there[-1])]
            slopes.append(float(row[there[-1]]) / lag)
            spans.append(lag)
    return (float(torch.tensor(slopes, dtype=torch.float64).median()) if slopes else math.nan), max(spans)


def _memory(state: Products, slope: float) -> float:
    """Steps until the median over rows is down to 1 %, between two lags by a straight line, past them by the slope."""
    before_lag, before = 0, 0.0
    for lag, values in zip(state.lags, state.largest, strict=True):
        now = float(values.nanmedian())
        if math.isnan(now):
            break
        if now <= -DECADES:
            part = 0.0 if now == -math.inf else (before + DECADES) / (before - now)
            return before_lag + part * (lag - before_lag)
        before_lag, before = lag, now
    return DECADES / -slope if slope < 0 else math.inf


def _word(state: Products, slope: float, span: int) -> str:
    if _broken(state):
        return "not finite"
    if span and slope * span > DECADES:
        return "exploding"
    if span and slope * span < -DECADES:
        return "vanishing"
    return "healthy" if span > 1 else "too short"


def _broken(state: Products) -> bool:
    """Whether a product that is there is not a number."""
    lags, reach = torch.tensor(state.lags)[:, None], torch.tensor(state.reach)
    return bool((state.largest.isnan() & (lags <= reach)).any()) or bool((state.largest == math.inf).any())


def _about_slope(slope: float, span: int) -> Finding:
    if not span:
        return Finding("slope", "no row has a step before its last one, so nothing can be said", {"span": 0})
    values = {"slope": slope, "factor": 10**slope, "span": span, "total": slope * span}
    if slope == -math.inf:
        return Finding("slope", f"the product over {span} steps is exactly 0", values)
    text = (
        f"a step back multiplies by {10**slope:.3g} ({slope:+.3g} powers of ten), {slope * span:+.3g} over {span} steps"
    )
    return Finding("slope", text, values)


def _about_memory(word: str, steps: float, span: int) -> Finding:
    if math.isinf(steps):
        return Finding("memory", "nothing fades: no lag is down to 1 %", {"steps": steps})
    beyond = steps > span
    how = f"about {steps:.3g} steps, by the slope" if beyond else f"{steps:.3g} steps"
    end = "" if word != "vanishing" else "; what lies further back hardly counts"
    return Finding("memory", f"effective memory: {how}, until 1 % is left{end}", {"steps": steps, "beyond": beyond})


def _about_bound(state: Products) -> Finding:
    bounds = state.bound.nanmedian(1).values
    at = int((~bounds.isnan()).nonzero()[-1]) if not bounds.isnan().all() else 0
    last, lag = float(bounds[at]), state.lags[at]
    rate = 10 ** (last / lag)
    text = f"the weights' largest singular values allow {rate:.3g} a step at most"
    text += ": below 1, so nothing can explode" if rate < 1 else ""
    return Finding("bound", text, {"factor": rate, "log10": last, "lag": lag})


def _about_cell(cell: Products) -> Finding:
    slope, span = _slope(cell)
    text = f"through the cell alone (gates held fixed) a step multiplies by {10**slope:.3g}"
    text += f", {slope * span:+.3g} over {span}"
    return Finding("cell_path", text, {"slope": slope, "factor": 10**slope, "span": span})


def _about_gates(trace: Trace) -> list[Finding]:
    found = []
    lives = memory(trace)
    if lives is not None and len(lives) and not lives.isnan().any():
        middle, longest = float(lives.median()), float(lives.max())
        text = f"half-life of a unit's memory: {middle:.3g} steps in the middle, {longest:.3g} at most"
        found.append(Finding("half_life", text, {"median": middle, "largest": longest}))
    for gate in trace.gates or ("h",):
        left, right = saturation(trace, gate).total()
        if math.isnan(left) or left + right < 0.5:
            continue
        ends = f"{left:.0%} at its lower end, {right:.0%} at its upper"
        text = f"{gate} is saturated {left + right:.0%} of the time ({ends})"
        found.append(Finding("saturated", text, {"gate": gate, "left": left, "right": right}))
    return found


def _about_clipping(clipping: Clipping, word: str) -> Finding:
    touched, seen = len(clipping.touched), clipping.seen
    values = {"limit": clipping.limit, "touched": touched, "seen": seen, "largest": clipping.largest}
    if clipping.limit is None:
        text = f"no clipping; the largest gradient norm that was logged is {clipping.largest:.3g}"
    else:
        text = f"clipping at {clipping.limit:g} touched {touched} of {seen} logged steps"
        text += f" (largest norm {clipping.largest:.3g})"
    if word == "vanishing":
        text += "; clipping only shortens gradients, so it cannot repair vanishing"
    return Finding("clipping", text, values)


def _about_chunk(chunk: int, steps: float) -> Finding:
    short = steps > chunk
    text = f"in training a gradient goes back {chunk} steps at most"
    text += ": less than the memory, so the cut limits what is learnt" if short else ", more than the memory reaches"
    return Finding("chunk", text, {"chunk": chunk, "limits": short})


def _remedies(
    word: str,
    kind: str,
    trace: Trace | None,
    chunk: int | None,
    steps: float,
    clipping: Clipping | None,
    layers: int,
    causal: bool,
) -> list[Finding]:
    found = []

    def say(key: str, text: str, **values: Any) -> None:
        found.append(Finding(key, text, values))

    if word == "vanishing":
        if kind.startswith("rnn"):
            say("gated_cell", "a gated cell (cell lstm or gru), which adds to its memory instead of multiplying it")
            if kind == "rnn_relu":
                say("init", "identity weights at the start (init irnn), which pass the state on unchanged")
            else:
                say("init", "orthogonal recurrent weights at the start (init keras)")
        elif kind == "lstm":
            say(
                "forget_bias",
                "a forget bias of 1 or 2 at the start (forget_bias 1), or unrolled.init.chrono(max_lag=…)",
            )
        else:
            say("init", "update gates that keep at the start: unrolled.init.chrono(max_lag=…)")
        way = "attention" if causal else "attention or mean pooling, or a backward direction"
        say("shorter_path", f"a shorter way to early steps: {way}", causal=causal)
        if layers > 2:
            say(
                "residual",
                "connections around the layers (residual), so that depth does not add to the path",
                layers=layers,
            )
    if word in ("exploding", "not finite"):
        if clipping is None or clipping.limit is None:
            say("clip", "clipping (clip 1): one step can then not throw the weights far")
        else:
            say("clip", f"a smaller clip than {clipping.limit:g}", limit=clipping.limit)
        say("learning_rate", "a lower learning rate, or a warm-up")
        say("init", "recurrent weights of norm 1 at the start (orthogonal: init keras)")
        if kind == "rnn_relu":
            say("gated_cell", "tanh, or a gated cell: a relu's state has no upper end")
        if chunk and chunk > 1:
            say("chunk", f"a shorter chunk than {chunk}: fewer factors multiply", chunk=chunk)
    if word == "healthy" and chunk and steps > chunk:
        say(
            "chunk", f"a longer chunk than {chunk}, if the task needs what lies further back", chunk=chunk, memory=steps
        )
    if trace is not None and kind == "rnn_tanh" and sum(saturation(trace, "h").total()) > 0.5:
        say("scale", "smaller inputs or weights: a saturated tanh passes no gradient")
    return found
