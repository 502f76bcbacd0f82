"""The commands, run in this process: what they print where, and their exit codes."""

from __future__ import annotations

import io
import json
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import unrolled.training
from unrolled.cli import inputs, jobs, main, show
from unrolled.errors import DataError, RunError

ROWS = [("warm soup", "good"), ("kind waiter", "good"), ("sweet cake", "good"), ("fresh tea", "good")]
ROWS += [("cold soup", "bad"), ("rude waiter", "bad"), ("dry cake", "bad"), ("old tea", "bad")]
SMALL = ["--hidden", "4", "--embedding", "4", "--epochs", "2"]


class Done:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("UNROLLED_TRACEBACK", raising=False)

    def call(*arguments: object, given: bytes = b"") -> Done:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given), encoding="utf-8"))
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        return Done(int(stop.value.code or 0), *capsys.readouterr())

    return call


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a data file and a run of each kind."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "data.csv").write_text("text,label\n" + "".join(f"{t},{l}\n" for t, l in ROWS), encoding="utf-8")
    words = "".join(f"{text.split()[0]} A\n{text.split()[1]} N\n\n" for text, _ in ROWS)
    (folder / "data.conll").write_text(words, encoding="utf-8")
    (folder / "data.txt").write_text("雨落在屋顶上\n" * 12, encoding="utf-8")
    steps = [f"{i},{t},{(i % 2) * t}.{i},{'up' if i % 2 else 'flat'}\n" for i in range(8) for t in range(3)]
    (folder / "steps.csv").write_text("id,time,value,label\n" + "".join(steps), encoding="utf-8")
    recipes = {
        "classify": ["classify", folder / "data.csv"],
        "tag": ["tag", folder / "data.conll", "--min-count", "1"],
        "lm": ["lm", folder / "data.txt", "--chunk", "8", "--batch-size", "2"],
        "features": ["classify", folder / "steps.csv", "--id", "id", "--time", "time"],
    }
    for name, arguments in recipes.items():
        with pytest.raises(SystemExit) as stop:
            main(["train", *map(str, arguments), *SMALL, "--out", str(folder / name)])
        assert not stop.value.code
    return folder


def test_training_prints_a_result_and_leaves_a_run(run: Any, runs: Path, tmp_path: Path) -> None:
    done = run("train", "classify", runs / "data.csv", *SMALL, "--out", tmp_path / "run")
    assert done.code == 0
    for words in ("accuracy", "macro-F1", "always 'bad'", "items scored", "one prediction", f"{tmp_path / 'run'}"):
        assert words in done.out.replace("\n", " ") or words in done.out.replace("\n", "")
    assert "\x1b" not in done.out + done.err  # not a terminal: no bar, no colours
    assert (tmp_path / "run" / "model.safetensors").is_file()


