"""`unrolled stream`, and the other commands on a bundle without PyTorch."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtime_models import chained, make, rows_of_features
from test_runtime import SOURCE
from unrolled import runtime
from unrolled.cli import main
from unrolled.cli.sessions import Session

NAMES = ("a", "b", "c")


@pytest.fixture
def sensor(tmp_path: Path) -> Path:
    """A model of three named columns, one way."""
    make(tmp_path, "features", bidirectional=False, features=NAMES, pooling="mean")
    return tmp_path


def stream(
    run: Path, text: str | bytes, *options: str, code: int = 0, capsys: pytest.CaptureFixture[str] | None = None
) -> list[dict[str, Any]]:
    """Run the command in this process; its answers."""
    given = text if isinstance(text, bytes) else text.encode()
    stdin, stdout, out = sys.stdin, sys.stdout, io.StringIO()
    sys.stdin, sys.stdout = io.TextIOWrapper(io.BytesIO(given)), out
    try:
        with pytest.raises(SystemExit) as stop:
            main(["stream", str(run), *options])
    finally:
        sys.stdin, sys.stdout = stdin, stdout
    assert stop.value.code == code, capsys.readouterr().err if capsys else ""
    return [json.loads(line) for line in out.getvalue().splitlines()]


def sequences(count: int = 5) -> dict[str, np.ndarray]:
    return {f"s{i}": item.features for i, item in enumerate(rows_of_features(count, 9)) if item.features is not None}


def interleaved(given: dict[str, np.ndarray], seed: int = 0) -> list[tuple[str, list[float]]]:
    """Steps of all sequences mixed, each sequence in its own order."""
    rng, left, mixed = np.random.default_rng(seed), {key: list(steps) for key, steps in given.items()}, []
    while any(left.values()):
        key = str(rng.choice([key for key, steps in left.items() if steps]))
        mixed.append((key, [float(f"{value:.6g}") for value in left[key].pop(0)]))
    return mixed


def as_json(rows: list[tuple[str, list[float]]]) -> str:
    return "".join(json.dumps({"id": key, **dict(zip(NAMES, step, strict=True))}) + "\n" for key, step in rows)


def as_csv(rows: list[tuple[str, list[float]]]) -> str:
    return "c,id,b,a\n" + "".join(f"{c},{key},{b},{a}\n" for key, (a, b, c) in rows)


def last_of_each(answers: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {answer["id"]: answer for answer in answers}


@pytest.mark.parametrize("form", [as_json, as_csv])
def test_interleaved_streams_by_id(form: Any, sensor: Path) -> None:
    """Every id gets what its own rows give, whatever stands between them, in the order of the lines."""
    rows = interleaved(sequences())
    answers = stream(sensor, form(rows), "--id", "id", "--scores")
    assert [answer["id"] for answer in answers] == [key for key, _ in rows]
    model = runtime.load(sensor)
    seen: dict[str, list[list[float]]] = {}
    for (key, step), answer in zip(rows, answers, strict=True):
        seen.setdefault(key, []).append(step)
        (wanted,) = model.predict([seen[key]])
        assert answer["label"] == wanted["label"]
        assert answer["scores"] == pytest.approx(wanted["scores"], abs=2e-6)
        assert answer["probability"] == pytest.approx(wanted["probability"], abs=2e-6)


def test_many_ids_and_many_rows(sensor: Path) -> None:
    """More ids than there is room for at first, in one block and in pieces: the same."""
    rng = np.random.default_rng(0)
    rows = [(f"n{rng.integers(300)}", rng.normal(size=3).round(3).tolist()) for _ in range(2000)]
    whole = stream(sensor, as_json(rows), "--id", "id")
    state = sensor / "state"
    pieces = stream(sensor, as_json(rows[:700]), "--id", "id", "--state", str(state))
    pieces += stream(sensor, as_json(rows[700:]), "--id", "id", "--state", str(state))
    for one, other in zip(pieces, whole, strict=True):
        assert (one["id"], one["label"]) == (other["id"], other["label"])
        assert one["probability"] == pytest.approx(other["probability"], abs=3e-6)


ODD = (
    '{"id": "a", "a": 1, "b": 2, "c": 3}',
    '{"id": "],\\n[", "a": 1.5, "b": -2e3, "c": 0}',
    ' {"c": 1, "b": "2", "a": true, "id": 7, "more": [1, 2]} \r',
    "",
    '{"id": "詩", "a": 1, "b": 2, "c": 1e-9}',
)
BROKEN = (
    ('{"id": "a", "a": 1, "b": 2, "c": 3', '"x": 4}'),
    ('{"id": "a", "a": 1, "b": 2, "c": 3}, {"id": "b", "a": 1, "b": 2, "c": 3}',),
    ('{"id": "a", "a": 1, "b": 2, "c": 3}],[{"id": "b", "a": 1, "b": 2, "c": 3}',),
    ('{"id": "a', 'b", "a": 1, "b": 2, "c": 3}'),
    ('{"id": "a", "a": NaN, "b": 2, "c": 3}',),
    ('{"id": "a", "a": 1e60, "b": 2, "c": 3}',),
    ('{"id": null, "a": 1, "b": 2, "c": 3}',),
    ('{"id": "a", "a": null, "b": 2, "c": 3}',),
    ('{"id": "a", "b": 2, "c": 3}',),
    ("[1, 2, 3]",),
    ('{"id": [1], "a": 1, "b": 2, "c": 3}',),
    ('{"id": "\\ud800", "a": 1, "b": 2, "c": 3}',),
    ('{"id": "a", "a": 1' + "0" * 400 + ', "b": 2, "c": 3}',),
)


@pytest.mark.parametrize("bad", [(), *BROKEN])
def test_lines_read_together_say_what_they_say_one_by_one(
    bad: tuple[str, ...], sensor: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The answers, the error and the code of a block that is read in one go are those of its lines."""
    text = "\n".join([*ODD, *ODD, *bad, *ODD]) + "\n"
    calls = []
    monkeypatch.setattr(Session, "plain_answers", lambda self, given: calls.append(1) or real(self, given))
    found = stream(sensor, text, "--id", "id", "--scores", code=1 if bad else 0)
    assert len(calls) == (0 if bad else 1)
    said = capsys.readouterr().err
    monkeypatch.setattr("unrolled.cli.plain.read", lambda *_: None)
    assert found == stream(sensor, text, "--id", "id", "--scores", code=1 if bad else 0)
    assert capsys.readouterr().err == said
    assert len(found) == (8 if bad else 12)


