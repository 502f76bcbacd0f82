"""Training and use of the three tasks: what is learnt, what is scored, and what an answer does not depend on."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from small_data import WORDS, documents, reviews, sentences
from unrolled.data import Dataset, Item
from unrolled.errors import DataError, RunError
from unrolled.training import Recipe, evaluate, generate, load, predict, train
from unrolled.training.examples import FIELDS, recipe
from unrolled.training.optimisation import Average, learning_rate
from unrolled.training.sources import open_parts
from unrolled.training.tasks import find

QUICK = {"hidden": 16, "embedding": 8, "batch_size": 8, "min_count": 1, "learning_rate": 0.02}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def classifier(folder):
    recipe = Recipe(task="classify", data=str(reviews(folder / "reviews.csv", 200)), epochs=6, **QUICK)
    return train(recipe, out=folder / "classifier")


@pytest.fixture(scope="module")
def tagger(folder):
    recipe = Recipe(task="tag", data=str(sentences(folder / "s.conll", 120)), epochs=6, crf=True, **QUICK)
    return train(recipe, out=folder / "tagger")


@pytest.fixture(scope="module")
def language_model(folder):
    data = str(documents(folder / "d.txt", 200))
    recipe = Recipe(task="lm", data=data, format="documents", epochs=10, chunk=16, **QUICK)
    return train(recipe, out=folder / "lm")


# classify


def test_the_classifier_beats_its_baseline(classifier):
    (baseline,) = classifier.report.baselines.values()
    assert classifier.report.metrics["accuracy"] > baseline["accuracy"] + 0.1
    assert classifier.report.items == len(open_parts(load(classifier.run).recipe).test)
    text = str(classifier.report)
    for part in ("accuracy", "macro-F1", "always 'down'", "items scored"):
        assert part in text
    assert json.loads(json.dumps(classifier.report.to_dict()))["unit"] == "items"


def test_answers_come_in_order_and_do_not_depend_on_the_batch(classifier):
    model = load(classifier.run)
    rng = np.random.default_rng(0)
    words = np.array(WORDS)
    texts = [" ".join(words[rng.integers(0, 10, rng.integers(0, 9))]) for _ in range(300)]
    together = model.predict(texts)
    alone = [model.predict([text])[0] for text in texts[:40]]
    for one, other in zip(together, alone, strict=False):
        assert one["label"] == other["label"]
        np.testing.assert_allclose(list(one["scores"].values()), list(other["scores"].values()), atol=1e-6)
    assert sum(together[0]["scores"].values()) == pytest.approx(1)
    assert together[0]["probability"] == max(together[0]["scores"].values())
    assert list(predict(classifier.run, iter(texts))) == together


def test_a_word_that_is_not_known_is_read_as_the_unknown_and_reported(classifier):
    known, unknown, other = load(classifier.run).predict(["good", "good zyx", "good qwv"])
    assert "unknown" not in known
    assert unknown["unknown"] == ["zyx"]
    assert unknown["scores"] == other["scores"]


def test_evaluate_reads_a_file_and_refuses_a_new_label(classifier, folder):
    report = evaluate(classifier.run, reviews(folder / "more.csv", 50, seed=7))
    assert report.items == 50
    (folder / "new.csv").write_text("text,label\ngood,sideways\n")
    with pytest.raises(DataError, match="sideways"):
        evaluate(classifier.run, folder / "new.csv")
    assert report.metrics["accuracy"] == evaluate(classifier.run, folder / "more.csv").metrics["accuracy"]


def test_an_empty_text_is_reported_with_its_line_and_the_run_goes_on(folder):
    lines = reviews(folder / "holes.csv", 40).read_text().splitlines()
    lines[3] = ",up"
    (folder / "holes.csv").write_text("\n".join(lines) + "\n")
    result = train(Recipe(task="classify", data=str(folder / "holes.csv"), epochs=1, **QUICK), out=folder / "holes")
    assert any("empty" in note and "4" in note for note in result.notes), result.notes


def test_features_are_classified_with_the_scale_of_the_training_part(folder):
    rng = np.random.default_rng(0)
    rows = []
    for i in range(80):
        label = i % 2
        series = 1000 + 50 * rng.normal(size=(int(rng.integers(3, 9)), 2)) + 60 * label
        rows.append(json.dumps({"features": series.round(3).tolist(), "label": "ab"[label]}))
    (folder / "series.jsonl").write_text("\n".join(rows) + "\n")
    fields = {**QUICK, "features": ("features",), "feature_noise": 0.1}
    result = train(
        Recipe(task="classify", data=str(folder / "series.jsonl"), epochs=10, **fields), out=folder / "series"
    )
    assert result.valid["accuracy"] > 0.7
    model = load(result.run)
    answers = model.predict([np.full((4, 2), 940.0), [[1100, 1100]] * 3])
    assert [answer["label"] for answer in answers] == ["a", "b"]
    for wrong, message in [
        (np.zeros((4, 3)), "2"),
        ([1.0, 2.0], "2 channels"),
        ("text", "2 channels"),
        ([[1, np.nan]], "nan"),
    ]:
        with pytest.raises(DataError, match=message):
            model.predict([wrong])


# tag


def test_the_tagger_finds_spans_and_gives_a_tag_for_every_token(tagger):
    (baseline,) = tagger.report.baselines.values()
    assert tagger.report.metrics["span_f1"] > 0.9 > baseline["span_f1"] + 0.2
    answers = load(tagger.run).predict(["to Aon Xville from bon", ["from", "Zzz"], ""])
    assert answers[0]["tags"] == ["O", "B-to", "I-to", "O", "B-from"]
    assert answers[1]["tokens"] == ["from", "Zzz"]
    assert answers[1]["unknown"] == ["Zzz"]
    assert answers[1]["tags"] == ["O", "B-from"]
    assert answers[2] == {"tokens": [], "tags": []}


def test_tags_do_not_depend_on_the_batch_and_keep_to_the_scheme(tagger):
    model = load(tagger.run)
    rng = np.random.default_rng(0)
    rows = [[["to", "from", "aon", "Xville"][i] for i in rng.integers(0, 4, rng.integers(0, 12))] for _ in range(70)]
    together = model.predict(rows)
    assert together == [model.predict([row])[0] for row in rows]
    for answer in together:
        for before, tag in zip(["O", *answer["tags"]], answer["tags"], strict=False):
            assert not tag.startswith("I-") or before[2:] == tag[2:]


# lm


def test_the_language_model_beats_the_unigram_and_says_its_mode(language_model):
    report = language_model.report
    assert report.metrics["perplexity"] < 0.5 * report.baselines["unigram"]["perplexity"]
    assert set(report.baselines) == {"unigram", "trigram"}
    assert any("context=independent" in note for note in report.notes)


@pytest.mark.parametrize("context", ["continuous", "independent"])
def test_perplexity_does_not_depend_on_batch_size_or_chunk(context, folder, monkeypatch):
    from unrolled.training.tasks import lm

    data = str(documents(folder / f"{context}.txt", 70))
    fields = {"task": "lm", "data": data, "format": "documents", "context": context, **QUICK}
    parts = open_parts(Recipe(**fields))
    found = []
    for batch_size, chunk, numbers in [(1, 5, 2**24), (7, 3, 2000), (64, 128, 40)]:
        monkeypatch.setattr(lm, "NUMBERS_AT_A_TIME", numbers)
        task = find("lm").prepare(Recipe(**{**fields, "batch_size": batch_size, "chunk": chunk}), parts.train)
        torch.manual_seed(0)
        found.append(task.measure(task.build(), task.encode(parts.train))["perplexity"])
    np.testing.assert_allclose(found, found[0], rtol=1e-6)


def test_independent_documents_do_not_see_each_other(language_model):
    """The same text scored twice gives the same number, whatever stands before it."""
    model = load(language_model.run)
    first, other, again = model.predict(["abcd", "hgfedcba", "abcd"])
    assert first == again
    assert first["tokens"] == 5  # four letters and the end
    twice = model.evaluate(Dataset([Item("1", text="abcd"), Item("2", text="hgf"), Item("3", text="abcd")]))
    alone = [model.predict([text])[0]["log_probability"] for text in ("abcd", "hgf", "abcd")]
    assert twice.metrics["nats_per_token"] == pytest.approx(-sum(alone) / 14, rel=1e-6)
    assert other["log_probability"] < first["log_probability"]


def test_the_steps_of_an_epoch_cover_every_token_once(folder):
    data = str(documents(folder / "cover.txt", 50))
    recipe = Recipe(task="lm", data=data, format="documents", chunk=9, **QUICK)
    task = find("lm").prepare(recipe, open_parts(recipe).train)
    encoded, model = task.encode(open_parts(recipe).train), task.build()
    pieces = list(task.steps(model, encoded, np.random.default_rng(0)))
    assert len(pieces) == task.step_count(encoded)
    assert sum(piece.positions for piece in pieces) == sum(len(row.targets) for row in encoded.rows)
    resets = sum(int(piece.call[1]["resets"].sum()) for piece in pieces if "resets" in piece.call[1])
    assert resets == len(encoded.rows)


def test_generation_is_seeded_greedy_at_zero_and_stops(language_model):
    run = language_model.run
    assert generate(run, "ab", 20, seed=1) == generate(run, "ab", 20, seed=1)
    assert len({generate(run, length=20, seed=seed) for seed in range(10)}) > 3
    greedy = generate(run, "cde", 5, temperature=0)
    assert greedy == generate(run, "cde", 5, top_k=1, seed=9)
    assert greedy.startswith("cde")
    assert "<unk>" not in generate(run, "zz", 50, temperature=5.0)
    assert "<end>" not in generate(run, length=300, seed=2)
    assert generate(run, "abc", 50, stop="f", seed=3).count("f") == 0


def test_a_continuous_model_needs_something_to_go_on_from(folder):
    (folder / "one.txt").write_text("abcdefgh" * 60)
    result = train(Recipe(task="lm", data=str(folder / "one.txt"), epochs=1, chunk=8, **QUICK), out=folder / "one")
    assert any("context=continuous" in note for note in result.report.notes)
    with pytest.raises(RunError, match="prompt"):
        generate(result.run, "", 5)
    assert len(generate(result.run, "abc", 5)) == 8


def test_only_a_language_model_writes(classifier):
    with pytest.raises(RunError, match="unrolled train lm"):
        load(classifier.run).generate("a")
    with pytest.raises(RunError, match=r"predict\(\[text\]\)"):
        load(classifier.run).predict("one text")


# parts


def test_the_learning_rate_is_a_function_of_time():
    cosine = Recipe(task="classify", data="x", learning_rate=1.0, schedule="cosine", epochs=4)
    np.testing.assert_allclose(
        [learning_rate(cosine, t) for t in (0, 1, 2, 3, 4)], [1, 0.853553, 0.5, 0.146447, 0], atol=1e-6
    )


def test_averaged_weights_are_used_inside_the_block_only():
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.ones_(model.weight)
    average = Average(model, 0.9)
    expected = 1.0
    for step in range(3):
        torch.nn.init.constant_(model.weight, step + 2.0)
        average.update()
        decay = min(0.9, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * (step + 2.0)
    with average.applied():
        assert model.weight.item() == pytest.approx(expected)
    assert model.weight.item() == 4.0


def test_there_is_a_valid_recipe_for_every_embedded_set():
    from unrolled.data import examples

    assert set(FIELDS) == set(examples.NAMES)
    for name in examples.NAMES:
        assert recipe(name, seed=3).task == examples.describe(name).task
    with pytest.raises(DataError, match="speakers"):
        recipe("nothing")
