"""Models from keywords, and the combinations that are refused."""

from __future__ import annotations

import pytest
import torch

from unrolled import GRU, LSTM, RNN
from unrolled.errors import RecipeError
from unrolled.models import POOLINGS, Batch, Classifier, FeatureInput, LanguageModel, Tagger, build

IDS, LENGTHS = torch.tensor([[1, 2, 3], [4, 0, 0]]), torch.tensor([3, 1])
TOKENS = {"vocabulary": 6, "hidden": 5}


@pytest.mark.parametrize(("cell", "layer"), [("rnn", RNN), ("lstm", LSTM), ("gru", GRU)])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_every_task_and_cell(cell, layer, bidirectional):
    both = {"cell": cell, "bidirectional": bidirectional, **TOKENS}
    for pooling in POOLINGS:
        classifier = build("classify", classes=4, pooling=pooling, **both)
        assert isinstance(classifier, Classifier)
        assert type(classifier.recurrent) is layer
        assert classifier(Batch(IDS, LENGTHS)).shape == (2, 4)
    for crf in (False, True):
        tagger = build("tag", classes=4, crf=crf, **both)
        assert isinstance(tagger, Tagger)
        assert tagger(Batch(IDS, LENGTHS)).shape == (2, 3, 4)
    if not bidirectional:
        lm = build("lm", cell=cell, **TOKENS)
        assert isinstance(lm, LanguageModel)
        assert lm(IDS)[0].shape == (2, 3, 6)


def test_every_keyword_reaches_its_part():
    model = build(
        "tag", cell="gru", hidden=5, layers=2, bidirectional=True, embedding=7, dropout=0.1, input_dropout=0.2,
        output_dropout=0.3, word_dropout=0.4, crf=True, single_bias=True, reset_after=False, init="keras",
        learn_initial_state=True, characters=(3, 2), backend="reference", vocabulary=6, unknown=0, classes=4,
        character_vocabulary=9,
    )  # fmt: skip
    assert isinstance(model, Tagger)
    assert (model.inputs.embedding.embedding_dim, model.inputs.width) == (7, 11)
    assert (model.inputs.dropout.p, model.inputs.word_dropout, model.inputs.unknown) == (0.2, 0.4, 0)
    assert (model.dropout.p, model.recurrent.dropout, model.recurrent.num_layers) == (0.3, 0.1, 2)
    assert not any("bias_hh" in name for name in model.recurrent.state_dict())
    assert model.recurrent.reset_after is False
    characters, widths = torch.randint(9, (2, 3, 4)), torch.tensor([[4, 1, 2], [3, 0, 0]])
    batch = Batch(IDS, LENGTHS, characters, widths, torch.tensor([[0, 1, 2], [3, 0, 0]]))
    model.loss(model(batch), batch).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_features_noise_and_forget_bias():
    model = build("classify", channels=3, classes=2, hidden=4, feature_noise=0.5, forget_bias=1.0)
    assert isinstance(model.inputs, FeatureInput)
    assert model.inputs.noise == 0.5
    forget = model.recurrent.gates().b[1] + model.recurrent.gates().b_h[1]
    torch.testing.assert_close(forget, torch.ones(4), rtol=0, atol=0)


def test_the_default_embedding_is_as_wide_as_the_state():
    model = build("lm", tie_weights=True, **TOKENS)
    assert model.inputs.embedding.weight.shape == (6, 5)
    assert model.output_weight is None


@pytest.mark.parametrize(
    ("task", "keywords", "message"),
    [
        ("lm", {"bidirectional": True}, "bidirectional: .*the future is not there yet"),
        ("lm", {"tie_weights": True, "embedding": 4}, "tie_weights: .*found embedding=4 and hidden=5"),
        ("lm", {"characters": True, "character_vocabulary": 9}, "characters: expected False"),
        ("lm", {"crf": True}, "crf: expected False, unless the task is tag"),
        ("lm", {"vocabulary": None, "channels": 3}, "vocabulary: expected its size"),
        ("tag", {"classes": None}, "classes: expected how many"),
        ("tag", {"tie_weights": True}, "tie_weights: expected False, unless the task is lm"),
        ("tag", {"characters": True}, "character_vocabulary: expected its size"),
        ("classify", {"crf": True}, "crf: "),
        ("classify", {"pooling": "sum"}, "pooling: expected one of last, mean, max, attention"),
        ("classify", {"channels": 3}, "vocabulary: .*found both"),
        ("classify", {"vocabulary": None}, "vocabulary: .*found neither"),
        ("classify", {"cell": "elman"}, "cell: expected one of rnn, lstm, gru, transformer, found 'elman'"),
        ("classify", {"cell": "rnn", "reset_after": False}, "reset_after: "),
        ("classify", {"cell": "gru", "forget_bias": 1.0}, "forget_bias: "),
        ("classify", {"dropout": 0.5}, "dropout: expected 0 with layers=1.*layers=2"),
        ("classify", {"output_dropout": 1.0}, "output_dropout: expected 0 or more and less than 1"),
        ("classify", {"word_dropout": 0.1}, "word_dropout: expected 0 where there is no unknown"),
        ("classify", {"feature_noise": 0.1}, "feature_noise: expected 0 for tokens"),
        ("classify", {"hidden": 0}, "hidden: expected 1 or more, found 0"),
        ("translate", {}, "task: expected one of classify, tag, lm"),
    ],
)
def test_refusals_say_why(task, keywords, message):
    given = {**TOKENS, **({} if task == "lm" else {"classes": 3}), **keywords}
    with pytest.raises(RecipeError, match=message):
        build(task, **given)
