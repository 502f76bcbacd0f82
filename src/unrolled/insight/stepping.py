"""A model run once with its recurrent layers stepped by the equations, so that every step can be seen.

Axes     T time, B batch, I input, H hidden, P state (= H without a projection). Traces are time-major, in the order of
         time also for the backward direction.
Variant  The model is copied to float64 on the CPU, in eval mode, and runs once. In the copy each recurrent layer is
         stepped by `unrolled.equations` from its own weights. What comes out must be what the layer's own code computes
         in that copy, to 1e-5; otherwise the look is refused. The comparison is made in float64, so that rounding that
         a network amplifies is not taken for a wrong equation. The model that was given is not touched.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from unrolled.errors import RunError, expected
from unrolled.insight.cells import Cell, cell_of, is_recurrent, twin_of
from unrolled.kernels import reference
from unrolled.layers import Recurrent, inputs

__all__ = ["TOLERANCE", "Recording", "Trace", "Track", "as_numbers", "copied", "record"]

TOLERANCE = 1e-5


@dataclass(eq=False)
class Track:
    """One layer and direction while it is stepped. The lists grow in the order of the steps' computation."""

    name: str  # of the module in the model
    layer: int
    direction: int
    cell: Cell
    x: list[Tensor] = field(default_factory=list)
    before: list[tuple[Tensor, ...]] = field(default_factory=list)
    after: list[tuple[Tensor, ...]] = field(default_factory=list)
    gates: list[dict[str, Tensor]] = field(default_factory=list)
    valid: list[Tensor] = field(default_factory=list)  # (B,) bool: the row takes this step
    cut: list[Tensor] = field(default_factory=list)  # (B,) bool: the row began again before this step

    def nodes(self) -> list[Tensor]:
        """h after each step, in the order of time, as parts of the graph."""
        shown = [state[0] for state in self.after]
        return shown[::-1] if self.direction else shown

    def stacked(self, parts: list[Tensor]) -> Tensor:
        """One tensor, time first and in the order of time."""
        return torch.stack(parts[::-1] if self.direction else parts).detach()

    def trace(self) -> Trace:
        """What was seen, apart from the graph."""
        valid = self.stacked(self.valid)
        states = [self.stacked(list(part)) for part in zip(*self.after, strict=True)]
        before = tuple(self.stacked(list(part)) for part in zip(*self.before, strict=True))
        seen = [_hide(part, valid) for part in states]
        gates = {name: _hide(self.stacked([one[name] for one in self.gates]), valid) for name in self.cell.names}
        return Trace(
            self.name,
            self.layer,
            self.direction,
            self.cell.kind,
            h=seen[0],
            c=seen[1] if len(seen) > 1 else None,
            gates=gates,
            valid=valid,
            x=self.stacked(self.x),
            before=before,
            cut=self.stacked(self.cut),
            weights=Cell(self.cell.kind, *(None if w is None else w.detach() for w in self.cell[1:])),  # type: ignore[arg-type]
        )


@dataclass(frozen=True, eq=False)
class Trace:
    """One layer and direction at every step, float64. Past a row's length h, c and the gates are NaN."""

    name: str  # of the module in the model; "" where the model is the layer
    layer: int
    direction: int  # 0 forward, 1 backward
    kind: str  # rnn_tanh, rnn_relu, lstm, gru_after or gru_before
    h: Tensor  # (T, B, P) after each step
    c: Tensor | None  # (T, B, H) after each step, of an LSTM
    gates: dict[str, Tensor]  # (T, B, H) each: i f g o, or r z n
    valid: Tensor  # (T, B) bool
    x: Tensor  # (T, B, I) what came in, 0 past a row's length
    before: tuple[Tensor, ...]  # the state each step began from, (T, B, P) and (T, B, H)
    cut: Tensor  # (T, B) bool: the row began again before this step was computed
    weights: Cell

    @property
    def steps(self) -> int:
        return self.h.shape[0]

    @property
    def title(self) -> str:
        """`recurrent, layer 1, backward`"""
        way = "backward" if self.direction else "forward"
        return f"{self.name or 'the layer'}, layer {self.layer}, {way}"

    def order(self, row: int) -> Tensor:
        """The steps of a row (n,) in the order in which they are computed."""
        steps = self.valid[:, row].nonzero()[:, 0]
        return steps.flip(0) if self.direction else steps


@dataclass(eq=False)
class Recording:
    """A run of the copied model: its output, and the tracks of its recurrent layers in the order of their calls."""

    model: nn.Module
    output: Any = None
    tracks: list[Track] = field(default_factory=list)
    chunk: int | None = None  # detach the state before each step that is a multiple of it

    def traces(self) -> list[Trace]:
        """Each track apart from its graph; tracks without steps are left out."""
        return [track.trace() for track in self.tracks if track.x]


