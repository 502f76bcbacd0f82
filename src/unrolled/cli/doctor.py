"""`unrolled doctor`: versions, devices, engines and why each was chosen, embedded data, and what is missing."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import sys

from rich.table import Table

from unrolled.cli.show import console, table

# (module, name on the package index, the extra that brings it)
PACKAGES = (
    ("numpy", "numpy", ""),
    ("safetensors", "safetensors", ""),
    ("torch", "torch", "torch"),
    ("jaxtyping", "jaxtyping", "torch"),
    ("typer", "typer", "cli"),
    ("rich", "rich", "cli"),
    ("pydantic", "pydantic", "cli"),
    ("tomli_w", "tomli-w", "cli"),
    ("pyarrow", "pyarrow", "train"),
    ("conllu", "conllu", "train"),
    ("tokenizers", "tokenizers", "train"),
    ("torchmetrics", "torchmetrics", "train"),
    ("seqeval", "seqeval", "train"),
    ("onnx", "onnx", "export"),
    ("onnxruntime", "onnxruntime", "export"),
    ("statsmodels", "statsmodels", "forecast"),
    ("matplotlib", "matplotlib", "plot"),
)
CELLS = {"RNN": "rnn_scan", "LSTM": "lstm_scan", "GRU": "gru_scan"}


def report() -> None:
    """Print the whole report. Nothing here fails because something is missing: it says so instead."""
    out = console()
    out.print(_versions(), "")
    out.print(_native(), "")
    missing = _missing()
    if "torch" not in {module for module, _ in missing}:
        out.print(_devices(), "")
        out.print(_engines(), "")
    out.print(_examples(), "")
    for extra in dict.fromkeys(extra for _, extra in missing):
        names = ", ".join(module for module, brings in missing if brings == extra)
        out.print(f"missing: {names}. Install with: pip install 'unrolled[{extra}]'", markup=False)
    if not missing:
        out.print("Nothing is missing.")


def check() -> None:
    """Compare every engine with the equations and print the table.

    Raises:
        RunError: an engine computes something else.
    """
    from unrolled.errors import RunError, require

    require("torch", "torch")
    from unrolled.kernels.check import ALLOWED
    from unrolled.kernels.check import check as compare

    found = compare()
    cells, engines = (list(dict.fromkeys(getattr(one, what) for one in found)) for what in ("cell", "engine"))
    rows = table("largest error, as a share of what is allowed (float32, float64)", "cell", *engines)
    for cell in cells:
        shown = []
        for engine in engines:
            here = [one for one in found if (one.cell, one.engine) == (cell, engine)]
            shown.append("does not run it" if here[0].refused else "  ".join(f"{one.error:.2f}" for one in here))
        rows.add_row(cell, *shown)
    out = console()
    out.print(rows, "")
    wrong = [one for one in found if not one.is_right]
    if wrong:
        lines = [f"{one.engine}: {one.cell}, {one.dtype}: {one.what}: {one.error:.3g}" for one in wrong]
        way_out = "Train with --backend reference here and report these lines and those of unrolled doctor."
        raise RunError("\n".join([*lines, f"an engine does not compute the equations on this machine. {way_out}"]))
    out.print(
        f"Every engine computes the equations on this machine, forward and backward, within {ALLOWED} units in the "
        "last place of the largest number: rows of unequal length, resets, both directions.",
        markup=False,
    )


def _missing() -> list[tuple[str, str]]:
    return [(module, extra) for module, _, extra in PACKAGES if importlib.util.find_spec(module) is None]


def _versions() -> Table:
    from unrolled import __version__

    rows = table("versions", "package", "version", "extra")
    rows.add_row("unrolled", __version__, "")
    rows.add_row("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}", "")
    for module, package, extra in PACKAGES:
        found = importlib.util.find_spec(module) is not None
        rows.add_row(package, importlib.metadata.version(package) if found else "not installed", extra)
    rows.add_row("text encoding", f"{sys.stdout.encoding}", "")
    return rows


def _devices() -> Table:
    import torch

    from unrolled.training.precision import bfloat16_instructions

    rows = table("devices", "device", "what")
    rows.add_row("cpu", f"{os.cpu_count()} cores, {torch.get_num_threads()} threads in use by torch")
    products = ", ".join(bfloat16_instructions()) or "no instructions for it: --precision bfloat16 would be slower"
    rows.add_row("cpu, bfloat16", products)
    for index in range(torch.cuda.device_count()):
        rows.add_row(f"cuda:{index}", torch.cuda.get_device_name(index))
    if not torch.cuda.is_available():
        built = "torch is built without it" if torch.version.cuda is None else "no device found"
        rows.add_row("cuda", f"not available: {built}")
    rows.add_row("mps", "available" if torch.backends.mps.is_available() else "not available")
    return rows


def _native() -> Table:
    """The compiled engine: which of its targets runs, and what to do where none does."""
    from unrolled.runtime.recurrent import native

    rows = table("native engine", "what", "")
    try:
        engine = native()
    except ImportError as error:
        rows.add_row("target", f"none: {error}")
        rows.add_row(
            "to do",
            "install a C++ compiler (g++ or clang++), then unrolled again: "
            "UNROLLED_REQUIRE_NATIVE=1 pip install --force-reinstall --no-cache-dir unrolled, which stops and says why "
            "where it cannot be built. Until then the layers run on torch's kernels and the equations.",
        )
        return rows
    asked = os.environ.get("UNROLLED_ISA")
    try:
        rows.add_row(
            "target", f"{engine.isa()} ({'UNROLLED_ISA asks for it' if asked else 'the best of this machine'})"
        )
    except RuntimeError as error:
        rows.add_row("target", f"none: {error}")
        rows.add_row("to do", "unset UNROLLED_ISA, or set it to one of those available")
    rows.add_row("available", ", ".join(engine.available()))
    return rows


def _engines() -> Table:
    """What would run each cell now, as the one chooser answers it."""
    import torch

    from unrolled.kernels import choose

    x = torch.zeros(5, 3, 4)
    rows = table("engines (float32, cpu)", "cell", "runs on", "because")
    for cell, scan in CELLS.items():
        choice = choose(scan, x)
        rows.add_row(cell, choice.name, choice.reason)
    choice = choose("gru_scan", x, reset_after=False)
    rows.add_row("GRU, reset_after=False", choice.name, choice.reason)
    return rows


def _examples() -> Table:
    from unrolled.data import examples

    rows = table("embedded data", "name", "task", "items")
    for name in examples.NAMES:
        try:
            parts = examples.load(name)
            size = " / ".join(str(len(part)) for part in parts[:3])
            rows.add_row(name, parts.task, f"{size} (train / valid / test)")
        except OSError as error:
            rows.add_row(name, examples.describe(name).task, f"missing: {error.filename or error}")
    return rows
