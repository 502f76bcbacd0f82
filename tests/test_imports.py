"""Imports run one way, torch stays out of where it does not belong, and what is public exists and says what it is."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import unrolled

SOURCE = Path(unrolled.__file__).parent
CHAIN = ("equations", "kernels", "layers", "models", "insight", "training", "convert", "cli")
# These import nothing of ours but `errors` (and themselves), and may be imported by all.
FREE = ("conventions", "data", "decoding", "lab", "bundle", "errors", "init", "pictures")
NO_TORCH = ("data", "decoding", "bundle", "errors", "runtime", "conventions")
ROOT = ("", "__main__")
MODULES = sorted(SOURCE.rglob("*.py"))


def name_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module: str) -> str:
    return module.split(".")[0]


def imported(path: Path) -> Iterator[tuple[str, int]]:
    """Every module that a file imports, inside functions and for type checkers too, and the line."""
    module = name_of(path)
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join(["unrolled", *filter(None, above), *filter(None, [base])])
            if base == "unrolled":
                yield from ((f"unrolled.{alias.name}", node.lineno) for alias in node.names)
            else:
                yield base, node.lineno
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == "import_module":
            first = node.args[0] if node.args else None
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield first.value, node.lineno


def ours(path: Path) -> Iterator[tuple[str, int]]:
    for target, line in imported(path):
        if target.split(".")[0] == "unrolled" and target not in ("unrolled", "unrolled.__version__"):
            yield target.split(".")[1], line


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_run_one_way(path: Path) -> None:
    room = room_of(name_of(path))
    if room in ROOT:
        return
    if room in CHAIN:
        allowed = {*CHAIN[: CHAIN.index(room) + 1], *FREE}
        if room == "kernels":
            allowed.add("_native")  # the compiled engine: kernels and runtime call it, nobody else
        if room in ("training", "convert", "cli"):  # what answers with PyTorch and without it is written once, there
            allowed.add("runtime")
    elif room == "runtime":
        allowed = {"conventions", "data", "decoding", "bundle", "errors", "runtime", "_native"}
    else:
        assert room in FREE, f"{room} is a new room: give it its place in CHAIN or FREE"
        allowed = {"errors", room}
    for target, line in ours(path):
        assert target in allowed, f"{path.name}:{line}: {room} must not import {target}"


def test_the_parser_sees_forbidden_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check itself can fail: in every spelling, also inside a function."""
    monkeypatch.setattr(sys.modules[__name__], "SOURCE", tmp_path)
    (tmp_path / "kernels").mkdir()
    for text in (
        "from unrolled.layers import GRU", "import unrolled.layers.recurrent", "from unrolled import layers",
        "from ..layers import GRU", "def f():\n    from unrolled import layers",
        "import importlib\nimportlib.import_module('unrolled.layers')",
    ):  # fmt: skip
        path = tmp_path / "kernels" / "bad.py"
        path.write_text(text)
        with pytest.raises(AssertionError, match="must not import layers"):
            test_imports_run_one_way(path)


@pytest.mark.parametrize("room", ["layers", "data", "cli"])
def test_only_kernels_and_runtime_touch_the_compiled_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: str
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "SOURCE", tmp_path)
    for place in (room, "kernels", "runtime"):
        (tmp_path / place).mkdir()
        path = tmp_path / place / "fast.py"
        path.write_text("from unrolled import _native")
        if place == room:
            with pytest.raises(AssertionError, match="must not import _native"):
                test_imports_run_one_way(path)
        else:
            test_imports_run_one_way(path)


@pytest.mark.parametrize("path", [p for p in MODULES if room_of(name_of(p)) in NO_TORCH], ids=name_of)
def test_rooms_without_torch(path: Path) -> None:
    for target, line in imported(path):
        assert target.split(".")[0] not in ("torch", "torchmetrics", "jaxtyping"), f"{path.name}:{line}: {target}"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(SOURCE.parent), "COLUMNS": "100"}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=environment, timeout=60, check=False
    )


BLOCKED = "import sys; sys.modules['torch'] = None; "


@pytest.mark.parametrize(
    "statement",
    [
        "import unrolled; unrolled.__version__; dir(unrolled)",
        "import unrolled.errors, unrolled.bundle, unrolled.decoding, unrolled.data",
        "import unrolled.training; from unrolled.training.recipe import Recipe",
        "import unrolled.cli",
    ],
)
def test_works_where_torch_is_not_installed(statement: str) -> None:
    done = run("-c", BLOCKED + statement)
    assert done.returncode == 0, done.stderr


def test_the_help_imports_no_torch() -> None:
    for arguments in (["--help"], ["train", "--help"], ["--version"]):
        done = run("-X", "importtime", "-m", "unrolled", *arguments)
        assert done.returncode == 0, done.stderr[-2000:]
        loaded = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines() if "|" in line}
        heavy = loaded & {"torch", "pyarrow", "torchmetrics", "tokenizers", "seqeval", "pandas", "scipy", "sklearn"}
        assert not heavy, f"unrolled {' '.join(arguments)} imports {heavy}"


def public_modules() -> list[str]:
    names = []
    for path in MODULES:
        name = name_of(path)
        if name != "__main__" and not any(part.startswith("_") for part in name.split(".") if part):
            names.append(f"unrolled.{name}".rstrip("."))
    return names


@pytest.mark.parametrize("name", public_modules())
def test_a_module_says_what_it_is_and_exports_what_it_has(name: str) -> None:
    module = importlib.import_module(name)
    assert (module.__doc__ or "").strip(), f"{name} has no docstring"
    for key in getattr(module, "__all__", ()):
        assert hasattr(module, key), f"{name}.__all__ names {key}, which is not there"


@pytest.mark.parametrize("name", [name for name in public_modules() if name.count(".") <= 1])
def test_public_names_say_what_they_are(name: str) -> None:
    """What a room exports: each class and function, and each public method of a class, has a docstring."""
    module = importlib.import_module(name)
    for key in getattr(module, "__all__", ()):
        value = getattr(module, key)
        if not (inspect.isclass(value) or inspect.isfunction(value)):
            continue
        assert (value.__doc__ or "").strip(), f"{name}.{key} has no docstring"
        for method, function in vars(value).items() if inspect.isclass(value) else ():
            if inspect.isfunction(function) and not method.startswith("_"):
                assert inspect.getdoc(getattr(value, method)), f"{name}.{key}.{method} has no docstring"


def test_every_name_of_the_package_can_be_fetched() -> None:
    assert len(set(unrolled.__all__)) == len(unrolled.__all__)
    for name in unrolled.__all__:
        assert getattr(unrolled, name) is not None
    assert set(unrolled.__all__) <= set(dir(unrolled))
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = unrolled.no_such_name


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell"])
def test_layers_are_fetched_from_one_place(name: str) -> None:
    from unrolled import layers

    assert getattr(unrolled, name) is getattr(layers, name)


def test_nothing_here_runs_what_a_file_says() -> None:
    """No pickle, eval, exec or shell in the library."""
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("eval", "exec"), f"{path.name}:{node.lineno}: {node.func.id}"
            if isinstance(node, ast.keyword) and node.arg == "shell":
                raise AssertionError(f"{path.name}: shell=")
        for target, line in imported(path):
            assert target.split(".")[0] not in ("pickle", "marshal", "shelve", "dill"), f"{path.name}:{line}: {target}"
