"""What every model of the runtime is: parts out of a bundle, and answers to a list of inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from unrolled.data.batching import batch_indices
from unrolled.data.items import Item
from unrolled.data.reading import Reading, Row
from unrolled.decoding.answers import answer_each
from unrolled.errors import BundleError, RunError, expected
from unrolled.runtime.inputs import Features, Tokens, inputs_of
from unrolled.runtime.recurrent import CELLS, Recurrent, Shape
from unrolled.runtime.weights import Weights

if TYPE_CHECKING:
    from unrolled.runtime.steps import ModelSteps
    from unrolled.runtime.stream import Stream

__all__ = ["Body", "Model", "Parts"]

ROWS_AT_A_TIME = 64  # of one call of the engine; results do not depend on it


@dataclass(frozen=True)
class Parts:
    """What stands in a bundle."""

    where: str
    recipe: dict[str, Any]
    task: dict[str, Any]  # what was measured on the training part: vocabularies, labels, scale
    weights: Weights
    mark: str = field(default="", repr=False)  # of these weights: a saved state fits no others

    def get(self, name: str, kind: type, default: Any = ...) -> Any:
        """A field of the recipe.

        Raises:
            BundleError: it is not there, or is of another type.
        """
        value: Any = self.recipe.get(name, default)
        if name == "cell" and value not in CELLS:
            way_out = "Use it with PyTorch: unrolled.training.load."
            raise BundleError(
                expected(f"{self.where}: recipe.cell", "one of " + ", ".join(CELLS), repr(value), way_out)
            )
        if value is ... or type(value) is not kind or (isinstance(value, int) and kind is int and value < 1):
            found = "none" if value is ... else repr(value)[:40]
            raise BundleError(expected(f"{self.where}: recipe.{name}", f"of type {kind.__name__}", found))
        return value

    def shape(self, inputs: int, **more: Any) -> Shape:
        """The layers that the recipe names, over so many inputs; `more` wins over the recipe."""
        fields = {"cell": self.get("cell", str), "hidden": self.get("hidden", int), "layers": self.get("layers", int)}
        fields |= {"reset_after": self.get("reset_after", bool, True), "single_bias": self.get("single_bias", bool)}
        return Shape(input_size=inputs, **fields | more)


class Body:
    """Inputs and recurrent layers: what the heads of all tasks stand on."""

    inputs: Features | Tokens
    recurrent: Recurrent

    def __init__(self, parts: Parts, reading: Reading) -> None:
        embedding = parts.get("embedding", int) if reading.scaler is None else None
        self.inputs = inputs_of(parts.weights, reading, embedding)
        both, learned = parts.get("bidirectional", bool), parts.get("learn_initial_state", bool)
        shape = parts.shape(self.inputs.width, bidirectional=both, learned=learned)
        self.recurrent = Recurrent(parts.weights, "recurrent.", shape)


class Model:
    """A trained model without PyTorch: `predict`, `stream`, and for a language model `generate`."""

    task: ClassVar[str]
    reading: Reading
    body: Body

    def __init__(self, parts: Parts) -> None:
        self.recipe, self.mark, self.where = parts.recipe, parts.mark, parts.where

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.where!r}, cell={self.recipe.get('cell')!r})"

    @property
    def features(self) -> bool:
        """Whether it reads measurements (T, D), and not tokens."""
        return self.reading.scaler is not None

    @property
    def recurrent(self) -> Recurrent:
        """The recurrent layers by themselves: `run`, and `steps` for a loop of single steps."""
        return self.body.recurrent

    def item(self, given: Any, where: str) -> Item:
        """An item from a text, a list of tokens, or rows of features (T, D).

        Raises:
            DataError: it is none of what this model reads.
        """
        return self.reading.item(given, where)

    def predict(self, inputs: Iterable[Any]) -> list[dict[str, Any]]:
        """Answers for texts, lists of tokens, or arrays of features (T, D), in order.

        classify: label, probability, scores. tag: tokens, tags. lm: log_probability (nats), tokens, perplexity.
        seq2seq: target, tokens, score, log_probability (nats), stopped (end or limit).
        """
        return list(self.predict_each(inputs))

    def predict_each(self, inputs: Iterable[Any]) -> Iterator[dict[str, Any]]:
        """The same one by one, holding few inputs at a time."""
        return answer_each(inputs, self.item, self.answer)

    def answer(self, items: Sequence[Item]) -> list[dict[str, Any]]:
        """One dict an item, in order."""
        raise NotImplementedError

    def translate(self, inputs: Iterable[Any], **options: Any) -> list[list[dict[str, Any]]]:
        """The targets of some sources; for encoder–decoders only."""
        del inputs, options
        way_out = "Train one with: unrolled train seq2seq PAIRS"
        found = f"one that was trained to {self.task}"
        raise RunError(expected("run", "an encoder–decoder (task seq2seq)", found, way_out))

    def forecast(self, rows: Any = None, **options: Any) -> list[dict[str, Any]]:
        """The next values of some series; for forecasters only."""
        del rows, options
        found = f"one that was trained to {self.task}"
        way_out = "Train one with: unrolled train forecast DATA"
        raise RunError(expected("run", "one that was trained to forecast", found, way_out))

    def generate(self, prompt: str = "", length: int = 200, **options: Any) -> str:
        """Continue a text; for language models only."""
        del prompt, length, options
        found = f"one that was trained to {self.task}"
        raise RunError(expected("run", "a language model (task lm)", found, "Train one with: unrolled train lm DATA"))

    def steps(self) -> ModelSteps:
        """One stream of measurements, a step at a time, where a microsecond counts; see `ModelSteps`.

        Raises:
            RunError: it reads tokens, or both ways, or its task has no score for each step.
        """
        from unrolled.runtime.steps import ModelSteps

        return ModelSteps(self)

    def stream(self, batch_size: int | None = None, *, lookahead: int | None = None) -> Stream:
        """A stream that carries the state from chunk to chunk.

        Raises:
            RunError: the model reads both ways, or its task needs the whole input first; says what to do.
        """
        del batch_size, lookahead
        found = f"one of task {self.task}, which reads its whole input first"
        raise RunError(expected("stream", "a model that answers as its input comes", found, "Use predict."))


def batches(rows: Sequence[Row]) -> Iterator[np.ndarray]:
    """The numbers of the rows that are read side by side, of like length."""
    return iter(batch_indices([len(row) for row in rows], ROWS_AT_A_TIME))
