"""What Python computes for the lab: exact rows of gradients, counts at every threshold, texts step by step."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from small_data import documents, reviews
from unrolled.decoding import sample
from unrolled.decoding.filters import apply_temperature, keep_top_k, softmax
from unrolled.errors import DataError, RunError
from unrolled.insight import gates
from unrolled.insight.packing import exact, heat, unpack
from unrolled.lab import demo, with_demo
from unrolled.training import Recipe, load, train
from unrolled.training.inspection import inspect
from unrolled.training.inspection.lab_data import continuations, lab_data, linear_nets

SMALL: dict[str, Any] = {"hidden": 6, "embedding": 5, "epochs": 2, "batch_size": 8, "log_every": 1}
TEXT = "abcdefghab"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    text = str(documents(folder / "a.txt"))
    for cell in ("rnn", "lstm"):
        recipe = Recipe(task="lm", data=text, cell=cell, format="documents", chunk=16, layers=2, **SMALL)  # type: ignore[arg-type]
        train(recipe, out=folder / cell)
    train(Recipe(task="classify", data=str(reviews(folder / "a.csv")), min_count=1, **SMALL), out=folder / "classify")
    return folder


class TestPacking:
    def test_two_bytes_a_number(self) -> None:
        table = np.random.default_rng(0).normal(size=(7, 9)) * 100
        table[0, 0], table[1, 1], table[2, 2] = np.nan, -np.inf, np.inf
        found, shown = unpack(heat(table, bits=16)), np.isfinite(table)
        span = table[shown].max() - table[shown].min()
        assert np.abs(found[shown] - table[shown]).max() <= 0.501 * span / (2**16 - 4)
        assert np.isnan(found[0, 0])
        assert found[1, 1] == -np.inf
        assert np.isnan(found[2, 2])

    def test_the_exact_form_is_float32(self) -> None:
        table = np.array([[1 / 3, np.nan], [-np.inf, -1e-30]])
        np.testing.assert_array_equal(unpack(exact(table)), table.astype(np.float32))


def test_states_are_right_to_a_thousandth_of_their_range(runs: Path) -> None:
    found = inspect(runs / "lstm", [TEXT], fine=True)
    trained = load(runs / "lstm", "cpu")
    ids = torch.from_numpy(trained.task.vocabulary.encode(["<end>", *TEXT]))[None]  # type: ignore[attr-defined]
    for trace, states in zip(gates(trained.model, ids), found["items"][0]["states"], strict=True):
        for name, truth in (("h", trace.h), ("c", trace.c)):
            table = truth[:, 0].T[states["units"]].numpy()  # type: ignore[index]
            span = table.max() - table.min()
            np.testing.assert_allclose(unpack(states[name]), table, rtol=0, atol=1e-3 * span)
            np.testing.assert_allclose(unpack(states[name]), table, rtol=0, atol=1e-5 * span)


def test_a_row_of_the_triangle_is_what_autograd_gives(runs: Path) -> None:
    """By another way: the layer itself is called step by step, and the state between two calls is the variable."""
    (layer,) = [one for one in inspect(runs / "rnn", [TEXT], fine=True)["flow"]["layers"] if one["layer"] == 1]
    trained = load(runs / "rnn", "cpu")
    model = trained.model.double()
    ids = torch.from_numpy(trained.task.vocabulary.encode(["<end>", *TEXT]))[None]  # type: ignore[attr-defined]
    state, states, losses = None, [], []
    embedded = model.inputs(ids)  # type: ignore[operator]
    for step in range(ids.shape[1]):
        out, state = model.recurrent(embedded[:, step : step + 1], state)  # type: ignore[operator]
        top = state[1].clone()  # a node of its own, which both the next step and the loss go through
        state = torch.stack([state[0], top])
        out = top[:, None]
        states.append(top)
        logits = torch.nn.functional.linear(out[:, 0], model.output_weight, model.output_bias)  # type: ignore[arg-type]
        asked = ids[0, step + 1] if step + 1 < ids.shape[1] else logits.argmax()
        losses.append(-logits.log_softmax(-1)[0, asked])
    table = 10 ** unpack(layer["exact"])
    for row, target in enumerate(layer["targets"]):
        wanted = torch.autograd.grad(losses[target], states[: target + 1], retain_graph=True)
        norms = np.array([float(one.norm()) for one in wanted])
        np.testing.assert_allclose(table[row, : target + 1], norms, rtol=1e-5)
        assert np.isnan(table[row, target + 1 :]).all()


@pytest.mark.parametrize("cell", ["rnn", "lstm"])
def test_counts_at_every_threshold_are_those_of_numpy(runs: Path, cell: str) -> None:
    found = inspect(runs / cell, [TEXT], fine=True)
    trained = load(runs / cell, "cpu")
    ids = torch.from_numpy(trained.task.vocabulary.encode(["<end>", *TEXT]))[None]  # type: ignore[attr-defined]
    for trace, layer in zip(gates(trained.model, ids), found["layers"], strict=True):
        for name, gate in layer["gates"].items():
            seen = (trace.gates[name] if trace.gates else trace.h)[:, 0].numpy()
            for place, edge in enumerate(gate["edges"]):
                np.testing.assert_array_equal(np.array(gate["below"])[:, place], (seen < edge).sum(0))
                if "above" not in gate:
                    np.testing.assert_array_equal(len(seen) - np.array(gate["below"])[:, place], (seen > edge).sum(0))
            at = [gate["edges"].index(edge) for edge in ((-0.9, 0.9) if name in "ghn" else (0.1, 0.9))]
            np.testing.assert_array_equal(np.array(gate["below"])[:, at[0]], gate["left"])
            np.testing.assert_array_equal(gate["count"] - np.array(gate["below"])[:, at[1]], gate["right"])


def test_a_value_on_an_edge_is_on_neither_side() -> None:
    from unrolled.insight.describe import _counts_at_edges

    found = _counts_at_edges(torch.tensor([[0.0], [0.5], [1.0], [0.52]]), 0.0, 1.0)
    assert (found["below"][0][0], found["above"][0][0]) == (0, 3)
    assert (found["below"][0][10], found["above"][0][10]) == (1, 2)


class TestWritten:
    def test_texts_are_those_that_generate_writes(self, runs: Path) -> None:
        trained = load(runs / "lstm", "cpu")
        found = continuations(trained, "mine", "abc", length=12)
        for path in found["paths"]:
            options = {name: path[name] for name in ("temperature", "top_k", "seed")}
            assert path["text"] == trained.generate("abc", 12, **options)
            assert path["text"] == "abc" + "".join(found["vocabulary"][token] for token in path["tokens"])
        assert found["prompt"] == ["<end>", *"abc"]

    def test_each_token_follows_from_the_scores_and_the_draw(self, runs: Path) -> None:
        found = continuations(load(runs / "rnn", "cpu"), "mine", "ab", length=16)
        assert found["complete"]
        for path in found["paths"]:
            scores = unpack(path["scores"])
            never = [found["vocabulary"].index(token) for token in found["never"]]
            assert (scores[:, never] == -np.inf).all()
            for row, token, draw in zip(scores, path["tokens"], path["draws"], strict=True):
                if path["temperature"] == 0:
                    assert draw is None
                    assert token == row.argmax()
                    continue
                kept = apply_temperature(row, path["temperature"])
                shares = softmax(kept if path["top_k"] is None else keep_top_k(kept, path["top_k"]))
                assert shares.sum() == pytest.approx(1, abs=1e-12)
                assert token == np.searchsorted(np.cumsum(shares), draw, side="right")

    def test_the_draws_are_those_of_sample(self) -> None:
        scores = np.random.default_rng(3).normal(size=(20, 30))
        first, again = np.random.default_rng(5), np.random.default_rng(5)
        for row in scores:
            draw = again.random()
            assert sample(row, rng=first) == np.searchsorted(np.cumsum(softmax(row)), draw, side="right")

    def test_a_large_vocabulary_is_cut_and_says_so(self, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        import unrolled.training.inspection.lab_data as room

        monkeypatch.setattr(room, "MOST_TOKENS", 4)
        trained = load(runs / "rnn", "cpu")
        setting = {"temperature": 5.0, "top_k": None, "seed": 2}
        found = continuations(trained, "mine", "ab", length=3, settings=[setting])
        (path,) = found["paths"]
        assert path["tokens"]
        assert "ab" + "".join(found["vocabulary"][token] for token in path["tokens"]) == path["text"]
        assert (len(found["vocabulary"]), found["complete"]) == (4, False)
        for row, rest in zip(unpack(path["scores"]), path["rest"], strict=True):
            everything = np.logaddexp(np.logaddexp.reduce(row), rest)
            assert 0 < np.exp(np.logaddexp.reduce(row) - everything) < 1

    def test_other_tasks_are_refused(self, runs: Path) -> None:
        with pytest.raises(RunError, match="language model"):
            continuations(load(runs / "classify", "cpu"), "mine", "a")


def test_linear_nets_have_exact_powers() -> None:
    for net in linear_nets():
        (layer,) = net["jacobians"]
        for name in ("largest", "median", "bound"):
            np.testing.assert_allclose(
                layer[name], np.array(layer["lags"]) * np.log10(net["scale"]), rtol=1e-5, atol=1e-9
            )
        np.testing.assert_allclose(layer["per_step"], net["scale"], rtol=1e-5)


def test_the_data_of_a_page(runs: Path) -> None:
    data = lab_data([("one", runs / "lstm"), ("two", runs / "classify")], [TEXT], language="zh")
    json.dumps(data, allow_nan=False)
    assert (data["page"], data["language"], data["compare"]) == ("lab", "zh", None)
    assert [(one["name"], one["demo"]) for one in data["models"]] == [("one", False), ("two", False)]
    assert [one["name"] for one in data["generation"]] == ["one"]
    assert data["models"][0]["clipping"]["seen"] > 0, "a folder's metrics are read"
    whole = with_demo(data)
    assert [one["demo"] for one in whole["models"]] == [False, False, True, True, True]
    assert {"linear", "planted"} <= whole["tasks"].keys()
    with pytest.raises(ValueError, match="language"):
        lab_data([], language="fr")
    with pytest.raises(DataError):
        lab_data([("one", runs / "lstm")], [])


class TestDemo:
    def test_it_holds_three_cells_on_one_text(self) -> None:
        found = demo()
        assert [model["cell"] for model in found["models"]] == ["rnn", "gru", "lstm"]
        assert len({model["items"][0]["text"] for model in found["models"]}) == 1
        assert all(one["demo"] for one in (*found["models"], *found["generation"]))
        assert all(model["clipping"]["seen"] for model in found["models"])

    def test_occlusion_finds_the_planted_token(self) -> None:
        planted = demo()["tasks"]["planted"]
        for model in planted["models"]:
            assert model["found"]["occlusion"] > 0.5
            assert model["found"]["occlusion"] > model["found"]["gradient"]
            for item in model["items"]:
                (entry,) = item["attributions"]
                assert entry["answer"] == item["text"][planted["position"]], "the model has learned the task"
                scores = next(one["scores"] for one in entry["methods"] if one["method"] == "occlusion")
                assert int(np.abs(scores).argmax()) == planted["position"]

    def test_it_is_small_and_names_no_place(self) -> None:
        text = json.dumps(demo(), ensure_ascii=False)
        assert len(text) < 400_000
        assert "/tmp" not in text
        assert "/home" not in text
        for model in demo()["models"]:
            assert model["recipe"]["data"] == "plays"


def script() -> ModuleType:
    path = Path(__file__).parents[1] / "tools" / "train_lab_models.py"
    spec = importlib.util.spec_from_file_location("train_lab_models", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_script_plants_what_it_says(tmp_path: Path) -> None:
    tool = script()
    rows = tool.planted(tmp_path / "planted.csv", 50).read_text(encoding="utf-8").splitlines()[1:]
    assert len(rows) > 40
    for row in rows:
        text, label = row.split(",")
        there = [place for place, letter in enumerate(text) if letter in tool.LETTERS]
        assert len(text) == tool.LENGTH
        assert there == ([] if label == "none" else [tool.POSITION])
        assert label == "none" or label == text[tool.POSITION]


def test_the_script_trains_and_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = script()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tool, "CELLS", {"gru": "GRU"})
    found = tool.planted_models(rows=60, epochs=1, tried=9)
    (model,) = found["models"]
    assert (found["position"], found["tried"], model["name"]) == (tool.POSITION, 9, "GRU")
    assert all(text["text"][tool.POSITION] in tool.LETTERS for text in model["items"])
    assert len(model["items"][0]["attributions"][0]["methods"]) == 4
    assert set(model["found"]) == {"gradient", "gradient_x_input", "integrated_gradients", "occlusion"}


def test_the_rank_of_many_rows_is_that_of_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = script()
    monkeypatch.chdir(tmp_path)
    tool.planted(Path("planted.csv"), 60)
    train(tool.planted_recipe("lstm", "planted.csv", epochs=1), out="run")
    texts = ["wzaywyxzwx", "yxdwwzxyzy", "wwcwwwwwww"]
    together = tool.ranked_first(load("run", "cpu"), texts)
    for row, text in enumerate(texts):
        (entry,) = inspect("run", [text])["items"][0]["attributions"]
        for one in entry["methods"]:
            assert together[one["method"]][row] == int(np.abs(one["scores"]).argmax())