def test_the_folder_is_named_after_the_data(
    run: Any, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert run("train", "classify", runs / "data.csv", *SMALL).code == 0
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["data", "data-2"]


def test_a_folder_that_exists_is_refused(run: Any, runs: Path) -> None:
    done = run("train", "classify", runs / "data.csv", "--out", runs / "classify")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: ")
    assert "--resume" in done.err
    assert "Traceback" not in done.err


def test_resume_goes_on_and_refuses_what_is_fixed(run: Any, runs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run("train", "classify", runs / "data.csv", *SMALL, "--out", folder)
    again = run("train", "--resume", folder)
    assert again.code == 0
    assert "are done" in again.err
    assert run("train", "--resume", folder, "--epochs", "3").code == 0
    fixed = run("train", "--resume", folder, "--hidden", "9")
    assert fixed.code == 2
    assert "hidden" in fixed.err
    assert run("train", "classify", "--resume", folder).code == 2
    assert run("train", "--resume", tmp_path / "nothing").code == 1


def test_evaluate(run: Any, runs: Path) -> None:
    table = run("evaluate", runs / "classify", runs / "data.csv")
    assert "items scored: 8" in table.out.replace("\n", "")
    one = run("evaluate", runs / "classify", runs / "data.csv", "--json").lines[0]
    assert one["items"] == 8
    assert set(one["metrics"]) >= {"accuracy", "macro_f1"}
    assert one["baselines"]


def test_predict_arguments(run: Any, runs: Path) -> None:
    done = run("predict", runs / "classify", "warm soup", " ", "暖 cake")
    assert [line["where"] for line in done.lines] == ["argument 1", "argument 3"]
    assert "暖" in done.lines[1]["unknown"]
    assert "argument 2 is empty" in done.err
    assert done.code == 0
    assert "暖" in done.out  # not \u6696


def test_predict_standard_input_and_arguments_agree(run: Any, runs: Path) -> None:
    texts = [text for text, _ in ROWS]
    piped = run("predict", runs / "classify", given=("\n".join(texts[:3]) + "\n\n  \n" + "\n".join(texts[3:])).encode())
    told = run("predict", runs / "classify", *texts)
    assert [line["label"] for line in piped.lines] == [line["label"] for line in told.lines]
    assert [line["where"] for line in piped.lines][2:4] == ["standard input:3", "standard input:6"]
    assert piped.err.count("is empty, skipped") == 2
    assert piped.code == 0


def test_predict_nothing_is_nothing(run: Any, runs: Path) -> None:
    done = run("predict", runs / "classify", given=b"")
    assert (done.code, done.out) == (0, "")


def test_predict_a_file_without_labels(run: Any, runs: Path, tmp_path: Path) -> None:
    file = tmp_path / "new.csv"
    file.write_text("text\nwarm soup\n\ncold tea\n", encoding="utf-8")
    assert [line["text"] for line in run("predict", runs / "classify", "--file", file).lines] == [
        "warm soup",
        "cold tea",
    ]


def test_the_format_of_a_file_can_be_named(run: Any, runs: Path, tmp_path: Path) -> None:
    file = tmp_path / "new.data"
    file.write_bytes((runs / "data.csv").read_bytes())
    assert run("predict", runs / "classify", "--file", file).code == 1
    assert len(run("predict", runs / "classify", "--file", file, "--format", "csv").lines) == 8
    assert run("evaluate", runs / "classify", file, "--format", "csv", "--json").lines[0]["items"] == 8
    assert run("evaluate", runs / "classify", file, "--format", "parchment").code == 2


def test_predict_tags_and_features(run: Any, runs: Path) -> None:
    (line,) = run("predict", runs / "tag", "warm soup").lines
    assert line["tokens"] == ["warm", "soup"]
    assert len(line["tags"]) == 2
    (line,) = run("predict", runs / "features", given=b"[[0.5], [1.5]]\n").lines
    assert line["label"] in ("up", "flat")
    assert len(run("predict", runs / "features", "--file", runs / "steps.csv").lines) == 8
    wrong = run("predict", runs / "features", "1, 2")
    assert (wrong.code, wrong.out) == (1, "")
    assert "JSON list" in wrong.err
    assert run("predict", runs / "features", "[[1, 2]]").code == 1


def test_what_was_answered_before_bad_bytes_is_printed(run: Any, runs: Path) -> None:
    done = run("predict", runs / "classify", given=b"warm soup\ncaf\xe9\n")
    assert done.code == 1
    assert len(done.lines) == 1
    assert "standard input:2" in done.err
    assert "UTF-8" in done.err


def test_generate(run: Any, runs: Path) -> None:
    first = run("generate", runs / "lm", "--prompt", "雨落", "--length", "9", "--seed", "3")
    again = run("generate", runs / "lm", "--prompt", "雨落", "--length", "9", "--seed", "3")
    assert first.out == again.out
    assert first.out.startswith("雨落")
    assert len(first.out) == len("雨落") + 9 + 1
    assert run("generate", runs / "classify", "--prompt", "x").code == 1
    assert run("generate", runs / "lm", "--length", "0").code == 2


def test_generate_refuses_wild_settings(run: Any, runs: Path) -> None:
    for option, value in (("--temperature", "-1"), ("--temperature", "nan"), ("--top-p", "1.5"), ("--top-k", "0")):
        done = run("generate", runs / "lm", option, value)
        assert (done.code, done.out) == (2, "")
        assert option.strip("-").split("-")[0] in done.err


def test_errors_are_one_line_with_a_way_out(run: Any, runs: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("words,label\na,b\n", encoding="utf-8")
    broken = tmp_path / "model.safetensors"
    broken.write_bytes(b"not a bundle")
    for arguments in (
        ["train", "classify", bad, "--out", tmp_path / "x"],
        ["train", "classify", tmp_path / "none.csv", "--out", tmp_path / "x"],
        ["evaluate", tmp_path / "no-run", bad],
        ["evaluate", runs / "classify", bad],
        ["predict", broken, "a"],
        ["predict", tmp_path, "a"],
    ):
        done = run(*arguments)
        assert (done.code, done.out) == (1, "")
        assert done.err.startswith("error: ")
        assert done.err.count("\n") == 1
    assert not (tmp_path / "x").exists()


def test_features_that_do_not_fit_are_named_by_their_line(run: Any, runs: Path) -> None:
    done = run("predict", runs / "features", given=b"\n[[1, 2, 3]]\n")
    assert done.code == 1
    assert "error: standard input:2: " in done.err
    assert "error: argument 1: " in run("predict", runs / "features", "[[1, 2, 3]]").err


def test_a_wrong_name_is_wrong_usage(run: Any, runs: Path) -> None:
    done = run("demo", "elephants")
    assert (done.code, done.out) == (2, "")
    assert "expected one of speakers, tags" in done.err
    done = run("train", "clasify", runs / "data.csv")
    assert (done.code, done.out) == (2, "")
    assert "--task" not in done.err  # there is no such flag


@pytest.mark.parametrize(("name", "content"), [("classify", "text,label\na b,{}\n"), ("tag", "a A\nb {}\n")])
def test_evaluate_names_the_line_of_a_label_never_trained(
    run: Any, runs: Path, tmp_path: Path, name: str, content: str
) -> None:
    data = tmp_path / ("new.csv" if name == "classify" else "new.conll")
    data.write_text(content.format("weird"), encoding="utf-8")
    done = run("evaluate", runs / name, data)
    assert (done.code, done.out) == (1, "")
    line = 2 if name == "classify" else 1  # a sentence is named by its first line
    assert f"{data.name}:{line}: " in done.err
    assert "'weird'" in done.err


def test_resuming_a_finished_run_counts_what_is_done(run: Any, runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "classify", tmp_path / "run")
    done = json.loads((tmp_path / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[-2])["epoch"]
    if done == 1:
        run("train", "--resume", tmp_path / "run", "--epochs", "2")
        done = 2
    said = run("train", "--resume", tmp_path / "run", "--epochs", "1").err
    assert f"all {done} epochs are done; train longer with --epochs {2 * done}" in said


def test_texts_and_a_file_are_one_too_many(run: Any, runs: Path) -> None:
    assert run("predict", runs / "classify", "a", "--file", runs / "data.csv").code == 2


def test_traceback_on_demand(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNROLLED_TRACEBACK", "1")
    with pytest.raises(RunError):
        main(["train", "classify", str(runs / "data.csv"), "--out", str(runs / "classify")])


def test_ctrl_c_is_130_with_a_message(run: Any, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(unrolled.training, "train", stopped, raising=False)
    done = run("train", "classify", runs / "data.csv", "--out", runs / "stopped")
    assert done.code == 130
    assert "stopped by Ctrl-C" in done.err


def test_a_missing_extra_names_the_command(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "typer", None)
    done = run("doctor")
    assert done.code == 1
    assert done.err == "error: typer is not installed. Install it with: pip install 'unrolled[cli]'\n"


def test_doctor_says_what_is_there_and_what_is_not(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from unrolled.cli import doctor

    whole = run("doctor")
    assert whole.code == 0
    for words in ("torch", "cpu", "GRU, reset_after=False", "native", "speakers", "Nothing is missing."):
        assert words in whole.out
    monkeypatch.setattr(doctor, "PACKAGES", (*doctor.PACKAGES, ("no_such_module", "no-such", "train")))
    assert "missing: no_such_module. Install with: pip install 'unrolled[train]'" in run("doctor").out


def test_data_list_names_licence_and_origin(run: Any) -> None:
    text = run("data", "list").out
    for name in ("speakers", "tags", "poems", "plays", "cities"):
        assert f"\n{name}" in "\n" + text
    assert text.count("licence") >= 5
    assert max(map(len, text.splitlines())) <= 80


def test_an_answer_comes_as_soon_as_its_line() -> None:
    """A person who types one line and waits gets its answer before the next line."""
    more = threading.Event()

    def lines() -> Iterator[inputs.Input]:
        yield inputs.Input("1", "a")
        assert more.wait(10)
        yield inputs.Input("2", "b")

    batches = inputs.gathered(lines(), 8)
    assert [one.where for one in next(batches)] == ["1"]
    more.set()
    assert [one.where for batch in batches for one in batch] == ["2"]


def test_lines_that_are_there_go_together_and_in_order() -> None:
    def slow(batches: Iterator[list[inputs.Input]]) -> Iterator[list[inputs.Input]]:
        for batch in batches:
            time.sleep(0.01)
            yield batch

    whole = [inputs.Input(str(i), "x") for i in range(100)]
    batches = list(slow(inputs.gathered(whole, 16)))
    assert [one for batch in batches for one in batch] == whole
    assert max(map(len, batches)) <= 16
    assert len(batches) < 100


def test_an_error_of_the_input_comes_after_what_was_read() -> None:
    lines = inputs.from_stream(io.BytesIO(b"a\n\xff\n"), features=False, name="in")
    batches = inputs.gathered(lines, 1)
    assert [one.where for one in next(batches)] == ["in:1"]
    with pytest.raises(DataError, match="in:2"):
        next(batches)


def test_a_byte_order_mark_is_no_text() -> None:
    (one,) = inputs.from_stream(io.BytesIO("\ufeff好".encode()), features=False)
    assert one.value == "好"


def test_the_bar_shows_loss_and_score(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    watch = show.Watch()
    written = io.StringIO()
    watch.console.file = written
    watch.start(epochs=2, done=0, steps=3, parameters=1000)
    watch.step(epoch=1, step=3, loss=1.25)
    watch.epoch(epoch=1, loss=1.25, score="macro_f1", value=0.5, best=True)
    watch.step(epoch=2, step=1, loss=1.0)
    watch.stop()
    text = written.getvalue()
    for words in ("epoch 2/2", "loss 1.000", "best macro f1 0.5000", "1,000 parameters"):
        assert words in text


def test_free_folder_counts_up(tmp_path: Path) -> None:
    assert jobs.free_folder(tmp_path / "a") == tmp_path / "a"
    (tmp_path / "a").mkdir()
    (tmp_path / "a-2").mkdir()
    assert jobs.free_folder(tmp_path / "a") == tmp_path / "a-3"