real = Session.plain_answers


def test_half_a_character(tmp_path: Path) -> None:
    """It cannot be written as UTF-8, so the answer has it as an escape."""
    make(tmp_path, "spans", bidirectional=False)
    answers = stream(tmp_path, '{"tokens": ["good", "\\ud800"]}\n')
    assert chained([answer["tokens"] for answer in answers]) == ["good", "\ud800"]


def test_other_forms_of_a_line(sensor: Path) -> None:
    """A list is a step, a list of lists several; without --id all lines are one stream."""
    steps = [[1.0, 2.0, 3.0], [0.5, -1.0, 0.0], [4.0, 4.0, 4.0]]
    (wanted,) = runtime.load(sensor).predict([steps])
    for text in (
        "".join(json.dumps(step) + "\n" for step in steps),
        json.dumps(steps[:2]) + "\n\n" + json.dumps(steps[2]),  # a blank line, and no line end
        as_csv([("x", step) for step in steps]),
        "\ufeff" + as_json([("x", step) for step in steps]),
    ):
        answers = stream(sensor, text)
        assert answers[-1]["probability"] == pytest.approx(wanted["probability"], abs=2e-6)
        assert answers[-1]["label"] == wanted["label"]


def test_ids_of_two_types_are_two(sensor: Path) -> None:
    row = dict(zip(NAMES, (1.0, 2.0, 3.0), strict=True))
    answers = stream(sensor, "".join(json.dumps({"id": key, **row}) + "\n" for key in (7, "7", 7)), "--id", "id")
    assert [answer["id"] for answer in answers] == [7, "7", 7]
    assert answers[0]["probability"] == answers[1]["probability"] != answers[2]["probability"]


