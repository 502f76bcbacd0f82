"""The runtime says what PyTorch says: scores to 1e-5, and the same labels, tags and texts."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from runtime_models import inputs, make
from unrolled import runtime
from unrolled.errors import BundleError, DataError, MissingExtra, RunError
from unrolled.runtime.recurrent import native

SOURCE = Path(runtime.__file__).parent.parent.parent

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    **{
        f"classify {cell} {pooling}": ("features", {"cell": cell, "pooling": pooling, "layers": 2, "dropout": 0.1})
        for cell, pooling in itertools.product(("rnn", "lstm", "gru"), ("last", "mean", "max", "attention"))
    },
    "one way": ("features", {"bidirectional": False, "layers": 2, "pooling": "last"}),
    "reset before": ("features", {"cell": "gru", "reset_after": False, "pooling": "mean"}),
    "one bias": ("features", {"cell": "gru", "single_bias": True}),
    "learned start": ("features", {"cell": "lstm", "learn_initial_state": True, "pooling": "last", "layers": 2}),
    "text": ("text", {"cell": "gru", "pooling": "attention"}),
    "text, letters": ("text", {"tokenizer": "chars", "pooling": "max"}),
    "text, subword": ("text", {"tokenizer": "subword", "vocabulary_size": 300}),
    "tags": ("spans", {}),
    "tags, crf": ("spans", {"crf": True, "cell": "gru"}),
    "tags, no letters": ("spans", {"characters": False, "bidirectional": False}),
    "tags of features": ("tagged features", {"layers": 2, "seed": 1}),
    "tags of features, crf": ("tagged features", {"crf": True}),
    **{
        f"pairs, {attention}, {cell}, {bridge}": (
            "pairs",
            {"attention": attention, "cell": cell, "bridge": bridge, "layers": 2, "decoder_layers": deep, "beam": 3}
            | {"decoder_cell": other, "decoder_hidden": wide},
        )
        for attention, cell, bridge, deep, other, wide in (
            ("none", "gru", "projection", 1, "lstm", 7),
            ("additive", "lstm", "projection", 3, "gru", None),
            ("general", "lstm", "zeros", 2, None, 6),
            ("dot", "rnn", "copy", 2, "lstm", 10),
        )
    },
    "pairs, fed": ("pairs", {"attention": "general", "input_feeding": True, "cell": "gru", "length_penalty": 0.7}),
    "pairs, one way": ("pairs", {"bidirectional": False, "coverage_penalty": 0.3, "beam": 4, "reset_after": True}),
    "vectors": ("vectors", {"cell": "gru", "beam": 2}),
    "series": ("series", {"cell": "gru", "beam": 2, "learn_initial_state": True}),
    "lm": ("documents", {"hidden": 6, "embedding": 4}),
    "lm, tied": ("documents", {"hidden": 6, "embedding": 6, "tie_weights": True, "cell": "gru", "layers": 2}),
    "lm, one stream": ("documents", {"context": "continuous", "cell": "rnn", "learn_initial_state": True}),
}


def close(found: Any, wanted: Any, where: str) -> None:
    """The same answer: numbers to 1e-5, all else exactly."""
    if isinstance(wanted, dict):
        assert list(found) == list(wanted), where
        for key in wanted:
            close(found[key], wanted[key], f"{where}.{key}")
    elif isinstance(wanted, float):
        assert found == pytest.approx(wanted, rel=1e-5, abs=1e-5), where
    elif isinstance(wanted, list):
        assert len(found) == len(wanted), where
        for place, (one, other) in enumerate(zip(found, wanted, strict=True)):
            close(one, other, f"{where}[{place}]")
    else:
        assert found == wanted, where


@pytest.mark.parametrize("name", MODELS)
def test_answers_are_those_of_pytorch(name: str, tmp_path: Path) -> None:
    kind, fields = MODELS[name]
    trained = make(tmp_path, kind, **fields)
    model = runtime.load(tmp_path)
    given = inputs(kind)
    wanted = trained.predict(given)
    assert any(answer != wanted[0] for answer in wanted)
    for place, (one, other) in enumerate(zip(model.predict(given), wanted, strict=True)):
        close(one, other, f"{name}, input {place}")
    for one, other in zip(given, wanted, strict=True):  # alone, and a model remembers nothing
        close(model.predict([one])[0], other, name)


@pytest.mark.parametrize("name", [name for name, (kind, _) in MODELS.items() if kind in ("features", "spans")])
def test_scores_are_those_of_pytorch(name: str, tmp_path: Path) -> None:
    """The numbers that decisions are made from, an empty row among them."""
    kind, fields = MODELS[name]
    trained = make(tmp_path, kind, **fields)
    model = runtime.load(tmp_path)
    given = inputs(kind)
    rows = [trained.task.reading.encode(trained.task.item(one, "x")) for one in given]  # type: ignore[attr-defined]
    empty = trained.task.reading.encode(trained.task.item(given[0][:0], "x"))  # type: ignore[attr-defined]
    rows.append(empty)
    with torch.no_grad():
        wanted = trained.model(trained.task.reading.batch(rows)).numpy()  # type: ignore[attr-defined]
    found = model.scores(rows)  # type: ignore[attr-defined]
    for place, row in enumerate(rows):
        right = wanted[place] if wanted.ndim == 2 else wanted[place, : len(row)]
        np.testing.assert_allclose(found[place], right, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in MODELS if name.startswith(("pairs", "vectors", "series"))])
def test_targets_are_those_of_pytorch(name: str, tmp_path: Path) -> None:
    """Every way to search, the weights of the attention as well."""
    kind, fields = MODELS[name]
    trained = make(tmp_path, kind, **fields)
    model = runtime.load(tmp_path)
    given = inputs(kind)
    looks = fields.get("attention") != "none" and kind != "vectors"
    ways: tuple[dict[str, Any], ...] = (
        {"beam": 1, "attention": looks},
        {"beam": 5, "n_best": 3, "limit": 9, "attention": looks},
        {"sample": True, "n_best": 2, "seed": 3, "temperature": 0.7, "top_k": 4},
    )
    for options in ways:
        for found, wanted in zip(model.translate(given, **options), trained.translate(given, **options), strict=True):
            for one, other in zip(found, wanted, strict=True):
                near = one.pop("attention", None), other.pop("attention", None)
                close(one, other, f"{name}, {options}")
                if near[1] is not None:
                    np.testing.assert_allclose(near[0]["weights"], near[1]["weights"], atol=1e-5)


@pytest.mark.parametrize("name", ["lm", "lm, tied", "lm, one stream"])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_generated_text_is_that_of_pytorch(name: str, temperature: float, tmp_path: Path) -> None:
    kind, fields = MODELS[name]
    trained = make(tmp_path, kind, **fields)
    model = runtime.load(tmp_path)
    options: dict[str, Any] = {"temperature": temperature, "seed": 3, "top_k": 5}
    assert model.generate("abc", 40, **options) == trained.generate("abc", 40, **options)
    assert model.generate("abc", 40, stop="a", **options) == trained.generate("abc", 40, stop="a", **options)


def test_a_long_text_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "documents")
    model = runtime.load(tmp_path)
    (whole,) = model.predict(["abcdefgh" * 9])
    monkeypatch.setattr("unrolled.runtime.language_model.NUMBERS_AT_A_TIME", 700)
    close(model.predict(["abcdefgh" * 9, "a"])[0], whole, "in pieces")


# --- what is not right


def test_inputs_that_the_model_does_not_read(tmp_path: Path) -> None:
    make(tmp_path, "features")
    model = runtime.load(tmp_path)
    for wrong, message in (
        ("text", r"input 1: expected numbers \(time, 3 channels\)"),
        ([[1, 2]], r"input 1: expected features \(time, 3\)"),
        ([[1, 2, float("nan")]], "input 1: expected finite features, found nan at step 0, channel 2"),
    ):
        with pytest.raises(DataError, match=message):
            model.predict([wrong])
    with pytest.raises(RunError, match="inputs: expected a list of texts"):
        model.predict("text")
    with pytest.raises(
        RunError, match=r"expected a language model \(task lm\), found one that was trained to classify"
    ):
        model.generate("a")


def test_weights_that_do_not_fit(tmp_path: Path) -> None:
    from unrolled import bundle

    make(tmp_path, "features", pooling="last")
    tensors, header = bundle.load(tmp_path / "model.safetensors")
    header.pop("format")
    for change, message in (
        ({"output.weight": np.zeros((3, 9), np.float32)}, r"output\.weight: expected float32 \(3, 10\), found float32"),
        ({"output.weight": tensors["output.weight"].astype(np.float64)}, r"found float64"),
        ({"recurrent.bias_hh_l0": None, "recurrent.weight_hh_l0": None}, r"recurrent\.weight_hh_l0: .* found none"),
        ({"more": np.zeros(3, np.float32)}, "no tensor beyond the model's, found more"),
    ):
        changed = {name: value for name, value in (tensors | change).items() if value is not None}
        bundle.save(tmp_path / "m", changed, header)
        with pytest.raises(BundleError, match=message):
            runtime.load(tmp_path / "m")


def test_paths_that_hold_no_model(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"no model\.safetensors"):
        runtime.load(tmp_path)
    with pytest.raises(RunError, match="does not exist"):
        runtime.load(tmp_path / "absent")


# --- without PyTorch


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=environment, timeout=60, check=False
    )


def test_it_runs_where_only_numpy_and_safetensors_are(tmp_path: Path) -> None:
    trained = make(tmp_path, "text", cell="gru")
    missing = ("torch", "pyarrow", "typer", "pydantic", "rich", "tokenizers", "jaxtyping", "torchmetrics")
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({missing}));"
        "from unrolled import runtime;"
        f"print(runtime.load({str(tmp_path)!r}).predict(['good it is'])[0]['label'])"
    )
    done = python("-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == trained.predict(["good it is"])[0]["label"]


def test_a_missing_tokenizer_library_names_the_install_command(tmp_path: Path) -> None:
    make(tmp_path, "text", tokenizer="subword", vocabulary_size=300)
    code = f"import sys; sys.modules['tokenizers'] = None; from unrolled import runtime;runtime.load({str(tmp_path)!r})"
    done = python("-c", code)
    assert "tokenizers is not installed. Install it with: pip install 'unrolled[" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ModuleNotFoundError("No module", name="unrolled._native"), r"is not there \(unrolled\._native\)"),
        (ImportError("/x/_native.so: file too short"), r"cannot be loaded \(/x/_native\.so: file too short\)"),
    ],
)
def test_an_engine_that_is_missing_or_broken(
    error: ImportError, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, "features")

    def fails(_: str) -> Any:
        raise error

    monkeypatch.setattr("unrolled.runtime.recurrent.importlib", SimpleNamespace(import_module=fails))
    with pytest.raises(MissingExtra, match=f"The native engine of unrolled {said}.*pip install"):
        runtime.load(tmp_path)


def test_the_import_is_light() -> None:
    """Under 0.05 s beyond NumPy's own. The processor's time, the least of several tries: a busy machine only adds."""
    code = "import numpy, time; start = time.process_time(); import unrolled.runtime;print(time.process_time() - start)"
    assert min(float(python("-c", code).stdout) for _ in range(8)) < 0.05


def test_what_is_installed_is_small() -> None:
    """Under 5 MB: the package without its embedded data, the compiled engine, and safetensors."""
    import safetensors

    package, engine = Path(runtime.__file__).parent.parent, Path(native().__file__)
    files = [path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    own = sum(path.stat().st_size for path in files if "examples" not in path.parts and path.suffix != ".so")
    other = Path(safetensors.__file__).parent
    rest = sum(path.stat().st_size for path in other.rglob("*") if path.suffix in (".so", ".py", ".pyi"))
    assert own + engine.stat().st_size + rest < 5_000_000
