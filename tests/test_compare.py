"""Comparing cells: sizes that fit a budget, fits that find an exponent, memory that is counted, and the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import unrolled
from small_data import documents, reviews, sentences
from unrolled.cli import main
from unrolled.cli.compare import lengths_to
from unrolled.errors import RecipeError, RunError
from unrolled.training import Recipe
from unrolled.training.caching import prepare
from unrolled.training.compare import Plan, child, compare, contest, fit, growth, sized
from unrolled.training.compare.sizes import count, for_cell
from unrolled.training.sources import open_parts


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    path = reviews(tmp_path / "reviews.csv")
    return Recipe(task="classify", data=str(path), embedding=4, epochs=1, min_count=1, threads=1)


@pytest.mark.parametrize("cell", contest.CELLS)
@pytest.mark.parametrize("wanted", [3_000, 40_000])
def test_sizes_fit_the_budget(recipe: Recipe, cell: str, wanted: int) -> None:
    """The count is that of the model that is trained, and no other number of units is nearer."""
    recipe = for_cell(recipe, cell)
    task = prepare(recipe, open_parts(recipe))
    got = sized(recipe, task, wanted, tolerance=0.05)
    assert abs(got.parameters - wanted) <= 0.05 * wanted
    model = type(task).from_dict(got.recipe, task.to_dict()).build()
    assert got.parameters == sum(parameter.numel() for parameter in model.parameters())
    field = "feedforward" if cell == "transformer" else "hidden"
    units = getattr(got.recipe, field)
    for nearby in (units - 1, units + 1):
        assert abs(count(got.recipe.replace(**{field: nearby}), task) - wanted) >= abs(got.parameters - wanted)


def test_a_budget_that_no_size_meets_is_refused(recipe: Recipe) -> None:
    task = prepare(recipe, open_parts(recipe))
    with pytest.raises(RecipeError, match=r"parameters: expected within 3% of 20 for lstm, found \d+ with hidden = 1"):
        sized(recipe, task, 20)


def test_tied_weights_stay_tied(tmp_path: Path) -> None:
    path = documents(tmp_path / "a.txt")
    tied = Recipe(task="lm", data=str(path), tie_weights=True, embedding=8, hidden=8, format="documents")
    got = sized(tied, prepare(tied, open_parts(tied)), 5_000, tolerance=0.1)
    assert got.recipe.embedding == got.recipe.hidden > 8


def test_another_cell_keeps_what_it_has(recipe: Recipe) -> None:
    said = recipe.replace(cell="lstm", forget_bias=1.0, init="keras", clip=2.0)
    assert for_cell(said, "gru").init == "keras"
    assert for_cell(said, "gru").forget_bias is None
    changed = for_cell(said, "transformer")
    assert (changed.cell, changed.init, changed.clip) == ("transformer", "torch", 2.0)


def test_the_exponent_is_the_slope() -> None:
    lengths = [128, 256, 512, 1024]
    got = fit(lengths, [[3e-6 * length**1.7, 9e-6 * length**1.7] for length in lengths])
    assert got is not None
    assert got == pytest.approx((1.7, 1.7, 1.7, 1.7), abs=1e-5)
    bent = fit(lengths, [[1.0], [1.0], [4.0], [16.0]])  # flat first, the square at the end
    assert bent is not None
    assert bent.tail == pytest.approx(2.0)
    assert 1.0 < bent.all < 2.0
    assert fit(lengths, [[0.0], [2.0], [4.0], [8.0]]) == (1.0, 1.0, 1.0, 1.0)
    assert fit(lengths[:2], [[1.0], [2.0]]) is None
    assert fit([128], [[1.0]]) is None
    spread = fit(lengths, [[1.0, 1.0], [2.0, 2.0], [4.0, 4.0], [8.0, 32.0]])
    assert spread is not None
    assert (spread.least, spread.largest) == pytest.approx((1.0, 2.0))


class Cube(torch.nn.Module):
    """x³ by way of x²: both are saved for the backward pass, and so is a weight, which does not count."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(7))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, None]:
        return (x * x).exp() * self.weight, None


def test_saved_bytes_are_those_that_autograd_keeps() -> None:
    """exp keeps its result (and the product keeps the same storage once); the square of the loss keeps its input."""
    x = torch.randn(5, 7, requires_grad=True)
    assert child.saved_bytes(Cube(), x) == 2 * 5 * 7 * 4
    short = child.saved_bytes(unrolled.GRU(3, 4, batch_first=True, backend="reference"), torch.randn(1, 10, 3))
    long = child.saved_bytes(unrolled.GRU(3, 4, batch_first=True, backend="reference"), torch.randn(1, 20, 3))
    assert 1.8 < long / short <= 2.2


