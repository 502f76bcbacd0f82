"""Which engine runs and why, where the compiled one is there, missing, or asked for a target that this machine has not.

Each case is a process of its own: the engine and UNROLLED_ISA are read once.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from unrolled import _native, kernels
from unrolled.kernels import native, torch_kernels

WITHOUT = "import sys; sys.modules['unrolled._native'] = None\n"
ASK = """
import torch, unrolled
from unrolled import kernels
x = torch.zeros(5, 3, 4)
for choice in (kernels.choose("gru_scan", x), kernels.choose("gru_scan", x, reset_after=False)):
    print(choice.name, "|", choice.reason)
print(kernels.engine_status()["native"])
layer = unrolled.GRU(4, 3)
out, _ = layer(x, lengths=[5, 0, 2])
out.sum().backward()
print(tuple(out.shape), tuple(layer.weight_hh_l0.grad.shape))
try:
    unrolled.GRU(4, 3, backend="native")(x)
except RuntimeError as error:
    print(error)
"""
DOCTOR = "from unrolled.cli import main; main(['doctor'])"


def run(program: str, **environment: str) -> str:
    settings = os.environ | {"COLUMNS": "400", "OMP_NUM_THREADS": "1"} | environment
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=settings, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Traceback" not in done.stderr
    return done.stdout


def test_without_the_compiled_module() -> None:
    """The layers run on; a named backend and the doctor say what is missing and what to do."""
    after, before, status, shapes, refusal = run(WITHOUT + ASK).splitlines()
    assert after.startswith("torch |")
    assert before.startswith("reference |")
    for text in (after, before, status, refusal):
        assert "unrolled._native cannot be loaded" in text
        assert "C++ compiler" in text
    assert shapes == "(5, 3, 3) (9, 3)"
    assert refusal.endswith("Use backend='auto' to take what can run it.")
    assert ".." not in refusal


def test_doctor_without_the_compiled_module() -> None:
    text = run(WITHOUT + DOCTOR)
    assert "none: " in text
    assert "C++ compiler (g++ or clang++)" in text
    assert "UNROLLED_REQUIRE_NATIVE=1 pip install" in text
    assert "unrolled._native cannot be loaded" in text  # and so in the reasons of the engines


def test_a_target_that_this_machine_has_not() -> None:
    after, before, status, shapes, refusal = run(ASK, UNROLLED_ISA="sse9").splitlines()
    assert after.startswith("torch |")
    assert before.startswith("reference |")
    for text in (after, before, status, refusal):
        assert "UNROLLED_ISA: expected one of " in text
        assert "generic on this machine, found 'sse9'" in text
    assert shapes == "(5, 3, 3) (9, 3)"
    assert ".." not in refusal


def test_doctor_with_a_target_that_this_machine_has_not() -> None:
    text = run(DOCTOR, UNROLLED_ISA="sse9")
    assert "found 'sse9'" in text
    assert "unset UNROLLED_ISA" in text
    assert ", ".join(_native.available()) in text


def test_doctor_says_which_target_runs() -> None:
    best = _native.available()[0]
    text = run(DOCTOR, UNROLLED_ISA="")
    assert f"{best} (the best of this machine)" in text
    assert ", ".join(_native.available()) in text
    assert "fused over the whole sequence" in text
    assert "generic (UNROLLED_ISA asks for it)" in run(DOCTOR, UNROLLED_ISA="generic")


def test_the_best_target_runs_unless_another_is_asked_for() -> None:
    ask = "from unrolled import _native; print(_native.isa(), *_native.available())"
    best, *available = run(ask, UNROLLED_ISA="").split()
    assert best == available[0]
    assert available[-1] == "generic"
    for target in available:
        assert run(ask, UNROLLED_ISA=target).split()[0] == target


@pytest.mark.parametrize("name", kernels.NAMES)
def test_auto_takes_the_native_engine_on_the_cpu(name: str) -> None:
    for dtype in (torch.float32, torch.float64):
        for memory in ("store", "recompute"):
            choice = kernels.choose(name, torch.zeros(5, 3, 4, dtype=dtype), memory=memory)
            assert choice.name == "native"
            assert choice.reason == "fused over the whole sequence"
    assert kernels.choose(name, torch.zeros(5, 3, 4)).run is getattr(native, name)


def test_what_the_native_engine_refuses_goes_on_with_the_reason() -> None:
    for x, word in (
        (torch.zeros(5, 3, 4, dtype=torch.complex64), "complex64"),
        (torch.zeros(5, 3, 4, dtype=torch.bfloat16), "bfloat16"),
        (torch.zeros(5, 3, 4, device="meta"), "on meta"),
    ):
        choice = kernels.choose("lstm_scan", x)
        assert choice.name != "native"
        assert "not native: " in choice.reason
        assert word in choice.reason
        with pytest.raises(RuntimeError, match=rf"(?s)backend='native' for lstm_scan.*{word}.*backend='auto'"):
            kernels.choose("lstm_scan", x, backend="native")
    with torch.autograd.forward_ad.dual_level():
        assert "forward-mode" in kernels.choose("rnn_scan", torch.zeros(5, 3, 4)).reason
    inside: list[str] = []
    torch.func.vmap(lambda x: inside.append(kernels.choose("gru_scan", x).reason) or x)(torch.zeros(2, 5, 3, 4))
    assert "torch.func" in inside[0]
    assert kernels.choose("gru_scan", torch.zeros(5, 3, 4), backend="torch").run is torch_kernels.gru_scan
