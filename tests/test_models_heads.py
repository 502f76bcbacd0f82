"""Classifier, tagger, language model and the bag: what they share with their formulas and with each other."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from unrolled import GRU, LSTM
from unrolled.models import (
    BagClassifier,
    Batch,
    Classifier,
    FeatureInput,
    LanguageModel,
    Tagger,
    TokenInput,
    bio_allowed,
    build,
)

IDS = torch.tensor([[4, 1, 2, 0, 0], [2, 5, 1, 3, 3], [0, 0, 0, 0, 0]])
LENGTHS = torch.tensor([3, 5, 0])
TAGS = torch.tensor([[0, 1, 2, -100, -100], [2, 2, 0, 1, 1], [-100] * 5])
BATCH = Batch(IDS, LENGTHS, targets=TAGS)


def tagger(crf: bool, tags: int = 3) -> Tagger:
    return Tagger(TokenInput(6, 4), LSTM(4, 5, batch_first=True, bidirectional=True), tags, crf=crf)


def language_model(cell: type[nn.Module] = LSTM, *, tie: bool = False, **dropouts: float) -> LanguageModel:
    inputs = TokenInput(6, 5, dropout=dropouts.get("input", 0.0))
    layer = cell(5, 5, 2, batch_first=True, dropout=dropouts.get("between", 0.0))
    return LanguageModel(inputs, layer, 6, tie_weights=tie, dropout=dropouts.get("output", 0.0))


# --- tagger


def test_tagger_loss_is_the_mean_over_valid_steps():
    model = tagger(crf=False)
    scores = model(BATCH)
    assert scores.shape == (3, 5, 3)
    losses = [F.cross_entropy(scores[b, t], TAGS[b, t]) for b, n in enumerate(LENGTHS.tolist()) for t in range(n)]
    torch.testing.assert_close(model.loss(scores, BATCH), torch.stack(losses).mean())


@pytest.mark.parametrize("crf", [False, True])
def test_tagger_does_not_depend_on_padding_or_on_other_rows(crf):
    """A2: a sentence alone, and beside longer ones."""
    model = tagger(crf)
    scores = model(BATCH)
    paths = model.decode(scores, LENGTHS)
    assert [len(path) for path in paths] == [3, 5, 0]
    long = Batch(F.pad(IDS, (0, 40), value=-1), LENGTHS, targets=F.pad(TAGS, (0, 40), value=7))
    torch.testing.assert_close(model.loss(model(long), long), model.loss(scores, BATCH))
    total = 0.0
    for b, n in enumerate(LENGTHS.tolist()):
        one = Batch(IDS[b : b + 1, :n], LENGTHS[b : b + 1], targets=TAGS[b : b + 1, :n])
        torch.testing.assert_close(model(one), scores[b : b + 1, :n])
        assert model.decode(model(one), one.lengths) == [paths[b]]
        total += model.loss(model(one), one).item() * n
    assert model.loss(scores, BATCH).item() == pytest.approx(total / 8, abs=1e-6)


@pytest.mark.parametrize("crf", [False, True])
def test_tagger_trains_through_rows_without_steps(crf):
    model = tagger(crf)
    empty = Batch(IDS, torch.zeros(3, dtype=torch.long), targets=TAGS)
    for batch in (BATCH, empty):
        model.zero_grad()
        model.loss(model(batch), batch).backward()
        assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
    assert model.loss(model(empty), empty) == 0


@pytest.mark.parametrize("crf", [False, True])
def test_decoding_with_bio_gives_valid_spans(crf):
    names = ["O", "B-x", "I-x", "B-y", "I-y"]
    model, allowed = tagger(crf, 5), bio_allowed(names)
    scores, lengths = torch.randn(20, 9, 5) * 5, torch.randint(0, 10, (20,))
    free = 0
    for path, best in zip(model.decode(scores, lengths, allowed=allowed), model.decode(scores, lengths), strict=True):
        assert not path or allowed.start[path[0]]
        assert all(allowed.pairs[a, b] for a, b in itertools.pairwise(path))
        free += path != best
    assert free > 5  # the scores alone would not have been valid


def test_a_loss_without_targets_is_refused():
    model = tagger(crf=False)
    batch = Batch(IDS, LENGTHS)
    with pytest.raises(ValueError, match=r"batch.targets: expected tags"):
        model.loss(model(batch), batch)


# --- language model


@pytest.mark.parametrize("cell", [LSTM, GRU])
def test_the_state_goes_in_and_comes_out(cell):
    model, ids = language_model(cell), torch.randint(6, (2, 7))
    whole, end = model(ids)
    head, state = model(ids[:, :3])
    tail, last = model(ids[:, 3:], state)
    torch.testing.assert_close(torch.cat([head, tail], 1), whole)
    torch.testing.assert_close(last, end)
    torch.testing.assert_close(model(ids)[0], whole)  # nothing is remembered


def test_lengths_and_resets_reach_the_layer():
    model, ids = language_model(), torch.randint(6, (2, 7))
    alone, end = model(ids[1:, :4])
    wild = ids.clone()
    wild[1, 4:] = 99
    logits, state = model(wild, lengths=torch.tensor([7, 4]))
    torch.testing.assert_close(logits[1:, :4], alone)
    torch.testing.assert_close(tuple(s[:, 1:] for s in state), end)
    resets = torch.zeros(2, 7, dtype=torch.bool)
    resets[0, 3] = True
    fresh, _ = model(ids[:1, 3:])
    torch.testing.assert_close(model(ids, resets=resets)[0][:1, 3:], fresh)


def test_a_layer_of_torch_can_take_its_place():
    model, ids = language_model(), torch.randint(6, (2, 7))
    logits, state = model(ids)
    theirs = nn.LSTM(5, 5, 2, batch_first=True)
    theirs.load_state_dict(model.recurrent.state_dict())
    model.recurrent = theirs
    found, found_state = model(ids)
    torch.testing.assert_close(found, logits)
    torch.testing.assert_close(found_state, state)
    model(ids, found_state)


def test_tied_weights_are_one_matrix():
    model = language_model(tie=True)
    assert [name for name, p in model.named_parameters() if p.shape == (6, 5)] == ["inputs.embedding.weight"]
    assert [name for name in model.state_dict() if name.startswith("output")] == ["output_bias"]
    out, _ = model.recurrent(model.inputs(IDS))
    wanted = out @ model.inputs.embedding.weight.T + model.output_bias
    torch.testing.assert_close(model(IDS)[0], wanted)
    model(IDS)[0][..., 5].sum().backward()
    assert model.inputs.embedding.weight.grad[5].any()  # from the output, beside the look-up


@pytest.mark.parametrize("place", ["input", "between", "output"])
def test_each_dropout_works_alone_and_only_while_training(place):
    model = language_model(**{place: 0.5})
    torch.manual_seed(0)
    first = model(IDS)[0]
    torch.manual_seed(0)
    torch.testing.assert_close(model(IDS)[0], first, rtol=0, atol=0)
    assert (model(IDS)[0] != first).any()
    model.eval()
    torch.testing.assert_close(model(IDS)[0], model(IDS)[0], rtol=0, atol=0)
    plain = language_model()
    plain.load_state_dict(model.state_dict())
    torch.testing.assert_close(model(IDS)[0], plain(IDS)[0], rtol=0, atol=0)


def test_language_model_refusals():
    inputs = TokenInput(6, 4)
    with pytest.raises(ValueError, match="future is not there yet"):
        LanguageModel(inputs, LSTM(4, 5, batch_first=True, bidirectional=True), 6)
    with pytest.raises(ValueError, match=r"tie_weights: expected an embedding of \(6, 5\).*found \(6, 4\)"):
        LanguageModel(inputs, LSTM(4, 5, batch_first=True), 6, tie_weights=True)
    LanguageModel(inputs, LSTM(4, 5, batch_first=True, proj_size=4), 6, tie_weights=True)


# --- parts that do not fit


def test_parts_must_fit():
    with pytest.raises(ValueError, match="recurrent: expected batch_first=True"):
        Classifier(FeatureInput(4), LSTM(4, 5), 2)
    with pytest.raises(ValueError, match="recurrent: expected input_size=4"):
        Tagger(FeatureInput(4), LSTM(3, 5, batch_first=True), 2)


def test_a_batch_moves_and_keeps_what_is_not_there():
    moved = Batch(IDS, LENGTHS).to("cpu")
    assert (moved.targets, moved.characters, len(moved)) == (None, None, 3)


# --- order


def order_sentences() -> Batch:
    """Sentences of the words dog, bites, man: class 0 where the dog comes first, 1 where the man does."""
    ids = torch.tensor([[1, 2, 3, 0, 0], [3, 2, 1, 0, 0], [4, 1, 2, 4, 3], [4, 3, 2, 4, 1]])
    return Batch(ids, torch.tensor([3, 3, 5, 5]), targets=torch.tensor([0, 1, 0, 1]))


def fit(model: nn.Module, batch: Batch) -> float:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(80):
        optimizer.zero_grad()
        F.cross_entropy(model(batch), batch.targets).backward()
        optimizer.step()
    return F.cross_entropy(model(batch), batch.targets).item()


def test_order_is_learned_by_a_recurrent_model_and_by_no_bag():
    batch = order_sentences()
    assert fit(build("classify", cell="rnn", hidden=8, vocabulary=5, classes=2), batch) < 0.05
    bag = BagClassifier(TokenInput(5, 8), 2)
    assert fit(bag, batch) >= math.log(2) - 1e-5  # one bag, two classes: no better than a coin
    scores = bag(batch)
    torch.testing.assert_close(scores[0], scores[1])
    torch.testing.assert_close(scores[2], scores[3])


def test_a_bag_is_the_mean_of_its_own_words():
    bag = BagClassifier(TokenInput(6, 4), 3)
    mean = bag.inputs.embedding.weight[IDS[0, :3]].mean(0)
    scores = bag(BATCH)
    torch.testing.assert_close(scores[0], bag.output(mean))
    torch.testing.assert_close(scores[2], bag.output.bias)