def test_the_resident_peak_sees_memory_that_is_gone() -> None:
    before = child.resident(restart=True)
    block = torch.ones(16 * 2**20)  # 64 MiB
    del block
    after = child.resident()
    assert after["peak"] is not None
    assert before["now"] is not None
    assert after["peak"] - before["now"] > 60 * 2**20


def test_a_failed_job_says_why(tmp_path: Path) -> None:
    job = {"kind": "train", "recipe": {"task": "classify", "data": str(tmp_path / "no.csv")}, "out": str(tmp_path)}
    with pytest.raises(RunError, match="out"):
        child.ask(job)
    with pytest.raises(RunError, match="KeyError"):
        child.ask({"kind": "nothing"})


def pairs(path: Path) -> Path:
    """Two letters, and the same in capitals."""
    lines = [f"{a} {b}\t{a.upper()} {b.upper()}" for a in "abcdefgh" for b in "abcdefgh"]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def answers(job: dict[str, Any]) -> dict[str, Any]:
    """The jobs in this process: importing torch anew for each would take most of the time."""
    return json.loads(json.dumps(child.JOBS[job["kind"]](json.loads(json.dumps(job)))))


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contest, "ask", answers)
    monkeypatch.setattr(growth, "ask", answers)
    monkeypatch.setattr(child, "AT_LEAST", 0.0)


@pytest.mark.usefixtures("here")
def test_growth_of_a_layer_and_of_its_state() -> None:
    """A recurrent state stays as it is, the cache of a Transformer grows in proportion; both keep T steps to train."""
    sizes = {"hidden": 8, "layers": 1, "bidirectional": False, "heads": 2, "feedforward": None, "dropout": 0.0}
    cells = {"single_bias": False, "init": "torch", "backend": "auto", "learn_initial_state": False}
    cells |= {"reset_after": True, "forget_bias": None}
    found = {}
    for cell in ("gru", "transformer"):
        layer = sizes | cells | {"cell": cell}
        found[cell] = growth.measure(layer, 4, lengths=(32, 64, 128), tokens=True, threads=1, note=pytest.fail)
    assert found["gru"]["exponents"]["token_state_bytes"]["tail"] == 0
    assert found["transformer"]["exponents"]["token_state_bytes"]["tail"] == pytest.approx(1, abs=0.02)
    assert found["gru"]["token"][0]["state_bytes"] == 8 * 4
    for cell in found:
        assert found[cell]["exponents"]["training_saved_bytes"]["tail"] == pytest.approx(1, abs=0.1)
        assert len(found[cell]["training"][0]["seconds"]) == growth.REPEATS


def test_a_length_that_does_not_fit_is_left_out_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def slow(job: dict[str, Any]) -> dict[str, Any]:
        asked.append(job["length"])
        return {"seconds": [growth.SECONDS / 3], "saved_bytes": 1, "resident_bytes": 1}

    monkeypatch.setattr(growth, "ask", slow)
    said: list[str] = []
    layer = {"cell": "rnn"}
    found = growth.measure(layer, 4, lengths=(128, 256, 512), tokens=False, threads=1, note=said.append)
    assert asked == [128]
    assert list(found["left_out"]) == ["256", "512"]
    assert "rnn: no measurement from 256 steps on" in said[0]


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("task", ["classify", "tag", "lm", "seq2seq"])
def test_a_comparison(task: str, tmp_path: Path) -> None:
    """All four cells at one size; the record is JSON, and each run is a run folder."""
    make = {"classify": reviews, "tag": sentences, "lm": documents, "seq2seq": pairs}[task]
    data = make(tmp_path / {"classify": "a.csv", "tag": "a.conll", "lm": "a.txt", "seq2seq": "a.tsv"}[task])
    more = {"format": "documents", "chunk": 8} if task == "lm" else {}
    recipe = Recipe(task=task, data=str(data), embedding=4, hidden=24, epochs=1, threads=1, **more)
    plan = Plan(recipe, seeds=(0, 1), tolerance=0.1, lengths=(64, 128, 256) if task == "lm" else ())
    told: list[str] = []
    record = compare(plan, out=tmp_path / "out", note=told.append)
    assert json.loads((tmp_path / "out" / "compare.json").read_text(encoding="utf-8")) == record
    cells = {cell["cell"]: cell for cell in record["cells"]}
    assert list(cells) == list(contest.CELLS)
    assert cells["rnn"]["hidden"] == 24
    wanted = cells["rnn"]["parameters"]
    for name, cell in cells.items():
        assert abs(cell["parameters"] - wanted) <= 0.1 * wanted
        assert [run["seed"] for run in cell["runs"]] == [0, 1]
        assert all(run["parameters"] == cell["parameters"] and run["seconds"] > 0 for run in cell["runs"])
        assert all(run["resident_bytes"] >= run["resident_bytes_at_start"] > 0 for run in cell["runs"])
        assert {run["engine"] for run in cell["runs"]} <= {"native", "torch"}
        assert cell["score"]["least"] <= cell["score"]["median"] <= cell["score"]["largest"]
        assert (tmp_path / "out" / f"{name}-1" / "model.safetensors").is_file()
    assert len(record["findings"]) == 6
    assert any("lstm: hidden" in line for line in told)
    if task == "lm":
        assert len(cells["transformer"]["growth"]["token"]) == 3
        assert cells["transformer"]["growth"]["exponents"]["token_state_bytes"]["tail"] == pytest.approx(1, abs=0.02)


