"""Export: ONNX files that say what PyTorch says on sizes that nothing was traced on, and int8 bundles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from runtime_models import inputs, make
from unrolled import bundle, convert, runtime
from unrolled.cli import main
from unrolled.convert import ConvertError
from unrolled.convert.task_check import in_pieces, open_session, run
from unrolled.models import Batch
from unrolled.training.trained import Trained

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    **{
        f"{cell} {pooling} {way}": (
            "features",
            {"cell": cell, "pooling": pooling, "layers": 2, "bidirectional": way == "both"},
        )
        for cell, pooling, way in (
            ("rnn", "last", "one"),
            ("rnn", "max", "both"),
            ("lstm", "mean", "one"),
            ("lstm", "last", "both"),
            ("lstm", "attention", "both"),
            ("gru", "max", "one"),
            ("gru", "attention", "one"),
            ("gru", "mean", "both"),
        )
    },
    "reset before": ("features", {"cell": "gru", "reset_after": False, "bidirectional": False}),
    "one bias": ("features", {"cell": "gru", "single_bias": True, "pooling": "last"}),
    "learned start": ("features", {"learn_initial_state": True, "layers": 2, "bidirectional": False}),
    "text": ("text", {"cell": "gru"}),
    "tags, letters, crf": ("spans", {"crf": True, "layers": 2}),
    "tags": ("spans", {"characters": False, "bidirectional": False}),
    "lm": ("documents", {"layers": 2}),
    "lm, tied": ("documents", {"hidden": 6, "embedding": 6, "tie_weights": True, "cell": "gru"}),
}


def exported(folder: Path, name: str) -> tuple[Trained, Any, dict[str, Any]]:
    """The model, ONNX Runtime's session on its file, and the metadata."""
    kind, fields = MODELS[name]
    trained = make(folder, kind, **fields)
    convert.export(folder, folder / "model.onnx")
    session = open_session((folder / "model.onnx").read_bytes())
    return trained, session, json.loads(session.get_modelmeta().custom_metadata_map["unrolled"])


def beginning(session: Any, about: dict[str, Any], rows: int) -> dict[str, np.ndarray]:
    """The states of streams that have read nothing, from the metadata alone."""
    shapes = {info.name: info.shape for info in session.get_inputs()}
    states = {}
    for one in about["states"]:
        shape = [rows if axis == "batch" else axis for axis in shapes[one["input"]]]
        value = np.asarray(one["initial"], np.int64 if one["dtype"] == "int64" else np.float32)
        value = value[:, None] if value.ndim else value
        states[one["input"]] = np.broadcast_to(value, shape).copy()
    return states


def given_to(trained: Trained, lengths: list[int], seed: int = 0) -> tuple[dict[str, np.ndarray], Batch]:
    """Random rows with NaN, or any id, in the padding; for ONNX and for PyTorch."""
    rng, reading = np.random.default_rng(seed), trained.task.reading  # type: ignore[attr-defined]
    shape = (len(lengths), max(lengths))
    if reading.scaler is not None:
        features = (rng.normal(size=(*shape, 3)) * reading.scaler.scale + reading.scaler.mean).astype(np.float32)
        features[np.arange(shape[1]) >= np.array(lengths)[:, None]] = np.nan
        batch = Batch(torch.from_numpy(features), torch.tensor(lengths))
        return {"features": features, "lengths": np.array(lengths)}, batch
    ids = rng.integers(0, len(reading.vocabulary), shape)
    feed, more = {"ids": ids, "lengths": np.array(lengths)}, {}
    if reading.letters is not None:
        more = {"letters": rng.integers(0, len(reading.letters), (*shape, 7)), "widths": rng.integers(0, 8, shape)}
    named = {"characters": "letters", "widths": "widths"}
    parts = {name: torch.from_numpy(more[own]) for name, own in named.items() if more}
    return feed | more, Batch(torch.from_numpy(ids), torch.tensor(lengths), **parts)


@torch.no_grad()
def scores(trained: Trained, batch: Batch) -> np.ndarray:
    if trained.recipe.task == "lm":
        logits, _ = trained.model(batch.inputs, lengths=batch.lengths)
        return logits.numpy()
    return trained.model(batch).numpy()


