"""Streams: chunks of any size give the whole, streams do not see each other, and the state can be moved."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtime_models import chained, make, rows_of_features
from test_runtime import close, python
from unrolled import bundle, runtime
from unrolled.errors import BundleError, DataError, RunError

SIZES = (1, 3, 7)

ONE_WAY: dict[str, tuple[str, dict[str, Any]]] = {
    **{
        f"{cell} {pooling}": ("features", {"cell": cell, "pooling": pooling, "layers": 2})
        for cell, pooling in itertools.product(("rnn", "lstm", "gru"), ("last", "mean", "max", "attention"))
    },
    "learned start": ("features", {"cell": "lstm", "pooling": "last", "learn_initial_state": True}),
    "text": ("text", {"cell": "gru", "pooling": "mean"}),
    "tags": ("spans", {}),
    "tags, crf": ("spans", {"crf": True}),
    "tags, plain": ("tagged features", {}),
    "tags, plain crf": ("tagged features", {"crf": True, "cell": "gru"}),
    "lm": ("documents", {"layers": 2}),
    "lm, one stream": ("documents", {"context": "continuous", "cell": "gru", "learn_initial_state": True}),
}


def load(folder: Path, name: str) -> Any:
    kind, fields = ONE_WAY[name]
    make(folder, kind, bidirectional=False, **fields)
    return runtime.load(folder)


def things(model: Any, count: int = 4) -> list[Any]:
    """What the model reads, of unequal length, as sequences that can be cut."""
    if model.features:
        return [item.features for item in rows_of_features(count, 5)]
    if model.task == "lm":
        return ["abcdefghab", "hq", "cdefghabcdefghabcd", "bcd"][:count]
    words = ["to Aon Xville from Bon", "the", "from don Yville Yville to con zzz is it", "a bad it"][:count]
    return [text.split() for text in words] if model.task == "tag" else words


def cut(thing: Any, size: int) -> list[Any]:
    if isinstance(thing, str) and (" " in thing or thing == "the"):  # words stay whole
        words = thing.split()
        return [" ".join(words[i : i + size]) for i in range(0, len(words), size)]
    return [thing[i : i + size] for i in range(0, len(thing), size)]


def joined(answers: list[dict[str, Any]], end: dict[str, Any], task: str, model: Any) -> Any:
    """What the chunks' answers say of the whole."""
    if task == "classify":
        return answers[-1]
    if task == "tag":
        said = [*answers, end]
        firsts = np.cumsum([0, *(len(one["tags"]) for one in said)])
        assert [one["first"] for one in said] == firsts[:-1].tolist()
        tokens = {} if model.features else {"tokens": chained(one["tokens"] for one in said)}
        unknown = chained(one.get("unknown", []) for one in said)
        tags = chained(one["tags"] for one in said)
        return {**tokens, "tags": tags, **({"unknown": unknown} if unknown else {})}
    return {
        "log_probability": sum(one["log_probability"] for one in [*answers, end]),
        "tokens": sum(one["tokens"] for one in [*answers, end]),
    }


def whole(model: Any, thing: Any) -> Any:
    (answer,) = model.predict([thing])
    if model.task == "lm":
        return {key: answer[key] for key in ("log_probability", "tokens")}
    if model.task == "classify":
        answer.pop("unknown", None)
    return answer


def near(found: Any, wanted: Any) -> None:
    """To 1e-6 in the numbers, where `close` allows 1e-5."""
    if isinstance(wanted, dict):
        assert found.keys() - {"unknown"} == wanted.keys() - {"unknown"}
        for key in wanted.keys() - {"unknown"}:
            near(found[key], wanted[key])
    elif isinstance(wanted, float):
        assert found == pytest.approx(wanted, rel=1e-6, abs=1e-6)
    else:
        assert found == wanted


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ONE_WAY)
def test_chunks_of_any_size_give_the_whole(name: str, size: int, tmp_path: Path) -> None:
    model = load(tmp_path, name)
    stream = model.stream()
    for thing in things(model):
        answers = [stream.push(chunk) for chunk in cut(thing, size)]
        near(joined(answers, stream.finish(), model.task, model), whole(model, thing))  # finish: it starts again