def test_a_row_can_start_its_stream_again(sensor: Path) -> None:
    steps = [[1.0, 2.0, 3.0], [0.5, -1.0, 0.0], [1.0, 2.0, 3.0], [0.5, -1.0, 0.0]]
    rows = [{"id": "x", "new": i == 2, **dict(zip(NAMES, step, strict=True))} for i, step in enumerate(steps)]
    answers = stream(sensor, "".join(json.dumps(row) + "\n" for row in rows), "--id", "id", "--reset", "new")
    assert answers[2:] == answers[:2]


def test_tags_come_when_they_are_settled(tmp_path: Path) -> None:
    make(tmp_path, "spans", crf=True, bidirectional=False)
    words = ["to", "Aon", "Xville", "from", "Bon", "is", "it", "to", "Don", "Yville"]
    (wanted,) = runtime.load(tmp_path).predict([words])
    answers = stream(tmp_path, "".join(word + "\n" for word in words))
    assert len(answers) in (len(words), len(words) + 1)
    assert chained(answer["tags"] for answer in answers) == wanted["tags"]
    assert chained(answer["tokens"] for answer in answers) == words
    ids = "".join(json.dumps({"id": i % 2, "tokens": words[i : i + 1]}) + "\n" for i in range(len(words)))
    mixed = stream(tmp_path, ids, "--id", "id")
    for key in (0, 1):
        tags = chained(answer["tags"] for answer in mixed if answer["id"] == key)
        assert tags == runtime.load(tmp_path).predict([words[key::2]])[0]["tags"]


def test_a_language_model_reads_lines(tmp_path: Path) -> None:
    make(tmp_path, "documents")
    model = runtime.load(tmp_path)
    answers = stream(tmp_path, "abc\ndef\n")
    (whole,) = model.predict(["abcdef"])
    end = model.stream()
    end.push("abcdef")
    wanted = whole["log_probability"] - end.finish()["log_probability"]
    assert sum(answer["log_probability"] for answer in answers) == pytest.approx(wanted, abs=1e-4)
    assert all(len(answer["next"]) == 3 for answer in answers)


def test_a_bidirectional_model_needs_a_lookahead(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path, "features", pooling="mean")
    assert stream(tmp_path, "[1, 2, 3]\n", code=1) == []
    assert "bidirectional" in capsys.readouterr().err
    steps = [[float(i), 1.0, 0.5] for i in range(9)]
    answers = stream(tmp_path, "".join(json.dumps(step) + "\n" for step in steps), "--lookahead", "20")
    (wanted,) = runtime.load(tmp_path).predict([steps])
    assert answers[-1]["end"] is True
    assert answers[-1]["probability"] == pytest.approx(wanted["probability"], abs=2e-6)


