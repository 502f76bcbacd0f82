"""Runs on data larger than the memory they may take: the rows, numbers and scores of memory, and nothing lost."""

from __future__ import annotations

import json
import random
import shutil
import time
from pathlib import Path

import numpy as np
import pytest

from killing import Run, assert_same_run, child, killed, log_of, numbers_of, streamed_recipes
from small_data import reviews
from test_several_processes import launch
from unrolled.data import Dataset, Item
from unrolled.data.streaming import Part
from unrolled.errors import DataError, RecipeError, RunError
from unrolled.training import Recipe, caching, evaluate, load, predict, resume, train
from unrolled.training.caching import prepare
from unrolled.training.loop import Silent
from unrolled.training.sources import open_parts
from unrolled.training.tasks import find
from unrolled.training.tasks.encoded import Place
from unrolled.training.tasks.ondisk import OnDisk

NAMES = ("classify", "tag", "documents", "text", "seq2seq")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return streamed_recipes(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def undisturbed(made, tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    for name in NAMES:
        assert Run(made[name], folder / name).end() == 0
    return folder


class Notes(Silent):
    def __init__(self):
        self.lines = []

    def note(self, text):
        self.lines.append(text)


def opened(fields):
    recipe = Recipe(**fields)
    parts = open_parts(recipe)
    return recipe, parts, prepare(recipe, parts)


def plain(row):
    """The arrays of a row of any task."""
    row = getattr(row, "source", row)
    parts = row if isinstance(row, tuple) else (row.inputs, row.letters, row.widths)
    return [part for part in parts if part is not None]


def lengths(piece):
    return [len(row) for row in piece.rows]


# what is measured, and what is kept


@pytest.mark.parametrize("name", NAMES)
def test_what_is_measured_is_what_the_same_items_measure_in_memory(name, made):
    recipe, parts, task = opened(made[name])
    assert all(isinstance(part, Part) for part in parts[:3])
    items = list(parts.train)
    if name == "text":  # in memory it is one item
        joined = "".join(item.text for item in items)
        items = [type(items[0])(items[0].where, text=joined)]
    again = find(recipe.task).prepare(recipe, Dataset(items, parts.train.name))
    assert json.loads(json.dumps(again.to_dict())) == json.loads(json.dumps(task.to_dict()))


@pytest.mark.parametrize("name", [name for name in NAMES if name != "text"])
def test_rows_on_the_disk_are_the_rows_of_the_file(name, made):
    _, parts, task = opened(made[name])
    for part in parts[:3]:
        kept = task.encode(part)
        wanted = task.encode_items(Dataset(list(part), part.name))
        assert isinstance(kept, OnDisk)
        assert kept.row_count == len(part) == len(wanted.rows)
        found = [(row, piece.targets[i], piece.where[i]) for piece in kept.pieces() for i, row in enumerate(piece.rows)]
        assert len(found) == len(wanted.rows)
        for i, (row, target, where) in enumerate(found):
            for one, other in zip(plain(row), plain(wanted.rows[i]), strict=True):
                np.testing.assert_array_equal(one, other)
                assert one.dtype == other.dtype
            np.testing.assert_array_equal(target, wanted.targets[i])
            assert where == wanted.where[i]
        assert kept.notes == wanted.notes


@pytest.mark.parametrize("name", ["classify", "tag", "seq2seq"])
def test_an_epoch_has_every_row_once_in_full_batches_from_many_places(name, made):
    recipe, parts, task = opened(made[name])
    data = task.encode(parts.train)
    seen, sizes, spread = [], [], []
    for piece, indices in data.batches(recipe.batch_size, np.random.default_rng(3), lengths, 0):
        seen += [piece.where[i] for i in indices]
        sizes.append(len(indices))
        lines = np.array([int(piece.where[i].rpartition(":")[2]) for i in indices])
        spread.append(np.ptp(lines))
    assert sorted(seen) == sorted(item.where for item in parts.train)
    assert sum(size != recipe.batch_size for size in sizes) <= 1
    assert len(sizes) == task.step_count(data)
    last = max(int(where.rpartition(":")[2]) for where in seen)
    assert np.median(spread) > last / 2  # a batch has rows from all over the file


@pytest.mark.parametrize("name", NAMES)
def test_what_is_behind_is_skipped_and_nothing_else(name, made):
    """After any number of batches the rest of the epoch is the same, though the blocks before are not read."""
    _, parts, task = opened(made[name])
    data = task.encode(parts.train)
    count = task.step_count(data)
    for behind in (1, count // 3, count // 2, count - 1):
        assert stamps(task, data, behind) == stamps(task, data, 0)[behind:]


def stamps(task, data, behind):
    """Something of every batch of an epoch that depends on all its numbers."""
    if task.name == "lm":
        place = Place(behind, (None,) if behind else None)
        chunks = task._from_disk(data, np.random.default_rng(5), place, "cpu")
        found = []
        for piece in chunks:
            piece.carry(None)
            sums = piece.inputs.sum().item(), piece.targets.sum().item()
            found.append((piece.index, piece.start, piece.steps, *sums))
        return found
    batches = data.batches(task.recipe.batch_size, np.random.default_rng(5), lengths, behind)
    return [[piece.where[i] for i in indices] for piece, indices in batches]


def test_documents_are_laid_in_an_order_of_their_own_each_epoch_and_none_is_lost(made):
    _, parts, task = opened(made["documents"])
    data = task.encode(parts.train)
    epochs = []
    for seed in (1, 2):
        laid = task._laid(data, seed)
        (whole,) = laid.segments([(0, laid.steps)], 0, laid.steps, 0)
        cuts = np.flatnonzero(whole.begins[0])
        assert cuts[0] == 0
        documents = np.split(whole.targets[0], cuts[1:])
        assert all(document[-1] == task.vocabulary.id("<end>") for document in documents)
        epochs.append(["".join(task.vocabulary.decode(document[:-1])) for document in documents])
    assert epochs[0] != epochs[1]
    assert sorted(epochs[0]) == sorted(epochs[1]) == sorted(item.text for item in parts.train)


def test_one_text_is_read_in_its_order(made):
    _, parts, task = opened(made["text"])
    text = Path(made["text"]["data"]).read_text(encoding="utf-8")
    pieces = ["".join(item.text for item in part) for part in parts[:3]]
    assert "".join(pieces) == text
    assert abs(len(pieces[1]) / len(text) - 0.02) < 0.001
    laid = task._laid(task.encode(parts.train))
    (whole,) = laid.segments([(0, laid.steps)], 0, laid.steps, 0)
    assert "".join(task.vocabulary.decode(whole.inputs[0])) == pieces[0][:-1]
    assert "".join(task.vocabulary.decode(whole.targets[0])) == pieces[0][1:]


# scores


@pytest.mark.parametrize("name", NAMES)
def test_a_finished_run_scores_a_part_as_it_would_in_memory(name, made, undisturbed):
    recipe = Recipe(**made[name])
    part = open_parts(recipe).test
    held = Dataset(list(part), part.name)
    if name == "text":
        held = Dataset([type(held[0])("test", text="".join(item.text for item in held))], part.name)
    wanted = load(undisturbed / name).evaluate(held).metrics
    ended = log_of(undisturbed / name)[-1]
    assert ended["event"] == "end"
    found = ended["test"]["metrics"]
    assert found.keys() == wanted.keys()
    for metric, value in wanted.items():
        assert found[metric] == pytest.approx(value, rel=1e-9), metric


def test_a_file_larger_than_memory_can_be_scored(undisturbed, tmp_path):
    path = reviews(tmp_path / "other.csv", 4000, seed=9)
    large = evaluate(undisturbed / "classify", path)
    trained = load(undisturbed / "classify")
    trained.recipe = trained.recipe.replace(memory=4000)
    small = trained.evaluate(path)
    assert large.items == small.items == 4000
    assert large.metrics == pytest.approx(small.metrics)
    assert large.baselines.keys() == small.baselines.keys()
    for name, numbers in small.baselines.items():
        assert large.baselines[name] == pytest.approx(numbers)


# exact resume


@pytest.mark.parametrize("name", NAMES)
def test_a_run_that_is_killed_ends_as_if_nothing_had_happened(name, made, undisturbed, tmp_path):
    hit = killed(made[name], tmp_path / name, 3, len(log_of(undisturbed / name)), random.Random(name))
    assert hit >= 1
    assert_same_run(undisturbed / name, tmp_path / name)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", ["classify", "documents"])
def test_the_number_of_workers_changes_nothing(name, workers, made, undisturbed, tmp_path):
    fields = made[name] | {"workers": workers, "cache": str(tmp_path / "numbers")}
    assert Run(fields, tmp_path / "run").end() == 0
    one, other = numbers_of(undisturbed / name), numbers_of(tmp_path / "run")
    for array in one:
        if "header" not in array:
            np.testing.assert_array_equal(one[array], other[array], err_msg=array)
    assert log_of(undisturbed / name) == log_of(tmp_path / "run")


def test_two_processes_take_the_same_steps_as_one(made, tmp_path):
    fields = made["classify"] | {"output_dropout": 0.0, "epochs": 1, "average": None}
    assert Run(fields, tmp_path / "one").end() == 0
    launch(fields, tmp_path / "two")
    losses = [[line["loss"] for line in log_of(tmp_path / run) if line["event"] == "step"] for run in ("one", "two")]
    assert len(losses[0]) >= 40
    np.testing.assert_allclose(losses[1], losses[0], rtol=0, atol=1e-5)


# the numbers beside the data


def test_numbers_are_made_once_and_again_where_the_data_or_the_reading_changed(tmp_path, monkeypatch):
    data = reviews(tmp_path / "a.csv", 4000)
    fields = {"task": "classify", "data": str(data), "memory": 1, "min_count": 1}
    calls = []
    make = caching._Cache.make
    monkeypatch.setattr(caching._Cache, "make", lambda self, train: calls.append(1) or make(self, train))
    first = opened(fields)[2].to_dict()
    assert opened(fields | {"hidden": 9, "workers": 0, "epochs": 3})[2].to_dict() == first
    assert len(calls) == 1
    opened(fields | {"lowercase": True})
    assert len(calls) == 2
    shutil.move(data, tmp_path / "b")
    reviews(data, 4000, seed=1)
    opened(fields)
    assert len(calls) == 3
    assert len(list((tmp_path / "a.csv.numbers").iterdir())) == 3


def test_damaged_numbers_are_named_and_nothing_is_trained_on_them(tmp_path):
    data = reviews(tmp_path / "a.csv", 4000)
    fields = {"task": "classify", "data": str(data), "memory": 1, "min_count": 1, "epochs": 1}
    opened(fields)
    (folder,) = (tmp_path / "a.csv.numbers").iterdir()
    blocks = folder / "train.blocks"
    content = blocks.read_bytes()
    for damaged in (content[:-1], content[:900] + bytes([content[900] ^ 1]) + content[901:]):
        blocks.write_bytes(damaged)
        with pytest.raises(DataError, match=r"train\.blocks: expected blocks .* Delete the folder"):
            train(Recipe(**fields), out=tmp_path / "run")
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
    blocks.write_bytes(content)
    (folder / "task.json").write_text("{")
    with pytest.raises(DataError, match=r"task\.json: expected what was measured"):
        opened(fields)


def test_numbers_that_cannot_be_kept_beside_the_data_can_be_kept_elsewhere(tmp_path):
    data = reviews(tmp_path / "a.csv", 4000)
    (tmp_path / "a.csv.numbers").write_text("in the way")
    fields = {"task": "classify", "data": str(data), "memory": 1, "min_count": 1}
    with pytest.raises(DataError, match=r"cache: expected a folder to write to .* --cache"):
        opened(fields)
    opened(fields | {"cache": str(tmp_path / "elsewhere")})
    assert list((tmp_path / "elsewhere").iterdir())


def _make(fields):
    opened(fields)


def test_a_process_that_is_killed_while_it_makes_the_numbers_leaves_nothing(tmp_path, monkeypatch):
    data = reviews(tmp_path / "a.csv", 60_000)
    fields = {"task": "classify", "data": str(data), "memory": 1, "min_count": 1}
    process = child(_make, fields)
    above = tmp_path / "a.csv.numbers"
    while not list(above.glob(".making-*/train.blocks")):
        assert process.is_alive()
    process.kill()
    process.join()
    assert list(above.glob(".making-*"))
    monkeypatch.setattr(caching, "MINUTE", 0)
    reviews(data, 3000)
    opened(fields)
    assert [path.name[0] != "." for path in above.iterdir()] == [True]


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path):
    data = reviews(tmp_path / "a.csv", 4000)
    recipe = Recipe(task="classify", data=str(data), memory=1)
    part = open_parts(recipe).train
    assert part.source.size == data.stat().st_size
    reviews(data, 4001)
    with pytest.raises(DataError, match="one that was changed since"):
        list(part)


# what a person asks for


def test_a_file_that_fits_stays_in_memory(made):
    small = Recipe(**made["classify"]).replace(memory=4000)
    assert not isinstance(open_parts(small).train, Part)
    with pytest.raises(RecipeError, match="memory"):
        Recipe(task="classify", data="a.csv", memory=0)


def test_a_small_file_may_validate_a_large_one_and_a_large_one_a_small_one(made, tmp_path):
    small, large = reviews(tmp_path / "small.csv", 60, seed=4), made["classify"]["data"]
    fields = made["classify"] | {"epochs": 1, "checkpoint_every": None}
    one = train(Recipe(**fields | {"valid": str(small), "test_share": 0.1}), out=tmp_path / "one")
    assert one.report.items > 300
    recipe = Recipe(**fields | {"data": str(small), "valid": large, "test": large})
    parts = open_parts(recipe)
    task = prepare(recipe, parts)
    assert isinstance(task.encode(parts.valid), OnDisk)
    two = train(recipe, out=tmp_path / "two")
    assert two.report.items == 4000


def test_a_label_that_only_the_held_out_parts_have_moves_to_training(tmp_path):
    data = reviews(tmp_path / "a.csv", 4000)
    fields = {"task": "classify", "data": str(data), "memory": 1, "min_count": 1}
    held = next(iter(open_parts(Recipe(**fields)).test))
    lines = data.read_text().splitlines()
    number = int(held.where.rpartition(":")[2])
    words = lines[number - 1].rpartition(",")[0]
    lines = [line for line in lines if line.rpartition(",")[0] != words]  # its copies
    data.write_text("\n".join([*lines, f"{words},odd", f"{words},odd"]) + "\n")
    _, parts, task = opened(fields)
    assert "odd" in task.labels.tokens
    assert [item.label for item in parts.train].count("odd") == 2
    assert all(item.label != "odd" for part in parts[1:3] for item in part)
    assert any("labels found in few items" in note and "odd" in note for note in parts.train.notes)
    assert task.encode(parts.train).row_count == len(parts.train)


def test_what_moves_to_training_is_measured_with_all_that_moves_with_it(tmp_path):
    """A group of 1,500 rows with a label of its own stands in the test part by its hash."""
    data = tmp_path / "a.jsonl"
    rows = [{"text": f"row {i} {'xy'[i % 2]}", "label": "ab"[i % 2], "group": f"g{i}"} for i in range(2400)]
    recipe = Recipe(task="classify", data=str(data), memory=1, group="group", valid_share=0.3, test_share=0.3)
    for name in "klmnopqrstu":  # one of these is held out
        more = [{"text": f"z{i % 40} rare", "label": "c", "group": name} for i in range(1500)]
        data.write_text("".join(json.dumps(row) + "\n" for row in rows + more))
        part = open_parts(recipe)
        source = part.train.source
        if source.splitter.parts(Dataset([type_of(more[0])]), 0)[0].items == []:
            break
    task = prepare(recipe, part)
    labels = [item.label for item in part.train]
    assert labels.count("c") == 1500
    assert task.majority.label == "c"
    assert {f"z{i}" for i in range(40)} <= set(task.reading.vocabulary.tokens)
    assert task.encode(part.train).row_count == len(labels) == len(part.train)


def type_of(row):
    return Item("a:1", text=row["text"], label=row["label"], group=row["group"])


def test_an_incomplete_folder_of_numbers_is_made_anew(tmp_path):
    fields = {"task": "classify", "data": str(reviews(tmp_path / "a.csv", 4000)), "memory": 1, "min_count": 1}
    opened(fields)
    (folder,) = (tmp_path / "a.csv.numbers").iterdir()
    (folder / "task.json").unlink()
    opened(fields)
    assert (folder / "task.json").is_file()


def test_a_run_whose_file_is_gone_at_the_end_still_has_its_score(tmp_path):
    data = reviews(tmp_path / "a.csv", 4000)
    fields = {"task": "classify", "data": str(data), "memory": 1, "min_count": 1, "epochs": 1, "hidden": 4}

    class Moved(Silent):
        def epoch(self, **_):
            data.rename(tmp_path / "moved.csv")

    result = train(Recipe(**fields), out=tmp_path / "run", progress=Moved())
    assert result.report.metrics["items"] > 300
    assert any("no baselines: " in note and "expected the file" in note for note in result.report.notes)


@pytest.mark.parametrize("context", ["continuous", "independent"])
def test_a_large_text_is_scored_as_one_that_fits(context, undisturbed, tmp_path):
    """Also where nothing is kept of it: a stream goes on from piece to piece, and unknown tokens are told."""
    path = tmp_path / "other.txt"
    text = Path(load(undisturbed / "text").recipe.data).read_text(encoding="utf-8")
    path.write_text(text.replace("bottles of ", "bottles ÆØ "), encoding="utf-8")
    trained = load(undisturbed / ("text" if context == "continuous" else "documents"))
    if context == "independent":
        path.write_text(path.read_text(encoding="utf-8").replace("\n", "\n\n"), encoding="utf-8")
    found = {}
    for memory in (1, 4000):
        trained.recipe = trained.recipe.replace(memory=memory)
        found[memory] = trained.evaluate(path)
    assert found[1].items == found[4000].items
    assert found[1].metrics == pytest.approx(found[4000].metrics, rel=1e-9)
    assert found[1].baselines["unigram"] == pytest.approx(found[4000].baselines["unigram"], rel=1e-9)
    unknown = [[note for note in report.notes if "are not in the vocabulary" in note] for report in found.values()]
    assert unknown[0] == unknown[1] != []


def test_subword_pieces_are_counted_over_the_whole_file(tmp_path):
    """They are learnt from its beginning; the longest target stands at its end."""
    path = tmp_path / "pairs.jsonl"
    rows = [{"source": f"a{i}", "target": f"b{i}"} for i in range(3000)] + [{"source": "z", "target": "long " * 40}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    fields = {"task": "seq2seq", "data": str(path), "tokenizer": "subword", "vocabulary_size": 300, "min_count": 1}
    limits = []
    for memory in (1, 4000):
        recipe = Recipe(**fields, memory=memory, valid_share=0.01, test_share=0.0)
        parts = open_parts(recipe)
        assert any("long" in str(item.target) for item in parts.train)
        limits.append(prepare(recipe, parts).limit)
    assert min(limits) > 2 * 40


def _prepare_with_workers(fields, out):
    prepare(Recipe(**fields), open_parts(Recipe(**fields)), note=lambda line: out.write_text(line))


def test_workers_end_with_a_process_that_is_killed(tmp_path):
    fields = {"task": "classify", "data": str(reviews(tmp_path / "a.csv", 60_000)), "memory": 1, "workers": 2}
    process = child(_prepare_with_workers, fields, tmp_path / "said")
    above, workers, end = tmp_path / "a.csv.numbers", [], time.monotonic() + 120
    while not list(above.glob(".making-*/train.blocks")) or len(workers) < 2:
        assert time.monotonic() < end
        assert process.is_alive()
        workers = [pid for pid in _children(process.pid) if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    process.kill()
    process.join()
    while any(Path(f"/proc/{pid}").exists() for pid in workers):
        assert time.monotonic() < end
        time.sleep(0.05)


def _children(pid):
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def test_errors_name_the_line_as_in_memory(tmp_path):
    data = reviews(tmp_path / "a.csv", 4000)
    lines = data.read_text().splitlines()
    lines[3000] = "good,"
    data.write_text("\n".join(lines) + "\n")
    found = []
    for memory in (1, 4000):
        with pytest.raises(DataError) as error:
            train(Recipe(task="classify", data=str(data), memory=memory), out=tmp_path / "run")
        found.append(str(error.value))
    assert found[0] == found[1]
    assert "a.csv:3001" in found[0]


def test_a_run_goes_on_only_with_the_file_it_began_with(tmp_path):
    data = reviews(tmp_path / "a.csv", 4000)
    fields = {"task": "classify", "data": str(data), "memory": 1, "min_count": 1, "epochs": 1, "report": False}
    train(Recipe(**fields), out=tmp_path / "run")
    reviews(data, 4000, seed=5)
    with pytest.raises(RunError, match="the data that the run began with"):
        resume(tmp_path / "run", epochs=2)


def test_a_person_who_waits_is_told_how_far_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(caching, "PATIENCE", 0)
    data = reviews(tmp_path / "a.csv", 4000)
    recipe = Recipe(task="classify", data=str(data), memory=1, epochs=1, min_count=1, report=True, hidden=4)
    notes = Notes()
    train(recipe, out=tmp_path / "run", progress=notes)
    assert any(line.startswith("a.csv: 100 % of 0 MB measured") for line in notes.lines)
    (kept,) = [number for number, line in enumerate(notes.lines) if "read as numbers from" in line]
    assert not any(" measured" in line or "kept as" in line for line in notes.lines[kept:])  # later readings are silent
    assert (tmp_path / "run" / "report.html").is_file()
    lines = (tmp_path / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    epochs = [line for line in map(json.loads, lines) if line["event"] == "epoch"]
    assert len(epochs) == 1
    assert all(0 <= line["waited"] < line["seconds"] for line in epochs)


def test_a_file_larger_than_memory_is_predicted_row_by_row(undisturbed, tmp_path):
    path = tmp_path / "asked.jsonl"
    texts = [f"{word} good fine" for word in ("bad", "sad", "nice") * 900]
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    assert path.stat().st_size * 16 > 1_000_000
    wanted = [answer["label"] for answer in load(undisturbed / "classify").predict(texts)]
    assert [answer["label"] for answer in predict(undisturbed / "classify", path)] == wanted


def test_tokens_that_there_was_no_room_to_count_are_said(tmp_path):
    path = tmp_path / "a.csv"
    lines = [f"w{number} w{number % 7} the,{'up' if number % 2 else 'down'}" for number in range(9000)]
    path.write_text("text,label\n" + "\n".join(lines) + "\n")
    _, parts, task = opened({"task": "classify", "data": str(path), "memory": 1, "min_count": 1})
    assert any("more different tokens than there is room to count (1,250)" in note for note in parts.train.notes)
    assert {"the", *(f"w{number}" for number in range(7))} <= set(task.reading.vocabulary.tokens)
    assert len(task.reading.vocabulary) < 1300


def test_a_long_validation_text_is_said_to_be_long(tmp_path, monkeypatch):
    monkeypatch.setattr(caching, "LONG", 1000)
    path = tmp_path / "a.txt"
    path.write_text("".join(f"line {number}\n" for number in range(9000)))
    recipe = Recipe(task="lm", data=str(path), memory=1)
    notes = []
    prepare(recipe, open_parts(recipe), note=notes.append)
    assert any("tokens, read one after the other each epoch; --valid-share makes it shorter" in note for note in notes)


def _resident(small, large, memory, out):
    """The largest resident set after a run on a small file, and after one on a large file."""
    found = []
    for data, own in ((small, 1), (large, memory)):
        recipe = Recipe(task="classify", data=str(data), memory=own, min_count=1, hidden=4, embedding=4, threads=1)
        parts = open_parts(recipe)
        task = prepare(recipe, parts)
        model = task.build()
        for number, step in enumerate(task.steps(model, task.encode(parts.train), np.random.default_rng(0))):
            step.loss.backward()
            if number == 100:
                break
        task.measure(model, task.encode(parts.valid))
        (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
        found.append(int(line.split()[1]) / 1000)
    out.write_text(json.dumps(found))


def test_memory_stays_under_its_bound(tmp_path):
    """docs/large-data.md has the same for 5 GB; the run in memory shows that the measure sees what it should."""
    small, large = reviews(tmp_path / "small.csv", 4000), reviews(tmp_path / "large.csv", 550_000)
    assert large.stat().st_size > 12_000_000
    growth = {}
    for memory in (64, 4000):
        process = child(_resident, small, large, memory, tmp_path / "found")
        process.join()
        before, after = json.loads((tmp_path / "found").read_text())
        growth[memory] = after - before
    assert growth[64] < 64
    assert growth[4000] > 100
