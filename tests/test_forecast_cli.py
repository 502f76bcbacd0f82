"""`unrolled train forecast` and `unrolled forecast`: JSON lines, CSV, a picture, the state that is kept, bad files."""

from __future__ import annotations

import contextlib
import csv
import io
import json

import numpy as np
import pytest

from unrolled import pictures
from unrolled.cli import main
from unrolled.errors import RunError

OPTIONS = [
    "--id", "place", "--time", "hour", "--target", "load", "--known", "promo", "--horizon", "4", "--lookback", "8",
    "--hidden", "4", "--epochs", "1", "--epoch-windows", "8", "--season", "6", "--paths", "20",
    "--compare-with", "none",
]  # fmt: skip


def run(*arguments, code=0):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    assert stop.value.code == code, out.getvalue() + err.getvalue()
    return out.getvalue(), err.getvalue()


def rows(begin, end, ahead=0, places=("north", "south")):
    lines = ["place,hour,load,promo"]
    for place in places:
        for hour in range(begin, end + ahead):
            load = f"{10 + np.sin(hour) + hour % 6:.3f}" if hour < end else ""
            day, clock = divmod(hour, 24)
            lines.append(f"{place},2024-03-{day + 1:02d}T{clock:02d}:00,{load},{hour % 2}")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("forecast")
    (folder / "loads.csv").write_text(rows(0, 60))
    run("train", "forecast", folder / "loads.csv", *OPTIONS, "--out", folder / "run")
    return folder / "run"


