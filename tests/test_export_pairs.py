"""ONNX files of encoder–decoders and forecasters: run by loops that know the metadata alone, against PyTorch."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from runtime_models import inputs, make
from test_runtime import MODELS as TASKS
from test_runtime import close
from test_runtime_forecast import MODELS as FORECASTERS
from test_runtime_forecast import later, made
from unrolled import convert
from unrolled.cli import main
from unrolled.convert import ConvertError, pair_graph
from unrolled.convert.task_check import open_session, run
from unrolled.data import Item
from unrolled.decoding.searching import Search, search_targets

PAIRS = [name for name, (kind, _) in TASKS.items() if kind in ("pairs", "vectors", "series")]


class Files:
    """The two files, as someone who has nothing but them and their metadata uses them."""

    def __init__(self, folder: Path) -> None:
        parts = ("encoder", "decoder")
        self.reads, self.writes = (open_session((folder / f"model.{part}.onnx").read_bytes()) for part in parts)
        about = [json.loads(one.get_modelmeta().custom_metadata_map["unrolled"]) for one in (self.reads, self.writes)]
        self.reading, self.about = about[0]["reading"], about[1]
        self.states = {one["input"]: one for one in self.about["states"]}

    def source(self, given: Any) -> dict[str, np.ndarray]:
        """One source as a batch of one, for the encoder."""
        if isinstance(given, np.ndarray):
            return {"features": given[None], "lengths": np.array([len(given)])}
        if isinstance(given, list):
            return {"features": np.array([given], np.float32)}
        tokens = self.reading["vocabulary"]["tokens"]
        unknown = tokens.index(self.reading["vocabulary"]["unknown"])
        ids = [tokens.index(letter) if letter in tokens else unknown for letter in given]
        return {"ids": np.array([ids]), "lengths": np.array([len(ids)])}

    def begin(self, source: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """What is passed on unchanged, and the first state."""
        found = run(self.reads, source)
        kept = {name: found[name] for name in self.about["memory"]}
        if self.about["lengths"]:
            kept["lengths"] = source["lengths"]
        first = {}
        for name, one in self.states.items():
            shape = [1 if axis == "batch" else axis for axis in one["axes"]]
            begin = one["initial"]
            first[name] = found[begin["encoder"]] if isinstance(begin, dict) else np.full(shape, begin, np.float32)
        return kept, first

    def greedy(self, given: Any) -> list[str]:
        """The likeliest token, one after the other."""
        kept, state = self.begin(self.source(given))
        token, written = self.about["start"], []
        for _ in range(self.about["limit"]):
            found = run(self.writes, {"ids": np.array([token]), **kept, **state})
            state = {name: found[one["output"]] for name, one in self.states.items()}
            scores = found["scores"][0]
            scores[self.about["never"]] = -np.inf
            token = int(scores.argmax())
            if token == self.about["end"]:
                break
            written.append(self.about["target"]["vocabulary"]["tokens"][token])
        return written


class Step:
    """The files as `decoding` searches: rows are picked along the axes that the metadata names."""

    rows = 1

    def __init__(self, files: Files, given: Any) -> None:
        self.files = files
        self.kept, first = files.begin(files.source(given))
        self.first = {name: np.moveaxis(part, files.states[name]["batch_axis"], 0) for name, part in first.items()}

    def __call__(self, tokens: np.ndarray, state: dict[str, np.ndarray]) -> Any:
        files = self.files
        feed = {name: np.moveaxis(part, 0, files.states[name]["batch_axis"]) for name, part in state.items()}
        kept = {name: np.repeat(part, len(tokens), 0) for name, part in self.kept.items()}
        found = run(files.writes, {"ids": tokens, **feed, **kept})
        after = {n: np.moveaxis(found[one["output"]], one["batch_axis"], 0) for n, one in files.states.items()}
        return found["scores"], after, found.get("weights")


@pytest.mark.parametrize("name", PAIRS)
def test_targets_are_those_of_pytorch(name: str, tmp_path: Path) -> None:
    """Greedily and by beam, unknown letters among the sources."""
    kind, fields = TASKS[name]
    trained = make(tmp_path, kind, **fields)
    convert.export(tmp_path, tmp_path / "model.onnx")
    files, given = Files(tmp_path), inputs(kind)
    for one, (wanted,) in zip(given, trained.translate(given, beam=1), strict=True):
        assert files.greedy(one) == wanted["tokens"]
    search, about = Search(beam=3, n_best=2, length_penalty=0.6), files.about
    options = {"beam": 3, "n_best": 2, "length_penalty": 0.6}
    for one, wanted in zip(given, trained.translate(given, coverage_penalty=0.0, **options), strict=True):
        step, lengths = Step(files, one), np.array([len(one)])
        (found,) = search_targets(step, lengths, search, end=about["end"], limit=about["limit"], never=about["never"])
        tokens = about["target"]["vocabulary"]["tokens"]
        assert [[tokens[i] for i in best.tokens] for best in found] == [best["tokens"] for best in wanted]
        for best, right in zip(found, wanted, strict=True):
            assert best.log_probability == pytest.approx(right["log_probability"], rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("name", PAIRS)
def test_one_node_a_layer_and_free_axes(name: str, tmp_path: Path) -> None:
    kind, fields = TASKS[name]
    make(tmp_path, kind, **fields)
    made = convert.export(tmp_path, tmp_path / "model.onnx")
    assert [path.name for path in made.paths] == ["model.encoder.onnx", "model.decoder.onnx"]
    layers = fields.get("layers", 1)
    cell = fields.get("cell", "lstm")
    encoder = [] if kind == "vectors" else [cell.upper()] * layers
    decoder = [(fields.get("decoder_cell") or cell).upper()] * (fields.get("decoder_layers") or layers)
    for path, wanted in zip(made.paths, (encoder, decoder), strict=True):
        graph = onnx.load(path).graph
        assert [node.op_type for node in graph.node if node.op_type in ("RNN", "LSTM", "GRU")] == wanted
        assert not {"Loop", "Scan", "If"} & {node.op_type for node in graph.node}
        for value in (*graph.input, *graph.output):
            axes = [axis.dim_param or axis.dim_value for axis in value.type.tensor_type.shape.dim]
            assert "batch" in axes, value.name
            assert len(axes) == 1 or axes[1] in ("source", "batch") or isinstance(axes[1], int), value.name


real_bridge, real_memory, real_look = pair_graph._bridge, pair_graph._memory, pair_graph._look
MUTANTS: dict[str, tuple[str, str, Callable[..., Any]]] = {
    "the encoder's directions in one order": (
        "pairs, fed", "_directions_joined", lambda made, state, _: made.node("Concat", state, state, axis=-1)
    ),
    "attention that is not the softmax": ("pairs, fed", "_look", lambda *given: sharpened(*given)),
    "another start of the decoder": (
        "pairs, general, lstm, zeros", "_bridge", lambda *given: [turned(given[1], n) for n in real_bridge(*given)]
    ),
    "padding is looked at": ("pairs, one way", "_memory", lambda model, made: every(made, real_memory(model, made))),
}  # fmt: skip


def test_the_program_in_the_documents(tmp_path: Path) -> None:
    """It translates, as it stands there."""
    trained = make(tmp_path, "pairs", attention="general", input_feeding=True)
    convert.export(tmp_path, tmp_path / "model.onnx")
    page = (Path(__file__).parent.parent / "docs" / "runtime.md").read_text(encoding="utf-8")
    (program,) = [part.split("```")[0] for part in page.split("```python\n") if "def translate(" in part]
    names: dict[str, Any] = {}
    exec(program, names)
    files, given = Files(tmp_path), ["abc", "fed", "abcdef"]
    tokens = files.about["target"]["vocabulary"]["tokens"]
    for one, (wanted,) in zip(given, trained.translate(given, beam=1), strict=True):
        found = names["translate"](files.reads, files.writes, files.source(one)["ids"][0].tolist())
        assert [tokens[i] for i in found] == wanted["tokens"]


def sharpened(model: Any, made: Any, query: str, memory: Any) -> tuple[str, str]:
    return real_look(model, made, made.node("Add", query, query), memory)


def turned(made: Any, name: str) -> str:
    return str(made.node("Cos", name))


def every(made: Any, memory: tuple[str, str, str]) -> tuple[str, str, str]:
    return (*memory[:2], made.node("Or", memory[2], made.node("Not", memory[2])))


@pytest.mark.parametrize("what", MUTANTS)
def test_a_wrong_export_leaves_no_file(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, place, wrong = MUTANTS[what]
    kind, fields = TASKS[name]
    make(tmp_path, kind, **fields)
    monkeypatch.setattr(pair_graph, place, wrong)
    with pytest.raises(ConvertError, match=r"the runtime's numbers to 1e-05|expected \("):
        convert.export(tmp_path, tmp_path / "model.onnx")
    assert not list(tmp_path.glob("*.onnx"))


def test_the_command_names_both_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path, "pairs")
    with pytest.raises(SystemExit) as stop:
        main(["export", str(tmp_path), "-o", str(tmp_path / "x.onnx")])
    assert not stop.value.code
    out = capsys.readouterr()
    assert out.out.split() == [str(tmp_path / "x.encoder.onnx"), str(tmp_path / "x.decoder.onnx")]
    assert "token by token" in out.err


# --- forecasters


class Network:
    """A forecaster's file in the place of the runtime's network: the output is the raw numbers already."""

    def __init__(self, network: Any, path: Path) -> None:
        self.session = open_session(path.read_bytes())
        self.about = json.loads(self.session.get_modelmeta().custom_metadata_map["unrolled"])
        self.memory, self.keep, self.states = network.memory, network.keep, network.states
        self.is_direct = self.about["head"] == "direct"
        self.inputs = {info.name for info in self.session.get_inputs()}
        self._left: dict[str, np.ndarray] = {}

    def read(self, inputs: np.ndarray, series: np.ndarray, state: Any, lengths: np.ndarray | None = None) -> Any:
        rows, steps = inputs.shape[:2]
        feed: dict[str, np.ndarray] = {"features": inputs.astype(np.float32), "series": series.astype(np.int64)}
        feed["lengths"] = np.full(rows, steps) if lengths is None else np.asarray(lengths)
        for place, one in enumerate(self.about["states"]):
            first = np.asarray(one["initial"], np.float32)  # one number, or (layers, units)
            first = first[:, None] if first.ndim else first
            shape = [rows if axis == "batch" else axis for axis in one["axes"]]
            feed[one["input"]] = np.broadcast_to(first, shape) if state is None else state[place]
        if self.is_direct:
            feed["ahead"] = np.zeros((rows, 1, self._width()), np.float32)
        self._left = {name: np.ascontiguousarray(value) for name, value in feed.items() if name in self.inputs}
        found = run(self.session, self._left)
        after = tuple(found[one["output"]] for one in self.about["states"])
        self._left |= {one["input"]: part for one, part in zip(self.about["states"], after, strict=True)}
        return found["scores"] if not self.is_direct else np.zeros((rows, steps, 1)), after

    def _width(self) -> int:
        return int(next(info.shape[2] for info in self.session.get_inputs() if info.name == "ahead"))

    def say(self, out: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        del inputs
        return out

    def look_ahead(self, states: np.ndarray, ahead: np.ndarray) -> np.ndarray:
        """No more steps, from the state that the last call left."""
        del states
        feed = self._left | {"ahead": ahead.astype(np.float32), "lengths": np.zeros(len(ahead), np.int64)}
        return run(self.session, feed)["scores"]


@pytest.mark.parametrize("name", FORECASTERS)
def test_forecasts_through_the_file_are_those_of_pytorch(name: str, tmp_path: Path) -> None:
    trained, model, whole = made(tmp_path, name)
    made_files = convert.export(tmp_path, tmp_path / "model.onnx")
    model.network = Network(model.network, made_files.paths[0])
    histories = [item.series for item in later(whole, 0, 40)]
    given = [Item(one.where, series=one) for one in histories if one is not None]
    for found, wanted in zip(model.predict(given), trained.predict(given), strict=True):
        close(found, wanted, name)
    rows = later(whole, 50, 55)
    for found, wanted in zip(
        model.forecast(rows, horizon=2, seed=4), trained.forecast(rows, horizon=2, seed=4), strict=True
    ):
        close(found, wanted, name)
    about = model.network.about
    assert about["plan"]["layout"]["lags"] == list(model.plan.layout.lags)
    assert about["streaming"]
