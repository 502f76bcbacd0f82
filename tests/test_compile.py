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


@pytest.fixture(scope="module")
def results() -> dict[str, str]:
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(map(str, (HERE, HERE.parent / "src"))),
    }
    done = subprocess.run(
        [sys.executable, "-m", "oracles.compiled"],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", CHECKS)
def test_compiled_and_exported(name: str, results: dict[str, str]) -> None:
    assert results[name] == "", results[name]
