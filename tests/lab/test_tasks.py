"""Views of tasks: what is read, stacks in both directions, teacher forcing, growth. Numbers equal Python's."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from lab_pages import ROOT, Shown

from unrolled.training import load
from unrolled.training.compare.record import slim
from unrolled.training.transduction import edit_distance, truth_share

TASKS = json.loads((ROOT / "src" / "unrolled" / "lab" / "tasks.json").read_text(encoding="utf-8"))
INPUTS = [1, 0.5, -1, 2, 0]
Lab = Callable[..., Shown]


def scalar(x: list[float]) -> list[float]:
    """The net of V1: W = 0.6, U = 0.8."""
    states = [0.0]
    for value in x:
        states.append(math.tanh(0.6 * value + 0.8 * states[-1]))
    return states[1:]


FORWARD, BACKWARD = scalar(INPUTS[:3]), scalar(INPUTS[2::-1])[::-1]
WHOLE = scalar(INPUTS)


# types


@pytest.mark.parametrize(
    ("address", "wanted"),
    [
        ("kind=last", [FORWARD[2]]),
        ("kind=mean", [sum(FORWARD) / 3]),
        ("kind=max", [max(FORWARD)]),
        ("kind=last&both=1", [FORWARD[2], BACKWARD[0]]),
        ("kind=mean&both=1", [sum(FORWARD) / 3, sum(BACKWARD) / 3]),
        ("kind=max&both=1", [max(FORWARD), max(BACKWARD)]),
        ("kind=last&padded=0", [WHOLE[4]]),
    ],
)
def test_what_a_label_is_made_of(lab: Lab, address: str, wanted: list[float]) -> None:
    shown = lab(f"view=types&{address}")
    found = [shown.value("read-forward")] + ([shown.value("read-backward")] if len(wanted) > 1 else [])
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-9)


def test_the_numbers_that_were_written_down(lab: Lab) -> None:
    shown = lab("view=types")
    assert shown.text("read-forward") == "−0.1014"
    for address, wanted in (("kind=mean", "0.3528"), ("kind=max", "0.6228"), ("kind=last&both=1", "−0.1014")):
        shown.go(f"view=types&{address}&lang=en")
        shown.page.wait_for_timeout(50)
        assert shown.text("read-forward") == wanted
    assert shown.text("read-backward") == "0.4596"


def test_out_minus_one_is_marked_where_it_is_padding(lab: Lab) -> None:
    shown = lab("view=types&naive=1&both=1")
    assert shown.value("naive-wrong") == 0
    np.testing.assert_allclose(shown.value("naive-onward"), scalar([*INPUTS[:3], 0, 0])[-1], atol=1e-9)
    np.testing.assert_allclose(shown.value("naive-backward"), BACKWARD[2], atol=1e-9)
    assert "−0.0646" in shown.text("naive-wrong")
    assert "−0.5370" in shown.text("naive-wrong")
    shown.do("padded")
    assert shown.page.locator('[data-name="naive-wrong"]').count() == 0


@pytest.mark.parametrize(
    ("address", "outputs", "read"),
    [
        ("task=classify&kind=last", 1, [3]),
        ("task=classify&kind=mean", 1, [1, 2, 3]),
        ("task=tag&kind=tag", 3, [1, 2, 3]),
        ("task=language&kind=stream", 2, [1, 2]),
        ("task=language&kind=document", 4, [0, 1, 2, 3]),
        ("task=pairs&kind=pairs", 4, [3]),
        ("task=forecast&kind=direct", 2, [3]),
        ("task=forecast&kind=autoregressive", 2, [3]),
        ("task=tag&kind=tag&padded=0", 5, [1, 2, 3, 4, 5]),
    ],
)
def test_which_steps_are_read(lab: Lab, address: str, outputs: int, read: list[int]) -> None:
    shown = lab(f"view=types&{address}")
    assert shown.value("outputs") == shown.value("losses") == outputs
    steps = shown.page.locator('svg.reading [data-read="true"]')
    assert sorted(int(steps.nth(i).get_attribute("data-step") or -1) for i in range(steps.count())) == read
    further = {"task=pairs&kind=pairs": 4, "task=forecast&kind=autoregressive": 2}.get(address, 0)
    boxes = shown.page.locator("svg.reading [data-output]").count()
    assert boxes == outputs
    assert shown.page.locator("svg.reading .further").count() == further


# stack


def torch_stack(layers: int, both: bool) -> tuple[np.ndarray, np.ndarray]:
    """Outputs (steps, ways) of the last layer and h_n (rows,) of torch.nn.RNN with the page's weights."""
    weights = [[([0.6], 0.8), ([0.5], -0.7)], [([0.9, -0.4], 0.6), ([-0.8, 0.7], 0.5)]]
    rnn = torch.nn.RNN(1, 1, layers, bias=False, bidirectional=both).double()
    with torch.no_grad():
        for layer in range(layers):
            for direction in range(1 + both):
                w, u = weights[layer][direction]
                end = f"l{layer}" + ("_reverse" if direction else "")
                width = 1 if layer == 0 else 1 + both
                getattr(rnn, f"weight_ih_{end}").copy_(torch.tensor([w[:width]], dtype=torch.float64))
                getattr(rnn, f"weight_hh_{end}").copy_(torch.tensor([[u]], dtype=torch.float64))
        out, final = rnn(torch.tensor(INPUTS, dtype=torch.float64)[:, None])
    return out.numpy(), final[:, 0].numpy()


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("both", [False, True])
def test_the_stack_is_that_of_torch(lab: Lab, layers: int, both: bool) -> None:
    cells = layers * 5 * (1 + both)
    shown = lab(f"view=stack&layers={layers}&both={int(both)}&step={cells}")
    out, final = torch_stack(layers, both)
    found = [[shown.value(f"h-{layers - 1}-{way}-{step}") for way in range(1 + both)] for step in range(1, 6)]
    np.testing.assert_allclose(found, out, rtol=0, atol=1e-9)
    np.testing.assert_allclose([shown.value(f"final-{i}") for i in range(len(final))], final, rtol=0, atol=1e-9)
    assert shown.value("cells") == cells
    assert shown.value("rounds") == (5 * layers if both else 5 + layers - 1)
    lstm = torch.nn.LSTM(32, 64, layers, bidirectional=both)
    assert shown.value("lstm-parameters") == sum(p.numel() for p in lstm.parameters())


