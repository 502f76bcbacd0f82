"""The inspection of a run: what the JSON holds, odd inputs, caps, the command, and the looks that training takes."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from small_data import documents, reviews, sentences
from test_cli_commands import run  # noqa: F401  (a fixture)
from unrolled.errors import BundleError, DataError, RunError
from unrolled.insight import gates, gradient_flow, jacobians
from unrolled.insight.packing import unpack
from unrolled.training import Recipe, load, train
from unrolled.training.inspection import inspect, inspecting, summary_lines
from unrolled.training.inspection.budget import FEWEST, PASSES, WORK, budget

SMALL: dict[str, Any] = {"hidden": 6, "embedding": 5, "epochs": 2, "batch_size": 8, "log_every": 1, "inspect_every": 4}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    pairs = "".join(f"{text},{text[::-1]}\n" for text in ["abc", "bca", "cab", "ab", "ba", "ca", "ac", "bc", "aab"])
    (folder / "pairs.csv").write_text("source,target\n" + pairs, encoding="utf-8")
    recipes = {
        "classify": Recipe(task="classify", data=str(reviews(folder / "a.csv")), min_count=1, layers=2, **SMALL),
        "tag": Recipe(task="tag", data=str(sentences(folder / "a.conll")), cell="rnn", min_count=1, **SMALL),
        "lm": Recipe(
            task="lm", data=str(documents(folder / "a.txt")), cell="gru", format="documents", chunk=4, **SMALL
        ),
        "seq2seq": Recipe(task="seq2seq", data=str(folder / "pairs.csv"), tokenizer="chars", **SMALL),
    }
    for name, recipe in recipes.items():
        train(recipe, out=folder / name)
    return folder


KEYS = {
    *("format", "kind", "version", "task", "cell", "recipe", "parameters", "weights", "layers", "jacobians", "flow"),
    *("verdicts", "verdict", "clipping", "non_finite", "items", "counted", "training", "warning", "notes"),
}


@pytest.mark.parametrize("task", ["classify", "tag", "lm", "seq2seq"])
def test_the_whole_of_an_inspection(runs: Path, task: str) -> None:
    found = inspect(runs / task)
    json.dumps(found, allow_nan=False)
    assert set(found) == KEYS
    assert (found["format"], found["kind"], found["task"]) == (1, "inspection", task)
    trained = load(runs / task)
    assert sum(one["count"] for one in found["parameters"]) == sum(p.numel() for p in trained.model.parameters())
    for item in found["items"]:
        outputs = len(item["output_tokens"]) if task == "seq2seq" else item["steps"]
        assert len(item["tokens"]) == item["steps"]
        assert len(item["answers"]["top"]) == (1 if task == "classify" else outputs)
        for top in item["answers"]["top"]:
            assert 0 < sum(p for _, p in top) <= 1 + 1e-5
            assert [p for _, p in top] == sorted((p for _, p in top), reverse=True)
        for state in item["states"]:
            steps = outputs if state["name"] == "decoder" else item["steps"]
            assert unpack(state["h"]).shape == (len(state["units"]), steps)
            assert set(state["gates"]) == set(dict(rnn="", lstm="ifgo", gru="rzn")[found["cell"]])
        for entry in item["attributions"]:
            assert [one["method"] for one in entry["methods"]] == [
                *("gradient", "gradient_x_input", "integrated_gradients", "occlusion")
            ]
            assert all(len(one["scores"]) == item["steps"] for one in entry["methods"])
            assert entry["methods"][2]["gap"] < 0.01
        assert bool(item["attention"]) == (task == "seq2seq")
    assert {verdict["word"] for verdict in found["verdicts"]} <= {"healthy", "vanishing", "exploding", "too short"}
    assert found["clipping"]["seen"] >= 2
    assert found["training"][0]["step"] == 1
    assert summary_lines(found)


def test_its_numbers_are_those_of_the_parts(runs: Path) -> None:
    found = inspect(runs / "lm", ["abcdefghab"])
    trained = load(runs / "lm")
    ids = torch.from_numpy(trained.task.vocabulary.encode(["<end>", *"abcdefghab"]))[None]  # type: ignore[attr-defined]
    (trace,) = gates(trained.model, ids)
    (layer,) = found["layers"]
    assert layer["gates"]["z"]["count"] == 11
    np.testing.assert_array_equal(layer["gates"]["z"]["left"], (trace.gates["z"] < 0.1).sum((0, 1)))
    np.testing.assert_array_equal(layer["gates"]["z"]["right"], (trace.gates["z"] > 0.9).sum((0, 1)))
    assert sum(layer["gates"]["z"]["histogram"]["counts"]) == 11 * 6
    (states,) = found["items"][0]["states"]
    table = unpack(states["h"])
    span = float(trace.h.max() - trace.h.min())
    np.testing.assert_allclose(table, trace.h[:, 0].T[states["units"]].numpy(), rtol=0, atol=span / 500)
    products = jacobians(trained.model, ids)[0]
    np.testing.assert_allclose(found["jacobians"]["layers"][0]["largest"], products.largest[:, 0], rtol=1e-5, atol=1e-9)
    targets = torch.cat([ids[:, 1:], ids[:, :1]], 1)

    def losses(output: Any) -> torch.Tensor:
        log_p = output[0].log_softmax(-1)
        asked = -log_p.gather(-1, targets[..., None])[..., 0]
        return torch.cat([asked[:, :-1], -log_p[:, -1:].amax(-1)], 1)  # the token after the last one is not known

    (flow,) = gradient_flow(trained.model, ids, losses=losses, chunk=4)
    drawn = found["flow"]["layers"][0]
    assert drawn["cuts"] == [4, 8]
    logarithms = flow.triangle().log10().numpy()
    shown = np.isfinite(logarithms)
    limit = (logarithms[shown].max() - logarithms[shown].min()) / 500
    np.testing.assert_allclose(unpack(drawn["log10"])[shown], logarithms[shown], rtol=0, atol=limit)
    np.testing.assert_array_equal(np.isneginf(unpack(drawn["log10"])), np.isneginf(logarithms))


ODD = ["</script><b>&amp;", "🙂👩‍👩‍👧 a\u0301", "שלום עולם", "good " * 700, "\u202eabc\u2028", "xyzzy good"]


@pytest.mark.parametrize("text", ODD)
def test_odd_texts(runs: Path, text: str) -> None:
    found = inspect(runs / "classify", [text])
    (item,) = found["items"]
    assert item["text"] == text
    assert json.loads(json.dumps(found, allow_nan=False)) == json.loads(json.dumps(found))
    known = load(runs / "classify").task.reading.vocabulary  # type: ignore[attr-defined]
    assert item["unknown"] == [i for i, token in enumerate(item["tokens"]) if token not in known]
    if len(text) > 2000:
        assert (item["steps"], item["cut"]) == (512, 188)
        assert "text 1: cut to 512 steps, 188 left out".replace("text", "input") in found["notes"]


def test_one_step_and_none(runs: Path) -> None:
    found = inspect(runs / "classify", ["good"])
    assert found["verdict"]["word"] == "too short"
    with pytest.raises(DataError, match="input 1: expected a step or more"):
        inspect(runs / "classify", [" "])
    with pytest.raises(DataError, match="items: expected a list of texts"):
        inspect(runs / "classify", "good")
    with pytest.raises(DataError, match="items: expected one or more"):
        inspect(runs / "classify", [])
    with pytest.raises(DataError, match="at: expected output steps from 0 to 3"):
        inspect(runs / "lm", ["abc"], at=[4])
    assert [entry["step"] for entry in inspect(runs / "lm", ["abc"], at=[2, -1])["items"][0]["attributions"]] == [2, 3]


def test_a_large_model_is_explained_in_part_and_says_so(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """First one output instead of four, then fewer steps; what is said of these is said of the shorter text."""
    text, weights = "abcdefghabcdefghabcdefgh", 3 * 6 * (5 + 6 + 2)
    whole = inspect(runs / "lm", [text])
    assert whole["notes"] == []
    monkeypatch.setattr(inspecting, "budget", partial(budget, work=weights * 25 * (25 + 2 * PASSES)))
    found = inspect(runs / "lm", [text])
    assert found["notes"] == [f"{weights} recurrent weights: the last output of an item is explained"]
    assert found["items"][0]["attributions"] == whole["items"][0]["attributions"][-1:]
    monkeypatch.setattr(inspecting, "budget", partial(budget, work=weights * 20 * (20 + PASSES)))
    found = inspect(runs / "lm", [text])
    said = "the last output of an item is explained, the first 20 steps are looked at"
    assert found["notes"][0] == f"{weights} recurrent weights: {said}"
    assert found["items"][0]["steps"] == 21  # the symbol before a document is read as well
    shorter = inspect(runs / "lm", [text[:20]])
    for key in ("layers", "verdict"):
        assert found[key] == shorter[key]
    assert found["items"][0]["attributions"] == shorter["items"][0]["attributions"][-1:]
    (chosen,) = inspect(runs / "lm", [text], at=[0, 2])["items"]
    assert [entry["step"] for entry in chosen["attributions"]] == [0, 2]


@pytest.mark.parametrize("hidden", [16, 128, 512, 2048])
def test_what_is_looked_at_fits_the_work(hidden: int) -> None:
    layer = torch.nn.LSTM(8, hidden, device="meta")
    weights = sum(parameter.numel() for parameter in layer.parameters())
    for outputs, chosen in ((4, False), (4, True), (1, False)):
        found = budget(layer, 500, 512, outputs, chosen=chosen)
        cost = weights * min(500, found.steps) * (min(500, found.steps) + PASSES * found.outputs)
        assert cost <= WORK or found.steps == FEWEST
        assert (found.note is None) == (found.steps == 512 and found.outputs == outputs)
        assert found.outputs == outputs or not chosen
        assert (found.note is None) == (hidden < 256)
    assert budget(layer, 3, 512, 4) == (512, 4, None)  # a short text of any model is whole


def test_many_items_are_counted_and_three_are_shown(runs: Path) -> None:
    found = inspect(runs / "classify", ["good nice"] * 40)
    assert found["counted"] == 32
    assert len(found["items"]) == 3
    assert found["notes"] == ["40 items: the first 32 are counted"]


def test_a_model_that_is_not_finite_is_found(runs: Path) -> None:
    trained = load(runs / "classify")
    with torch.no_grad():
        trained.model.recurrent.weight_hh_l0[0, 0] = math.nan
    found = inspect(trained, ["good nice"])
    json.dumps(found, allow_nan=False)
    assert found["non_finite"]["tensor"] == "weight_hh_l0"
    assert found["verdict"]["word"] == "not finite"
    assert any("weight_hh_l0 of recurrent is nan" in line for line in summary_lines(found))


def test_data_that_moved_and_files_of_a_newer_version(tmp_path: Path) -> None:
    from unrolled import bundle

    recipe = Recipe(task="classify", data=str(reviews(tmp_path / "gone.csv", 30)), **{**SMALL, "epochs": 1})
    train(recipe, out=tmp_path / "run")
    (tmp_path / "gone.csv").unlink()
    with pytest.raises(DataError, match=r"nothing to look at.*--text TEXT, or --data FILE"):
        inspect(tmp_path / "run")
    assert inspect(tmp_path / "run", ["good"])["counted"] == 1
    assert inspect(tmp_path / "run" / "model.safetensors", ["good"])["clipping"] is None
    newer = tmp_path / "newer.safetensors"
    tensors, header = bundle.load(tmp_path / "run" / "model.safetensors")
    raw = newer.with_suffix(".tmp")
    bundle.save(raw, tensors, header)
    newer.write_bytes(raw.read_bytes().replace(b'\\"format\\": ', b'\\"format\\":9', 1))
    with pytest.raises(BundleError, match="Update unrolled"):
        inspect(newer, ["good"])


def test_a_transformer_is_refused(tmp_path: Path) -> None:
    fields = {**SMALL, "hidden": 8, "epochs": 1} | {"inspect_every": 100}
    recipe = Recipe(task="classify", data=str(reviews(tmp_path / "a.csv", 30)), cell="transformer", **fields)
    train(recipe, out=tmp_path / "run")
    with pytest.raises(RunError, match="recurrent layers, found none in"):
        inspect(tmp_path / "run", ["good"])


# the command


def test_the_command(runs: Path, tmp_path: Path, run: Any) -> None:  # noqa: F811
    done = run("inspect", runs / "classify", "--text", "good bad nice", "-o", tmp_path / "seen.json")
    assert done.code == 0, done.err
    assert "recurrent, layer 1, backward" in done.out
    assert "it rests most, by occlusion, on" in done.out
    assert "written to" in done.err
    written = json.loads((tmp_path / "seen.json").read_text(encoding="utf-8"))
    done = run("inspect", runs / "classify", "--text", "good bad nice", "--json")
    (whole,) = done.lines
    assert whole == written | {"items": [written["items"][0] | {"where": "text 1"}]}
    assert run("inspect", runs / "tag", "--data", runs / "a.conll").code == 0
    assert run("inspect", runs / "lm", "--text", "abc", "--at", "1").code == 0
    for wrong, code, text in (
        (["inspect", runs / "lm", "--text", "a", "--data", "b"], 2, "--text or --data"),
        (["inspect", runs / "nothing"], 1, "does not exist"),
        (["inspect", runs / "lm", "--data", runs / "none.txt"], 1, "none.txt"),
    ):
        done = run(*wrong)
        assert done.code == code
        assert text in done.err


def test_the_page_runs(tmp_path: Path) -> None:
    page = (Path(__file__).parents[1] / "docs" / "insight.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 3
    said = []
    for block in blocks:
        options: dict[str, Any] = {"capture_output": True, "text": True, "check": False, "cwd": tmp_path}
        done = subprocess.run([sys.executable, "-c", block], **options)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
    assert "first not finite in the forward: h, layer 0, step 12" in said[1]
    assert (tmp_path / "runs" / "look" / "report.html").is_file()


# looks during training


def test_training_takes_looks_and_they_change_nothing(runs: Path, tmp_path: Path) -> None:
    recipe = Recipe.load(runs / "classify" / "recipe.toml")
    train(recipe.replace(inspect_every=None), out=tmp_path / "without")
    with_looks = [json.loads(line) for line in (runs / "classify" / "metrics.jsonl").read_text().splitlines()]
    without = [json.loads(line) for line in (tmp_path / "without" / "metrics.jsonl").read_text().splitlines()]
    looks = [entry for entry in with_looks if entry["event"] == "insight"]
    assert [look["step"] for look in looks] == [1, *range(4, with_looks[-2]["step"] + 1, 4)]

    def timeless(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{k: v for k, v in e.items() if k != "seconds"} for e in entries if e["event"] != "insight"]

    assert timeless(with_looks) == timeless(without)  # the same losses to the last digit
    for look in looks:
        assert {(one["layer"], one["direction"]) for one in look["layers"]} == {(0, 0), (0, 1), (1, 0), (1, 1)}
        for one in look["layers"]:
            assert set(one["saturated"]) == set("ifgo")
            assert all(sum(bins) == pytest.approx(1, abs=1e-4) for bins in one["histogram"].values())
            assert one["gradient"][0] == 0  # the last step itself
        assert set(look["gradients"]) == {"inputs", "recurrent", "output"}


def test_a_look_sees_what_the_parts_measure() -> None:
    import unrolled
    from test_insight_gates import randomised
    from unrolled.insight import saturation
    from unrolled.insight.bounds import recurrent_norms
    from unrolled.insight.summaries import ROWS, summary

    layer = randomised(unrolled.LSTM(4, 16, 2, bidirectional=True))
    x = torch.randn(10, ROWS, 4)
    found = summary(layer, x)
    for trace, look in zip(gates(layer, x), found, strict=True):
        left, right = saturation(trace, "f").total()
        assert look["saturated"]["f"] == pytest.approx([left, right], abs=2e-3)
        for about, exact in zip(look["norm"], recurrent_norms(trace.weights.U), strict=True):
            assert 0.85 * exact <= about <= exact * (1 + 1e-5)  # a few power iterations, from below
    flow = gradient_flow(unrolled.GRU(4, 3), torch.randn(6, 1, 4))
    assert len(flow) == 1


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_looks_at_other_types_and_at_torchs_layers(dtype: torch.dtype) -> None:
    from torch import nn

    from unrolled.insight.summaries import Watcher

    model = nn.Sequential(nn.GRU(4, 3, bidirectional=True).to(dtype))
    watcher = Watcher(model, 2)
    taken = []
    for step in range(1, 5):
        watcher.arm(step)
        model(torch.randn(6, 2, 4, dtype=dtype))[0].float().sum().backward()
        taken.append(watcher.take(model))
    assert [one is not None for one in taken] == [True, True, False, True]
    assert not model[0]._forward_pre_hooks
