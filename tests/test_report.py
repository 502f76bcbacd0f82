"""The report of a run: its numbers are those of the run, it is one small offline page, and it never costs a run."""

from __future__ import annotations

import html
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from small_data import reviews
from small_runs import SMALL, TASKS, small_runs
from test_cli_commands import run  # noqa: F401  (a fixture)
from unrolled.insight.packing import unpack
from unrolled.training import Recipe, Result, load, train
from unrolled.training.inspection import inspect
from unrolled.training.inspection.metrics import events
from unrolled.training.loop import Silent
from unrolled.training.report import _TITLES
from unrolled.training.reporting import make, notebook, page, rewrite
from unrolled.training.reporting.answers.pairs import edits
from unrolled.training.reporting.curves import bucketed, curve, curves_of
from unrolled.training.reporting.findings import findings_of
from unrolled.training.transduction import edit_distance

LAB = Path(__file__).parents[1] / "lab"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_runs(tmp_path_factory.mktemp("runs"))


def data_of(path: Path) -> dict[str, Any]:
    text = path.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found
    return json.loads(found.group(1))


@pytest.mark.parametrize("task", TASKS)
def test_every_run_folder_holds_a_small_offline_report(runs: Path, task: str) -> None:
    path = runs / task / "report.html"
    assert path.stat().st_size < 2_000_000
    text = path.read_text(encoding="utf-8")
    assert "Content-Security-Policy" in text
    assert not re.search(r'(?:src|href)="(?!data:)[a-z]+:', text), "nothing is loaded from anywhere"
    data = data_of(path)
    assert (data["page"], data["report"]["kind"], data["report"]["task"]) == ("report", "report", task)
    assert str(runs) not in json.dumps({k: v for k, v in data["report"].items() if k != "recipe"}), "no path leaks"
    assert len(data["models"]) == 1
    assert data["models"][0]["layers"]


@pytest.mark.parametrize("task", TASKS)
def test_its_numbers_are_those_of_the_run(runs: Path, task: str) -> None:
    report = data_of(runs / task / "report.html")["report"]
    lines = events(runs / task / "metrics.jsonl")
    end = lines[-1]
    for name, value in report["result"]["metrics"].items():
        assert value == pytest.approx(end["test"]["metrics"][name], rel=1e-5)
    steps = [line for line in lines if line["event"] == "step"]
    assert report["curves"]["loss"]["count"] == len(steps)
    assert report["curves"]["loss"]["last"] == [steps[-1]["step"], pytest.approx(steps[-1]["loss"], rel=1e-5)]
    clip = report["clip"]
    np.testing.assert_allclose(report["curves"]["gradient_norm"]["y"], [s["gradient_norm"] for s in steps], rtol=1e-5)
    np.testing.assert_allclose(
        report["curves"]["clipped_norm"]["y"], [min(clip, s["gradient_norm"]) for s in steps], rtol=1e-5
    )
    epochs = [line for line in lines if line["event"] == "epoch"]
    assert report["training"]["epochs"] == len(epochs) == report["epochs"]["loss"]["count"]
    np.testing.assert_allclose(report["epochs"]["valid"]["nats"]["y"], [e["valid"]["nats"] for e in epochs], rtol=1e-5)
    trained = load(runs / task)
    own = dict(trained.model.named_parameters())
    assert report["training"]["parameters"] == sum(p.numel() for p in own.values())
    for entry in report["parameters"]:
        value = own[entry["name"]].detach().double()
        assert entry["shape"] == list(value.shape)
        assert entry["largest"] == pytest.approx(float(value.max()), rel=1e-4)
        for place, block in enumerate(entry["blocks"] or ()):
            size = len(value) // len(entry["blocks"])
            assert block["rows"] == [place * size, (place + 1) * size]
            assert block["norm"] == pytest.approx(float(value[slice(*block["rows"])].norm()), rel=1e-4)
    assert report["seed"] == trained.recipe.seed
    assert report["score"]["value"] == pytest.approx(
        trained.task.score(max((e for e in epochs if e["best"]), key=lambda e: e["epoch"])["valid"])[1], rel=1e-5
    )