# --- bad lines


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": "x", "a": 1, "b": 2}', "standard input:2: expected a field 'c', found id, a, b"),
        ('{"id": "x", "a": 1, "b": 2, "c": "high"}', "standard input:2: expected numbers (time, 3 channels)"),
        ('{"id": "x", "a": 1, "b": 2, "c": NaN}', "standard input:2: expected finite features, found nan"),
        ('{"id": "x", "a": 1, "b": 2, "c": 1e39}', "standard input:2: expected finite features, found inf"),
        ('{"id": null, "a": 1, "b": 2, "c": 3}', "field 'id': expected a text or a whole number, found None"),
        ('{"id": [1], "a": 1, "b": 2, "c": 3}', "field 'id': expected a text or a whole number, found [1]"),
        ('{"id": "x", "a": 1, ', "standard input:2: expected a JSON value"),
        ("[1, 2, 3]", "standard input:2: expected a JSON object with the field 'id'"),
        ("[" * 5000, "standard input:2: expected a JSON value"),
        (b'{"id": "\xff"}', "standard input:2: expected UTF-8 text, found byte 0xff"),
    ],
    ids=range(10),
)
def test_a_bad_line_is_named_and_what_came_before_is_answered(
    line: str | bytes, message: str, sensor: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = b'{"id": "x", "a": 1, "b": 2, "c": 3}\n'
    raw = line if isinstance(line, bytes) else line.encode()
    text = good + raw + b"\n" + good
    assert len(stream(sensor, text, "--id", "id", "--state", str(sensor / "s"), code=1)) == 1
    assert message in capsys.readouterr().err
    after = stream(sensor, good, "--id", "id", "--state", str(sensor / "s"))
    going = stream(sensor, text, "--id", "id", "--go-on")
    assert [("error" in answer) for answer in going] == [False, True, False]
    assert message in going[1]["error"]
    assert going[2] == after[0]  # the bad line moved nothing


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,a,b\n", "standard input:1: expected a column 'c'"),
        ("a,b,c\n1,2,3\n", "standard input:1: expected a column 'id'"),
        ("id,a,b,c\nx,1,2\n", "standard input:2: expected 4 columns"),
        ("id,a,b,c\nx,1,2,three\n", "standard input:2, column 'c': expected a number, found 'three'"),
    ],
)
def test_bad_columns(text: str, message: str, sensor: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert stream(sensor, text, "--id", "id", code=1) == []
    assert message in capsys.readouterr().err


def test_states_that_do_not_fit(sensor: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = '{"id": "x", "a": 1, "b": 2, "c": 3}\n'
    state = str(tmp_path / "state")
    stream(sensor, row, "--id", "id", "--state", state)
    stream(sensor, row, "--state", state, code=1)
    assert "Give --id as when it was written" in capsys.readouterr().err
    other = tmp_path / "other"
    other.mkdir()
    make(other, "features", seed=3, bidirectional=False, features=NAMES, pooling="mean")
    stream(other, row, "--id", "id", "--state", state, code=1)
    assert "Start with another state file" in capsys.readouterr().err
    stream(sensor, row, "--format", "xml", code=2)
    assert "--format: expected one of auto, json, csv, text" in capsys.readouterr().err


# --- processes


def unrolled_command(*arguments: str) -> list[str]:
    """The command where torch cannot be imported."""
    code = "import sys; sys.modules['torch'] = None; from unrolled.cli import main; main(sys.argv[1:])"
    return [sys.executable, "-c", code, *arguments]


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}


def test_a_result_comes_before_the_next_line_is_asked_for(sensor: Path) -> None:
    """And SIGTERM leaves a state from which the next process goes on."""
    state = sensor / "state"
    row = b'{"id": "x", "a": 1, "b": 2, "c": 3}\n'
    command = unrolled_command("stream", str(sensor), "--id", "id", "--state", str(state))
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        first = []
        for _ in range(2):
            process.stdin.write(row)
            process.stdin.flush()
            first.append(json.loads(process.stdout.readline()))
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 130
    assert state.exists()
    (third,) = stream(sensor, row, "--id", "id", "--state", str(state))
    assert [*first, third] == stream(sensor, row * 3, "--id", "id")


def test_predict_and_generate_without_torch(tmp_path: Path) -> None:
    for kind, words in (("text", ["good it is", "bad"]), ("spans", ["to Aon Xville"])):
        folder = tmp_path / kind
        folder.mkdir()
        trained = make(folder, kind)
        done = subprocess.run(
            unrolled_command("predict", str(folder), *words),
            capture_output=True,
            text=True,
            env=environment(),
            check=False,
        )
        assert done.returncode == 0, done.stderr
        for line, wanted in zip(done.stdout.splitlines(), trained.predict(words), strict=True):
            answer = json.loads(line)
            assert answer.get("label") == wanted.get("label")
            assert answer.get("tags") == wanted.get("tags")
    folder = tmp_path / "lm"
    folder.mkdir()
    trained = make(folder, "documents")
    done = subprocess.run(
        unrolled_command("generate", str(folder), "--prompt", "ab", "--length", "20"),
        capture_output=True, text=True, env=environment(), check=False,
    )  # fmt: skip
    assert done.stdout.rstrip("\n") == trained.generate("ab", 20).rstrip("\n"), done.stderr
