"""A trained model with all it needs to be used: saved as one bundle, loaded without the data it was trained on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from unrolled import __version__, bundle
from unrolled.data import Dataset, examples
from unrolled.decoding import answer_each
from unrolled.errors import BundleError, RecipeError, RunError, UnrolledError, expected
from unrolled.training.recipe import Recipe
from unrolled.training.report import Report
from unrolled.training.sources import in_memory, open_data, open_parts, read_file
from unrolled.training.tasks import Task, find

__all__ = ["Trained", "find_device"]


class Trained:
    """A model, its task and its recipe.

    >>> trained = load("runs/speakers")            # doctest: +SKIP
    >>> trained.predict([features])[0]["label"]    # doctest: +SKIP
    """

    def __init__(self, recipe: Recipe, task: Task, model: nn.Module) -> None:
        self.recipe, self.task, self.model = recipe, task, model

    def __repr__(self) -> str:
        size = sum(p.numel() for p in self.model.parameters())
        return f"Trained(task={self.recipe.task!r}, cell={self.recipe.cell!r}, {size:,} parameters)"

    # use

    def predict(self, inputs: Iterable[Any]) -> list[dict[str, Any]]:
        """Answers for texts, lists of tokens, or arrays of features (T, D), in order.

        classify: label, probability, scores. tag: tokens, tags. lm: log_probability (nats), tokens, perplexity.
        seq2seq: target, tokens, score, log_probability (nats), stopped (end or limit).
        """
        return list(self.predict_each(inputs))

    def predict_each(self, inputs: Iterable[Any]) -> Iterator[dict[str, Any]]:
        """The same one by one, holding few inputs at a time."""
        return answer_each(inputs, self.task.item, lambda items: self.task.predict(self.model.eval(), items))

    def evaluate(self, data: str | Path | Dataset) -> Report:
        """Score labelled data, beside the baseline. A name of an embedded set means its test part."""
        dataset = data if isinstance(data, Dataset) else open_data(str(data), self.recipe)
        return self.task.report(self.model.eval(), dataset, self._training_part)

    def _training_part(self) -> Dataset | None:
        try:
            return in_memory(open_parts(self.recipe).train)
        except UnrolledError:  # the data have moved; the report says which baseline is then missing
            return None

    def generate(self, prompt: str = "", length: int = 200, **options: Any) -> str:
        """Continue a text; `temperature`, `top_k`, `top_p`, `seed` and `stop` as in `run.generate`."""
        write = getattr(self.task, "generate", None)
        if write is None:
            found = f"one that was trained to {self.recipe.task}"
            raise RunError(
                expected("run", "a language model (task lm)", found, "Train one with: unrolled train lm DATA")
            )
        return write(self.model.eval(), prompt, length, **options)

    def translate(self, inputs: Iterable[Any], **options: Any) -> list[list[dict[str, Any]]]:
        """The targets of some sources, for each its hypotheses, best first; see `run.translate` for the options.

        Raises:
            RunError: the model was trained for another task.
        """
        write = getattr(self.task, "translate", None)
        if write is None:
            found = f"one that was trained to {self.recipe.task}"
            way_out = "Train one with: unrolled train seq2seq PAIRS"
            raise RunError(expected("run", "an encoder–decoder (task seq2seq)", found, way_out))
        if isinstance(inputs, str):
            raise RunError(expected("inputs", "a list of texts", "one text", "Write translate([text])."))
        items = [self.task.item(given, f"input {number}") for number, given in enumerate(inputs, start=1)]
        return write(self.model.eval(), items, **options)

    def forecast(
        self,
        rows: str | Path | Dataset | None = None,
        *,
        horizon: int | None = None,
        quantiles: Sequence[float] = (),
        paths: int | None = None,
        seed: int = 0,
        keep: bool = False,
    ) -> list[dict[str, Any]]:
        """Each series from where it was left: id, time, forecast and quantiles, a list of `horizon` numbers each.

        Args:
            rows: what came since, as a file or a data set; at its end the known covariates of the steps ahead.
            keep: leave the series after these rows; `save` writes that.
        """
        ask = self._forecaster("ask")(horizon, quantiles, paths, seed)
        return self._forecaster("forecast")(self.model.eval(), self._series(rows), ask, keep_state=keep)

    def histories(self, rows: str | Path | Dataset | None = None) -> list[tuple[np.ndarray, np.ndarray]]:
        """Times and values that stand before each forecast, as far back as the run remembers."""
        return self._forecaster("histories")(self.model.eval(), self._series(rows))

    def _forecaster(self, name: str) -> Any:
        found = getattr(self.task, name, None)
        if self.recipe.task != "forecast" or found is None:
            way_out = "Train one with: unrolled train forecast DATA"
            wanted = "one that was trained to forecast"
            raise RunError(expected("run", wanted, f"one that was trained to {self.recipe.task}", way_out))
        return found

    def _series(self, rows: str | Path | Dataset | None) -> Dataset | None:
        return read_file(rows, self.recipe) if isinstance(rows, str | Path) else rows

    # files

    def save(self, path: str | Path, **more: Any) -> None:
        """Write the bundle."""
        tensors = {name: value.detach().cpu().numpy() for name, value in self.model.state_dict().items()}
        header = {
            "version": __version__,
            "recipe": self.recipe.model_dump(),
            "task": self.task.to_dict(),
            "layout": _layout(self.recipe),
        }
        bundle.save(path, tensors, header | more)

    @classmethod
    def load(cls, path: str | Path, device: str = "auto") -> Trained:
        """Read a bundle, or the bundle of a run folder.

        Raises:
            BundleError: the file is damaged, is not ours, or is of a newer format.
        """
        file = Path(path)
        if not file.exists() and str(path) in examples.MODELS:
            file = examples.model_file(str(path))
        if file.is_dir():
            if not (file / "model.safetensors").is_file():
                way_out = f"If it was stopped before the first epoch ended: unrolled train --resume {file}"
                raise RunError(expected(str(file), "a run folder", "no model.safetensors in it", way_out))
            file = file / "model.safetensors"
        elif not file.exists():
            raise RunError(expected("run", "a run folder or a bundle", f"{file}, which does not exist"))
        tensors, header = bundle.load(file)
        try:
            recipe = Recipe(**header["recipe"])
            task = find(recipe.task).from_dict(recipe, header["task"])
            model = _rebuild(task, tensors)
        except bundle.MISFITS as error:
            raise bundle.misfit(str(file), error) from None
        return cls(recipe, task, model.to(find_device(device)).eval())


def _rebuild(task: Task, tensors: dict[str, np.ndarray]) -> nn.Module:
    """The model around weights that are there, so that a header cannot ask for more memory than its file fills."""
    recipe = task.recipe
    layers = max(recipe.layers, recipe.decoder_layers or 0)
    if layers > len(tensors):
        raise BundleError(expected("layers", f"no more than the {len(tensors)} tensors of the file", layers))
    plain = recipe.model_copy(update={"init": "torch", "forget_bias": None, "init_range": None})
    task.recipe = plain
    try:
        with torch.device("meta"):
            model = task.build()
    finally:
        task.recipe = recipe
    weights = {name: torch.from_numpy(array) for name, array in tensors.items()}
    for name, value in model.state_dict().items():
        if name in weights and weights[name].dtype != value.dtype:
            raise BundleError(expected(name, value.dtype, weights[name].dtype))
    model.load_state_dict(weights, assign=True)
    return model


def _layout(recipe: Recipe) -> dict[str, Any]:
    """How the recurrent weights are laid out, for readers that do not know this library."""
    if recipe.cell == "transformer":
        return {"cell": recipe.cell, "layers": recipe.layers, "heads": recipe.heads, "norm_first": True}
    gates = {"rnn": ["h"], "lstm": ["i", "f", "g", "o"], "gru": ["r", "z", "n"]}[recipe.cell]
    layout: dict[str, Any] = {"cell": recipe.cell, "gates": gates, "weights": "(gates * hidden, input)"}
    layout |= {"biases": 1 if recipe.single_bias else 2, "directions": 2 if recipe.bidirectional else 1}
    layout |= {"layers": recipe.layers, "batch_first": True}
    if recipe.task == "seq2seq":
        layout["decoder"] = {"cell": recipe.decoder_cell or recipe.cell, "directions": 1}
        layout["decoder"] |= {"layers": recipe.decoder_layers or recipe.layers}
    if recipe.cell == "gru":
        layout |= {"reset_after": recipe.reset_after, "update": "h = (1 - z) n + z h"}
    return layout


def find_device(name: str) -> torch.device:
    """The device of that name, or the best one there is.

    Raises:
        RecipeError: it is not there; says which are.
    """
    there = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
    if torch.backends.mps.is_available():
        there.append("mps")
    if name == "auto":
        return torch.device(there[1] if len(there) > 1 else "cpu")
    if name not in there and not (name == "cuda" and "cuda:0" in there):
        raise RecipeError(expected("device", f"one that is there ({', '.join(there)})", name, "Leave out --device."))
    return torch.device(name)
