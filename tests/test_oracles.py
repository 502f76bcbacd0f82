"""The oracles agree with torch.nn, which neither shares a line with."""

from __future__ import annotations

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
