"""`unrolled doctor --check`: every engine beside the equations, and an engine that is wrong is found."""

from __future__ import annotations

import pytest

from unrolled.cli import main
from unrolled.kernels import check as checks
from unrolled.kernels import torch_kernels


def test_every_engine_and_target_of_this_machine_computes_the_equations(capsys):
    from unrolled import _native

    with pytest.raises(SystemExit) as stop:
        main(["doctor", "--check"])
    said = " ".join(capsys.readouterr().out.split())
    assert stop.value.code == 0, said
    assert "Every engine computes the equations" in said
    found = checks.check()
    engines = {one.engine for one in found}
    assert engines == {"torch", "reference", *(f"native, {target}" for target in _native.available())}
    assert len(found) == 2 * len(checks.CELLS) * len(engines)
    assert all(one.is_right for one in found)
    assert [one.cell for one in found if one.refused] == ["GRU, reset before"] * 2


MUTANTS = {
    "a gate in another place": lambda w: {**w, "W": w["W"].flip(0)},
    "a bias left out": lambda w: {**w, "b_h": 0 * w["b_h"]},
    "padding that is read": lambda w: {**w, "lengths": None},
    "resets that are not seen": lambda w: {**w, "resets": None},
    "the other direction": lambda w: {**w, "reverse": not w["reverse"]},
    "another bit of a weight": lambda w: {**w, "U": w["U"] * (1 + 4e-5)},
}


@pytest.mark.parametrize("name", MUTANTS)
def test_an_engine_that_computes_something_else_is_named(name, monkeypatch, capsys):
    right = torch_kernels.gru_scan

    def wrong(x, h, **others):
        return right(x, h, **MUTANTS[name](others))

    monkeypatch.setattr(torch_kernels, "gru_scan", wrong)
    monkeypatch.setattr(checks, "check", lambda: list(checks.check_here(["torch"])))
    with pytest.raises(SystemExit) as stop:
        main(["doctor", "--check"])
    assert stop.value.code == 1
    said = capsys.readouterr().err
    assert "torch: GRU, reset after, float32: " in said
    assert "torch: LSTM" not in said
    assert "--backend reference" in said
