"""Metrics and losses: the published definitions, over valid positions only, whatever the batching."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from seqeval.metrics import f1_score, precision_score, recall_score
from seqeval.scheme import IOB2
from torch.nn import functional

from unrolled.errors import DataError, ShapeError
from unrolled.training.losses import cross_entropy, row_losses
from unrolled.training.metrics import Classification, Perplexity, Tagging, is_span_scheme

NAN = float("nan")


# --- classification


def test_accuracy_and_macro_f1_by_hand():
    scores = Classification(classes=5)
    scores.update([0, 0, 1, 1], [0, 1, 1, 2])
    scores.update([3], [3])
    result = scores.compute()
    # F1: class 0 2/3, class 1 1/2, class 2 0, class 3 1; class 4 occurs nowhere and is left out.
    assert result["accuracy"] == pytest.approx(3 / 5)
    assert result["macro_f1"] == pytest.approx((2 / 3 + 1 / 2 + 0 + 1) / 4)
    assert result["items"] == 5


def test_classification_does_not_depend_on_batches_or_order():
    rng = np.random.default_rng(0)
    guess, truth = rng.integers(0, 6, 101), rng.integers(0, 6, 101)
    whole = Classification(6)
    whole.update(guess, truth)
    parts, order = Classification(6), rng.permutation(101)
    for rows in np.array_split(order, 9):
        parts.update(guess[rows], truth[rows])
    parts.update([], [])
    assert parts.compute() == whole.compute()


def test_one_class_is_scored_too():
    scores = Classification(classes=1)
    scores.update([0, 0], [0, 0])
    assert scores.compute() == {"accuracy": 1.0, "macro_f1": 1.0, "items": 2}


def test_classification_errors():
    with pytest.raises(DataError, match="classes from 0 to 2, found 3"):
        Classification(3).update([3], [0])
    with pytest.raises(DataError, match="predicted: expected shape"):
        Classification(3).update([1, 2], [0])
    with pytest.raises(DataError, match="Nothing was scored"):
        Classification(3).compute()


def test_padding_is_not_accuracy():
    """Two sentences of 1 and 9 tokens; all nine are wrong, the one is right."""
    guess, truth = np.ones((2, 9), int), np.ones((2, 9), int)
    truth[1] = 0
    masked = Classification(2)
    masked.update(guess, truth, mask=np.arange(9) < np.array([[1], [9]]))
    assert masked.compute()["accuracy"] == pytest.approx(0.1)
    assert masked.compute()["items"] == 10
    tagged = Tagging(spans=False)
    tagged.update([["N"], ["N"] * 9], [["N"], ["V"] * 9])
    assert tagged.compute() == {"token_accuracy": 0.1, "items": 10, "sentences": 2}


# --- tagging

GUESS = [["B-a", "I-a", "O", "B-b"], [], ["I-a", "I-a", "B-a"], ["O", "I-b"], ["B-a", "I-b"]]
TRUTH = [["B-a", "I-a", "O", "B-a"], [], ["B-a", "I-a", "B-a"], ["O", "O"], ["B-a", "O"]]


@pytest.mark.parametrize("strict", [False, True])
def test_spans_agree_with_seqeval_in_any_batches(strict):
    options = {"mode": "strict", "scheme": IOB2} if strict else {}
    truth, guess = [t for t in TRUTH if t], [g for g in GUESS if g]  # strict seqeval takes no empty sentence
    scores = Tagging(spans=True, strict=strict)
    scores.update(GUESS[:2], TRUTH[:2])
    scores.update(GUESS[2:], TRUTH[2:])
    result = scores.compute()
    assert result["span_precision"] == pytest.approx(precision_score(truth, guess, **options))
    assert result["span_recall"] == pytest.approx(recall_score(truth, guess, **options))
    assert result["span_f1"] == pytest.approx(f1_score(truth, guess, **options))
    assert result["token_accuracy"] == pytest.approx(7 / 11)
    assert (result["items"], result["sentences"], result["spans"]) == (11, 5, 5)


def test_strict_and_lenient_differ_where_a_span_begins_with_i():
    lenient, strict = Tagging(spans=True), Tagging(spans=True, strict=True)
    for scores in (lenient, strict):
        scores.update([["I-a", "I-a"]], [["B-a", "I-a"]])
    assert lenient.compute()["span_f1"] == 1
    assert strict.compute()["span_f1"] == 0


def test_nothing_found_is_zero_without_a_warning():
    scores = Tagging(spans=True)
    scores.update([["O"]], [["O"]])
    assert scores.compute()["span_f1"] == 0


def test_tagging_errors():
    with pytest.raises(DataError, match="sentence 2: expected 2, one for each token, found 1"):
        Tagging(spans=False).update([["N"], ["N"]], [["N"], ["N", "N"]])
    scores = Tagging(spans=True)
    scores.update([[]], [[]])
    with pytest.raises(DataError, match="Nothing was scored"):
        scores.compute()


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        (["O", "B-x", "I-x"], True),
        (["B-x", "I-x", "E-x", "S-x", "O"], True),
        (["n", "v"], False),
        (["O"], False),
        (["B-x", "n"], False),
        ([], False),
    ],
)
def test_which_tag_sets_mark_spans(tags, spans):
    assert is_span_scheme(tags) is spans


# --- perplexity


def test_perplexity_by_hand_and_characters():
    scores = Perplexity()
    scores.update([[math.log(2), NAN], [math.log(8), math.log(4)]], [[True, False], [True, True]], characters=12)
    result = scores.compute()
    assert result["perplexity"] == pytest.approx(4)
    assert result["bits_per_character"] == pytest.approx(6 / 12)
    assert (result["items"], result["characters"]) == (3, 12)


def test_perplexity_without_characters_promises_no_bits():
    scores = Perplexity()
    scores.update([1.0])
    assert "bits_per_character" not in scores.compute()


def test_the_sum_is_exact_whatever_the_batches():
    rng = np.random.default_rng(1)
    nats = np.exp(rng.normal(size=5000) * 12)  # about twenty orders of magnitude
    for pieces in (1, 2, 77, 5000):
        scores = Perplexity()
        for batch in np.array_split(rng.permutation(nats), pieces):
            scores.update(batch)
        assert scores.nats == math.fsum(nats)


def test_token_mean_not_mean_of_rows():
    """[1, 3] and [2, 2, 2, 2] have the token mean 2, in one batch or in two."""
    rows = np.array([[1, 3, NAN, NAN], [2, 2, 2, 2]])
    valid = np.array([[1, 1, 0, 0], [1, 1, 1, 1]], bool)
    together, apart = Perplexity(), Perplexity()
    together.update(rows, valid)
    for row, mask in zip(rows, valid, strict=True):
        apart.update(row, mask)
    assert together.compute() == apart.compute()
    assert together.compute()["nats_per_token"] == 2.0


def test_perplexity_errors():
    with pytest.raises(DataError, match="Nothing was scored"):
        Perplexity().compute()
    with pytest.raises(DataError, match="inf in place 1"):
        Perplexity().update([1.0, math.inf])
    huge = Perplexity()
    huge.update([800.0])
    assert huge.compute()["perplexity"] == math.inf


# --- losses


def logits_with_losses(losses):
    """Two-class logits whose cross-entropy at class 0 is what is asked for."""
    losses = torch.tensor(losses, dtype=torch.float64)
    return torch.stack([torch.zeros_like(losses), torch.log(torch.expm1(losses))], dim=-1)


def test_cross_entropy_is_the_mean_over_tokens():
    logits = logits_with_losses([[1.0, 3.0, NAN, NAN], [2.0, 2.0, 2.0, 2.0]]).requires_grad_()
    targets = torch.tensor([[0, 0, -1, 99], [0, 0, 0, 0]])
    loss = cross_entropy(logits, targets, lengths=[2, 4])
    assert loss.item() == pytest.approx(2.0, rel=1e-12)
    loss.backward()
    assert logits.grad.isfinite().all()
    torch.testing.assert_close(logits.grad[0, 2:], torch.zeros(2, 2, dtype=torch.float64), rtol=0, atol=0)
    sums, counts = row_losses(logits.detach(), targets, lengths=[2, 4])
    assert sums.tolist() == pytest.approx([4.0, 8.0])
    assert counts.tolist() == [2, 4]


def test_cross_entropy_with_smoothing_agrees_with_torch():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 5, 4, generator=generator, dtype=torch.float64)
    targets = torch.randint(4, (3, 5), generator=generator)
    lengths = torch.tensor([5, 0, 2])
    valid = torch.arange(5) < lengths[:, None]
    for smoothing in (0.0, 0.1, 0.5):
        got = cross_entropy(logits, targets, lengths=lengths, label_smoothing=smoothing)
        wanted = functional.cross_entropy(logits[valid], targets[valid], label_smoothing=smoothing)
        torch.testing.assert_close(got, wanted)
        torch.testing.assert_close(
            cross_entropy(logits[:, 0], targets[:, 0], label_smoothing=smoothing),
            functional.cross_entropy(logits[:, 0], targets[:, 0], label_smoothing=smoothing),
        )


def test_smoothing_does_not_read_padding():
    logits = torch.zeros(1, 2, 3, requires_grad=True)
    with torch.no_grad():
        logits[0, 1] = NAN
    loss = cross_entropy(logits, torch.zeros(1, 2, dtype=torch.long), lengths=[1], label_smoothing=0.1)
    loss.backward()
    assert loss.item() == pytest.approx(math.log(3))
    assert logits.grad.isfinite().all()


def test_no_valid_position_gives_zero_and_no_gradient():
    logits = torch.randn(2, 3, 4, requires_grad=True)
    loss = cross_entropy(logits, torch.zeros(2, 3, dtype=torch.long), lengths=[0, 0], label_smoothing=0.1)
    loss.backward()
    assert loss.item() == 0
    assert logits.grad.abs().max() == 0


def test_loss_errors_name_the_argument():
    logits, targets = torch.zeros(2, 3, 4), torch.zeros(2, 3, dtype=torch.long)
    with pytest.raises(ShapeError, match=r"targets: expected \[2, 3\]"):
        cross_entropy(logits, targets[:, :2])
    with pytest.raises(ShapeError, match="mask: expected boolean"):
        cross_entropy(logits, targets, mask=torch.ones(2, 3))
    with pytest.raises(ShapeError, match="lengths: expected"):
        cross_entropy(logits, targets, lengths=[1])
    with pytest.raises(ValueError, match="label_smoothing: expected 0 or more"):
        cross_entropy(logits, targets, label_smoothing=1.0)