def record(
    model: nn.Module, *args: Any, chunk: int | None = None, dtype: Any = torch.float64, **kwargs: Any
) -> Recording:
    """Run a float64 copy of the model with its recurrent layers stepped by the equations.

    Args:
        chunk: cut the gradient before each step that is a multiple of it, as truncated backpropagation does.
        dtype: another type than float64, or None for the model's own.

    Raises:
        RunError: there is no recurrent layer, or one whose own code computes something else than its equations.
    """
    if chunk is not None and (isinstance(chunk, bool) or not isinstance(chunk, int) or chunk < 1):
        raise ValueError(expected("chunk", "a whole number of steps, 1 or more", repr(chunk)))
    recording = Recording(copied(model, dtype), chunk=chunk)
    found = [(name, module) for name, module in recording.model.named_modules() if is_recurrent(module)]
    if not found:
        way_out = "Give a model with RNN, LSTM or GRU layers, of this library or of torch.nn."
        raise RunError(expected("model", "recurrent layers", f"none in {type(model).__name__}", way_out))
    for name, module in found:
        _step_instead(recording, name, module, check=dtype is torch.float64)
    args, kwargs = as_numbers((args, kwargs), dtype)
    recording.output = recording.model(*args, **kwargs)
    if not recording.tracks:
        names = ", ".join(repr(name) for name, _ in found)
        raise RunError(expected("model", "a call of its recurrent layers", f"{names}, which the model did not call"))
    return recording


def copied(model: nn.Module, dtype: Any = torch.float64) -> nn.Module:
    """The model in eval mode on the CPU, in float64 or its own type; its hooks stay behind."""
    try:
        made = copy.deepcopy(model).cpu()
    except RuntimeError as error:
        way_out = "Look at a model that was not called with a graph kept, or at one made by load_state_dict."
        raise RunError(expected("model", "a module that can be copied", str(error).splitlines()[0], way_out)) from None
    return (made if dtype is None else made.to(dtype)).eval()