def known(shown: Shown) -> set[str]:
    cells = shown.page.locator("svg.stack [data-cell].known")
    return {cells.nth(i).get_attribute("data-cell") or "" for i in range(cells.count())}


def test_layer_two_waits_for_both_ways_below(lab: Lab) -> None:
    shown = lab("view=stack&rounds=1&step=5")
    assert known(shown) == {f"0.{way}.{step}" for way in (0, 1) for step in range(1, 6)}
    assert shown.page.locator("svg.stack [data-cell]:not(.known) text").first.text_content() == "?"
    shown.do("next")
    assert known(shown) - {f"0.{way}.{step}" for way in (0, 1) for step in range(1, 6)} == {"1.0.1", "1.1.5"}
    shown.do("back")
    assert len(known(shown)) == 10


def test_in_one_direction_the_layers_overlap(lab: Lab) -> None:
    shown = lab("view=stack&both=0&rounds=1&step=3")
    assert known(shown) == {"0.0.1", "0.0.2", "0.0.3", "1.0.1", "1.0.2"}
    assert "3" in shown.spoken() or shown.value("rounds") == 6


def test_a_cell_shows_its_arithmetic_by_key(lab: Lab) -> None:
    shown = lab("view=stack&step=13")
    cell = shown.page.locator('[data-cell="1.0.2"]')
    cell.focus()
    shown.page.keyboard.press("Enter")
    value = float(shown.page.locator('[data-name="h-1-0-2"]').get_attribute("data-value") or "nan")
    assert shown.value("h") == value
    assert math.tanh(shown.value("sum")) == pytest.approx(value, abs=1e-12)
    assert "look=1.0.2" in shown.address()


