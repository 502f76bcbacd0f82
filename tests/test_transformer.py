"""The Transformer: torch.nn's own result, padding and documents that do not leak, and a cache that changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from small_data import documents, reviews, sentences
from unrolled.errors import RecipeError, RunError, ShapeError
from unrolled.models import Batch, Transformer, build
from unrolled.models.transformer import sinusoids
from unrolled.training import Recipe, load, train

LENGTHS = torch.tensor([3, 7, 0, 5])


def layer_of(**options: Any) -> Transformer:
    torch.manual_seed(1)
    return Transformer(6, 8, 2, heads=2, **options).double().eval()


def rows(batch: int = 4, steps: int = 7) -> Tensor:
    return torch.randn(batch, steps, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


def same(got: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-12)


def torchs(layer: Transformer, x: Tensor, **masks: Any) -> Tensor:
    """What torch.nn.TransformerEncoder makes of the same weights."""
    twin = nn.TransformerEncoderLayer(8, 2, 32, 0.0, "gelu", batch_first=True, norm_first=True).double()
    encoder = nn.TransformerEncoder(twin, 2, nn.LayerNorm(8).double(), enable_nested_tensor=False)
    encoder.layers.load_state_dict(layer.layers.state_dict())
    encoder.norm.load_state_dict(layer.norm.state_dict())  # type: ignore[union-attr]
    return encoder.train()(layer.enter(x) + sinusoids(torch.arange(x.shape[1]), 8), **masks)


def test_it_is_torchs_encoder() -> None:
    x, layer = rows(), layer_of()
    same(layer(x)[0], torchs(layer, x))
    padding = torch.arange(7) >= LENGTHS.clamp(min=1)[:, None]
    wanted = torchs(layer, x, src_key_padding_mask=padding)
    out, _ = layer(x, lengths=LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        same(out[row, :length], wanted[row, :length])


def test_it_is_torchs_encoder_with_a_causal_mask() -> None:
    x, mask = rows(), nn.Transformer.generate_square_subsequent_mask(7, dtype=torch.float64)
    for training in (False, True):
        layer = layer_of(causal=True, window=7).train(training)
        same(layer(x)[0], torchs(layer, x, mask=mask))


def test_all_layers_start_differently() -> None:
    layer = layer_of()
    first, second = (block.linear1.weight for block in layer.layers)
    assert (first - second).abs().max() > 0.01


@pytest.mark.parametrize("causal", [False, True])
def test_padding_holds_nothing(causal: bool) -> None:
    """NaN in the padding, and a row alone: equal results, zeros past the end, no gradient there."""
    layer, x = layer_of(causal=causal), rows()
    padding = (torch.arange(7) >= LENGTHS[:, None])[..., None]
    spoilt = x.masked_fill(padding, float("nan")).requires_grad_()
    out, _ = layer(spoilt, lengths=LENGTHS)
    assert not out.masked_select(padding).any()
    for row, length in enumerate(LENGTHS.tolist()):
        same(out[row, :length], layer(x[row : row + 1, :length])[0][0])
    out.square().sum().backward()
    assert spoilt.grad is not None
    assert spoilt.grad.isfinite().all()
    assert not spoilt.grad.masked_select(padding).any()


def test_the_state_of_one_that_sees_both_sides_is_its_last_output() -> None:
    layer, x = layer_of(), rows()
    out, state = layer(x, lengths=LENGTHS)
    same(state, torch.stack([out[0, 2], out[1, 6], torch.zeros(8, dtype=out.dtype), out[3, 4]])[None])


def test_a_causal_one_does_not_see_what_comes() -> None:
    layer, x = layer_of(causal=True), rows()
    changed = torch.cat([x[:, :4], x[:, 4:] + 1], 1)
    same(layer(changed)[0][:, :4], layer(x)[0][:, :4])
    assert (layer_of()(changed)[0][:, :4] - layer_of()(x)[0][:, :4]).abs().max() > 1e-3  # and this check can fail


@pytest.mark.parametrize("window", [4, 5, 7, 64])
@pytest.mark.parametrize("cuts", [(1,) * 23, (23,), (3, 9, 1, 10), (0, 8, 8, 7)])
def test_a_stream_may_be_cut_anywhere(window: int, cuts: tuple[int, ...]) -> None:
    """The cache of keys and values: any cuts give what one call gives, also where the window slides."""
    layer, x = layer_of(causal=True, window=window), rows(2, 23)
    whole, _ = layer(x)
    state, parts = None, []
    for part in x.split(cuts, 1):
        out, state = layer(part, state)
        parts.append(out)
        assert len(state.inputs) <= window
    same(torch.cat(parts, 1), whole)


def test_a_full_window_keeps_its_newer_half() -> None:
    """Step 4 is the first past a window of four: it sees steps 2 to 4 and nothing older."""
    layer, x = layer_of(causal=True, window=4), rows(1, 6)
    same(layer(x)[0][:, 4:], layer(x[:, 2:])[0][:, 2:])


def test_while_training_windows_start_afresh() -> None:
    layer, x = layer_of(causal=True, window=4).train(), rows(2, 7)
    out, state = layer(x)
    assert state is None
    same(out, torch.cat([layer(x[:, :4])[0], layer(x[:, 4:])[0]], 1))


@pytest.mark.parametrize("causal", [False, True])
def test_resets_part_documents(causal: bool) -> None:
    layer, x = layer_of(causal=causal), rows(2)
    resets = torch.zeros(2, 7, dtype=torch.bool)
    resets[0, 3] = resets[1, 0] = resets[1, 5] = True
    out, _ = layer(x, resets=resets)
    same(out[0], torch.cat([layer(x[:1, :3])[0], layer(x[:1, 3:])[0]], 1)[0])
    same(out[1], torch.cat([layer(x[1:, :5])[0], layer(x[1:, 5:])[0]], 1)[0])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("batch", "steps"), [(0, 3), (2, 0), (0, 0)])
def test_empty_batches(causal: bool, batch: int, steps: int) -> None:
    for lengths in (None, [0] * batch):
        out, _ = layer_of(causal=causal)(rows(batch, steps), lengths=lengths)
        assert out.shape == (batch, steps, 8)


def test_what_is_refused() -> None:
    layer, x = layer_of(causal=True), rows()
    _, state = layer(x, lengths=LENGTHS)
    layer(x[:, :2], state, lengths=[0, 2, 0, 0])  # only the row that has not ended goes on
    with pytest.raises(RunError, match="row 0, which ended earlier"):
        layer(x[:, :2], state)
    with pytest.raises(RunError, match="in evaluation"):
        layer.train()(x, state)
    with pytest.raises(ShapeError, match="6"):
        layer(x[..., :5])
    with pytest.raises(ValueError, match="multiple of heads"):
        Transformer(6, 9, heads=2)
    with pytest.raises(RecipeError, match="heads"):
        Recipe(task="lm", data="x", cell="transformer", hidden=30)
    with pytest.raises(RecipeError, match="task forecast"):
        Recipe(task="forecast", data="x", cell="transformer")
    with pytest.raises(RecipeError, match="init"):
        Recipe(task="lm", data="x", cell="transformer", init="keras")
    with pytest.raises(RecipeError, match="heads"):
        Recipe(task="lm", data="x", heads=2)


def test_the_models_take_it() -> None:
    """Scores of a row alone and beside others, in the models that `build` makes."""
    torch.manual_seed(0)
    ids = torch.randint(0, 9, (3, 6))
    lengths = torch.tensor([6, 2, 4])
    for task in ("classify", "tag"):
        model = build(task, cell="transformer", hidden=8, heads=2, bidirectional=True, vocabulary=9, classes=3).eval()
        scores = model(Batch(ids, lengths))
        alone = model(Batch(ids[1:2, :2], lengths[1:2]))[0]
        got = scores[1] if task == "classify" else scores[1, :2]
        torch.testing.assert_close(got, alone, rtol=1e-5, atol=1e-6)


SMALL = {"cell": "transformer", "hidden": 8, "heads": 2, "epochs": 2, "embedding": 8}


@pytest.mark.parametrize("task", ["classify", "tag", "lm"])
def test_the_same_run_serves_it(task: str, tmp_path: Path) -> None:
    """Train, save, load, predict; the bundle gives back the weights, and batches do not matter."""
    make = {"classify": reviews, "tag": sentences, "lm": documents}[task]
    data = make(tmp_path / {"classify": "a.csv", "tag": "a.conll", "lm": "a.txt"}[task])
    more = {"format": "documents", "chunk": 8} if task == "lm" else {}
    result = train(Recipe(task=task, data=str(data), **SMALL, **more), out=tmp_path / "run")
    assert result.epochs == 2
    trained = load(tmp_path / "run")
    texts = ["it is good", "bad", "the sad a fine"] if task != "lm" else ["abcdefgh" * 3, "b", "cde"]
    together, alone = trained.predict(texts), [trained.predict([text])[0] for text in texts]
    key = {"classify": "probability", "tag": "tags", "lm": "log_probability"}[task]
    for one, other in zip(together, alone, strict=True):
        assert one[key] == (other[key] if task == "tag" else pytest.approx(other[key], rel=1e-5))
    if task == "lm":
        greedy = trained.generate("ab", 20, temperature=0)
        assert greedy.startswith("ab")
        assert greedy == trained.generate("ab", 20, temperature=0)
