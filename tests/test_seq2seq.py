"""The task seq2seq: what is learnt, how it is scored, what an answer does not depend on, and the command translate."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from unrolled.cli import main
from unrolled.data import Dataset, Item
from unrolled.errors import DataError, RecipeError, RunError
from unrolled.training import Recipe, evaluate, load, resume, train, translate
from unrolled.training.tasks import find
from unrolled.training.tasks.seq2seq import Search
from unrolled.training.transduction import bleu_and_chrf

QUICK: dict[str, Any] = {"hidden": 24, "embedding": 8, "batch_size": 16, "learning_rate": 0.02, "threads": 1}
LETTERS = "abcd"


def reversals(path: Path, rows: int = 300, longest: int = 4, seed: int = 0) -> Path:
    """A random string, a tab, and the string from its end."""
    rng = np.random.default_rng(seed)
    made = ["".join(LETTERS[i] for i in rng.integers(4, size=rng.integers(1, longest + 1))) for _ in range(rows)]
    path.write_text("".join(f"{text}\t{text[::-1]}\n" for text in made), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pairs")


@pytest.fixture(scope="module")
def result(folder: Path) -> Any:
    data = str(reversals(folder / "pairs.tsv"))
    recipe = Recipe(task="seq2seq", data=data, tokenizer="chars", epochs=12, label_smoothing=0.05, **QUICK)
    return train(recipe, out=folder / "run")


# Learning and scores


def test_reversal_is_learnt_and_beats_both_baselines(result: Any) -> None:
    metrics, baselines = result.report.metrics, result.report.baselines
    assert metrics["exact_match"] > 0.9
    assert metrics["token_error_rate"] < 0.05
    assert set(baselines) == {next(iter(baselines)), "nearest source"}
    assert next(iter(baselines)).startswith("always ")
    assert all(metrics["exact_match"] > numbers["exact_match"] + 0.3 for numbers in baselines.values())
    text = str(result.report)
    for part in ("exact match", "token error rate", "nats per token", "free running, a beam of 4", "sources scored"):
        assert part in text
    assert json.loads(json.dumps(result.report.to_dict()))["unit"] == "sources"


def test_both_losses_are_reported_and_differ(result: Any) -> None:
    """Teacher-forced nats by hand, row by row; free running by the search."""
    trained = load(result.run)
    task: Any = trained.task
    data = task.encode(Dataset([Item("x:1", text="abcd", target="dcba"), Item("x:2", text="b", target="b")]))
    metrics = task.measure(trained.model, data)
    nats, tokens = 0.0, 0
    for row, target in zip(data.rows, data.targets, strict=True):
        ids = torch.tensor([[task.end, *target[:-1]]])
        with torch.no_grad():
            log_p = trained.model(task.reading.batch([row.source]), ids).double().log_softmax(-1)[0]
        nats -= sum(float(log_p[t, token]) for t, token in enumerate(target))
        tokens += len(target)
    assert metrics["nats_per_token"] == pytest.approx(nats / tokens, rel=1e-6)
    assert tokens == 7  # the ends count


def test_scores_do_not_depend_on_the_batch_or_the_order(result: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from unrolled.training.tasks import seq2seq

    trained = load(result.run)
    task: Any = trained.task
    items = [Item(f"x:{i}", text=t, target=t[::-1]) for i, t in enumerate(["abcd", "a", "bbd", "dc", "cabd", "aa"])]
    whole = task.measure(trained.model, task.encode(Dataset(items)), Search(beam=3))
    monkeypatch.setattr(seq2seq, "ROWS_AT_A_TIME", 1)
    again = task.measure(trained.model, task.encode(Dataset(items[::-1])), Search(beam=3))
    assert set(whole) == set(again)
    for name in whole:
        assert again[name] == pytest.approx(whole[name], rel=1e-6), name


def test_a_source_with_several_targets_is_scored_once_and_right_with_any(result: Any) -> None:
    trained = load(result.run)
    task: Any = trained.task
    items = [Item(f"x:{i}", text="abc", target=target) for i, target in enumerate(["aaa", "cba", "d"])]
    metrics = task.measure(trained.model, task.encode(Dataset([*items, Item("x:9", text="dd", target="aaa")])))
    assert (metrics["items"], metrics["exact_match"], metrics["several_targets"]) == (2, 0.5, 1)
    assert metrics["token_error_rate"] == pytest.approx(3 / 6)


def test_answers_come_in_order_and_alone_as_in_a_batch(result: Any) -> None:
    trained = load(result.run)
    sources = ["abcd", "a", "dcb", "bb", "abca"]
    together = trained.translate(sources, n_best=3)
    for source, found in zip(sources, together, strict=True):
        (alone,) = trained.translate([source], n_best=3)
        assert [one["tokens"] for one in alone] == [one["tokens"] for one in found]
        for one, other in zip(alone, found, strict=True):
            assert one["score"] == pytest.approx(other["score"], abs=1e-5)
    assert [answer["target"] for answer in trained.predict(sources)] == [found[0]["target"] for found in together]
    assert [found[0]["target"] for found in together] == [source[::-1] for source in sources]
    greedy = trained.translate(sources, beam=1, length_penalty=0.0)
    task: Any = trained.task
    rows = [task.reading.encode(task.item(source, "x")) for source in sources]
    beam = task.search(trained.model, rows, Search(beam=1, coverage_penalty=1e-9))  # takes the way of the beam
    assert [task._tokens(found[0]) for found in beam] == [found[0]["tokens"] for found in greedy]


def test_samples_repeat_with_their_seed_and_do_not_depend_on_neighbours(result: Any) -> None:
    options: dict[str, Any] = {"sample": True, "n_best": 3, "temperature": 2.5}
    whole = translate(result.run, ["abcd", "dd", "bca"], **options, seed=4)
    (alone,) = translate(result.run, ["dd"], **options, seed=4)
    assert [one["target"] for one in alone] == [one["target"] for one in whole[1]]
    other = translate(result.run, ["abcd", "dd", "bca"], **options, seed=5)
    assert [[one["target"] for one in some] for some in whole] != [[one["target"] for one in some] for some in other]
    assert len({one["target"] for one in whole[0]}) > 1


def test_attention_comes_back_on_request(result: Any) -> None:
    trained = load(result.run)
    short, long = trained.translate(["ab", "abcd"], attention=True)
    weights = np.array(long[0]["attention"]["weights"])
    assert long[0]["attention"]["source"] == list("abcd")
    assert weights.shape == (len(long[0]["tokens"]) + 1, 4)  # and the end symbol
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-6)
    assert np.array(short[0]["attention"]["weights"]).shape == (3, 2)
    assert "attention" not in trained.translate(["ab"])[0][0]


def test_the_limit_is_told(result: Any) -> None:
    trained = load(result.run)
    (found,) = trained.translate(["abcd"], limit=2)
    assert (found[0]["stopped"], len(found[0]["tokens"])) == ("limit", 2)
    assert trained.translate(["abcd"])[0][0]["stopped"] == "end"
    assert trained.task.limit == 9  # twice the longest of the training part, and the end


def test_the_unknown_is_told_and_never_written(result: Any) -> None:
    trained = load(result.run)
    (found,) = trained.translate(["axb"], beam=20, n_best=20)
    assert found[0]["unknown"] == ["x"]
    assert all("<unk>" not in one["tokens"] for one in found)


def test_saved_is_what_was_trained_and_resumed_goes_on(result: Any, folder: Path) -> None:
    report = evaluate(result.run, folder / "pairs.tsv")
    assert report.metrics["exact_match"] > 0.9
    assert report.items == len({line.split("\t")[0] for line in (folder / "pairs.tsv").read_text().splitlines()})
    recipe = Recipe(task="seq2seq", data=str(folder / "pairs.tsv"), tokenizer="chars", epochs=2, **QUICK)
    recipe = recipe.replace(sampling="linear", attention="additive", cell="gru", schedule="constant", sampling_rate=0.3)
    whole = train(recipe, out=folder / "whole")
    train(recipe.replace(epochs=1), out=folder / "parts")
    parts = resume(folder / "parts", epochs=2)
    assert parts.report.metrics == whole.report.metrics


@pytest.mark.parametrize(
    "options",
    [
        {"attention": "none", "bridge": "copy", "decoder_hidden": 12, "cell": "lstm", "layers": 2, "dropout": 0.1},
        {"attention": "dot", "decoder_hidden": 12, "decoder_cell": "gru", "sampling": "inverse_sigmoid"},
        {"attention": "general", "input_feeding": True, "cell": "rnn", "bidirectional": False, "decoder_layers": 2},
        {"attention": "additive", "bridge": "zeros", "sampling": "exponential", "sampling_floor": 0.5, "beam": 1},
    ],
)
def test_every_kind_trains_saves_and_loads(folder: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    data = str(reversals(folder / "few.tsv", rows=60))
    given = QUICK | {"hidden": 6, "task": "seq2seq", "data": data, "tokenizer": "chars", "epochs": 1} | options
    done = train(Recipe(**given), out=tmp_path / "run")
    report = load(done.run).evaluate(data)
    assert math.isfinite(report.metrics["nats_per_token"])
    again = train(Recipe.load(done.run / "recipe.toml"), out=tmp_path / "again")
    assert again.report.metrics == done.report.metrics


def test_a_vector_becomes_a_word(tmp_path: Path) -> None:
    """Which of four corners is bright, spelled."""
    rng = np.random.default_rng(0)
    names = ["nord", "süd", "ost", "west"]
    lines = []
    for _ in range(160):
        corner = int(rng.integers(4))
        image = rng.normal(size=4) * 0.2 + 2 * (np.arange(4) == corner)
        row = {"source": image.reshape(2, 2).round(3).tolist(), "target": names[corner]}
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
    (tmp_path / "corners.jsonl").write_text("".join(lines), encoding="utf-8")
    recipe = Recipe(
        task="seq2seq", data=str(tmp_path / "corners.jsonl"), source="vector", tokenizer="chars", epochs=8, **QUICK
    )
    done = train(recipe, out=tmp_path / "run")
    assert done.report.metrics["exact_match"] == 1
    assert "nearest source" in done.report.baselines
    trained = load(done.run)
    assert [answer["target"] for answer in trained.predict([[0, 2, 0, 0], [[0, 0], [0, 2]]])] == ["süd", "west"]
    with pytest.raises(DataError, match="input 1: expected a list of numbers"):
        trained.predict(["nord"])
    with pytest.raises(DataError, match="features"):
        trained.predict([[1, 2, 3]])


# What bad data and settings get


def items(*pairs: tuple[str, str]) -> Dataset:
    return Dataset([Item(f"p.tsv:{i}", text=s, target=t) for i, (s, t) in enumerate(pairs, start=1)], "p.tsv")


def test_a_target_longer_than_the_limit_is_counted(tmp_path: Path) -> None:
    recipe = Recipe(task="seq2seq", data="p.tsv", longest=3)
    data = items(("a", "b"), ("a", "b c d e"), ("b", "b c d e f"), ("c", "d e f"))
    task = find("seq2seq").prepare(recipe, data)
    with pytest.raises(DataError) as error:
        task.encode(data)
    message = str(error.value)
    assert "p.tsv:2: target: expected at most 3 tokens (longest), found 2 longer ones of 4 in " in message
    assert "the longest with 5 (p.tsv:3)" in message
    assert "--longest 5" in message
    (tmp_path / "p.tsv").write_text("a\tb\nb\tb c d e\nc\td e f\nd\ta\n")
    with pytest.raises(DataError, match=r"p.tsv:2: target: expected at most 3 tokens"):
        train(recipe.replace(data=str(tmp_path / "p.tsv")), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_end_symbol_may_not_stand_in_a_target() -> None:
    recipe = Recipe(task="seq2seq", data="p.tsv", tokenizer="spaces")
    data = items(("a", "b"), ("c", "d <end> e"))
    with pytest.raises(DataError, match=r"p.tsv:2: expected a target .* '<end>' not among them"):
        find("seq2seq").prepare(recipe, data).encode(data)


def test_an_empty_source_is_refused(result: Any) -> None:
    with pytest.raises(DataError, match="input 2: expected a source of one token or more"):
        load(result.run).predict(["ab", ""])
    with pytest.raises(RunError, match="a list of texts"):
        load(result.run).translate("ab")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attention": "none", "input_feeding": True}, "input_feeding: expected attention dot or general"),
        ({"source": "vector", "attention": "dot"}, "attention: expected none where the source is a vector"),
        ({"attention": "none", "coverage_penalty": 0.2}, "coverage_penalty: expected 0 without attention"),
        ({"sampling_rate": 0.3}, "sampling: expected a schedule"),
        ({"sampling": "exponential", "sampling_rate": 1.5}, "sampling_rate: expected 0 or more and at most 1"),
        ({"sampling": "inverse_sigmoid", "sampling_rate": 0.5}, "sampling_rate: expected 1 or more"),
        ({"sampling": "sudden"}, "sampling: expected one of"),
    ],
)
def test_settings_that_do_not_go_together(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        Recipe(task="seq2seq", data="p.tsv", **options)


def test_fields_of_pairs_are_refused_elsewhere() -> None:
    with pytest.raises(RecipeError, match="attention: expected to be set with task seq2seq"):
        Recipe(task="tag", data="p.conll", attention="additive")


def test_bleu_and_chrf_of_right_and_wrong_texts(result: Any, folder: Path) -> None:
    """Of a source with two references and one with one: a text that equals either is right."""
    right = bleu_and_chrf(
        ["the cat sat on the mat", "a dog ran far away"], [["x y", "the cat sat on the mat"], ["a dog ran far away"]]
    )
    assert right["bleu"] == pytest.approx(100)
    assert right["chrf"] == pytest.approx(100)
    wrong = bleu_and_chrf(["the cat sat on the mat"], [["entirely other words here now then"]])
    assert wrong["bleu"] < 5
    trained = load(result.run)
    trained.task.recipe = trained.recipe.replace(bleu=True)
    report = trained.evaluate(folder / "pairs.tsv")
    assert report.metrics["chrf"] > 90
    assert "chrF" in str(report)


# The command


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    def call(*arguments: object, given: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given), encoding="utf-8"))
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        return (int(stop.value.code or 0), *capsys.readouterr())

    return call


def test_translate_text_file_and_standard_input(run: Any, result: Any, tmp_path: Path) -> None:
    (tmp_path / "new.txt").write_text("ab\ncd\n")
    assert run("translate", result.run, "ab", "cd") == (0, "ba\ndc\n", "")
    assert run("translate", result.run, given=b"ab\ncd\n")[:2] == (0, "ba\ndc\n")
    assert run("translate", result.run, "--file", tmp_path / "new.txt")[:2] == (0, "ba\ndc\n")
    code, out, _ = run("predict", result.run, "ab")
    assert (code, json.loads(out)["target"]) == (0, "ba")


def test_translate_json(run: Any, result: Any) -> None:
    one = json.loads(run("translate", result.run, "ab", "--json")[1])
    assert (one["text"], one["target"], one["stopped"]) == ("ab", "ba", "end")
    best = json.loads(run("translate", result.run, "ab", "--nbest", 3)[1])["best"]
    assert [round(b["score"], 4) for b in best] == sorted([round(b["score"], 4) for b in best], reverse=True)
    assert len(best) == 3
    weights = json.loads(run("translate", result.run, "ab", "--attention")[1])["attention"]["weights"]
    assert np.array(weights).shape == (3, 2)
    drawn = json.loads(run("translate", result.run, "ab", "--sample", "--nbest", 2, "--temperature", 3, "--seed", 1)[1])
    assert len(drawn["best"]) == 2
    code, out, err = run("translate", result.run, "abcd", "--limit", 2)
    assert (code, len(out)) == (0, 3)
    assert "argument 1: stopped at the limit" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--temperature", "2"], "--temperature: expected to stand beside --sample"),
        (["--sample", "--beam", "2"], "--beam: expected to be left out with --sample"),
        (["--beam", "2", "--nbest", "3"], "--nbest: expected no more than --beam"),
        (["--sample", "--top-p", "3"], "top_p: expected more than 0"),
        (["--file", "x.txt"], "TEXT or --file"),
    ],
)
def test_translate_refuses(run: Any, result: Any, arguments: list[str], message: str) -> None:
    code, _, err = run("translate", result.run, "ab", *arguments)
    assert code == 2
    assert message in err


def test_the_embedded_model_speaks(run: Any) -> None:
    """It is small, its licence is beside it, it knows no path, and it reads words."""
    from unrolled import bundle
    from unrolled.data import examples

    file = examples.model_file("g2p")
    assert file.stat().st_size < 2_000_000
    assert "Carnegie Mellon University" in (file.parents[1] / "licences" / "g2p.txt").read_text(encoding="utf-8")
    recipe = bundle.read_header(file)["recipe"]
    assert all("/" not in str(recipe[name]) for name in ("data", "valid", "test"))
    words = {"cat": "K AE T", "cats": "K AE T S", "Boxing": "B AA K S IH NG", "nation": "N EY SH AH N"}
    assert run("translate", "g2p", *words) == (0, "".join(f"{said}\n" for said in words.values()), "")
    assert "note: argument 1: not in the vocabulary: é" in run("translate", "g2p", "née")[2]
    with pytest.raises(DataError, match="model: expected one of g2p"):
        examples.model_file("p2g")
    assert "g2p, a trained model" in run("data", "list")[1]


def test_translate_needs_an_encoder_decoder(run: Any, tmp_path: Path) -> None:
    rows = "text,label\n" + "".join(f"{'good' if i % 2 else 'bad'} x{i},{i % 2}\n" for i in range(30))
    (tmp_path / "a.csv").write_text(rows)
    train(Recipe(task="classify", data=str(tmp_path / "a.csv"), epochs=1, hidden=4), out=tmp_path / "run")
    code, _, err = run("translate", tmp_path / "run", "ab")
    assert code == 1
    assert "run: expected an encoder–decoder (task seq2seq)" in err