def ahead(tmp_path, text, name="new.csv"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_the_train_command_shows_scores_and_the_next_command(tmp_path):
    (tmp_path / "loads.csv").write_text(rows(0, 60))
    out, err = run("train", "forecast", tmp_path / "loads.csv", *OPTIONS, "--out", tmp_path / "run")
    for word in ("MASE", "sMAPE", "coverage", "last season", "values scored", "one forecast from the saved model"):
        assert word in out, (word, out)
    assert "2 series, step 1h" in err
    assert f"unrolled forecast {tmp_path / 'run'} FILE" in err
    out, _ = run("evaluate", tmp_path / "run", tmp_path / "loads.csv", "--json")
    assert json.loads(out)["metrics"]["mase"] > 0


def test_json_lines(trained, tmp_path):
    out, _ = run("forecast", trained, ahead(tmp_path, rows(60, 60, 6)), "--horizon", 6)
    answers = [json.loads(line) for line in out.splitlines()]
    assert [answer["id"] for answer in answers] == ["north", "south"]
    first = answers[0]
    assert first["time"] == [f"2024-03-03 {hour}:00" for hour in range(12, 18)]
    assert len(first["forecast"]) == 6
    assert first["quantiles"]["0.5"] == first["forecast"]
    assert (np.diff([first["quantiles"][level] for level in ("0.1", "0.5", "0.9")], axis=0) >= 0).all()
    again, _ = run("forecast", trained, ahead(tmp_path, rows(60, 60, 6)), "--horizon", 6)
    assert again == out


def test_csv_levels_and_one_series(trained, tmp_path):
    new = ahead(tmp_path, rows(60, 62, 4))
    out, _ = run("forecast", trained, new, "--csv", "--quantile", 0.05, "--quantile", 0.95, "--id", "south")
    table = list(csv.DictReader(io.StringIO(out)))
    assert list(table[0]) == ["id", "time", "forecast", "0.05", "0.5", "0.95"]
    assert [row["time"] for row in table] == [f"2024-03-03 {hour}:00" for hour in range(14, 18)]
    assert all(float(row["0.05"]) <= float(row["forecast"]) <= float(row["0.95"]) for row in table)
    _, err = run("forecast", trained, new, "--id", "east", code=1)
    assert "id: expected one of the 2 series, found 'east'" in err


def test_a_picture(trained, tmp_path):
    picture = tmp_path / "loads.png"
    _, err = run("forecast", trained, ahead(tmp_path, rows(60, 62, 4)), "--plot", picture)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "plot: " in err
    _, err = run("forecast", trained, ahead(tmp_path, rows(60, 62, 4)), "--plot", tmp_path / "no" / "p.png", code=1)
    assert "plot: expected a file that can be written" in err


def test_keep_goes_on_next_time(trained, tmp_path):
    import shutil

    kept = shutil.copytree(trained, tmp_path / "kept")
    both = ahead(tmp_path, rows(60, 65, 4), "both.csv")
    wanted, _ = run("forecast", kept, both)
    _, err = run("forecast", kept, ahead(tmp_path, rows(60, 63, 4)), "--keep")
    assert "goes on after these rows" in err
    found, _ = run("forecast", kept, ahead(tmp_path, rows(63, 65, 4)))
    for one, other in zip(wanted.splitlines(), found.splitlines(), strict=True):
        one, other = json.loads(one), json.loads(other)
        assert one["time"] == other["time"]
        np.testing.assert_allclose(one["forecast"], other["forecast"], rtol=1e-4)
    _, err = run("forecast", kept, both, code=1)
    assert "expected a first time of 2024-03-03 15:00, found 2024-03-03 12:00" in err
    assert "The run has read this series up to 2024-03-03 14:00" in err


def test_a_known_covariate_that_is_missing_in_the_horizon(trained, tmp_path):
    _, err = run("forecast", trained, code=1)
    assert "series 'north': expected the known covariates of all 4 steps of the horizon, found no promo at" in err
    _, err = run("forecast", trained, ahead(tmp_path, rows(60, 62, 3)), code=1)
    assert "no promo at 2024-03-03 17:00" in err
    text = rows(60, 62, 4).replace("2024-03-03T15:00,,1", "2024-03-03T15:00,,")
    _, err = run("forecast", trained, ahead(tmp_path, text), code=1)
    assert "no promo at 2024-03-03 15:00" in err
    assert "Give a file that ends in rows with these columns filled" in err


def test_a_series_that_the_run_does_not_know_is_forecast_from_its_own_rows(trained, tmp_path):
    out, _ = run("forecast", trained, ahead(tmp_path, rows(30, 55, 4, places=("west",))))
    (answer,) = map(json.loads, out.splitlines())
    assert answer["id"] == "west"
    assert np.isfinite(answer["forecast"]).all()
    _, err = run("forecast", trained, ahead(tmp_path, rows(30, 30, 4, places=("west",))), code=1)
    assert "expected values, since the run does not know the series" in err


def infinite(text):
    lines = text.split("\n")
    cells = lines[4].split(",")
    lines[4] = ",".join([*cells[:2], "inf", cells[3]])
    return "\n".join(lines)


def flat(line):
    cells = line.split(",")
    return ",".join([*cells[:2], "5", *cells[3:]]) if line.startswith("south") else line


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("north,2024-03-01T05:00", "north,2024-03-01T04:00"), "loads.csv:7: expected a time"),
        (lambda text: "\n".join(line for line in text.split("\n") if "north,2024-03-01T05" not in line), "--gaps mask"),
        (infinite, "loads.csv:5: expected a finite number in column 'load', found 'inf'"),
        (lambda text: "\n".join(text.split("\n")[:12]) + "\n", "--short mask"),
        (lambda text: "\n".join(flat(line) for line in text.split("\n")), "--constant drop"),
    ],
)
def test_bad_files_are_refused_before_training(tmp_path, change, message):
    (tmp_path / "loads.csv").write_text(change(rows(0, 60)))
    _, err = run("train", "forecast", tmp_path / "loads.csv", *OPTIONS, "--out", tmp_path / "run", code=1)
    assert message in err
    assert "loads.csv" in err
    assert not (tmp_path / "run").exists()


def test_names_in_chinese_are_drawn_or_told(tmp_path, monkeypatch):
    figure = pictures.new_figure(2, 2)
    figure.subplots().set_title("上海")
    monkeypatch.setattr(pictures, "FAMILIES", ("DejaVu Sans",))
    assert pictures.save(figure, tmp_path / "one.png") == [
        "one.png: no font here has 上海; install one, such as Noto Sans CJK, and draw again"
    ]
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(RunError, match="plot: expected a file that can be written"):
        pictures.save(figure, tmp_path / "nowhere" / "one.png")