@pytest.mark.parametrize("task", TASKS)
def test_looks_are_turned_round(runs: Path, task: str) -> None:
    looks = data_of(runs / task / "report.html")["report"]["looks"]
    lines = [line for line in events(runs / task / "metrics.jsonl") if line["event"] == "insight"]
    assert looks["steps"] == [line["step"] for line in lines]
    for place, layer in enumerate(looks["layers"]):
        for gate, ends in layer["saturated"].items():
            assert ends["low"] == [line["layers"][place]["saturated"][gate][0] for line in lines]
            assert ends["high"] == [line["layers"][place]["saturated"][gate][1] for line in lines]
        table = unpack(layer["gradient"])
        for column, line in enumerate(lines):
            seen = [float(value) for value in line["layers"][place]["gradient"]]
            finite = np.isfinite(seen)
            span = layer["gradient"]["largest"] - layer["gradient"]["smallest"]
            np.testing.assert_allclose(
                table[: len(seen), column][finite], np.array(seen)[finite], rtol=0, atol=span / 400 + 1e-9
            )
            assert np.isnan(table[len(seen) :, column]).all()


def test_errors_of_labels_are_the_accuracy(runs: Path) -> None:
    report = data_of(runs / "classify" / "report.html")["report"]
    errors, metrics = report["errors"], report["result"]["metrics"]
    counts = np.array(errors["counts"])
    assert counts.sum() == errors["scored"] == metrics["items"]
    assert np.trace(counts) == errors["right"]
    assert errors["right"] / errors["scored"] == pytest.approx(metrics["accuracy"], rel=1e-5)
    wrong = [sample for sample in report["samples"] if not sample["ok"]]
    assert len(wrong) == min(8, errors["scored"] - errors["right"])
    assert all(sample["said"] != sample["right"] for sample in wrong)


def test_errors_of_tags_are_the_token_accuracy(runs: Path) -> None:
    report = data_of(runs / "tag" / "report.html")["report"]
    errors = report["errors"]
    assert errors["right"] / errors["scored"] == pytest.approx(report["result"]["metrics"]["token_accuracy"], rel=1e-5)
    for sample in report["samples"]:
        assert sample["wrong"] == sum(a != b for a, b in zip(sample["right"], sample["said"], strict=True))


def test_errors_of_tokens_are_the_perplexity(runs: Path) -> None:
    report = data_of(runs / "lm" / "report.html")["report"]
    errors = report["errors"]
    mean = sum(one["count"] * one["mean"] for one in errors["positions"]) / errors["scored"]
    assert mean == pytest.approx(report["result"]["metrics"]["nats_per_token"], rel=1e-4)
    assert sum(one["share"] for one in errors["tokens"]) == pytest.approx(1, rel=1e-4)  # all tokens fit the table
    assert [(one["from"], one["to"]) for one in errors["positions"]][:3] == [(0, 0), (1, 2), (3, 6)]
    trained = load(runs / "lm")
    for sample in report["samples"]:
        text = trained.generate(sample["prompt"], 240, temperature=sample["temperature"], seed=sample["seed"])
        assert sample["text"] == text


def test_errors_of_pairs_are_the_error_rate(runs: Path) -> None:
    report = data_of(runs / "seq2seq" / "report.html")["report"]
    errors, metrics = report["errors"], report["result"]["metrics"]
    assert sum(one["items"] for one in errors["lengths"]) == errors["scored"] == metrics["items"]
    right = sum(one["items"] * one["exact_match"] for one in errors["lengths"])
    assert right / errors["scored"] == pytest.approx(metrics["exact_match"], rel=1e-5)
    assert sum(one["count"] for one in errors["edits"]) == errors["total"]
    said = {sample["source"]: sample["said"] for sample in report["samples"]}
    answers = load(runs / "seq2seq").translate(list(said))
    assert {source: best[0]["target"] for source, best in zip(said, answers, strict=True)} == said


def test_errors_of_forecasts_are_the_mae(runs: Path) -> None:
    report = data_of(runs / "forecast" / "report.html")["report"]
    errors, metrics = report["errors"], report["result"]["metrics"]
    weight = sum(one["count"] for one in errors["steps"])
    mean = sum(one["count"] * one["mae"] for one in errors["steps"]) / weight
    assert mean == pytest.approx(metrics["mae"], rel=1e-4)
    covered = sum(one["count"] * one["coverage"] for one in errors["steps"]) / weight
    assert covered == pytest.approx(metrics["coverage"], rel=1e-4)
    sample = report["samples"][0]
    assert len(sample["times"]) == sample["origin"] + len(sample["forecast"]) == sample["origin"] + 6
    assert (np.array(sample["low"]) <= sample["forecast"]).all()
    assert (np.array(sample["forecast"]) <= sample["high"]).all()


# curves