@pytest.mark.parametrize("name", ONE_WAY)
def test_many_streams_do_not_see_each_other(name: str, tmp_path: Path) -> None:
    """Interleaved, some of them at a time, one reset on the way."""
    model, rng = load(tmp_path, name), np.random.default_rng(0)
    given = things(model)
    stream = model.stream(batch_size=len(given))
    stream.push(given[::-1])
    stream.reset([0, 1])
    stream.reset(np.array([False, False, True, True]))
    left = [cut(thing, 2) for thing in given]
    answers: list[list[dict[str, Any]]] = [[] for _ in given]
    while any(left):
        rows = [row for row in rng.permutation(len(given)).tolist() if left[row] and (rng.random() < 0.6)]
        if rows:
            for row, answer in zip(rows, stream.push([left[row].pop(0) for row in rows], rows=rows), strict=True):
                answers[row].append(answer)
    ends = stream.finish()
    for row, thing in enumerate(given):
        near(joined(answers[row], ends[row], model.task, model), whole(model, thing))


@pytest.mark.parametrize("name", ONE_WAY)
def test_the_state_can_be_saved_and_moved(name: str, tmp_path: Path) -> None:
    model = load(tmp_path, name)
    given = things(model)
    heads, tails = [cut(thing, 2)[0] for thing in given], [cut(thing, 2)[1:] for thing in given]
    stream = model.stream(batch_size=len(given))
    first = stream.push(heads)
    stream.save(tmp_path / "state", note="kept")
    other = runtime.load(tmp_path).stream(batch_size=1)
    assert other.restore(tmp_path / "state")["note"] == "kept"
    assert other.batch_size == len(given)
    snapshot = stream.state
    for row, tail in enumerate(tails):
        for chunk in tail:
            near(other.push([chunk], rows=[row]), stream.push([chunk], rows=[row]))
    ends = other.finish()
    assert len(ends) == len(first)
    stream.state = snapshot
    np.testing.assert_equal(stream.state, snapshot)


def near_lists(found: list[Any], wanted: list[Any]) -> None:
    for one, other in zip(found, wanted, strict=True):
        near(one, other)


def test_another_process_goes_on(tmp_path: Path) -> None:
    model = load(tmp_path, "lstm mean")
    stream = model.stream()
    stream.push([[1.0, 2.0, 3.0]])
    stream.save(tmp_path / "state")
    code = (
        "from unrolled import runtime;"
        f"stream = runtime.load({str(tmp_path)!r}).stream(); stream.restore({str(tmp_path / 'state')!r});"
        "print(stream.push([2.0, 0.0, 1.0])['probability'])"
    )
    done = python("-c", code)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == pytest.approx(stream.push([2.0, 0.0, 1.0])["probability"], abs=1e-6)


def test_streams_can_become_more_and_fewer(tmp_path: Path) -> None:
    for name in ("lstm attention", "tags, crf"):
        folder = tmp_path / name
        folder.mkdir()
        model = load(folder, name)
        given = things(model)
        stream = model.stream(batch_size=2)
        stream.push([cut(thing, 1)[0] for thing in given[:2]])
        stream.resize(4)
        rest = [cut(given[0], 1)[1:], cut(given[1], 1)[1:], cut(given[2], 1), cut(given[3], 1)]
        answers = [[stream.push([chunk], rows=[row])[0] for chunk in chunks] for row, chunks in enumerate(rest)]
        stream.resize(3)
        if model.task == "classify":
            for row in (0, 2):
                near(answers[row][-1], whole(model, given[row]))
        with pytest.raises(ValueError, match="batch_size: expected 1 or more, found 0"):
            stream.resize(0)


@pytest.mark.parametrize("name", ["lstm mean", "gru last", "rnn max", "lstm attention", "tags, crf", "lm"])
def test_empty_chunks_change_nothing(name: str, tmp_path: Path) -> None:
    model = load(tmp_path, name)
    thing = things(model)[2]
    nothing = thing[:0]
    stream = model.stream()
    stream.push(nothing)
    answers = []
    for chunk in cut(thing, 4):
        answers += [stream.push(chunk), stream.push(nothing)]
    near(joined(answers, stream.finish(), model.task, model), whole(model, thing))