@pytest.mark.parametrize("name", MODELS)
def test_scores_are_those_of_pytorch(name: str, tmp_path: Path) -> None:
    trained, session, about = exported(tmp_path, name)
    for lengths in ([9, 4, 1, 0], [1], [3, 5]):
        feed, batch = given_to(trained, lengths)
        found = run(session, feed | beginning(session, about, len(lengths)))["scores"]
        wanted = scores(trained, batch)
        if wanted.ndim == 3:  # what is said of padding does not matter
            valid = np.arange(max(lengths)) < np.array(lengths)[:, None]
            found, wanted = found[valid], wanted[valid]
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_one_node_a_layer_with_the_right_attributes(name: str, tmp_path: Path) -> None:
    exported(tmp_path, name)
    kind, fields = MODELS[name]
    cell, both = fields.get("cell", "lstm"), fields.get("bidirectional", kind != "documents")
    graph = onnx.load(tmp_path / "model.onnx").graph
    nodes = [node for node in graph.node if node.name.startswith("recurrent.")]
    assert [node.op_type for node in nodes] == [cell.upper()] * fields.get("layers", 1)
    for node in nodes:
        attributes = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
        assert attributes["direction"] == (b"bidirectional" if both else b"forward")
        assert attributes["hidden_size"] == fields.get("hidden", 5)
        assert "layout" not in attributes
        assert node.input[4]  # sequence_lens
        if cell == "gru":
            assert attributes["linear_before_reset"] == int(fields.get("reset_after", True))
    for value in (*graph.input, *graph.output):
        axes = [axis.dim_param or axis.dim_value for axis in value.type.tensor_type.shape.dim]
        assert "batch" in axes, value.name
    assert not {"Loop", "Scan", "If"} & {node.op_type for node in graph.node}


@pytest.mark.parametrize("name", [name for name in MODELS if "both" not in name and name not in ("text", "one bias")])
def test_chunks_through_the_map_give_the_whole(name: str, tmp_path: Path) -> None:
    if name == "tags, letters, crf":
        _, _, about = exported(tmp_path, name)
        assert not about["streaming"]
        assert "bidirectional" in about["why"]
        return
    trained, session, about = exported(tmp_path, name)
    assert about["streaming"]
    feed, batch = given_to(trained, [9, 4, 0, 6])
    found = in_pieces(session, about, feed | beginning(session, about, 4), (1, 3, 5))["scores"]
    wanted = scores(trained, batch)
    if wanted.ndim == 3:
        valid = np.arange(9) < np.array([9, 4, 0, 6])[:, None]
        found, wanted = found[valid], wanted[valid]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_the_metadata_holds_what_a_caller_needs(tmp_path: Path) -> None:
    trained, _, about = exported(tmp_path, "tags, letters, crf")
    assert about["tags"] == list(trained.task.tags.tokens)  # type: ignore[attr-defined]
    assert np.shape(about["crf"]["transitions"]) == (len(about["tags"]),) * 2
    assert about["reading"]["vocabulary"]["tokens"] == list(trained.task.reading.vocabulary.tokens)  # type: ignore[attr-defined]


MUTANTS = {
    "gates i and f swapped": ("LSTM", lambda w: w.reshape(1, 4, -1, w.shape[-1])[:, [2, 1, 0, 3]].reshape(w.shape)),
    "r and z swapped": ("GRU", lambda w: w.reshape(1, 3, -1, w.shape[-1])[:, [1, 0, 2]].reshape(w.shape)),
}


