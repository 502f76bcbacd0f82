"""A model to ask: with PyTorch where it is installed, by the runtime where it is not."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unrolled.data import Item
from unrolled.training.recipe import Recipe

if TYPE_CHECKING:
    from unrolled.data import Reading
    from unrolled.runtime import Model

__all__ = ["Light", "open_model"]


def open_model(run: Path) -> Any:
    """A `Trained`, or a `Light` that answers the same way."""
    if importlib.util.find_spec("torch") is not None:
        from unrolled.training import load

        return load(run)
    from unrolled.runtime import load as load_light

    return Light(load_light(run))


class Light:
    """A model of the runtime, asked like `unrolled.training.Trained`."""

    def __init__(self, model: Model) -> None:
        self.model, self.recipe, self.task = model, Recipe(**model.recipe), _Task(model)

    def predict(self, inputs: Iterable[Any]) -> list[dict[str, Any]]:
        """See `Trained.predict`."""
        return self.model.predict(inputs)

    def predict_each(self, inputs: Iterable[Any]) -> Iterator[dict[str, Any]]:
        """See `Trained.predict_each`."""
        return self.model.predict_each(inputs)

    def generate(self, prompt: str = "", length: int = 200, **options: Any) -> str:
        """See `Trained.generate`."""
        return self.model.generate(prompt, length, **options)

    def translate(self, inputs: Iterable[Any], **options: Any) -> list[list[dict[str, Any]]]:
        """See `Trained.translate`."""
        return self.model.translate(inputs, **options)

    def forecast(self, rows: Any = None, **options: Any) -> list[dict[str, Any]]:
        """See `Trained.forecast`."""
        return self.model.forecast(rows, **options)

    def histories(self, rows: Any = None) -> list[Any]:
        """See `Trained.histories`."""
        from unrolled.runtime.forecasts import series_of

        asked, network = self.model.asked, self.model.network  # type: ignore[attr-defined]  # a forecaster
        return asked.histories(network, series_of(rows))


class _Task:
    def __init__(self, model: Model) -> None:
        self.reading: Reading = model.reading
        self._model = model

    def item(self, given: Any, where: str) -> Item:
        return self._model.item(given, where)
