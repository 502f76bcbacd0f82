"""The encoder–decoder: shapes of the chapter, padding, the bridge, attention by its formulas, step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from unrolled import LSTM
from unrolled.decoding import beam_search, greedy_search
from unrolled.errors import RecipeError, ShapeError
from unrolled.layers import state_by_layer
from unrolled.models import Batch, Bridge, DecoderStep, EncoderDecoder, SourceAttention, build_encoder_decoder
from unrolled.models.bridge import StateShape

VOCABULARY, TARGETS = 9, 7
LENGTHS = [3, 5, 1]
KINDS = [("none", False), ("additive", False), ("dot", False), ("general", False), ("dot", True), ("general", True)]
CELLS = [("lstm", "gru"), ("gru", "lstm"), ("rnn", "rnn")]
WITH_CELLS = [(*kind, CELLS[i % 3]) for i, kind in enumerate(KINDS)]


def model(attention: str = "general", feeding: bool = False, **options: Any) -> EncoderDecoder:
    """float64, two encoder layers both ways, three decoder layers; every parameter random and none zero."""
    settings: dict[str, Any] = {"hidden": 3, "decoder_hidden": 6, "layers": 2, "decoder_layers": 3, "embedding": 4}
    settings |= {"vocabulary": VOCABULARY, "target_vocabulary": TARGETS}
    made = build_encoder_decoder(**(settings | options), attention=attention, input_feeding=feeding).double().eval()
    generator = torch.Generator().manual_seed(5)
    for parameter in made.parameters():
        nn.init.uniform_(parameter, -0.9, 0.9, generator=generator)
    return made


def sources(rows: int = 3, steps: int = 5) -> Batch:
    generator = torch.Generator().manual_seed(6)
    ids = torch.randint(0, VOCABULARY, (rows, steps), generator=generator)
    return Batch(ids, torch.tensor(LENGTHS[:rows]))


def previous(rows: int = 3, steps: int = 4) -> Tensor:
    return torch.randint(0, TARGETS, (rows, steps), generator=torch.Generator().manual_seed(7))


@pytest.mark.parametrize(("attention", "feeding"), KINDS)
def test_shapes_of_the_chapter(attention: str, feeding: bool) -> None:
    """Two sources of 5 tokens, a target of 4: the encoder's state is (2, 3), the scores are (2, 4, V)."""
    made = model(
        attention, feeding, cell="rnn", layers=1, decoder_layers=1, bidirectional=False, decoder_hidden=3, bridge="copy"
    )
    batch = Batch(torch.randint(0, VOCABULARY, (2, 5)), torch.tensor([5, 5]))
    assert made.encode(batch).start[0].shape == (2, 3)
    assert made(batch, previous(2, 4)).shape == (2, 4, TARGETS)
    weights = made.run(batch, previous(2, 4)).weights
    assert weights is None if attention == "none" else weights.shape == (2, 4, 5)


@pytest.mark.parametrize(("attention", "feeding", "cells"), WITH_CELLS)
def test_padding_changes_nothing_and_weighs_exactly_nothing(
    attention: str, feeding: bool, cells: tuple[str, str]
) -> None:
    made = model(attention, feeding, cell=cells[0], decoder_cell=cells[1])
    batch = sources()
    whole = made.run(batch, previous())
    other = Batch(batch.inputs.masked_fill(~batch.valid, 10**6), batch.lengths)
    longer = Batch(torch.cat([batch.inputs, batch.inputs], 1), batch.lengths)
    torch.testing.assert_close(made(other, previous()), whole.logits, rtol=0, atol=0)
    torch.testing.assert_close(made(longer, previous()), whole.logits, rtol=0, atol=1e-13)
    for row, length in enumerate(LENGTHS):
        alone = Batch(batch.inputs[row : row + 1, :length], batch.lengths[row : row + 1])
        torch.testing.assert_close(made(alone, previous()[row : row + 1])[0], whole.logits[row], rtol=0, atol=1e-13)
        if whole.weights is not None:
            assert (whole.weights[row, :, length:] == 0).all()
            torch.testing.assert_close(whole.weights[row].sum(-1), torch.ones(4, dtype=torch.float64))