# pairs


def rows_of(item: dict[str, Any], way: str) -> tuple[list[str], list[str]]:
    return item[way]["reads"], item[way]["writes"]


def test_what_is_shipped_is_what_the_model_does() -> None:
    trained = load("g2p", "cpu")
    task: Any = trained.task
    for item in TASKS["pairs"]["items"]:
        row = task.reading.encode(task.item("".join(item["source"]), "word"))
        batch = task.reading.batch([row])
        for way in ("forced", "free"):
            reads, writes = rows_of(item, way)
            previous = torch.from_numpy(task.vocabulary.encode(reads))[None]
            with torch.no_grad():
                scores = trained.model.eval()(batch, previous)[0].double().softmax(-1)
            assert [task.vocabulary.tokens[i] for i in scores.argmax(-1).tolist()] == writes
            top = scores.topk(3).values.numpy()
            np.testing.assert_allclose([[p for _, p in step] for step in item[way]["top"]], top, rtol=1e-4, atol=1e-6)
        assert rows_of(item, "forced")[0] == ["<end>", *item["target"][:-1]]
        reads, writes = rows_of(item, "free")
        assert reads == ["<end>", *writes[:-1]]
        said = trained.translate(["".join(item["source"])], beam=1)[0][0]["tokens"]
        assert said == [token for token in writes if token != "<end>"]
        assert item["edits"] == edit_distance(said, item["target"][:-1])


@pytest.mark.parametrize(("word", "errors", "edits"), [("colonel", 1, 3), ("debris", 1, 3), ("knight", 0, 0)])
def test_a_word_in_both_ways(lab: Lab, word: str, errors: int, edits: int) -> None:
    place = next(i for i, item in enumerate(TASKS["pairs"]["items"]) if "".join(item["source"]) == word)
    item = TASKS["pairs"]["items"][place]
    shown = lab(f"view=pairs&item={place}&step=2")
    for way in ("forced", "free"):
        reads, writes = rows_of(item, way)
        assert shown.text(f"{way}-writes-1") == writes[1].replace("<end>", "■")
        assert shown.text(f"{way}-reads-1") == reads[1]
        assert shown.page.locator(f'[data-name="{way}-writes-2"]').count() == 0, "not shown before it is made"
        assert shown.value(f"{way}-p-0") == item[way]["top"][1][0][1]
    shown.page.keyboard.press("End")
    assert shown.value("forced-errors") == errors
    assert shown.value("free-edits") == edits
    assert shown.value("nats") == item["forced"]["nats"]
    assert shown.text("forced-wanted-0") == item["target"][0]


def test_where_the_decoder_looks(lab: Lab) -> None:
    from unrolled.insight.packing import unpack

    item = TASKS["pairs"]["items"][0]
    shown = lab("view=pairs&item=0&step=3")
    shown.page.locator('[data-figure="attention"] [data-do="table"]').click()
    for way in ("forced", "free"):
        weights = unpack(item[way]["attention"])
        np.testing.assert_allclose(weights.sum(1), 1, atol=0.02)
        found = [[shown.value(f"attention-{way}-{t}-{s}") for s in range(len(item["source"]))] for t in range(3)]
        np.testing.assert_allclose(found, weights[:3], rtol=0, atol=1e-9)


def test_scheduled_sampling(lab: Lab) -> None:
    shown = lab("view=pairs")
    shown.page.locator('[data-figure="sampling"] [data-do="table"]').click()
    for kind, rate in (("linear", None), ("exponential", 0.9), ("inverse_sigmoid", 5.0)):
        wanted = [truth_share(kind, rate, 0.0, done, 10) for done in range(11)]
        found = [shown.value(f"{kind}-{done}") for done in range(11)]
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-9)
    assert shown.text("exponential-10") == "0.3487"
    assert shown.text("inverse_sigmoid-0") == "0.8333"


# growth


