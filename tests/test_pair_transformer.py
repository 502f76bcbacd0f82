"""The Transformer for pairs: torch.nn's own result, padding that holds nothing, steps that equal one call, a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from unrolled.errors import RecipeError
from unrolled.models import Batch, PairTransformer, build_pair_transformer
from unrolled.models.transformer import sinusoids
from unrolled.training import Recipe, load, train

SOURCE = torch.tensor([[1, 2, 3, 4, 5], [3, 2, 9, 9, 9], [4, 4, 1, 7, 9]])
LENGTHS = torch.tensor([5, 2, 4])
TARGET = torch.tensor([[0, 3, 1, 2], [0, 1, 2, 2], [0, 5, 5, 1]])


def model_of(**options: Any) -> PairTransformer:
    torch.manual_seed(3)
    sizes: dict[str, Any] = {"vocabulary": 10, "target_vocabulary": 6, "hidden": 8, "heads": 2, "layers": 2}
    return build_pair_transformer(**sizes, embedding=5, **options).double().eval()


def same(got: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-12)


def test_it_is_torchs_decoder() -> None:
    model = model_of()
    twin = nn.TransformerDecoderLayer(8, 2, 32, 0.0, "gelu", batch_first=True, norm_first=True).double()
    decoder = nn.TransformerDecoder(twin, 2, nn.LayerNorm(8).double())
    decoder.layers.load_state_dict(model.layers.state_dict())
    decoder.norm.load_state_dict(model.norm.state_dict())  # type: ignore[union-attr]
    batch = Batch(SOURCE, LENGTHS)
    memory, _ = model.encoder(model.inputs.read(batch), lengths=LENGTHS)
    x = model.enter(model.target_inputs(TARGET)) + sinusoids(torch.arange(4), 8)
    causal = nn.Transformer.generate_square_subsequent_mask(4, dtype=torch.float64)
    out = decoder.train()(x, memory, tgt_mask=causal, memory_key_padding_mask=torch.arange(5) >= LENGTHS[:, None])
    same(model(batch, TARGET), model.output(out))


def test_a_row_alone_is_the_row_beside_others() -> None:
    model = model_of()
    together = model.run(Batch(SOURCE, LENGTHS), TARGET)
    assert together.weights is not None
    for row, length in enumerate(LENGTHS.tolist()):
        alone = model.run(Batch(SOURCE[row : row + 1, :length], LENGTHS[row : row + 1]), TARGET[row : row + 1])
        same(together.logits[row], alone.logits[0])
        assert not together.weights[row, :, length:].any()
        same(together.weights[row].sum(-1), torch.ones(4, dtype=torch.float64))


def test_steps_are_one_call() -> None:
    model, batch = model_of(), Batch(SOURCE, LENGTHS)
    source = model.encode(batch)
    state, parts = model.begin(source), []
    for piece in TARGET.split([1, 2, 1], 1):
        done = model.decode(piece, state, source)
        state = done.state
        parts.append(done.logits)
    same(torch.cat(parts, 1), model(batch, TARGET))
    assert state.recurrent[0].shape == (2, 3, 4, 8)  # layers, rows, steps written, features


def test_no_step_sees_what_comes() -> None:
    model, batch = model_of(), Batch(SOURCE, LENGTHS)
    changed = TARGET.clone()
    changed[:, 2:] = 4
    same(model(batch, changed)[:, :2], model(batch, TARGET)[:, :2])


def test_it_reads_its_own_words_where_asked() -> None:
    """Scheduled sampling at 1: the target behind the start symbol does not matter."""
    model, batch = model_of(), Batch(SOURCE, LENGTHS)
    torch.manual_seed(0)
    one = model(batch, TARGET, own=1.0)
    torch.manual_seed(0)
    same(model(batch, torch.cat([TARGET[:, :1], 5 - TARGET[:, 1:]], 1), own=1.0), one)


def pairs(path: Path) -> Path:
    """Two letters and the second of them in capitals."""
    lines = [f"{a} {b}\t{b.upper()}" for a in "abcd" for b in "abcd" for _ in range(4)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


SMALL: dict[str, Any] = {"cell": "transformer", "hidden": 16, "heads": 2, "embedding": 8, "min_count": 1}


def test_a_run_learns_and_its_bundle_translates(tmp_path: Path) -> None:
    data = str(pairs(tmp_path / "pairs.tsv"))
    recipe = Recipe(
        task="seq2seq", data=data, valid=data, test=data, epochs=25, batch_size=8, patience=None, threads=1, **SMALL
    )
    result = train(recipe, out=tmp_path / "run")
    assert result.report.metrics["exact_match"] == 1
    trained = load(tmp_path / "run")
    texts = ["a b", "d c", "b b"]
    for options in ({"beam": 1}, {"beam": 3}):
        found = [best[0]["target"] for best in trained.translate(texts, **options)]
        assert found == ["B", "C", "B"]
    alone = [trained.translate([text], beam=3, attention=True)[0][0] for text in texts]
    together = [best[0] for best in trained.translate(texts, beam=3, attention=True)]
    for one, other in zip(alone, together, strict=True):
        assert one["log_probability"] == pytest.approx(other["log_probability"], abs=1e-5)
        assert len(other["attention"]["weights"][0]) == 2


@pytest.mark.parametrize(
    "options",
    [{"attention": "dot"}, {"input_feeding": True, "attention": "general"}, {"decoder_cell": "gru"}, {"hidden": 15}],
)
def test_what_only_recurrent_layers_have_is_refused(options: dict[str, Any], tmp_path: Path) -> None:
    data = str(pairs(tmp_path / "pairs.tsv"))
    with pytest.raises(RecipeError, match=next(iter(options))):
        train(Recipe(task="seq2seq", data=data, **(SMALL | options)), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
