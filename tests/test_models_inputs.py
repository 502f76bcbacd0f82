"""Tokens, characters and features as vectors."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from unrolled.models import Batch, CharacterInput, FeatureInput, TokenInput

IDS = torch.tensor([[4, 1, 2, 1, 3], [2, 2, 1, 9, 9]])
LENGTHS = torch.tensor([5, 3])


def words() -> tuple[torch.Tensor, torch.Tensor]:
    """(3, 4, 6) character ids and (3, 4) widths: repeated words, and words without characters."""
    characters, widths = torch.randint(1, 9, (3, 4, 6)), torch.tensor([[3, 6, 0, 1], [3, 2, 5, 6], [0, 0, 0, 0]])
    characters[1, 0] = characters[0, 0]
    characters[1, 3] = characters[0, 1]
    return characters, widths


def test_tokens_are_looked_up():
    inputs = TokenInput(6, 3)
    torch.testing.assert_close(inputs(IDS[:1]), inputs.embedding.weight[IDS[:1]], rtol=0, atol=0)
    assert inputs.width == 3
    assert inputs.embedding.weight.abs().max() <= 1


def test_ids_in_the_padding_may_be_anything():
    inputs = TokenInput(6, 3)
    found = inputs.read(Batch(IDS, LENGTHS))
    torch.testing.assert_close(found[1, :3], inputs.embedding.weight[IDS[1, :3]], rtol=0, atol=0)


def test_word_dropout_reads_unknown_words_while_training():
    inputs = TokenInput(6, 3, word_dropout=0.25, unknown=0)
    ids = torch.ones(200, 100, dtype=torch.long)
    unknown = (inputs(ids) == inputs.embedding.weight[0]).all(-1)
    assert abs(unknown.float().mean().item() - 0.25) < 0.02
    assert (inputs(ids)[~unknown].shape[-1], inputs.eval()(ids).unique().numel()) == (3, 3)


def test_word_dropout_leaves_the_characters():
    encoder = CharacterInput(9, 2, 2)
    inputs = TokenInput(6, 3, word_dropout=0.9, unknown=0, characters=encoder)
    characters, widths = words()
    found = inputs(torch.ones(3, 4, dtype=torch.long), characters, widths)
    torch.testing.assert_close(found[..., 3:], encoder(characters, widths), rtol=0, atol=0)


def test_dropout_of_inputs_scales_what_stays():
    inputs = TokenInput(6, 50, dropout=0.5)
    ratio = inputs(IDS[:1]) / inputs.embedding(IDS[:1])
    assert set(ratio.detach().round().unique().tolist()) == {0, 2}


def test_characters_of_each_word_alone():
    encoder = CharacterInput(9, 4, 5).double()
    characters, widths = words()
    found = encoder(characters, widths)
    assert found.shape == (3, 4, encoder.width)
    for b, t in itertools.product(range(3), range(4)):
        width = int(widths[b, t])
        letters = encoder.embedding(characters[b, t, :width])[None]
        if width == 0:
            assert not found[b, t].any()
            continue
        out, _ = encoder.recurrent(letters)  # each direction's own end: the last step, and the first
        wanted = torch.cat([out[0, -1, :5], out[0, 0, 5:]])
        torch.testing.assert_close(found[b, t], wanted)


def test_a_word_read_once_gets_the_gradient_of_every_place():
    encoder = CharacterInput(9, 4, 5).double()
    characters, widths = torch.randint(1, 9, (1, 1, 6)), torch.tensor([[6]])
    encoder(characters, widths).sum().backward()
    once = [p.grad.clone() for p in encoder.parameters()]
    encoder.zero_grad()
    encoder(characters.expand(2, 3, 6), widths.expand(2, 3)).sum().backward()
    torch.testing.assert_close([p.grad for p in encoder.parameters()], [6 * g for g in once])


def test_characters_past_a_word_are_not_read():
    encoder = CharacterInput(9, 4, 5)
    characters, widths = words()
    padding = torch.arange(6) >= widths[..., None]
    torch.testing.assert_close(
        encoder(characters.masked_fill(padding, 999), widths), encoder(characters, widths), rtol=0, atol=0
    )
    assert not encoder(characters, torch.zeros_like(widths)).any()
    assert encoder(characters[:, :, :0], torch.zeros_like(widths)).shape == (3, 4, 10)


def test_words_in_the_padding_are_not_read():
    inputs = TokenInput(10, 3, characters=CharacterInput(9, 4, 5))
    characters, widths = words()
    wild = widths.clone()
    wild[0, 2:] = 6
    characters[0, 2:] = -7
    batch = Batch(torch.ones(3, 4, dtype=torch.long), torch.tensor([2, 4, 0]), characters, wild)
    assert inputs.read(batch)[0, :2].isfinite().all()


def test_features_are_standardised_by_saved_numbers():
    inputs = FeatureInput(2)
    inputs.standardise([1.0, -2.0], [2.0, 0.5])
    x = torch.tensor([[[1.0, -2.0], [3.0, -1.0]]])
    torch.testing.assert_close(inputs(x), torch.tensor([[[0.0, 0.0], [1.0, 2.0]]]))
    other = FeatureInput(2)
    other.load_state_dict(inputs.state_dict())
    torch.testing.assert_close(other(x), inputs(x), rtol=0, atol=0)
    assert list(inputs.state_dict()) == ["mean", "scale"]
    assert not list(inputs.parameters())


def test_noise_is_added_while_training_only():
    inputs = FeatureInput(2, noise=0.5)
    inputs.standardise([0.0, 0.0], [100.0, 1.0])
    noise = inputs(torch.zeros(50, 100, 2))
    torch.testing.assert_close(noise.std((0, 1)), torch.tensor([0.5, 0.5]), rtol=0.05, atol=0)
    assert not inputs.eval()(torch.zeros(5, 4, 2)).any()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TokenInput(6, 3, word_dropout=0.1), "word_dropout: expected 0 where unknown is None"),
        (lambda: TokenInput(6, 3, dropout=1.0), "dropout: expected 0 or more and less than 1"),
        (lambda: TokenInput(6, 3)(torch.tensor([[6]])), "ids: expected ids from 0 to 5, found 6"),
        (lambda: TokenInput(6, 3)(torch.tensor([[-1]])), "found -1"),
        (lambda: TokenInput(6, 3)(torch.ones(2, 2)), "ids: expected integer ids"),
        (lambda: TokenInput(6, 3)(torch.ones(2, dtype=torch.long)), "ids: expected 2 axes"),
        (lambda: TokenInput(10, 3, characters=CharacterInput(9, 2, 2))(IDS), "characters: expected ids"),
        (lambda: CharacterInput(9, 2, 2)(IDS, LENGTHS), "characters: expected"),
        (lambda: FeatureInput(3)(torch.ones(2, 5, 4)), r"inputs: expected \(batch, time, 3\)"),
        (lambda: FeatureInput(3)(torch.ones(2, 5, 3, dtype=torch.long)), "inputs: expected floating-point"),
        (lambda: FeatureInput(3, noise=-1), "noise: expected 0 or more"),
        (lambda: FeatureInput(1).standardise([0.0], [0.0]), "scale: expected finite, positive"),
        (lambda: FeatureInput(1).standardise([math.nan], [1.0]), "mean: expected finite"),
        (lambda: FeatureInput(2).standardise([0.0], [1.0]), r"mean: expected \(2,\)"),
    ],
)
def test_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()
