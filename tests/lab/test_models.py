"""V2c, V6, V7, V8, V9, V10: what the page shows of models are the numbers that Python computes."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lab_models import CELLS, CHINESE, ODD, TEXT, built_lstm, language_model, page_data, trained, wide_states
from lab_pages import Shown

from unrolled.decoding.filters import apply_temperature, keep_top_k, softmax
from unrolled.insight import attribute, gates, gradient_flow, jacobians
from unrolled.insight.packing import unpack
from unrolled.lab import demo, render
from unrolled.training.trained import Trained

MINUS = "−"


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    return page_data({cell: trained(cell) for cell in CELLS}, [TEXT])


@pytest.fixture(scope="module")
def own_html(data: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("own") / "lab.html"
    path.write_text(render(data, title="own", language="en"), encoding="utf-8")
    return path


@pytest.fixture
def own(page_of: Callable[..., Shown], own_html: Path) -> Callable[..., Shown]:
    return lambda address, width=1280: page_of(own_html, address, width)


@pytest.fixture
def page_with(page_of: Callable[..., Shown], tmp_path: Path) -> Callable[..., Shown]:
    """A page of other data."""

    def show(given: dict[str, Any], address: str) -> Shown:
        path = tmp_path / "page.html"
        path.write_text(render(given, title="x", language="en"), encoding="utf-8")
        return page_of(path, address)

    return show


def ids_of(model: Trained, text: str = TEXT) -> torch.Tensor:
    return torch.from_numpy(model.task.vocabulary.encode(list(text)))[None]  # type: ignore[attr-defined]


def values(shown: Shown, pattern: str) -> dict[str, float]:
    """The exact numbers of everything whose name begins so."""
    found = shown.page.locator(f'main [data-name^="{pattern}"]').evaluate_all(
        "all => all.map((one) => [one.dataset.name, one.dataset.value])"
    )
    return {name: float(value) for name, value in found}


def rows_of(shown: Shown, figure: str) -> list[list[str]]:
    """The table under a picture: its texts."""
    shown.page.locator(f'[data-figure="{figure}"] [data-do="table"]').click()
    return shown.page.locator(f'[data-figure="{figure}"] table tbody tr').evaluate_all(
        "rows => rows.map((row) => [...row.cells].map((cell) => cell.dataset.value ?? cell.textContent))"
    )


# V2c


def autograd_products(whole: Trained) -> dict[int, float]:
    """The largest singular value of each product, from torch.autograd.functional.jacobian alone."""
    model = copy.deepcopy(whole.model).double()
    with torch.no_grad():
        x = model.inputs(ids_of(whole))  # type: ignore[operator]
    layer, state, factors = model.recurrent, None, []
    for step in range(x.shape[1]):
        piece = x[:, step : step + 1]
        if whole.recipe.cell == "lstm":
            size = layer.hidden_size  # type: ignore[union-attr]
            joined = torch.zeros(2 * size, dtype=torch.float64) if state is None else state

            def move(both: torch.Tensor, piece: torch.Tensor = piece, size: int = size) -> torch.Tensor:
                _, (h, c) = layer(piece, (both[None, None, :size], both[None, None, size:]))  # type: ignore[operator]
                return torch.cat([h[0, 0], c[0, 0]])
        else:
            joined = torch.zeros(layer.hidden_size, dtype=torch.float64) if state is None else state  # type: ignore[union-attr, call-overload]

            def move(both: torch.Tensor, piece: torch.Tensor = piece) -> torch.Tensor:  # type: ignore[misc]
                return layer(piece, both[None, None])[1][0, 0]  # type: ignore[operator]

        factors.append(torch.autograd.functional.jacobian(move, joined))
        with torch.no_grad():
            state = move(joined)
    product, found = torch.eye(len(factors[0]), dtype=torch.float64), {}
    for lag, factor in enumerate(reversed(factors), start=1):
        product = product @ factor
        found[lag] = float(torch.linalg.svdvals(product)[0])
    return found


class TestV2c:
    def test_products_are_those_of_autograd(self, own: Callable[..., Shown]) -> None:
        shown = own("view=V2c&lag=10")
        rows = rows_of(shown, "jacobians")
        for cell in CELLS:
            truth = autograd_products(trained(cell))
            mine = [row for row in rows if row[0] in (cell, f"{cell}, whole state (h, c)")]
            assert [int(row[1]) for row in mine] == list(truth) == list(range(1, len(TEXT) + 1))
            np.testing.assert_allclose([float(row[2]) for row in mine], list(truth.values()), rtol=1e-5)

    def test_an_lstm_has_two_lines(self, own: Callable[..., Shown]) -> None:
        shown = own("view=V2c&shown=2&lag=6")
        state, cell = jacobians(trained("lstm").model, ids_of(trained("lstm")))
        assert shown.value("largest-0") == pytest.approx(state.value(6), rel=1e-5)
        assert shown.value("largest-1") == pytest.approx(cell.value(6), rel=1e-5)
        kept = gates(trained("lstm").model, ids_of(trained("lstm")))[0].gates["f"][-6:, 0].prod(0)
        assert shown.value("largest-1") == pytest.approx(float(kept.max()), rel=1e-5)
        assert shown.page.locator('[data-chart="jacobians"] g[aria-label="line"] path').count() == 2

    def test_linear_nets_are_exact(self, own: Callable[..., Shown]) -> None:
        shown = own("view=V2c&shown=linear")
        for lag in (1, 10, 100):
            shown.slide("lag", lag)
            for place, scale in enumerate((0.5, 1.0, 1.5)):
                assert shown.value(f"largest-{place}") == pytest.approx(scale**lag, rel=1e-5)
                assert shown.value(f"median-{place}") == pytest.approx(scale**lag, rel=1e-5)
                assert shown.value(f"per_step-{place}") == pytest.approx(scale, rel=1e-5)
                assert shown.value(f"bound-{place}") == pytest.approx(scale**lag, rel=1e-5)
        assert shown.text("largest-0") == f"7.89e{MINUS}31"
        assert "100 steps back" in shown.spoken()

    def test_what_is_no_number_is_a_word(self, data: dict[str, Any], page_with: Callable[..., Shown]) -> None:
        broken = copy.deepcopy(data) | {"models": copy.deepcopy(data["models"][:1])}
        layer = broken["models"][0]["jacobians"]["layers"][0]
        layer["largest"][:3], layer["median"][:3] = ["nan", "inf", "-inf"], ["nan", "nan", "nan"]
        rows = rows_of(page_with(broken, "view=V2c"), "jacobians")
        assert [row[2] for row in rows[:3]] == ["NaN", "Infinity", "0"]
        shown = page_with(broken, "view=V2c&lag=1")
        assert shown.text("largest-0") == "not a number"
        shown.slide("lag", 2)
        assert shown.text("largest-0") == "infinity"
        shown.slide("lag", 3)
        assert shown.text("median-0") == "not a number"

    def test_what_clipping_touched_and_cannot_do(self, lab: Callable[..., Shown]) -> None:
        shown = lab("view=V2c")
        said = [one.get_attribute("data-value") for one in shown.page.locator('[data-name="clip"]').all()]
        assert [int(one or -1) for one in said] == [len(model["clipping"]["touched"]) for model in demo()["models"]]
        assert any(int(one or 0) for one in said), "the demo is clipped at some steps"
        assert "does not repair vanishing" in shown.page.locator("main").inner_text()


# V6


def state_table(cell: str, name: str = "h") -> np.ndarray:
    (trace,) = gates(trained(cell).model, ids_of(trained(cell)))
    part = {"h": trace.h, "c": trace.c, **trace.gates}[name]
    assert part is not None
    return part[:, 0].T.numpy()


class TestV6:
    @pytest.mark.parametrize(("cell", "name"), [("rnn", "h"), ("lstm", "c"), ("lstm", "f"), ("gru", "z")])
    def test_cells_are_the_tensors_numbers(self, own: Callable[..., Shown], cell: str, name: str) -> None:
        table = state_table(cell, name)
        shown = own(f"view=V6&model={CELLS.index(cell)}&what={name}&order=number")
        shown.page.locator('[data-heatmap="states"] .cells').focus()
        press = shown.page.keyboard.press
        span = table.max() - table.min()
        limit = 1e-3 if name in "hc" else 0.0021  # two bytes a number, or one
        for keys, row, column in (
            (["ArrowRight"], 0, 1),
            (["ArrowDown", "ArrowDown"], 2, 1),
            (["End"], 2, len(TEXT) - 1),
        ):
            for key in keys:
                press(key)
            assert shown.value("tip") == pytest.approx(table[row, column], abs=limit * span)
        spoken = shown.spoken()
        assert f"token {len(TEXT)} f" in spoken
        assert "unit 2" in spoken
        assert float(spoken.rsplit(" ", 1)[1].replace(MINUS, "-")) == pytest.approx(
            table[2, -1], abs=limit * span + 5e-5
        )

    def test_a_unit_is_chosen_by_keyboard_and_colours_the_text(self, own: Callable[..., Shown]) -> None:
        shown = own("view=V6&order=number&model=0")
        shown.page.locator('[data-heatmap="states"] .cells').focus()
        for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight", "Enter"):
            shown.page.keyboard.press(key)
        assert "unit=3" in shown.address()
        assert shown.value("cell") == pytest.approx(state_table("rnn")[3, 1], abs=1e-3)
        colours = shown.page.locator(".shaded span").evaluate_all("all => all.map((one) => one.style.background)")
        assert len(colours) == len(TEXT)
        assert len(set(colours)) > 3

    def test_ranking_counts(self, own: Callable[..., Shown]) -> None:
        shown = own("view=V6&order=number&model=0&from=2&to=5&threshold=0.2")
        table = state_table("rnn")
        inside, outside = (table[:, 2:6] > 0.2).sum(1), (np.delete(table, range(2, 6), axis=1) > 0.2).sum(1)
        difference = inside / 4 - outside / (len(TEXT) - 4)
        order = sorted(range(len(table)), key=lambda unit: (-difference[unit], unit))
        for place in range(5):
            assert shown.value(f"best-inside-{place}") == inside[order[place]]
            assert shown.value(f"best-outside-{place}") == outside[order[place]]
        chance = values(shown, "chance-difference")
        assert len(chance) == len(table) - 5, "all that are left, where fewer than five are"
        assert all(value <= min(difference[order[:5]]) for value in chance.values())

    def test_the_order_by_variance(self, own: Callable[..., Shown]) -> None:
        shown = own("view=V6&order=variance&model=0")
        rows = rows_of(shown, "states-h")
        variance = state_table("rnn").var(1)
        assert [int(row[0]) for row in rows] == list(np.argsort(-variance))

    def test_odd_texts_are_text(self, page_with: Callable[..., Shown]) -> None:
        odd = language_model("gru", [ODD + CHINESE])
        shown = page_with(page_data({"odd": odd}, [ODD]), "view=V6")
        letters = shown.page.locator(".shaded span").all_text_contents()
        assert "".join(letters).replace("␣", " ") == ODD
        assert shown.page.locator(".shaded b").count() == 0
        assert shown.page.locator(".shaded").get_attribute("dir") == "auto"

    def test_chinese_has_a_cell_a_character(self, page_with: Callable[..., Shown]) -> None:
        shown = page_with(page_data({"poem": language_model("lstm", [CHINESE])}, [CHINESE]), "view=V6&lang=zh")
        assert shown.page.locator(".shaded span").all_text_contents() == list(CHINESE)
        rows = rows_of(shown, "states-h")
        assert len(rows[0]) == 1 + len(CHINESE)

    def test_a_large_map_is_painted_fast(self, data: dict[str, Any], page_with: Callable[..., Shown]) -> None:
        wide = data | {"models": [wide_states(data["models"][0])]}
        shown = page_with(wide, "view=V6&order=number")
        for order in ("variance", "number", "variance"):
            shown.page.select_option(
                'select[name="order"]', label={"variance": "by variance", "number": "by number"}[order]
            )
            shown.page.wait_for_timeout(50)
        times = shown.page.evaluate("performance.getEntriesByName('heatmap').map((one) => one.duration)")
        assert len(times) >= 4
        assert min(times) < 50, f"128 × 400 cells took {min(times):.0f} ms at best"


# V7


class TestV7:
    def test_shares_are_numpys_counts(self, own: Callable[..., Shown]) -> None:
        shown = own("view=V7&model=2&gate=f")
        seen = state_table("lstm", "f").T
        for low, high in ((0.1, 0.9), (0.3, 0.6)):
            shown.slide("low", low)
            shown.slide("high", high)
            found = rows_of(shown, "saturation-f")
            np.testing.assert_array_equal([int(row[1]) for row in found], (seen < low).sum(0))
            np.testing.assert_array_equal([int(row[2]) for row in found], (seen > high).sum(0))
            assert shown.value("left-f") == (seen < low).sum() / seen.size
            assert shown.value("right-f") == (seen > high).sum() / seen.size
            shown.page.locator('[data-figure="saturation-f"] [data-do="table"]').click()
        assert f"{round(100 * (seen > 0.6).mean())} %" in shown.spoken()

    def test_the_state_of_an_rnn_saturates_at_both_ends(self, own: Callable[..., Shown]) -> None:
        shown = own("view=V7&model=0")
        seen = state_table("rnn").T
        assert shown.value("left-h") == (seen < -0.9).sum() / seen.size
        assert shown.value("right-h") == (seen > 0.9).sum() / seen.size

    @pytest.mark.parametrize(("bias", "at"), [(20.0, (0, 1)), (-20.0, (1, 0))])
    def test_a_built_model_sits_in_a_corner(
        self, data: dict[str, Any], page_with: Callable[..., Shown], bias: float, at: tuple[int, int]
    ) -> None:
        model = copy.deepcopy(data["models"][2])
        model["layers"] = [built_lstm(bias)]
        shown = page_with(data | {"models": [model]}, "view=V7&gate=f")
        assert (shown.value("left-f"), shown.value("right-f")) == at
        assert {tuple(row[4:]) for row in rows_of(shown, "saturation-f")} == {(str(at[0]), str(at[1]))}
        assert shown.page.locator('[data-chart="saturation"] circle').count() == 1, "five units at one place"

    def test_the_histogram_counts_everything(self, own: Callable[..., Shown]) -> None:
        rows = rows_of(own("view=V7&model=2"), "gate-values")
        seen = state_table("lstm", "i")
        counts, _ = np.histogram(seen, 20, (0, 1))
        assert [int(row[3]) for row in rows if row[0] == "i"] == counts.tolist()


# V8


class TestV8:
    def test_a_row_is_the_gradient(self, own: Callable[..., Shown]) -> None:
        shown = own("view=V8&target=9")
        rows = rows_of(shown, "flow-row")
        for place, cell in enumerate(CELLS):
            ids = ids_of(trained(cell))
            asked = torch.cat([ids[:, 1:], ids[:, :1]], 1)

            def losses(output: Any, asked: torch.Tensor = asked) -> torch.Tensor:
                return -output[0].log_softmax(-1).gather(-1, asked[..., None])[..., 0]

            (flow,) = gradient_flow(trained(cell).model, ids, losses=losses, chunk=12)
            wanted = flow.norms[9, :10, 0].numpy()
            np.testing.assert_allclose([float(row[1 + place]) for row in rows], wanted, rtol=1e-5)
        assert len(rows) == 10, "the loss at step 10 depends on ten states"

    def test_the_future_is_empty_and_a_cut_is_a_zero(self, own: Callable[..., Shown]) -> None:
        shown = own("view=V8&shown=0&target=14&k=14")
        assert shown.value("cuts") == 1
        shown.page.locator('[data-heatmap="flow"] .cells').focus()
        shown.page.keyboard.press("ArrowRight")
        assert shown.spoken() == "L(15) does not depend on h(16)"
        shown.page.keyboard.press("Home")
        assert "exactly 0" in shown.spoken()
        tables = rows_of(shown, "flow-rnn")
        assert all(cell == "" for row, line in enumerate(tables) for cell in line[row + 2 :])
        assert all(float(cell) == 0 for cell in tables[14][1:13])

    def test_one_scale_or_their_own(self, own: Callable[..., Shown]) -> None:
        shown = own("view=V8")

        def ends() -> set[tuple[str | None, ...]]:
            lows, highs = (shown.page.locator(f'[data-name="scale-{end}"]').all() for end in ("low", "high"))
            return {
                (a.get_attribute("data-value"), b.get_attribute("data-value")) for a, b in zip(lows, highs, strict=True)
            }

        assert len(ends()) == 1
        shown.do("fix")
        assert len(ends()) > 1
        assert "fix=0" in shown.address()

    def test_the_line_of_each_model_is_drawn(self, own: Callable[..., Shown]) -> None:
        shown = own("view=V8")
        shown.page.locator('[data-chart="flow-row"] g[aria-label="line"] path').nth(5).wait_for()
        drawn = shown.page.locator('[data-chart="flow-row"] g[aria-label="line"] path').count()
        assert drawn == 6, "three of ours and three that are included"


# V9


def target_of(answer: int, step: int) -> Callable[[Any], torch.Tensor]:
    return lambda output: output[0][:, step, answer]


class TestV9:
    @pytest.mark.parametrize("method", ["gradient", "gradient_x_input", "integrated_gradients", "occlusion"])
    def test_scores_are_those_of_attribute(self, own: Callable[..., Shown], method: str) -> None:
        last = len(TEXT) - 1
        shown = own(f"view=V9&method={method}&at={last}")
        for place, cell in enumerate(CELLS):
            model = trained(cell).model
            ids = ids_of(trained(cell))
            with torch.no_grad():
                answer = int(model(ids)[0][0, last].argmax())
            made = attribute(model, ids, target=target_of(answer, last), method=method, rows_alike=True)
            found = [shown.value(f"score-{place}-{step}") for step in range(len(TEXT))]
            np.testing.assert_allclose(found, made.scores[0], rtol=1e-5, atol=1e-12)
            if method == "integrated_gradients":
                assert shown.value(f"gap-{place}") < 0.01
                assert shown.value(f"sum-{place}") == pytest.approx(shown.value(f"change-{place}"), rel=0.01)
        assert shown.page.locator('[data-name="warning"]').count() == (method != "occlusion")

    def test_occlusion_is_a_forward_pass_without_the_token(self, own: Callable[..., Shown]) -> None:
        last = len(TEXT) - 1
        shown = own(f"view=V9&at={last}")
        model = copy.deepcopy(trained("gru").model).double()

        def score(x: torch.Tensor) -> torch.Tensor:
            out, _ = model.recurrent(x)  # type: ignore[operator]
            return torch.nn.functional.linear(out[0, last], model.output_weight, model.output_bias)  # type: ignore[arg-type]

        with torch.no_grad():
            x = model.inputs(ids_of(trained("gru")))  # type: ignore[operator]
            whole = score(x)
            answer = int(whole.argmax())
            for step in (0, 5, last):
                without = x.clone()
                without[0, step] = 0
                wanted = float(whole[answer] - score(without)[answer])
                assert shown.value(f"score-1-{step}") == pytest.approx(wanted, rel=1e-5, abs=1e-9)

    def test_the_three_likeliest(self, own: Callable[..., Shown]) -> None:
        shown = own(f"view=V9&at={len(TEXT) - 1}")
        with torch.no_grad():
            p = trained("lstm").model(ids_of(trained("lstm")))[0][0, -1].softmax(-1).sort(descending=True).values
        np.testing.assert_allclose([shown.value(f"top-2-{place}") for place in range(3)], p[:3], rtol=1e-4)

    def test_occlusion_finds_the_planted_token(self, lab: Callable[..., Shown]) -> None:
        planted = demo()["tasks"]["planted"]
        shown = lab("view=V9&task=planted")
        for place in range(3):
            assert shown.value(f"best-{place}") == planted["position"]
        for model in planted["models"]:
            for method, share in model["found"].items():
                assert shown.value(f"found-{model['name']}-{method}") == share
        assert shown.page.locator("main").inner_text().count("the planted token is found") == 3


# V10


class TestV10:
    def test_probabilities_are_those_of_decoding(self, own: Callable[..., Shown], data: dict[str, Any]) -> None:
        shown = own("view=V10&model=1&path=2&step=3")
        path = data["generation"][1]["paths"][2]
        scores = unpack(path["scores"])[2]
        for temperature, top_k in ((1.0, 0), (0.5, 4), (2.0, 0), (0.05, 2)):
            shown.slide("temperature", temperature)
            shown.slide("k", top_k)
            kept = apply_temperature(scores, temperature)
            wanted = softmax(keep_top_k(kept, top_k) if top_k else kept)
            rows = rows_of(shown, "next-token")
            np.testing.assert_allclose([float(row[2]) for row in rows], wanted, rtol=1e-9, atol=1e-300)
            assert shown.value("sum") == pytest.approx(1, abs=1e-6)
            token = int(np.searchsorted(np.cumsum(wanted), path["draws"][2], side="right"))
            assert shown.value("now") == token
            shown.page.locator('[data-figure="next-token"] [data-do="table"]').click()
        shown.slide("temperature", 0)
        assert shown.value("now") == scores.argmax(), "T → 0 is the best token"

    def test_the_text_is_the_one_that_was_written(self, own: Callable[..., Shown], data: dict[str, Any]) -> None:
        shown = own("view=V10")
        for model, cell in enumerate(CELLS):
            for place, path in enumerate(data["generation"][model]["paths"]):
                shown.go(f"view=V10&model={model}&path={place}&step=99")
                options = {name: path[name] for name in ("temperature", "top_k", "seed")}
                truth = trained(cell).generate(TEXT[:12], len(path["tokens"]), **options)
                said = shown.text("text").removesuffix("?").replace("↵", "").replace("␣", "")
                assert "".join(said.split()) == "".join(truth.split())
                for step in (1, len(path["tokens"])):
                    shown.slide("step", step)
                    assert shown.value("now") == shown.value("taken") == path["tokens"][step - 1]

    def test_what_comes_later_is_not_shown(self, own: Callable[..., Shown], data: dict[str, Any]) -> None:
        shown = own("view=V10&model=0&path=1&step=2")
        later = len(data["generation"][0]["paths"][1]["tokens"])
        shown.page.locator('[data-heatmap="written"] .cells').focus()
        shown.page.keyboard.press("End")
        assert not math.isnan(shown.value("tip"))
        for _ in range(later):
            shown.page.keyboard.press("ArrowDown")
        assert "has not been written" in shown.spoken()
        shown.do("next")
        assert shown.spoken().startswith("Token 3:")
        rows = rows_of(shown, "written-states")
        assert len(rows) == 3


def test_a_file_that_is_opened_takes_the_place_of_the_models(
    lab: Callable[..., Shown], data: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "lab.json"
    path.write_text(json.dumps(data | {"models": data["models"][:1], "generation": data["generation"][:1]}))
    shown = lab("view=V6")
    before = shown.page.locator('select[name="model"] option').count()
    shown.go("view=V0").page.set_input_files('main input[type="file"]', path)
    shown.page.wait_for_selector('[data-name="loaded"]')
    shown.go("view=V6&order=number")
    assert (before, shown.page.locator('select[name="model"] option').all_text_contents()) == (3, ["rnn"])
    assert len(rows_of(shown, "states-h")) == len(state_table("rnn"))


class TestWithout:
    """A page without models says what is missing; a report has less detail and is drawn all the same."""

    @pytest.mark.parametrize("view", ["V2c", "V6", "V7", "V8", "V9", "V10"])
    def test_no_model(self, page_with: Callable[..., Shown], view: str) -> None:
        shown = page_with({"page": "lab", "version": "0.1.0", "models": []}, f"view={view}")
        assert "unrolled lab" in shown.page.locator("main .warning").inner_text()

    @pytest.mark.parametrize("view", ["V2c", "V6", "V7", "V8", "V9"])
    def test_the_coarse_inspection_of_a_report(
        self, page_with: Callable[..., Shown], data: dict[str, Any], view: str
    ) -> None:
        model = json.loads(json.dumps(data["models"][2]))
        for layer in model["flow"]["layers"]:
            del layer["exact"]
        for layer in model["layers"]:
            for gate in layer["gates"].values():
                for key in ("edges", "below", "above"):
                    gate.pop(key, None)
        shown = page_with({"page": "lab", "version": "0.1.0", "models": [model]}, f"view={view}")
        assert shown.page.locator("main h1").inner_text()
        assert shown.page.locator("main figure").count() > 0
        assert shown.page.locator('main input[name="low"]').count() == 0