def test_the_record_is_that_of_the_benchmark() -> None:
    whole = json.loads((ROOT / "benchmarks" / "results" / "compare.json").read_text(encoding="utf-8"))
    assert TASKS["compare"] == slim(whole)
    assert len(json.dumps(TASKS["compare"])) < 20_000


@pytest.mark.parametrize("quantity", ["training_seconds", "training_saved_bytes", "token_seconds", "token_state_bytes"])
def test_points_and_exponents(lab: Lab, quantity: str) -> None:
    part, name = quantity.split("_", 1)
    shown = lab(f"view=growth&quantity={quantity}")
    shown.page.locator('[data-figure="growth"] [data-do="table"]').click()
    for cell in TASKS["compare"]["cells"]:
        for point in cell["growth"][part]:
            value = statistics.median(point[name]) if isinstance(point[name], list) else point[name]
            if value > 0:
                assert shown.value(f"{quantity}-{cell['cell']}-{point['length']}") == value
        exponent = shown.value(f"exponent-{quantity}-{cell['cell']}")
        assert exponent == cell["growth"]["exponents"][quantity]["tail"]


def test_scores_and_seconds(lab: Lab) -> None:
    shown = lab("view=growth")
    for cell in TASKS["compare"]["cells"]:
        assert shown.value(f"score-{cell['cell']}") == cell["score"]["median"]
        assert shown.value(f"seconds-{cell['cell']}") == statistics.median(run["seconds"] for run in cell["runs"])


def test_counting(lab: Lab) -> None:
    shown = lab("view=growth&T=1000&d=512")
    assert shown.value("products-recurrent") == 262_144_000
    assert shown.value("products-attention") == 512_000_000
    assert (shown.value("serial-recurrent"), shown.value("serial-attention")) == (1000, 1)
    assert (shown.value("way-recurrent"), shown.value("way-attention")) == (999, 1)
    shown.slide("T", 510)
    assert "fewer" in shown.page.locator("main").inner_text()


def test_where_the_lines_cross(page_of: Callable[..., Shown], tmp_path: Any) -> None:
    """A record in which the Transformer is cheaper at first: the crossing is that of the straight lines."""
    from unrolled.lab import render

    record = json.loads(json.dumps(TASKS["compare"]))
    for cell in record["cells"]:
        power = 2 if cell["cell"] == "transformer" else 1
        scale = 1 / 1000 if cell["cell"] == "transformer" else 1
        for point in cell["growth"]["training"]:
            point["seconds"] = [scale * point["length"] ** power]
    path = tmp_path / "lab.html"
    data = {"page": "lab", "version": "0", "models": [], "compare": record, "tasks": {}}
    path.write_text(render(data, title="lab"), encoding="utf-8")
    shown = page_of(path, "view=growth&lang=en")
    assert shown.value("crossing-lstm") == pytest.approx(1000, rel=1e-6)
    always = lab_text(page_of, tmp_path, TASKS["compare"])
    assert "every length" in always


def lab_text(page_of: Callable[..., Shown], folder: Any, record: dict[str, Any]) -> str:
    from unrolled.lab import render

    path = folder / "other.html"
    path.write_text(
        render({"page": "lab", "version": "0", "models": [], "compare": record}, title="lab"), encoding="utf-8"
    )
    return page_of(path, "view=growth&lang=en").page.locator('[data-name="crossing-lstm"]').inner_text()


def test_pairs_of_a_persons_own_run(reports: Any) -> None:
    from unrolled.training.inspection.forcing import own_pairs

    trained = load(reports / "seq2seq", "cpu")
    made = own_pairs("mine", trained)
    assert made is not None
    assert made["name"] == "mine"
    for item in made["items"]:
        assert item["target"] == [*reversed(item["source"]), "<end>"]
        assert item["forced"]["reads"][1:] == item["target"][:-1]
        assert item["free"]["reads"][1:] == item["free"]["writes"][:-1]
        assert all(0 <= p <= 1 for p in item["forced"]["right"])
