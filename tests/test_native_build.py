"""How the native engine comes to be built, or not: the first step of an install, which decides it; the test command."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def tool(name: str) -> str:
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    assert found, f"{name} is not here: pip install 'unrolled[test]'"
    return found


def configure(build: Path, *, path: str | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """CMake's first step over our CMakeLists.txt, as scikit-build-core runs it."""
    env = {k: v for k, v in os.environ.items() if k not in ("CXX", "CC", "UNROLLED_REQUIRE_NATIVE")} | environment
    if path is not None:
        env["PATH"] = path
    command = [tool("cmake"), "-S", str(ROOT), "-B", str(build), "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}"]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=120)


def test_without_a_compiler_the_install_goes_on_and_says_so(tmp_path: Path) -> None:
    done = configure(tmp_path / "build", path=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "Installing without the native engine: no C++ compiler was found" in done.stderr


def test_without_a_compiler_it_fails_where_the_engine_is_required(tmp_path: Path) -> None:
    done = configure(tmp_path / "build", path=str(tmp_path), UNROLLED_REQUIRE_NATIVE="1")
    assert done.returncode != 0
    text = " ".join(done.stderr.split())
    assert "UNROLLED_REQUIRE_NATIVE is set and no C++ compiler was found (g++ or clang++)" in text


def test_a_name_that_python_was_built_with_is_no_compiler(tmp_path: Path) -> None:
    done = configure(tmp_path / "build", path=str(tmp_path), CXX="g++ -pthread")
    assert done.returncode == 0, done.stderr
    assert "no C++ compiler was found" in done.stderr


def test_another_compiler_serves_where_the_one_of_python_is_not(tmp_path: Path) -> None:
    here = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    assert here, "the tests need a C++ compiler"
    done = configure(tmp_path / "build", path=f"{Path(here).parent}:{os.environ['PATH']}", CXX="nobody-has-c++")
    assert "CXX compiler identification is" in done.stdout
    assert "no C++ compiler" not in done.stderr


@pytest.mark.parametrize("value", ["", "0"])
def test_a_requirement_of_nothing_requires_nothing(tmp_path: Path, value: str) -> None:
    assert configure(tmp_path / "build", path=str(tmp_path), UNROLLED_REQUIRE_NATIVE=value).returncode == 0


def test_a_named_compiler_that_fails_is_an_error(tmp_path: Path) -> None:
    done = configure(tmp_path / "build", CXX="/bin/false")
    assert done.returncode != 0
    assert "/bin/false" in done.stderr
    assert "Installing without" not in done.stderr


def test_a_found_compiler_that_fails_is_an_error(tmp_path: Path) -> None:
    broken = tmp_path / "c++"
    broken.write_text("#!/bin/sh\necho no licence >&2\nexit 1\n")
    broken.chmod(0o755)
    done = configure(tmp_path / "build", path=f"{tmp_path}:/usr/bin:/bin")
    assert done.returncode != 0
    assert "Installing without" not in done.stderr


def test_the_engine_that_is_tested_is_here() -> None:
    from unrolled import _native

    assert _native.isa() in _native.available()
    assert _native.available()[-1] == "generic"


def test_an_unknown_target_is_an_error_that_lists_the_known() -> None:
    code = "from unrolled import _native; _native.isa()"
    env = os.environ | {"UNROLLED_ISA": "mmx"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert re.search(r"UNROLLED_ISA: expected one of .*generic.*found 'mmx'", done.stderr)


def test_the_test_command_needs_the_engine_and_runs_its_own_tests() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"UNROLLED_REQUIRE_NATIVE=1 \$\(PIP\) --editable '\.\[test\]'", makefile)
    assert re.search(r"^test:.*\bnative-test\b", makefile, re.MULTILINE)
    for sanitizer in ("address", "undefined", "thread"):
        assert f"-DUNROLLED_SANITIZE={sanitizer}" in makefile


def test_what_is_built_from_is_in_the_sdist() -> None:
    excluded = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["scikit-build"]["sdist"]["exclude"]
    assert not {"native", "CMakeLists.txt", "src", "tests"} & set(excluded)
