"""Any shape, lengths, resets, strides and options, on every engine that can run them, against the NumPy oracle."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import torch
from hypothesis import given, settings

from oracles.cases import CELLS, Case, assert_layer_is_right, case, ours, randomise, split_state
from oracles.compare import assert_bitwise, assert_near
from unrolled import kernels

SIZES = st.sampled_from([1, 2, 3, 5, 7, 8, 9, 17])


@st.composite
def problems(draw: st.DrawFn) -> dict[str, Any]:
    """A layer's options and one batch."""
    cell = draw(st.sampled_from(CELLS))
    batch, steps = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    options: dict[str, Any] = {
        "num_layers": draw(st.integers(1, 3)),
        "bidirectional": draw(st.booleans()),
        "batch_first": draw(st.booleans()),
        "bias": draw(st.booleans()),
        "dtype": draw(st.sampled_from([torch.float64, torch.float32])),
        "backend": draw(st.sampled_from(["native", "torch", "reference"])),
        "memory": draw(st.sampled_from(["store", "recompute"])),
    }
    if options["bias"]:
        options["single_bias"] = draw(st.booleans())
    hidden = draw(SIZES)
    if cell == "lstm" and hidden > 1 and draw(st.booleans()):
        options["proj_size"] = draw(st.integers(1, hidden - 1))
    if cell == "gru" and options["backend"] != "torch":
        options["reset_after"] = draw(st.booleans())
    lengths = draw(st.none() | st.lists(st.integers(0, steps), min_size=batch, max_size=batch))
    bits = st.lists(st.lists(st.booleans(), min_size=steps, max_size=steps), min_size=batch, max_size=batch)
    resets = draw(st.none() | bits)
    return {
        "cell": cell, "width": draw(SIZES), "hidden": hidden, "batch": batch, "steps": steps, "options": options,
        "lengths": lengths, "resets": None if resets is None else torch.tensor(resets),
        "given_state": draw(st.booleans()), "strides": draw(st.sampled_from(["plain", "every second", "turned"])),
        "seed": draw(st.integers(0, 1000)),
    }  # fmt: skip


def strided(x: torch.Tensor, how: str) -> torch.Tensor:
    if how == "every second":
        return torch.stack([x, torch.full_like(x, float("nan"))], dim=-1).flatten(-2)[..., ::2]
    return x.permute(2, 1, 0).contiguous().permute(2, 1, 0) if how == "turned" else x


def build(problem: dict[str, Any]) -> tuple[torch.nn.Module, Case]:
    options = problem["options"]
    # Weights that shrink with the width keep float32's error from growing with the sums.
    layer = ours(problem["cell"], problem["width"], problem["hidden"], **options)
    randomise(layer, problem["seed"], scale=0.9 / max(problem["width"], problem["hidden"]) ** 0.5)
    this = case(
        problem["cell"], problem["seed"] + 1, batch=problem["batch"], steps=problem["steps"], width=problem["width"],
        hidden=problem["hidden"], layers=options["num_layers"], bidirectional=options["bidirectional"],
        proj_size=options.get("proj_size", 0), dtype=options["dtype"],
    )  # fmt: skip
    return layer, this


@settings(max_examples=100)
@given(problems())
def test_every_layer_is_the_oracle(problem: dict[str, Any]) -> None:
    layer, this = build(problem)
    this.x = strided(this.x, problem["strides"])
    for seed in (problem["seed"], problem["seed"] + 7):  # twice, with other weights
        randomise(layer, seed, scale=0.9 / max(problem["width"], problem["hidden"]) ** 0.5)
        assert_layer_is_right(
            problem["cell"], layer, this, lengths=problem["lengths"], resets=problem["resets"],
            given_state=problem["given_state"],
        )  # fmt: skip


