"""torch.compile(fullgraph=True) and torch.export, in a process without the type-checking hook."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from oracles.compiled import CHECKS

HERE = Path(__file__).parent


def run(program: str) -> dict[str, str]:
    """What a program of `oracles` found: name of the check -> "" or what went wrong."""
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([*map(str, (HERE, HERE.parent / "src")), os.environ.get("PYTHONPATH", "")]),
    }
    command = [sys.executable, "-m", f"oracles.{program}"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def results() -> dict[str, str]:
    return run("compiled")


@pytest.fixture(scope="module")
def onnx_results() -> dict[str, str]:
    return run("torch_onnx")


@pytest.mark.parametrize("name", CHECKS)
def test_compiled_and_exported(name: str, results: dict[str, str]) -> None:
    assert results[name] == "", results[name]


@pytest.mark.parametrize("name", ["gru", "gru before", "lstm", "rnn relu"])
def test_torch_onnx_gives_one_node_a_layer_and_direction(name: str, onnx_results: dict[str, str]) -> None:
    assert onnx_results[name] == "", onnx_results[name]