def as_numbers(value: Any, dtype: Any = torch.float64, *, change: Callable[[Tensor], Tensor] | None = None) -> Any:
    """The same arguments on the CPU, floating-point ones in the dtype (None: their own); or every tensor changed."""
    if isinstance(value, PackedSequence):
        return value.cpu() if dtype is None else value.cpu().to(dtype)
    if isinstance(value, Tensor):
        if change is not None:
            return change(value)
        return value.detach().to("cpu", value.dtype if dtype is None or not value.is_floating_point() else dtype)
    if isinstance(value, dict):
        return {key: as_numbers(part, dtype, change=change) for key, part in value.items()}
    if isinstance(value, tuple | list):
        parts = [as_numbers(part, dtype, change=change) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if is_dataclass(value) and not isinstance(value, type):
        own = {f.name: getattr(value, f.name) for f in fields(value) if f.init}
        return replace(value, **as_numbers(own, dtype, change=change))
    return value


def _step_instead(recording: Recording, name: str, module: Any, *, check: bool) -> None:
    """Let the module of the copy step by the equations, and compare with its own code."""
    own = module.forward
    twin = twin_of(module)
    step = _LayerSteps(recording, name, twin) if isinstance(twin, Recurrent) else _CellSteps(recording, name, twin)

    def forward(*args: Any, **kwargs: Any) -> Any:
        result = step(*args, **kwargs)
        if check:
            with torch.no_grad(), torch.backends.cudnn.flags(enabled=False):
                wanted = own(*args, **kwargs)
            _compare(name, module, _states(result, twin), _states(wanted, twin))
        return result

    module.forward = forward


def _states(result: Any, twin: Any) -> tuple[Tensor, ...]:
    state = result[1] if isinstance(twin, Recurrent) else result
    return state if isinstance(state, tuple) else (state,)


def _compare(name: str, module: nn.Module, found: tuple[Tensor, ...], wanted: tuple[Tensor, ...]) -> None:
    for mine, its in zip(found, wanted, strict=True):
        both = mine.detach().isfinite() & its.isfinite()
        far = (mine.detach() - its)[both].abs() > TOLERANCE * its[both].abs().clamp(min=1)
        same = (mine.detach().isfinite() == its.isfinite()).all()
        if far.any() or not same:
            gap = float((mine.detach() - its)[both].abs().max()) if both.any() else float("nan")
            found_ = f"one that differs by {gap:.3g}"
            way_out = "Its forward computes something else, so its gates cannot be read from its weights."
            label = f"{name or 'model'} ({type(module).__name__})"
            raise RunError(expected(label, f"the final state of its equations, to {TOLERANCE:g}", found_, way_out))


class _LayerSteps:
    """A layer of ours whose scans are recorded; what it accepts and gives back is the layer's own."""

    def __init__(self, recording: Recording, name: str, twin: Any) -> None:
        self.recording, self.name, self.twin = recording, name, twin

    def __call__(self, input: Any, hx: Any = None, *, lengths: Any = None, resets: Any = None) -> Any:
        twin, call = self.twin, inputs.read(self.twin, input, hx, lengths, resets)
        x, finals = call.x, []
        for layer in range(twin.num_layers):
            outs = []
            for direction in range(twin.num_directions):
                out, final = self._scan(x, layer, direction, call, single=hx is not None and x.shape[0] == 1)
                outs.append(out)
                finals.append(final)
            x = torch.cat(outs, -1)
        return inputs.write(twin, x, tuple(torch.stack(part) for part in zip(*finals, strict=True)), call)

    def _scan(
        self, x: Tensor, layer: int, direction: int, call: inputs.Call, *, single: bool
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        twin, chunk = self.twin, self.recording.chunk
        if chunk is not None and twin.bidirectional:
            raise ValueError(expected("chunk", "None for a bidirectional layer", chunk, "Its chunks share no state."))
        cell = cell_of(twin, layer, direction)
        cell = Cell(cell.kind, *(None if w is None else w.to(x.dtype) for w in cell[1:]))  # type: ignore[arg-type]
        index = layer * twin.num_directions + direction
        state = tuple(
            x.new_zeros(x.shape[1], size) if part is None else part[index]  # None stands for zeros
            for part, size in zip(call.state, twin.state_sizes, strict=True)
        )
        goes_on = state if single and not twin.bidirectional else None
        track = _track(self.recording, self.name, layer, direction, cell, goes_on)

        def step(x_t: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
            if chunk is not None and len(track.x) % chunk == 0:
                state = tuple(part.detach() for part in state)
            return _one_step(track, x_t, state)

        restart = tuple(part[index] for part in call.restart) if call.restart is not None else (None,) * len(state)
        out, final = reference._scan(step, x, state, restart, call.lengths, call.resets, direction == 1)
        valid, cut = _marks(x, call, direction == 1)
        track.valid += valid
        track.cut += cut
        return out, final


def _marks(x: Tensor, call: inputs.Call, reverse: bool) -> tuple[list[Tensor], list[Tensor]]:
    """(valid, cut), a (B,) boolean for each step in the order of computation."""
    steps, batch = x.shape[:2]
    everywhere = torch.ones(steps, batch, dtype=torch.bool)
    valid = everywhere if call.lengths is None else torch.arange(steps)[:, None] < call.lengths
    cut = ~everywhere if call.resets is None else reference._cuts(call.resets.T, valid, reverse)
    both = (valid.flip(0), cut.flip(0)) if reverse else (valid, cut)
    return list(both[0]), list(both[1])


class _CellSteps:
    """A cell that user code calls step by step."""

    def __init__(self, recording: Recording, name: str, twin: Any) -> None:
        self.recording, self.name, self.twin = recording, name, twin

    def __call__(self, input: Tensor, hx: Any = None) -> Any:
        x, state, batched = self.twin._read(input, hx)
        track = _track(self.recording, self.name, 0, 0, cell_of(self.twin), None if hx is None else state)
        if self.recording.chunk is not None and len(track.x) % self.recording.chunk == 0:
            state = tuple(part.detach() for part in state)
        after = _one_step(track, x, state)
        track.valid.append(torch.ones(x.shape[0], dtype=torch.bool))
        track.cut.append(torch.zeros(x.shape[0], dtype=torch.bool))
        shown = after if batched else tuple(part[0] for part in after)
        return shown if len(shown) > 1 else shown[0]


def _one_step(track: Track, x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    made = track.cell.step(x, *state)
    track.x.append(x)
    track.before.append(state)
    track.after.append(made.state)
    track.gates.append(made.gates)
    return made.state


def _track(
    recording: Recording, name: str, layer: int, direction: int, cell: Cell, goes_on: tuple[Tensor, ...] | None
) -> Track:
    """A new track; or the last one of this layer, where single steps are handed the state that it ended in."""
    earlier = [t for t in recording.tracks if (t.name, t.layer, t.direction) == (name, layer, direction)]
    if goes_on is not None and earlier and earlier[-1].after:
        last = earlier[-1].after[-1]
        if all(a.shape == b.shape and bool((a == b).all()) for a, b in zip(last, goes_on, strict=True)):
            return earlier[-1]
    track = Track(name, layer, direction, cell)
    recording.tracks.append(track)
    return track


def _hide(part: Tensor, valid: Tensor) -> Tensor:
    """NaN where no step was taken."""
    return part.masked_fill(~valid[:, :, None], float("nan"))