@settings(max_examples=50)
@given(problems())
def test_engines_have_the_same_gradients(problem: dict[str, Any]) -> None:
    """Each engine that can run the case against the reference scan, in float64, with NaN in the padding."""
    problem["options"]["dtype"] = torch.float64
    found: dict[str, list[torch.Tensor]] = {}
    for backend in ("reference", *kernels.ENGINES):
        problem["options"]["backend"] = backend
        if backend == "torch" and not problem["options"].get("reset_after", True):
            continue
        layer, this = build(problem)
        if problem["lengths"] is not None:
            for row, n in enumerate(problem["lengths"]):
                this.x[row, n:] = float("nan")
        x, h0 = this.x.requires_grad_(), this.h0.requires_grad_()
        out, last = layer(
            x if layer.batch_first else x.transpose(0, 1),
            this.state,
            lengths=problem["lengths"],
            resets=problem["resets"],
        )
        h, c = split_state(last)
        loss = out.square().sum() + h.sum() + (0 if c is None else c.square().sum())
        tensors = [x, h0, *layer.parameters()]
        gradient = torch.autograd.grad(loss, tensors, allow_unused=True)
        found[backend] = [torch.zeros_like(t) if g is None else g for t, g in zip(tensors, gradient, strict=True)]
    for backend, gradients in found.items():
        for got, want in zip(gradients, found["reference"], strict=True):
            assert torch.isfinite(got).all(), backend
            assert_near(got, want, ulps=256)


@settings(max_examples=40)
@given(problems(), st.integers(0, 6))
def test_split_anywhere_is_the_whole(problem: dict[str, Any], cut: int) -> None:
    """One direction: two calls that hand the state over are one call, lengths and resets cut alike."""
    problem["options"] |= {"bidirectional": False, "batch_first": True, "dtype": torch.float64}
    layer, this = build(problem)
    steps, cut = problem["steps"], min(cut, problem["steps"])
    lengths = np.array(problem["lengths"] or [steps] * problem["batch"])
    resets = problem["resets"]
    out, last = layer(this.x, this.state, lengths=lengths, resets=resets)
    state, pieces = this.state, []
    for start, stop in ((0, cut), (cut, steps)):
        piece, state = layer(
            this.x[:, start:stop], state, lengths=np.clip(lengths - start, 0, stop - start),
            resets=None if resets is None else resets[:, start:stop],
        )  # fmt: skip
        pieces.append(piece)
    assert_near(torch.cat(pieces, dim=1), out)
    for a, b in zip(split_state(state), split_state(last), strict=True):
        if b is not None:
            assert_near(a, b)


@settings(max_examples=40)
@given(problems(), st.randoms(use_true_random=False))
def test_rows_in_any_order(problem: dict[str, Any], random: Any) -> None:
    problem["options"] |= {"batch_first": True, "dtype": torch.float64}
    layer, this = build(problem)
    order = list(range(problem["batch"]))
    random.shuffle(order)
    lengths, resets = problem["lengths"], problem["resets"]
    out, _ = layer(this.x, this.state, lengths=lengths, resets=resets)
    moved = Case(this.x[order], this.h0[:, order], None if this.c0 is None else this.c0[:, order])
    got, _ = layer(
        moved.x, moved.state, lengths=None if lengths is None else [lengths[i] for i in order],
        resets=None if resets is None else resets[order],
    )  # fmt: skip
    assert_near(got, out[order])


@settings(max_examples=60)
@given(st.data())
def test_lengths_and_masks_are_the_same_thing(data: st.DataObject) -> None:
    import pytest

    import unrolled

    rows = data.draw(st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=1, max_size=4))
    broken = [i for i, row in enumerate(rows) if row != sorted(row, reverse=True)]
    mask = torch.tensor(rows)
    if broken:
        with pytest.raises(ValueError, match=rf"row {broken[0]}\b"):
            unrolled.lengths_from_mask(mask)
    else:
        lengths = unrolled.lengths_from_mask(mask)
        assert_bitwise(torch.arange(4) < lengths[:, None], mask)
