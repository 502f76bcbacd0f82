"""The recipe of Zaremba et al. (2014), small, on an embedded text: our LSTM against torch.nn's, loss by loss."""

from __future__ import annotations

import argparse
import itertools
import tempfile
from pathlib import Path

import numpy as np
import torch

from harness import save
from unrolled.data import examples
from unrolled.training import Recipe
from unrolled.training.optimisation import learning_rate, optimizer_for
from unrolled.training.sources import open_parts
from unrolled.training.tasks import find

STEPS = 50
RECIPE = Path(__file__).parent.parent / "recipes" / "zaremba-small.toml"


def losses(recipe: Recipe, layers: type[torch.nn.Module] | None) -> np.ndarray:
    """The losses (nats a token) of the first steps, with the recurrent layers of `layers`, or ours where None."""
    parts = open_parts(recipe)
    task = find("lm").prepare(recipe, parts.train)
    torch.manual_seed(recipe.seed)
    model = task.build()
    if layers is not None:
        ours = model.recurrent
        model.recurrent = layers(ours.input_size, ours.hidden_size, ours.num_layers, batch_first=True)
        model.recurrent.load_state_dict(ours.state_dict())
    optimizer = optimizer_for(recipe, model)
    optimizer.param_groups[0]["lr"] = learning_rate(recipe, 0)
    found = []
    for piece in itertools.islice(task.steps(model, task.encode(parts.train), np.random.default_rng(0)), STEPS):
        optimizer.zero_grad()
        piece.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
        optimizer.step()
        found.append(float(piece.mean))
    return np.array(found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    # At this learning rate the loss leaps in the first steps, and a rounding error grows a millionfold within 50 of
    # them: two float32 engines that both are right differ by percents at the end. float64 tells right from rounding.
    engines = {
        "backend auto, float32": ("auto", torch.float32),
        "backend reference, float64": ("reference", torch.float64),
    }
    runs: dict[str, list[dict]] = {name: [] for name in engines}
    with tempfile.TemporaryDirectory() as scratch:
        text = Path(scratch) / "plays.txt"
        text.write_text("\n".join(item.text for item in examples.load("plays").train), encoding="utf-8")
        files = {"data": str(text), "valid": str(text), "test": str(text), "vocabulary_size": 10_000}
        for seed, name in itertools.product(parser.parse_args().seeds, engines):
            recipe = Recipe.load(RECIPE).replace(**files, seed=seed, backend=engines[name][0])
            torch.set_default_dtype(engines[name][1])
            ours, theirs = losses(recipe, None), losses(recipe, torch.nn.LSTM)
            difference = float(np.max(np.abs(ours - theirs) / theirs))
            print(f"{name}, seed {seed}: last loss {ours[-1]:.4f}, largest relative difference {difference:.1e}")
            metrics = {"largest_relative_difference": difference, "last_loss": float(ours[-1])}
            runs[name].append({"seed": seed, "metrics": metrics, "baselines": {}, "items": STEPS, "unit": "steps"})
    aim = "the same losses for the first 50 steps to 1e-4 relative"
    title = "Our LSTM against torch.nn.LSTM in recipes/zaremba-small.toml, on five plays"
    save("parity", title=title, aim=aim, runs=runs, recipes={name: {"recipe": RECIPE.name} for name in runs})