@pytest.mark.parametrize(("attention", "feeding"), KINDS)
def test_nothing_flows_into_the_padding_of_features(attention: str, feeding: bool) -> None:
    made = model(attention, feeding, vocabulary=None, channels=4)
    features = torch.randn(3, 5, 4, dtype=torch.float64)
    batch = Batch(features, torch.tensor([3, 0, 5]))
    features[0, 3:], features[1] = float("nan"), float("nan")
    features.requires_grad_()
    logits = made(batch, previous())
    assert logits.isfinite().all()
    logits.sum().backward()
    assert features.grad is not None
    assert features.grad.isfinite().all()
    assert (features.grad[0, 3:] == 0).all()
    assert (features.grad[1] == 0).all()
    assert (features.grad[2] != 0).any()
    assert all(p.grad is None or p.grad.isfinite().all() for p in made.parameters())


@pytest.mark.parametrize(("attention", "feeding", "cells"), WITH_CELLS)
def test_the_whole_target_is_one_step_after_the_other(attention: str, feeding: bool, cells: tuple[str, str]) -> None:
    made = model(attention, feeding, cell=cells[0], decoder_cell=cells[1])
    source = made.encode(sources())
    state = made.begin(source)
    whole = made.decode(previous(), state, source)
    for t in range(4):
        piece = made.decode(previous()[:, t : t + 1], state, source)
        torch.testing.assert_close(piece.logits[:, 0], whole.logits[:, t], rtol=0, atol=1e-13)
        if whole.weights is not None:
            torch.testing.assert_close(piece.weights[:, 0], whole.weights[:, t], rtol=0, atol=1e-13)
        state = piece.state


@pytest.mark.parametrize(("attention", "feeding"), KINDS)
def test_a_step_does_not_see_the_target_after_it(attention: str, feeding: bool) -> None:
    made = model(attention, feeding)
    changed = previous().clone()
    changed[:, 2:] = (changed[:, 2:] + 1) % TARGETS
    before, after = made(sources(), previous()), made(sources(), changed)
    torch.testing.assert_close(before[:, :2], after[:, :2], rtol=0, atol=1e-14)
    assert (before[:, 2:] - after[:, 2:]).abs().max() > 1e-3


# Attention by its formulas, in NumPy


def softmax(e: np.ndarray) -> np.ndarray:
    w = np.exp(e - e.max())
    return w / w.sum()


@pytest.mark.parametrize("kind", ["additive", "dot", "general"])
def test_attention_is_the_formula(kind: str) -> None:
    attention = SourceAttention(kind, 4, 4 if kind == "dot" else 6).double()
    query = torch.randn(3, 2, 4, dtype=torch.float64)
    memory = torch.randn(3, 5, 4 if kind == "dot" else 6, dtype=torch.float64)
    memory[0, 3:] = float("nan")
    with torch.no_grad():
        context, weights = attention(query, attention.remember(memory, torch.tensor(LENGTHS)))
    values = {name: value.numpy() for name, value in attention.scores.state_dict().items()}
    for row, length in enumerate(LENGTHS):
        m = memory[row, :length].numpy()
        for n in range(2):
            q = query[row, n].numpy()
            if kind == "additive":
                hidden = q @ values["query.weight"].T + m @ values["memory.weight"].T + values["memory.bias"]
                e = np.tanh(hidden) @ values["output"]
            elif kind == "general":
                e = np.array([q @ values["weight.weight"] @ one for one in m])
            else:
                e = m @ q
            np.testing.assert_allclose(weights[row, n, :length], softmax(e), rtol=0, atol=1e-14)
            np.testing.assert_allclose(context[row, n], softmax(e) @ m, rtol=0, atol=1e-14)
            np.testing.assert_array_equal(weights[row, n, length:], 0)


def test_timing_of_the_two_papers() -> None:
    """Bahdanau's weights of step t come from the state before it, Luong's from the state after it."""
    changed = previous().clone()
    changed[:, 1] = (changed[:, 1] + 1) % TARGETS
    for kind, same in (("additive", True), ("general", False)):
        made = model(kind)
        first, second = made.run(sources(), previous()).weights, made.run(sources(), changed).weights
        assert first is not None
        assert second is not None
        difference = (first[1, 1] - second[1, 1]).abs().max().item()
        assert (difference == 0) if same else (difference > 1e-4), kind
        assert (first[1, 2] - second[1, 2]).abs().max() > 1e-5


# The bridge


def numbered(layers: int, directions: int, size: int) -> Tensor:
    """(L·D, 1, H): every number is 10 · layer + direction."""
    rows = [[10.0 * layer + direction] * size for layer in range(layers) for direction in range(directions)]
    return torch.tensor(rows)[:, None]