@given(st.lists(st.floats(-1e6, 1e6) | st.just(math.nan), max_size=400), st.integers(6, 60))
def test_buckets_keep_the_ends_and_every_extreme(values: list[float], most: int) -> None:
    kept = bucketed(values, most)
    assert kept == sorted(set(kept))
    if len(values) <= most:
        assert kept == list(range(len(values)))
        return
    assert len(kept) <= most
    assert {0, len(values) - 1} <= set(kept)
    there = [v for v in values if not math.isnan(v)]
    if there:
        shown = [values[i] for i in kept if not math.isnan(values[i])]
        assert (min(shown), max(shown)) == (min(there), max(there))
    size = max(1, (most - 2) // 2)
    for part in np.array_split(np.arange(len(values)), size):
        own = [values[i] for i in part if not math.isnan(values[i])]
        if own:
            seen = [values[i] for i in kept if part[0] <= i <= part[-1]]
            assert min(own) in seen
            assert max(own) in seen


def test_a_long_curve_keeps_a_spike_and_the_true_last_value() -> None:
    y = np.linspace(3, 1, 50_001)
    y[31_007], y[44_444] = 900.0, -7.0
    y[-1] = 1.2345
    made = curve(range(50_001), y.tolist())
    assert made is not None
    assert made["bucketed"]
    assert len(made["y"]) <= 2000
    assert (made["count"], made["last"]) == (50_001, [50_000, 1.2345])
    assert made["largest"] == [31_007, 900.0]
    assert [31_007, 900.0] in [list(point) for point in zip(made["x"], made["y"], strict=True)]
    assert [44_444, -7.0] in [list(point) for point in zip(made["x"], made["y"], strict=True)]
    assert len(json.dumps(made)) < 60_000


def test_words_for_what_is_no_number_and_lines_that_are_broken() -> None:
    lines = [
        {"event": "step", "step": 1, "loss": 1.0, "gradient_norm": math.inf},
        {"event": "step", "step": 2, "loss": math.nan},
        {"event": "step", "step": "three", "loss": 2.0},
        {"event": "step", "step": 4, "loss": None, "gradient_norm": 0.5},
    ]
    made = curves_of(lines, 5.0)
    assert made["loss"]["y"] == [1.0, "nan"]
    assert made["gradient_norm"]["y"] == ["inf", 0.5]
    assert made["clipped_norm"]["y"] == [5.0, 0.5]
    assert made["learning_rate"] is None
    json.dumps(made, allow_nan=False)


# edits


@given(st.text("abc", max_size=8), st.text("abc", max_size=8))
def test_edits_are_the_least_and_lead_from_one_to_the_other(right: str, written: str) -> None:
    found = edits(right, written)
    assert len(found) == edit_distance(right, written)
    assert sum(a is not None for a, _ in found) - sum(b is not None for _, b in found) == len(right) - len(written)
    assert edits(written, right) == [(b, a) for a, b in found] or len(edits(written, right)) == len(found)


# findings


def layer(kind: str, **gates: tuple[list[int], list[int]]) -> dict[str, Any]:
    seen = {gate: {"count": 100, "left": left, "right": right} for gate, (left, right) in gates.items()}
    return {"name": "recurrent", "layer": 0, "direction": 0, "kind": kind, "gates": seen}


def keys_of(inside: dict[str, Any] | None = None, entries: Any = (), report: Any = None, score: Any = None) -> set[str]:
    import torch

    empty = {"layers": [], "weights": [], "verdict": None, "non_finite": None}
    made = findings_of(
        model=torch.nn.Linear(2, 2), inside=empty | (inside or {}), entries=list(entries), report=report, score=score
    )
    assert all(one["text"] and one["level"] in ("warning", "note") for one in made)
    levels = [one["level"] for one in made]
    assert levels == sorted(levels, key=lambda level: level != "warning")
    return {one["key"] for one in made}


def test_dead_and_stuck_gates_are_named_and_open_memories_are_not() -> None:
    none, all_, half = [0] * 4, [100] * 4, [100, 100, 0, 0]
    assert "dead" in keys_of({"layers": [layer("lstm", i=(half, none))]})
    assert "stuck" in keys_of({"layers": [layer("lstm", o=(none, all_))]})
    assert not keys_of({"layers": [layer("lstm", f=(none, all_), i=([100, 0, 0, 0], none))]}) & {"dead", "stuck"}
    assert "dead" in keys_of({"layers": [layer("gru_after", z=(all_, none))]})
    assert "silent" in keys_of({"layers": [layer("rnn_relu", h=(all_, none))]})
    assert "tanh" in keys_of({"layers": [layer("rnn_tanh", h=([40] * 4, [40] * 4))]})
    assert "tanh" not in keys_of({"layers": [layer("rnn_tanh", h=([20] * 4, [20] * 4))]})


def test_the_spectral_radius_is_named_where_the_weights_make_the_step() -> None:
    place = {"name": "recurrent", "layer": 0, "direction": 0}
    assert "radius" in keys_of({"weights": [place | {"largest": {"h": 1.6}, "radius": {"h": 1.2}}]})
    assert "radius" not in keys_of({"weights": [place | {"largest": {"h": 1.6}, "radius": {"h": 0.9}}]})
    assert "radius" not in keys_of({"weights": [place | {"largest": {"f": 2.0}, "radius": {"f": 2.0}}]})


def test_weights_that_are_not_finite_are_counted() -> None:
    import torch

    model = torch.nn.Linear(3, 2)
    with torch.no_grad():
        model.weight[1, 2] = math.nan
    (found, *_) = findings_of(model=model, inside=None, entries=[{"event": "end"}], report=None, score=None)
    assert (found["key"], found["values"]["bad"], found["values"]["total"]) == ("not_finite", 1, 8)
    assert found["values"]["first"] == "weight"


def test_clipping_epochs_and_baselines() -> None:
    steps = [{"event": "step", "step": i, "clipped": i % 4 != 0} for i in range(40)]
    epochs = [{"event": "epoch", "epoch": i, "best": i <= 2} for i in range(1, 21)]
    assert {"clipped", "unfinished", "past_best"} <= keys_of(entries=[*steps, *epochs])
    assert "still_better" in keys_of(entries=[*({"event": "epoch", "epoch": i, "best": True} for i in (1, 2, 3))])
    report = {"metrics": {"accuracy": 0.4}, "baselines": {"always": {"accuracy": 0.5}}}
    assert "baseline" in keys_of(report=report, score=("accuracy", True))
    assert "baseline" not in keys_of(report=report, score=("accuracy", False))
    forecast = {"metrics": {"coverage": 0.4}, "baselines": {}, "nominal": 0.8}
    assert "coverage" in keys_of(report=forecast, score=("crps", False))


def test_every_word_of_a_report_is_in_both_dictionaries() -> None:
    source = (Path(page.__file__).parent / "findings.py").read_text(encoding="utf-8")
    keys = set(re.findall(r'finding\(\s*"(\w+)"', source)) | {"silent", "dead", "stuck"}
    assert len(keys) > 12
    for language in ("en", "zh"):
        texts = json.loads((LAB / "i18n" / language / "V12.json").read_text(encoding="utf-8"))
        for key in keys | {"no_data", "no_inside", "no_answers"}:
            assert f"finding.{key}" in texts, (language, key)
        for metric in [*_TITLES, "nats"]:
            assert f"metric.{metric}" in texts, (language, metric)


# a report never costs a run


class Notes(Silent):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_an_error_becomes_a_warning_that_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("no such number\nsecond line")

    monkeypatch.setattr(page, "make", broken)
    notes = Notes()
    recipe = Recipe(task="classify", data=str(reviews(tmp_path / "a.csv")), min_count=1, embedding=4, **SMALL)
    result = train(recipe, out=tmp_path / "run", progress=notes)
    assert result.report.metrics["accuracy"] >= 0
    assert not (tmp_path / "run" / "report.html").exists()
    (said,) = [note for note in notes.notes if "report.html" in note]
    assert "ZeroDivisionError: no such number" in said
    assert "second line" not in said
    assert f"unrolled inspect {tmp_path / 'run'} --open" in said


def test_it_can_be_left_out_and_a_transformer_has_one(tmp_path: Path) -> None:
    data = str(reviews(tmp_path / "a.csv"))
    shared: dict[str, Any] = {"task": "classify", "data": data, "min_count": 1, "embedding": 4, "epochs": 1}
    train(Recipe(**shared, hidden=4, report=False), out=tmp_path / "none")
    assert not (tmp_path / "none" / "report.html").exists()
    train(Recipe(**shared, cell="transformer", hidden=8, heads=2), out=tmp_path / "other")
    data_seen = data_of(tmp_path / "other" / "report.html")
    assert data_seen["models"] == []
    assert data_seen["report"]["looks"] is None
    assert "no_inside" in {one["key"] for one in data_seen["report"]["findings"]}
    assert data_seen["report"]["errors"]["kind"] == "labels"


def test_what_needs_data_that_are_gone_is_kept(runs: Path, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "run"
    shutil.copytree(runs / "classify", copy)
    recipe = load(copy).recipe
    before = data_of(copy / "report.html")["report"]
    gone = Path(recipe.data)
    moved = gone.with_suffix(".moved")
    gone.rename(moved)
    try:
        rewrite(copy)
    finally:
        moved.rename(gone)
    after = data_of(copy / "report.html")
    assert after["report"]["errors"] == before["errors"]
    assert after["report"]["samples"] == before["samples"]
    assert "no_data" in {one["key"] for one in after["report"]["findings"]}
    assert len(after["models"]) == 1
    assert any("report before" in note for note in after["report"]["notes"])


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    evil = ["</script><b>", "🙂👩‍👩‍👧", "שלום", "<!--", "\u2028", "&lt;"]
    words = [("bad", "🙂"), ("good", "</script>")]
    rows = [{"text": f"{evil[i % 6]} {words[i % 2][0]}", "label": words[i % 2][1]} for i in range(60)]
    path = tmp_path / "evil.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    train(Recipe(task="classify", data=str(path), min_count=1, embedding=4, **SMALL), out=tmp_path / "run")
    text = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert text.count("</script>") == 3
    data = data_of(tmp_path / "run" / "report.html")
    assert set(data["report"]["errors"]["names"]) == {"</script>", "🙂"}


def test_a_notebook_shows_the_same_page(runs: Path) -> None:
    text = (runs / "tag" / "report.html").read_text(encoding="utf-8")
    shown = notebook(text)
    found = re.search(r'srcdoc="([^"]*)"', shown)
    assert found
    assert html.unescape(found.group(1)) == text
    assert 'sandbox="allow-scripts' in shown


def test_an_inspection_in_a_notebook(runs: Path) -> None:
    found = inspect(runs / "lm", ["abcd"], brief=True)
    assert json.loads(json.dumps(found)) == found
    page_inside = re.search(r'srcdoc="([^"]*)"', found._repr_html_())  # type: ignore[attr-defined]
    assert page_inside
    data = re.search(r'id="data">(.*?)</script>', html.unescape(page_inside.group(1)), re.DOTALL)
    assert data
    (model,) = json.loads(data.group(1))["models"]
    assert model["items"][0]["text"] == "abcd"
    result = Result(runs / "lm", *[None] * 6)  # type: ignore[arg-type]
    assert (runs / "lm" / "report.html").read_text(encoding="utf-8") in html.unescape(result._repr_html_() or "")
    assert Result(runs, *[None] * 6)._repr_html_() is None  # type: ignore[arg-type]


def test_pictures(runs: Path, tmp_path: Path) -> None:
    from unrolled.training.reporting.plots import draw

    for task in ("tag", "forecast"):
        found, _ = make(runs / task)
        written = {path.stem for path in draw(found, tmp_path / task)}
        wanted = {"loss", "scores", "gradient", "learning_rate", "gates", "flow", "errors"}
        assert written == wanted | ({"samples"} if task == "forecast" else set())
        for path in (tmp_path / task).iterdir():
            assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


# the command


def test_inspect_opens_the_report_with_what_was_seen(
    runs: Path,
    tmp_path: Path,
    run: Any,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import webbrowser

    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: opened.append(address) or True)
    done = run("inspect", runs / "classify", "--text", "good fine bad", "--open", "--png", tmp_path / "pictures")
    assert done.code == 0, done.err
    path = runs / "classify" / "report.html"
    assert opened == [path.resolve().as_uri()]
    assert data_of(path)["models"][0]["items"][0]["text"] == "good fine bad"
    assert data_of(path)["report"]["errors"]["kind"] == "labels"
    assert (tmp_path / "pictures" / "errors.png").is_file()
    assert f"written to {path}" in done.err
    assert "most in need of attention" in done.out


def test_inspect_of_a_bundle_has_no_report_to_write(
    runs: Path,
    run: Any,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import webbrowser

    monkeypatch.setattr(webbrowser, "open", lambda _: pytest.fail("nothing to open"))
    done = run("inspect", runs / "classify" / "model.safetensors", "--open")
    assert done.code != 0
    assert "expected a run folder" in done.err


def test_a_forecaster_reads_no_text(runs: Path, run: Any) -> None:  # noqa: F811
    done = run("inspect", runs / "forecast", "--text", "1 2 3")
    assert done.code != 0
    said = " ".join(done.err.split())
    assert "--text: expected a model that reads texts, found a forecaster, which reads series." in said
    assert "unrolled inspect RUN --data FILE" in said


def test_inspect_of_a_forecast(runs: Path, run: Any) -> None:  # noqa: F811
    done = run("inspect", runs / "forecast", "--json")
    assert done.code == 0, done.err
    (found,) = done.lines
    assert found["items"] == []
    assert found["verdict"]["word"] in ("healthy", "vanishing", "exploding", "too short")
    assert found["flow"]["layers"][0]["targets"]
