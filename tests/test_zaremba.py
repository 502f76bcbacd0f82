"""The published language model's recipe: on it, torch.nn's layers and ours learn the same, step for step."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from unrolled.training.folder import RunFolder
from unrolled.training.loop import Loop, Silent
from unrolled.training.optimisation import learning_rate
from unrolled.training.recipe import Recipe
from unrolled.training.sources import open_parts
from unrolled.training.tasks import find

STEPS = 50
FILE = Path(__file__).parent.parent / "recipes" / "zaremba-small.toml"


@pytest.fixture
def recipe(tmp_path):
    """The recipe as it is, on a made-up text and with fewer units."""
    rng = np.random.default_rng(0)
    names = {}
    for part, sentences in (("data", 4000), ("valid", 40), ("test", 40)):
        lines = [" ".join(f"w{i}" for i in rng.zipf(1.5, rng.integers(2, 12)) % 60) for _ in range(sentences)]
        names[part] = str(tmp_path / f"ptb.{part}.txt")
        Path(names[part]).write_text("".join(f" {line} \n" for line in lines))
    return Recipe.load(FILE).replace(**names, hidden=16, embedding=16, epochs=1, log_every=1)


class FirstSteps(Silent):
    """Stops the run after the first steps."""

    def step(self, *, epoch, step, loss):
        del epoch, loss
        if step == STEPS + 1:
            raise KeyboardInterrupt


def losses_of(recipe, folder, cell):
    """The losses of the first steps, with the recurrent layer of `cell` in the place of ours."""
    parts = open_parts(recipe)
    task = find("lm").prepare(recipe, parts.train)
    torch.manual_seed(recipe.seed)
    model = task.build()
    ours = model.recurrent
    if cell is not None:
        model.recurrent = cell(ours.input_size, ours.hidden_size, ours.num_layers, batch_first=True)
        model.recurrent.load_state_dict(ours.state_dict())
    loop = Loop(task, model, task.encode(parts.train), task.encode(parts.valid), RunFolder(folder), FirstSteps())
    loop.folder.create(recipe)
    with pytest.raises(KeyboardInterrupt):
        loop.run()
    lines = [json.loads(line) for line in loop.folder.metrics_file.read_text().splitlines()]
    return np.array([line["loss"] for line in lines if "loss" in line])[:STEPS]


@pytest.mark.parametrize(("cell", "rate"), [("lstm", 1.0), ("gru", 0.3), ("rnn", 0.1)])
def test_torch_layers_swapped_in_give_the_same_losses(cell, rate, recipe, tmp_path):
    """At a rate of 1, the RNN and the GRU of this size leap about, and so would any rounding."""
    recipe = recipe.replace(cell=cell, learning_rate=rate)
    ours = losses_of(recipe, tmp_path / "ours", None)
    theirs = losses_of(recipe, tmp_path / "theirs", getattr(torch.nn, cell.upper()))
    assert len(ours) == STEPS
    assert ours[-10:].mean() < ours[0] - 0.05, "it learnt nothing, so the comparison says nothing"
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)


def test_all_weights_start_within_the_range_and_sentences_end_in_eos(recipe):
    parts = open_parts(recipe)
    task = find("lm").prepare(recipe, parts.train)
    weights = torch.cat([p.detach().reshape(-1) for p in task.build().parameters()])
    assert 0.099 < float(weights.abs().max()) <= 0.1
    assert "<eos>" in task.vocabulary
    words = Path(recipe.data).read_text().replace("\n", "<eos> ").split()
    (stream,) = task.encode(parts.train).rows
    assert task.vocabulary.decode(stream.inputs) == words[:-1]
    assert task.vocabulary.decode(stream.targets) == words[1:]


def test_the_loss_is_the_sum_over_a_chunk_averaged_over_the_streams(recipe):
    parts = open_parts(recipe)
    task = find("lm").prepare(recipe, parts.train)
    model = task.build()
    piece = next(task.steps(model, task.encode(parts.train), np.random.default_rng(0)))
    torch.testing.assert_close(piece.loss, piece.mean * 20)
    torch.testing.assert_close(piece.by_row().sum() / 20, piece.loss)


def test_the_learning_rate_halves_each_epoch_after_the_fourth():
    rates = [learning_rate(Recipe.load(FILE), epoch) for epoch in range(13)]
    assert rates == [1.0] * 4 + [0.5**n for n in range(1, 10)]