def test_the_bridge_takes_layers_from_the_top_and_directions_side_by_side() -> None:
    h = numbered(2, 2, 3)
    assert state_by_layer(h, bidirectional=True)[1, 0].unique().item() == 10
    encoder, wanted = StateShape(2, 2, (3,)), {0: [0, 0, 0, 1, 1, 1], 1: [10, 10, 10, 11, 11, 11]}
    for layers, expected_layers in ((1, [1]), (2, [0, 1]), (3, [0, 0, 1])):
        out = Bridge("copy", encoder, StateShape(layers, 1, (6,)))(h)
        assert out[:, 0].tolist() == [wanted[layer] for layer in expected_layers]


@pytest.mark.parametrize("sizes", [((3,), (6,)), ((3, 3), (6,)), ((3,), (6, 6)), ((3, 3), (6, 6)), ((2, 3), (4, 6))])
def test_the_bridge_between_cells(sizes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    """The decoder's c comes from the encoder's c where there is one."""
    encoder, decoder = StateShape(2, 2, sizes[0]), StateShape(2, 1, sizes[1])
    parts = tuple(numbered(2, 2, size) + 100 * i for i, size in enumerate(sizes[0]))
    given = parts if len(parts) > 1 else parts[0]
    out = Bridge("copy", encoder, decoder)(given)
    got = out if isinstance(out, tuple) else (out,)
    assert [tuple(part.shape) for part in got] == [(2, 1, size) for size in sizes[1]]
    assert got[0].unique().tolist() == [0, 1, 10, 11]
    if len(got) == 2:
        assert got[1].unique().tolist() == ([100, 101, 110, 111] if len(parts) == 2 else [0])
    projected = Bridge("projection", encoder, StateShape(3, 1, tuple(2 * size + 1 for size in sizes[1])))
    with torch.no_grad():
        out = projected(given)
    h = out[0] if isinstance(out, tuple) else out
    source = torch.cat([torch.full((sizes[0][0],), 10.0), torch.full((sizes[0][0],), 11.0)])
    torch.testing.assert_close(h[2, 0], torch.tanh(projected.maps[2][0](source)))
    zeros = Bridge("zeros", encoder, decoder)(given)
    assert not (zeros[0] if isinstance(zeros, tuple) else zeros).any()


def test_the_decoder_starts_from_the_encoders_own_last_step() -> None:
    """Row 0 has 3 of 5 steps; what a copy hands on is the state after its third, in both directions."""
    made = model("none", cell="lstm", decoder_cell="lstm", decoder_layers=2, bridge="copy")
    batch = sources()
    h, c = made.encode(batch).start
    encoder = made.encoder
    assert isinstance(encoder, LSTM)
    alone = made.inputs.read(Batch(batch.inputs[:1, :3], batch.lengths[:1]))
    _, (want_h, want_c) = encoder(alone)
    torch.testing.assert_close(h[1, 0], torch.cat([want_h[2, 0], want_h[3, 0]]))
    torch.testing.assert_close(c[1, 0], torch.cat([want_c[2, 0], want_c[3, 0]]))


# Own tokens, and search


def test_scheduled_sampling_reads_own_tokens_without_their_gradient() -> None:
    made = model("general", True)
    truth = made(sources(), previous())
    torch.testing.assert_close(made(sources(), previous(), own=0.0), truth, rtol=0, atol=0)
    own = made(sources(), previous(), own=1.0)
    torch.testing.assert_close(own[:, 0], truth[:, 0], rtol=0, atol=1e-13)
    assert (own[:, 1:] - truth[:, 1:]).abs().max() > 1e-3
    other = (previous() + 1) % TARGETS
    other[:, 0] = previous()[:, 0]
    torch.manual_seed(3)
    first = made(sources(), previous(), own=1.0)
    torch.manual_seed(3)
    torch.testing.assert_close(made(sources(), other, own=1.0), first, rtol=0, atol=0)  # the truth is never read
    with pytest.raises(ValueError, match="own: expected a probability"):
        made(sources(), previous(), own=1.5)


@pytest.mark.parametrize(("attention", "feeding"), KINDS)
def test_a_source_alone_decodes_as_in_a_batch(attention: str, feeding: bool) -> None:
    made = model(attention, feeding)
    batch = sources()
    options: dict[str, Any] = {"start": 0, "end": 1, "limit": 7, "keep_weights": True}

    def decode(some: Batch) -> list[Any]:
        step = DecoderStep(made, made.encode(some))
        return beam_search(step, step.first, len(some), beam=4, n_best=4, alpha=0.6, **options)

    whole = decode(batch)
    greedy_step = DecoderStep(made, made.encode(batch))
    greedy = greedy_search(greedy_step, greedy_step.first, 3, **options)
    for row, length in enumerate(LENGTHS):
        (alone,) = decode(Batch(batch.inputs[row : row + 1, :length], batch.lengths[row : row + 1]))
        assert [one.tokens for one in alone] == [one.tokens for one in whole[row]]
        np.testing.assert_allclose([one.score for one in alone], [one.score for one in whole[row]], rtol=0, atol=1e-12)
        for one, other in zip(alone, whole[row], strict=True):
            if attention != "none":
                np.testing.assert_allclose(one.weights, other.weights[:, :length], rtol=0, atol=1e-12)
                assert (other.weights[:, length:] == 0).all()
    # The probability told is that of the tokens under teacher forcing.
    tokens = torch.tensor([[0, *greedy[1].tokens]])
    one = Batch(batch.inputs[1:2], batch.lengths[1:2])
    log_p = made(one, tokens).detach().log_softmax(-1)[0]
    written = [*greedy[1].tokens, 1] if greedy[1].stopped == "end" else greedy[1].tokens
    want = sum(float(log_p[t, token]) for t, token in enumerate(written))
    assert greedy[1].log_probability == pytest.approx(want, abs=1e-12)


# What cannot work


def test_a_vector_starts_the_decoder() -> None:
    made = model("none", vocabulary=None, channels=5, vector=True, cell="gru", decoder_layers=2)
    batch = Batch(torch.randn(3, 1, 5, dtype=torch.float64), torch.tensor([1, 1, 1]))
    assert made(batch, previous()).shape == (3, 4, TARGETS)
    with pytest.raises(ShapeError, match="one vector a row"):
        made(Batch(torch.randn(3, 2, 5, dtype=torch.float64), torch.tensor([2, 2, 2])), previous())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attention": "dot", "decoder_hidden": 5}, "as wide as the query"),
        ({"bridge": "copy", "decoder_hidden": 5}, "bridge='projection'"),
        ({"attention": "additive", "feeding": True}, "input_feeding: expected False"),
        ({"attention": "none", "bridge": "zeros"}, "bridge: expected one that brings something"),
        ({"attention": "cosine"}, "attention: expected one of"),
        ({"bridge": "sum"}, "bridge: expected one of"),
        ({"decoder_cell": "mlp"}, "decoder_cell: expected one of"),
        ({"channels": 4}, "vocabulary: expected either"),
        ({"vocabulary": None, "channels": 4, "vector": True}, "none for a vector"),
        ({"layers": 1, "decoder_layers": 1, "dropout": 0.5}, "dropout: expected 0 with one layer"),
    ],
)
def test_combinations_that_cannot_work(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        model(**options)


def test_wrong_rows_are_named() -> None:
    with pytest.raises(ShapeError, match="previous: expected"):
        model()(sources(), previous(2))


# Each of these mistakes must be seen by a test above.


@pytest.mark.parametrize("mistake", ["padding attended", "pad step executed", "directions swapped", "bottom layer"])
def test_mistakes_are_seen(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from unrolled.models import attention, bridge, encoder_decoder

    if mistake == "padding attended":
        monkeypatch.setattr(attention, "masked_weights", lambda scores, _valid: scores.softmax(-1))
    elif mistake == "pad step executed":
        monkeypatch.setattr(encoder_decoder, "lengths_of", lambda _lengths, x: torch.full((len(x),), x.shape[1]))
    elif mistake == "directions swapped":
        monkeypatch.setattr(bridge, "state_by_layer", lambda state, **both: state_by_layer(state, **both).flip(1))
    else:
        monkeypatch.setattr(bridge, "max", lambda _zero, _layer: 0, raising=False)
    with pytest.raises(AssertionError):
        _both_laws()


def _both_laws() -> None:
    test_padding_changes_nothing_and_weighs_exactly_nothing("general", False, ("lstm", "gru"))
    test_the_bridge_takes_layers_from_the_top_and_directions_side_by_side()