@pytest.mark.parametrize("mutant", [*MUTANTS, "linear_before_reset", "lengths left out", "hidden bias dropped"])
def test_a_wrong_export_does_not_pass_its_own_check(
    mutant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = "lstm" if mutant == "gates i and f swapped" else "gru"
    make(tmp_path, "features", cell=cell, bidirectional=False)
    make_node, weights = onnx.helper.make_node, __import__("unrolled.convert.onnx", fromlist=["x"])._weights

    def wrong_node(operator: str, given: list[str], *rest: Any, **attributes: Any) -> Any:
        if operator in ("GRU", "LSTM"):
            if mutant == "linear_before_reset":
                attributes.pop("linear_before_reset")
            if mutant == "lengths left out":
                given = [*given[:4], "", *given[5:]]
        return make_node(operator, given, *rest, **attributes)

    def wrong_weights(level: Any) -> dict[str, np.ndarray]:
        made = weights(level)
        if mutant in MUTANTS:
            made["R"] = np.ascontiguousarray(MUTANTS[mutant][1](made["R"]))
        if mutant == "hidden bias dropped":
            made["B"] = made["B"].copy()
            made["B"][:, made["B"].shape[1] // 2 :] = 0
        return made

    monkeypatch.setattr(onnx.helper, "make_node", wrong_node)
    monkeypatch.setattr("unrolled.convert.onnx._weights", wrong_weights)
    with pytest.raises(ConvertError, match="expected the runtime's numbers to 1e-05, found a difference of"):
        convert.export(tmp_path, tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


# --- int8


@pytest.mark.parametrize("kind", ["features", "spans", "documents"])
def test_an_int8_bundle_is_smaller_and_nearly_the_same(kind: str, tmp_path: Path) -> None:
    make(tmp_path, kind, hidden=32)
    made = convert.export(tmp_path, tmp_path / "small.safetensors", to="bundle", int8=True)
    plain, small = (runtime.load(tmp_path / name) for name in ("model.safetensors", "small.safetensors"))
    assert made.before / made.size > 1.5  # the header of so small a model is half of it
    tensors, header = bundle.load(tmp_path / "model.safetensors")
    kept, stamp = bundle.load(tmp_path / "small.safetensors")
    assert (header["format"], stamp["format"]) == (1, 2)
    for name, value in tensors.items():
        assert kept[name].dtype == np.float32
        if name in stamp["int8"]:
            scale = np.abs(value).max(axis=1) / 127
            assert (np.abs(kept[name] - value) <= scale[:, None] * 0.501).all(), name
            assert (kept[name] != value).any(), name
        else:
            np.testing.assert_array_equal(kept[name], value)
    again = Trained.load(tmp_path / "small.safetensors")  # PyTorch reads it as well, and says the same
    given = inputs(kind)
    for one, other in zip(small.predict(given), again.predict(given), strict=True):
        numbers = [answer.get("probability", answer.get("log_probability", 0.0)) for answer in (one, other)]
        assert numbers[0] == pytest.approx(numbers[1], rel=1e-5, abs=1e-5)
    if kind == "features":
        for one, other in zip(plain.predict(given), small.predict(given), strict=True):
            assert one["scores"] == pytest.approx(other["scores"], abs=0.05)


def test_an_int8_header_that_does_not_fit(tmp_path: Path) -> None:
    make(tmp_path, "features")
    tensors, header = bundle.load(tmp_path / "model.safetensors")
    header.pop("format")
    for int8, message in (
        (["output.bias.scale"], r"expected a tensor, as int8 in the header says, found none"),
        (["output.weight"], r"output\.weight\.scale: expected a tensor"),
        ("output.weight", "int8: expected a list of names"),
        ([3], "int8: expected a list of names"),
    ):
        bundle.save(tmp_path / "m", tensors, header | {"format": 2, "int8": int8})
        with pytest.raises(bundle.BundleError, match=message):
            bundle.load(tmp_path / "m")


# --- the command


def command(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(["export", *arguments])
    return int(stop.value.code or 0)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path, "features", hidden=24)
    assert command(str(tmp_path), "--to", "onnx") == 0
    out = capsys.readouterr()
    assert out.out.strip() == str(tmp_path / "model.onnx")
    assert "largest difference" in out.err
    assert onnxruntime.InferenceSession(out.out.strip()).get_inputs()
    assert command(str(tmp_path), "--to", "bundle", "--int8", "-o", str(tmp_path / "s.safetensors")) == 0
    assert "matrices as int8" in capsys.readouterr().err
    assert runtime.load(tmp_path / "s.safetensors").predict(inputs("features"))
    for wrong, code in ((("--to", "tflite"), 2), (("--int8",), 2)):
        assert command(str(tmp_path), *wrong) == code
    assert "--to: expected one of onnx, bundle, found 'tflite'" in capsys.readouterr().err
    assert command(str(tmp_path / "absent")) == 1