def test_findings_need_ranges_that_do_not_touch() -> None:
    def entry(cell: str, *values: float) -> Any:
        runs = [{"score": {"value": value}} for value in values]
        return contest.Entry(cell, Recipe(task="lm", data="x"), 1, 1, {}, runs)

    lstm, gru, rnn = entry("lstm", 3.0, 5.0), entry("gru", 4.0, 6.0), entry("rnn", 7.0, 8.0)
    assert contest._findings([lstm, gru], False) == ["lstm or gru: their seeds overlap, no difference is shown"]
    assert "lstm or rnn: lstm," in contest._findings([lstm, rnn], False)[0]
    assert "lstm or rnn: rnn," in contest._findings([lstm, rnn], True)[0]
    assert "one seed" in contest._findings([entry("gru", 1.0), entry("rnn", 2.0)], True)[0]


@pytest.mark.usefixtures("here")
def test_minutes_become_epochs(recipe: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = contest.Entry("lstm", recipe, 1, 1, {})
    monkeypatch.setattr(contest, "ask", lambda _: {"seconds": 7.0})
    told: list[str] = []
    assert contest._within_time(entry, 1.0, told.append).epochs == 8
    assert not told
    assert contest._within_time(entry, 0.1, told.append).epochs == 1
    assert "one epoch takes" in told[0]


def test_each_cell_takes_the_rate_that_validates_best(recipe: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = contest.Entry("lstm", recipe, 1, 1, {})
    assert contest._at_its_rate(entry, (0.5,)).learning_rate == 0.5
    for more, best in ((True, 0.02), (False, 0.3)):

        def answer(job: dict[str, Any], more: bool = more) -> dict[str, Any]:
            rate = job["recipe"]["learning_rate"]
            score = {"name": "accuracy", "value": rate, "more_is_better": more}  # the test score must not decide
            return {"valid": {"accuracy": {0.1: 0.6, 0.02: 0.8, 0.3: 0.4}[rate]}, "score": score}

        monkeypatch.setattr(contest, "ask", answer)
        assert contest._at_its_rate(entry, (0.1, 0.02, 0.3)).learning_rate == best


@pytest.mark.usefixtures("here")
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    data, out = reviews(tmp_path / "a.csv"), tmp_path / "out"
    options = ["--cells", "lstm,gru", "--seeds", "2", "--epochs", "1", "--hidden", "16", "--embedding", "4"]
    options += ["--tolerance", "0.1", "--longest", "256", "--threads", "1", "--out", str(out)]
    with pytest.raises(SystemExit) as stop:
        main(["compare", "classify", str(data), *options])
    said = capsys.readouterr()
    assert stop.value.code == 0, said.err
    for words in ("accuracy", "lstm or gru", "baseline, always", "kept for the backward pass", "256"):
        assert words in said.out
    assert "one more step" not in said.out  # both directions are read
    assert (out / "compare.png").read_bytes().startswith(b"\x89PNG")
    assert "compare.png" in said.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--cells", "lstm,cnn"], "cells: expected some of rnn, lstm, gru, transformer, found 'cnn'"),
        (["--cells", ","], "cells: expected at least one"),
        (["--longest", "100"], "--longest: expected 0 to leave it out"),
        (["--learning-rates", "0.1,-1"], "learning_rates: expected numbers above 0"),
        (["--learning-rates", "fast"], "--learning-rates: expected numbers"),
        (["--minutes", "0"], "minutes: expected a number above 0"),
        (["--parameters", "9"], "parameters: expected within 3% of 9"),
        (["--hidden", "x"], "hidden"),
    ],
)
def test_what_is_refused(options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["compare", "classify", str(reviews(tmp_path / "a.csv")), *options, "--out", str(tmp_path / "out")])
    assert stop.value.code == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_there_is_refused(recipe: Recipe, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="does not exist yet"):
        compare(Plan(recipe), out=tmp_path)


def test_lengths_double() -> None:
    assert lengths_to(1024) == (128, 256, 512, 1024)
    assert lengths_to(0) == ()