def test_a_single_step_is_a_list_of_numbers(tmp_path: Path) -> None:
    model = load(tmp_path, "lstm last")
    steps = things(model)[0]
    stream = model.stream()
    for step in steps:
        answer = stream.push(step.tolist())
    near(answer, whole(model, steps))


# --- both directions


@pytest.mark.parametrize("kind", ["features", "spans"])
def test_a_bidirectional_model_refuses_and_says_why(kind: str, tmp_path: Path) -> None:
    make(tmp_path, kind)
    with pytest.raises(RunError, match="bidirectional, and its backward direction starts at the end of the sequence"):
        runtime.load(tmp_path).stream()


def test_a_lookahead_for_one_direction_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="lookahead: expected to be left out, found 3, with a model of one direction"):
        load(tmp_path, "lstm last").stream(lookahead=3)


def test_pooling_last_both_ways_needs_the_end(tmp_path: Path) -> None:
    make(tmp_path, "features", pooling="last")
    with pytest.raises(RunError, match="a model with pooling mean, max or attention, found pooling last"):
        runtime.load(tmp_path).stream(lookahead=3)


AHEAD: dict[str, tuple[str, dict[str, Any]]] = {
    "mean": ("features", {"pooling": "mean", "layers": 2, "cell": "gru"}),
    "max": ("features", {"pooling": "max", "learn_initial_state": True}),
    "attention": ("features", {"pooling": "attention"}),
    "tags, crf": ("spans", {"crf": True, "layers": 2}),
    "tags": ("tagged features", {"cell": "rnn"}),
}


@pytest.mark.parametrize("name", AHEAD)
def test_a_long_lookahead_is_exact_and_chunks_do_not_matter(name: str, tmp_path: Path) -> None:
    kind, fields = AHEAD[name]
    make(tmp_path, kind, **fields)
    model = runtime.load(tmp_path)
    for thing in things(model):
        exact = model.stream(lookahead=50)
        answers = [exact.push(chunk) for chunk in cut(thing, 3)]
        end = exact.finish()
        near(joined(answers, end, "tag", model) if model.task == "tag" else end, whole(model, thing))
        ends = []
        for size in SIZES:
            short = model.stream(lookahead=2)
            answers = [short.push(chunk) for chunk in cut(thing, size)]
            end = short.finish()
            ends.append(joined(answers, end, "tag", model) if model.task == "tag" else end)
        near_lists(ends[1:], [ends[0]] * 2)


def test_more_lookahead_errs_less(tmp_path: Path) -> None:
    make(tmp_path, "features", pooling="mean", cell="lstm")
    model = runtime.load(tmp_path)
    features = np.concatenate([item.features for item in rows_of_features(20, 3)])
    exact = np.array(list(whole(model, features)["scores"].values()))
    errors = []
    for lookahead in (1, 4, 16, len(features)):
        stream = model.stream(lookahead=lookahead)
        stream.push(features)
        errors.append(np.abs(np.array(list(stream.finish()["scores"].values())) - exact).max())
    assert errors[0] > 1e-4
    assert errors[0] > errors[1] > errors[2]
    assert errors[3] < 1e-6


def test_lookahead_of_many_streams_saved_on_the_way(tmp_path: Path) -> None:
    make(tmp_path, "spans", crf=True)
    model = runtime.load(tmp_path)
    given = things(model)
    stream = model.stream(batch_size=len(given), lookahead=2)
    heads = stream.push([thing[:2] for thing in given])
    stream.save(tmp_path / "state")
    stream = model.stream(batch_size=len(given), lookahead=2)
    stream.restore(tmp_path / "state")
    tails = stream.push([thing[2:] for thing in given])
    for thing, head, tail, end in zip(given, heads, tails, stream.finish(), strict=True):
        alone = model.stream(lookahead=2)
        wanted = joined([alone.push(thing)], alone.finish(), "tag", model)
        near(joined([head, tail], end, "tag", model), wanted)


