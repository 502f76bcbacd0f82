"""The oracles agree with torch.nn, which neither shares a line with."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from oracles.cases import CELLS, LENGTHS, case, randomise, split_state, theirs, truth
from oracles.compare import assert_near
from oracles.segments import by_pieces


@pytest.mark.parametrize(("cell", "proj_size"), [*((cell, 0) for cell in CELLS), ("lstm", 2)])
def test_numpy_oracle_is_torch(cell: str, proj_size: int) -> None:
    options = {"proj_size": proj_size} if proj_size else {}
    layer = randomise(theirs(cell, 4, 3, 2, bidirectional=True, batch_first=True, dtype=torch.float64, **options), 1)
    this = case(cell, proj_size=proj_size)
    out, state = layer(this.x, this.state)
    h, c = split_state(state)
    want = truth(cell, layer, this, layers=2, bidirectional=True)
    assert_near(out, want.out)
    assert_near(h, want.h_n)
    if c is not None:
        assert_near(c, want.c_n)


@pytest.mark.parametrize("cell", CELLS)
def test_pieces_are_the_numpy_oracle(cell: str) -> None:
    layer = randomise(theirs(cell, 4, 3, 2, bidirectional=True, dtype=torch.float64), 1)
    this = case(cell)
    resets = torch.tensor([[0, 0, 1, 1, 0], [1, 0, 0, 1, 0], [1, 1, 0, 0, 0]], dtype=torch.bool)
    out, h, c = by_pieces(layer, this.x, this.h0, this.c0, lengths=LENGTHS, resets=resets)
    want = truth(cell, layer, this, LENGTHS, layers=2, bidirectional=True, resets=resets)
    assert_near(out, want.out)
    assert_near(h, want.h_n)
    if c is not None:
        assert_near(c, want.c_n)


# The tape: the gradients that the native engine is compared with


def tape_case(cell: str) -> tuple[list[np.ndarray | None], dict[str, np.ndarray], np.ndarray]:
    """The ten tensors of a scan, the same weights by torch's names, and lengths with a zero."""
    rng = np.random.default_rng(3)
    gates, I, H = {"rnn_tanh": 1, "rnn_relu": 1}.get(cell, 4 if cell.startswith("lstm") else 3), 4, 3
    P, is_lstm = 2 if cell == "lstm_projected" else H, cell.startswith("lstm")

    def draw(*shape: int) -> np.ndarray:
        return rng.uniform(-1, 1, shape).astype(np.longdouble)

    W, U, b, b_h, V = draw(gates, I, H), draw(gates, P, H), draw(gates, H), draw(gates, H), draw(H, P)
    weights = {}
    for suffix in ("l0", "l0_reverse"):
        weights |= {
            f"weight_ih_{suffix}": W.transpose(0, 2, 1).reshape(-1, I), f"bias_ih_{suffix}": b.reshape(-1),
            f"weight_hh_{suffix}": U.transpose(0, 2, 1).reshape(-1, P), f"bias_hh_{suffix}": b_h.reshape(-1),
        }  # fmt: skip
        if P != H:
            weights[f"weight_hr_{suffix}"] = V.T
    c, restart_c = (draw(5, H), draw(H)) if is_lstm else (None, None)
    tensors = [draw(6, 5, I), draw(5, P), c, W, U, b, b_h, V if P != H else None, draw(P), restart_c]
    return tensors, weights, np.array([6, 0, 3, 1, 5])


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("cell", ["rnn_tanh", "rnn_relu", "lstm", "lstm_projected", "gru_after", "gru_before"])
def test_the_tape_is_the_other_program_and_its_own_differences(cell: str, reverse: bool) -> None:
    from oracles import tape
    from oracles.scan import scan

    tensors, weights, lengths = tape_case(cell)
    x, h, c, restart_h, restart_c = (tensors[k] for k in (0, 1, 2, 8, 9))
    resets = np.random.default_rng(4).random((5, 6)) < 0.3
    options = {"lengths": lengths, "resets": resets, "reverse": reverse}
    rng = np.random.default_rng(5)
    shapes = [(6, *h.shape), h.shape, *([] if c is None else [c.shape])]
    seeds = [rng.uniform(-1, 1, shape).astype(np.longdouble) for shape in shapes]
    results, gradients = tape.scan(cell, tensors, seeds, **options)

    doubled = [None if v is None else np.stack([v, v]) for v in (h, c, restart_h, restart_c)]
    name = {"r": cell[4:], "l": "lstm", "g": "gru"}[cell[0]]
    want = scan(
        name, weights, x.transpose(1, 0, 2), bidirectional=True, h0=doubled[0], c0=doubled[1], restart_h=doubled[2],
        restart_c=doubled[3], lengths=list(lengths), resets=resets, reset_after=cell != "gru_before",
    )  # fmt: skip
    width = h.shape[1]
    columns = slice(width, None) if reverse else slice(0, width)
    assert_near(results[0], want.out.transpose(1, 0, 2)[..., columns], ulps=16)
    assert_near(results[1], want.h_n[int(reverse)], ulps=16)
    if c is not None:
        assert_near(results[2], want.c_n[int(reverse)], ulps=16)

    def loss(changed: list[np.ndarray | None]) -> np.longdouble:
        return sum((s * r).sum() for s, r in zip(seeds, tape.scan(cell, changed, seeds, **options)[0], strict=True))

    step = np.longdouble(1e-6)
    for number, (tensor, gradient) in enumerate(zip(tensors, gradients, strict=True)):
        if tensor is None:
            assert gradient is None
            continue
        direction = rng.uniform(-1, 1, tensor.shape).astype(np.longdouble)
        ends = [
            loss([tensor + sign * step * direction if k == number else t for k, t in enumerate(tensors)])
            for sign in (1, -1)
        ]
        np.testing.assert_allclose((ends[0] - ends[1]) / (2 * step), (gradient * direction).sum(), rtol=0, atol=1e-9)