# --- what is not right


def test_calls_that_cannot_be_meant(tmp_path: Path) -> None:
    model = load(tmp_path, "lstm mean")
    stream = model.stream(batch_size=3)
    with pytest.raises(ValueError, match="chunk: expected 3 chunks, one a stream, found 2"):
        stream.push([[1.0, 2, 3]] * 2)
    for rows in ([3], [-1], [0, 0], [0.5]):
        with pytest.raises(ValueError, match="rows: expected different numbers from 0 to 2"):
            stream.push([[1.0, 2, 3]] * len(rows), rows=rows)
    before = stream.state
    with pytest.raises(DataError, match="chunk 1: expected finite features"):
        stream.push([[1.0, 2, 3], [1.0, np.inf, 3], [1.0, 2, 3]])
    np.testing.assert_equal(stream.state, before)  # a bad chunk moves no stream
    with pytest.raises(ValueError, match="batch_size: expected 1 or more"):
        model.stream(batch_size=0)


def test_states_of_other_models_and_damaged_ones(tmp_path: Path) -> None:
    model = load(tmp_path, "lstm mean")
    stream = model.stream()
    stream.save(tmp_path / "state")
    tensors, header = bundle.load(tmp_path / "state")
    header.pop("format")
    other = tmp_path / "other"
    other.mkdir()
    make(other, "features", seed=1, bidirectional=False)
    with pytest.raises(BundleError, match="Start with another state file"):
        runtime.load(other).stream().restore(tmp_path / "state")
    with pytest.raises(BundleError, match="a bundle without one"):
        stream.restore(tmp_path / "model.safetensors")
    for part, message in (
        ({"h": tensors["h"][:, :, :2]}, r"state 'h': expected float32 \(1, 2, 5\)"),
        ({"h": tensors["h"].astype(np.float64)}, "found float64"),
        ({"pool.sum": np.zeros((1, 2))}, r"pool\.sum"),
        ({"steps": np.zeros(0, np.int64)}, "as many as the file holds"),
    ):
        bundle.save(tmp_path / "bad", tensors | part, header)
        with pytest.raises(BundleError, match=message):
            stream.restore(tmp_path / "bad")
    header["stream"]["batch_size"] = 10**12
    bundle.save(tmp_path / "bad", tensors, header)
    with pytest.raises(BundleError, match="as many as the file holds"):
        model.stream(batch_size=2).restore(tmp_path / "bad")
    (tmp_path / "bad").write_bytes((tmp_path / "state").read_bytes()[:-3])
    with pytest.raises(BundleError):
        stream.restore(tmp_path / "bad")
    close(stream.push([1.0, 2.0, 3.0]), model.predict([[[1.0, 2.0, 3.0]]])[0], "untouched")


# --- single steps


@pytest.mark.parametrize("name", [name for name, (kind, _) in ONE_WAY.items() if "features" in kind])
def test_single_steps_give_the_scores_of_the_whole(name: str, tmp_path: Path) -> None:
    model = load(tmp_path, name)
    steps = model.steps()
    for features in things(model):
        rows = [model.reading.encode(model.item(features[: n + 1], "x")) for n in range(len(features))]
        wanted = model.scores(rows)
        forms = (features, features.tolist(), features.astype(np.float64)[:, None], np.repeat(features, 2, 0)[::2])
        for form in forms:
            for row, right in zip(form, wanted, strict=True):
                np.testing.assert_allclose(steps(row), right if right.ndim == 1 else right[-1], rtol=1e-5, atol=2e-6)
            steps.reset()


def test_single_steps_of_what_has_none(tmp_path: Path) -> None:
    for name, message in (("text", "task classify that reads tokens"), ("lm", "found one of task lm")):
        folder = tmp_path / name
        folder.mkdir()
        with pytest.raises(RunError, match=message):
            load(folder, name).steps()
    make(tmp_path, "features")
    with pytest.raises(RunError, match="found a bidirectional one"):
        runtime.load(tmp_path).steps()
