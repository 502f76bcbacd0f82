"""Forecasting: the next values of many series, with intervals.

Training random windows of the training part; the loss is the mean over the values that are there.
Score    rolling origins: from each of them the whole horizon, with all that stood before it and nothing after. The
         forecast is the median.
Baseline the last value, the last season, and ETS of statsmodels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unrolled.data import Dataset, Item
from unrolled.data.readers.series import only_series
from unrolled.data.series import Series, begun_at
from unrolled.errors import MissingExtra
from unrolled.models import Forecaster, Window
from unrolled.models.build import CELLS
from unrolled.runtime.forecasts import Forecasts
from unrolled.runtime.rolling import next_time
from unrolled.training.forecasting.baselines import ETS, naive, seasonal_naive
from unrolled.training.forecasting.calibrating import calibrated, shifts_at, shifts_of
from unrolled.training.forecasting.losses import forecast_loss
from unrolled.training.forecasting.metrics import ForecastScores, naive_scale
from unrolled.training.forecasting.parts import check_training_part, check_values
from unrolled.training.forecasting.plan import Plan
from unrolled.training.forecasting.rolling import Ask, TorchNetwork, forecast_from, origins_of, remember
from unrolled.training.forecasting.windows import batches, epoch_size
from unrolled.training.recipe import Recipe
from unrolled.training.report import Numbers
from unrolled.training.tasks.aligned import device_of
from unrolled.training.tasks.base import Encoded, Place, StepLoss, Task, TrainingPart

__all__ = ["Forecast"]

FEW = 20  # series for which exponential smoothing is fitted without being asked for


class Forecast(Task):
    name, unit = "forecast", "values"

    def __init__(self, recipe: Recipe, plan: Plan) -> None:
        super().__init__(recipe)
        self.plan = plan
        self.asked = Forecasts(plan, recipe.quantiles, recipe.paths, bool(recipe.series_embedding))
        self._notes: list[str] = []

    @classmethod
    def prepare(cls, recipe: Recipe, train: Dataset) -> Forecast:
        kept = check_training_part(recipe, train)
        train.notes[:] = kept.notes
        return cls(recipe, Plan.fit(recipe, only_series(kept)))

    def to_dict(self) -> dict[str, Any]:
        return {"plan": self.plan.to_dict()}

    @classmethod
    def from_dict(cls, recipe: Recipe, saved: dict[str, Any]) -> Forecast:
        return cls(recipe, Plan.from_dict(saved["plan"]))

    def build(self) -> nn.Module:
        recipe, layout = self.recipe, self.plan.layout
        options: dict[str, Any] = {"single_bias": recipe.single_bias, "init": recipe.init, "backend": recipe.backend}
        options |= {"learn_initial_state": recipe.learn_initial_state, "dropout": recipe.dropout}
        if recipe.cell == "gru":
            options["reset_after"] = recipe.reset_after
        if recipe.cell == "lstm":
            options["forget_bias"] = recipe.forget_bias
        width = layout.width + recipe.series_embedding
        recurrent = CELLS[recipe.cell](width, recipe.hidden, recipe.layers, batch_first=True, **options)
        model = Forecaster(
            recurrent,
            inputs=layout.width,
            outputs=layout.outputs,
            ahead=layout.ahead if recipe.head == "direct" else None,
            series=len(self.plan.scaler.ids),
            embedding=recipe.series_embedding,
            memory=layout.memory,
            past=layout.past,
            skip=recipe.skip,
            dropout=recipe.output_dropout,
            follow=(self.plan.horizon, len(recipe.quantiles)) if self._is_followed else None,
        )
        if recipe.init_range is not None:
            for parameter in model.parameters():
                nn.init.uniform_(parameter, -recipe.init_range, recipe.init_range)
        return model

    def encode_items(self, dataset: Dataset) -> Encoded:
        """One row a series, as arrays; a series that the run dropped is left out."""
        dropping = "drop" in (self.recipe.short, self.recipe.constant)
        rows = []
        for series in only_series(dataset):
            if dropping and series.id not in self.plan.scaler.rows:
                continue
            self.asked.check_new(series)
            check_values(self.recipe, series)
            rows.append(self.plan.frame(series, ahead=self.plan.horizon))
        return Encoded(rows, [row.values for row in rows], [row.series.where for row in rows])

    # training

    def step_count(self, data: Encoded) -> int:
        return -(-epoch_size(data.rows, self.recipe, self.plan) // self.recipe.batch_size)

    def steps(
        self, model: nn.Module, data: Encoded, rng: np.random.Generator, place: Place | None = None
    ) -> Iterator[StepLoss]:
        assert isinstance(model, Forecaster)
        place = Place() if place is None else place
        behind = (place.batches, place.drawn)
        for window, names in batches(data.rows, self.recipe, self.plan, rng, *behind, share=self.ranks.share):
            place.batches += 1
            count = 0 if window is None else int(window.mask.sum())
            if window is None or not count:
                yield StepLoss.of_nothing()
                continue
            batch = window.to(device_of(model))
            loss = self._losses(model(batch), batch).sum() / count

            def by_row(batch: Window = batch) -> Tensor:
                return self._losses(model(batch), batch).flatten(1).sum(1)

            yield StepLoss(loss, loss.detach(), count, names, ((batch,), {}), by_row)

    def _losses(self, raw: Tensor, batch: Window) -> Tensor:
        """As targets: the loss of each value, 0 where none is there."""
        levels = torch.tensor(self.plan.layout.levels, device=raw.device)
        scale = batch.scale.view(-1, *[1] * (batch.targets.dim() - 1))
        losses = forecast_loss(self.plan.layout.output, raw, batch.targets, scale=scale, levels=levels)
        if self.recipe.loss_units == "data":
            losses = losses * (scale / math.exp(self.plan.size[0]))  # a usual series counts as it did
        return losses.masked_fill(~batch.mask, 0)

    # scores

    def measure(self, model: nn.Module, data: Encoded) -> Numbers:
        assert isinstance(model, Forecaster)
        scores = ForecastScores(() if self._is_point else self.recipe.quantiles)
        ask = self._usual_ask()
        pairs = [(row, at) for row in data.rows for at in self._origins(row.series)]
        frames, places = [row for row, _ in pairs], [at for _, at in pairs]
        shifts = shifts_at(model, self.plan, pairs, ask)
        middle = ask.levels.index(0.5)
        # Every process scores all of them: what is drawn comes from one sequence of random numbers.
        forecasts = forecast_from(model, self.plan, frames, places, ask, shifts)
        for row, at, found in zip(frames, places, forecasts, strict=True):
            actual = row.series.target[at : at + self.plan.horizon]
            found = found[: len(actual)]
            scale = naive_scale(row.series.target[: row.series.begin], self.plan.season)
            scores.update(actual, found[:, middle], None if self._is_point else found, scale)
        metrics = scores.compute()
        self._notes = [f"{scores.unscaled:,} values have no scale for MASE and CRPS"] if scores.unscaled else []
        if any(self._was_calibrated_on(row.series) for row in data.rows):
            self._notes.append("the intervals were calibrated on some of these values: their coverage proves nothing")
        return metrics | {"nats": metrics["crps"], "origins": len(places)}

    def _was_calibrated_on(self, series: Series) -> bool:
        found, row = self.plan.calibration, self.plan.scaler.rows.get(series.id)
        return found is not None and row is not None and int(series.grid(1)[series.begin]) <= found.until[row]

    def _usual_ask(self) -> Ask:
        levels = (0.5,) if self._is_point else self.recipe.quantiles
        return Ask(self.plan.horizon, levels, self.recipe.paths, self.recipe.seed)

    @property
    def _is_point(self) -> bool:
        return self.plan.layout.output == "point"

    @property
    def _is_followed(self) -> bool:
        return self.recipe.calibrate == "adaptive" and not self._is_point

    def _origins(self, series: Series) -> list[int]:
        return origins_of(series, self.plan.horizon, self.recipe.stride)

    def score(self, metrics: Numbers) -> tuple[str, float, bool]:
        name = "mase" if self._is_point else "crps"
        return name, metrics[name], False

    def baselines(self, dataset: Dataset, train: TrainingPart) -> dict[str, Numbers]:
        del train
        rows = self.encode(dataset).rows
        season, horizon = self.plan.season, self.plan.horizon
        result = {"last value": self._baseline(rows, lambda values, _: lambda at: naive(values[:at], horizon))}
        if season > 1:
            result["last season"] = self._baseline(
                rows, lambda values, _: lambda at: seasonal_naive(values[:at], horizon, season)
            )
        wanted = self.recipe.compare_with
        if wanted == "ets" or (wanted == "auto" and len(rows) <= FEW):
            try:
                result["ETS"] = self._baseline(rows, self._ets)
            except MissingExtra as error:
                if wanted == "ets":
                    raise
                self._notes.append(f"ETS is not beside it: {error}")
        elif wanted == "auto":
            self._notes.append(f"ETS is not beside it: {len(rows):,} fits take long; --compare-with ets makes them")
        return result

    def _ets(self, values: np.ndarray, begin: int) -> Callable[[int], np.ndarray]:
        fitted = ETS(values, begin, self.plan.season)
        return lambda at: fitted.forecast(at, self.plan.horizon)

    def _baseline(self, rows: Sequence[Any], rule: Callable[[np.ndarray, int], Callable[[int], np.ndarray]]) -> Numbers:
        """`rule` takes a series and the begin of its part, and gives a forecast for each origin."""
        scores = ForecastScores(())
        for row in rows:
            values, begin = row.series.target, row.series.begin
            forecast, scale = rule(values, begin), naive_scale(values[:begin], self.plan.season)
            for at in self._origins(row.series):
                actual = values[at : at + self.plan.horizon]
                scores.update(actual, forecast(at)[: len(actual)], None, scale)
        return scores.compute()

    def report(self, model: nn.Module, dataset: Dataset, train: TrainingPart) -> Any:
        """As any task's; notes that only scoring could find come last."""
        found = super().report(model, dataset, train)
        return replace(found, notes=[*found.notes, *self._notes])

    def remarks(self, metrics: Numbers) -> list[str]:
        stride = self.recipe.stride or self.plan.horizon
        lines = [
            f"origins: {int(metrics['origins']):,}, {stride} steps apart, {self.plan.horizon} steps ahead from each"
        ]
        if "coverage" in metrics:
            low, high = self.recipe.quantiles[0], self.recipe.quantiles[-1]
            lines.append(f"coverage: share of values between quantiles {low:g} and {high:g}; {high - low:.0%} is right")
        return lines

    # use

    def calibrate(self, model: nn.Module, dataset: Dataset) -> None:
        """Measure the calibration on the validation part, and where it leaves each series."""
        if self.recipe.calibrate == "none" or self._is_point:
            return
        assert isinstance(model, Forecaster)
        frames, ask = self.encode(dataset).rows, self._usual_ask()
        plan = replace(self.plan, calibration=None)
        found = calibrated(model, plan, frames, self.recipe.stride, ask, adaptive=self._is_followed)
        self.use(replace(plan, calibration=found))
        if found is None or not found.rate:
            return
        shifts = found.shifts.copy()
        for frame, shift in zip(frames, shifts_of(model, self.plan, frames, ask), strict=True):
            shifts[frame.row] = shift[-1]
        self.use(replace(plan, calibration=replace(found, shifts=shifts)))

    def use(self, plan: Plan) -> None:
        """Go on with another plan, such as one without its calibration."""
        self.plan, self.asked = plan, replace(self.asked, plan=plan)

    def remember(self, model: nn.Module, parts: Sequence[Dataset]) -> bool:
        """Leave every series at its newest observation: the last part that has it knows all before."""
        assert isinstance(model, Forecaster)
        newest: dict[str, Series] = {}
        for part in parts:
            newest |= {series.id: series for series in only_series(part) if series.id in self.plan.scaler.rows}
        frames = [self.plan.frame(series, ahead=1) for series in newest.values()]
        remember(model, self.plan, frames)
        calibration = self.plan.calibration
        if calibration is not None and calibration.rate:
            kept = calibration.shifts.copy()
            after = [f for f in frames if f.series.begin and int(f.series.times[-1]) != calibration.until[f.row]]
            for frame, shift in zip(after, shifts_of(model, self.plan, after, self._usual_ask()), strict=True):
                kept[frame.row] = shift[-1]
            TorchNetwork(model).keep("shift", np.arange(len(kept)), kept)
        return True

    def item(self, given: Any, where: str) -> Item:
        return self.asked.item(given, where)

    def predict(self, model: nn.Module, items: Sequence[Item]) -> list[dict[str, Any]]:
        """id, and for each step ahead its time, the forecast and its quantiles; each series from its own rows alone."""
        return self.asked.predict(self._network(model), items)

    def ask(
        self, horizon: int | None = None, levels: Sequence[float] = (), paths: int | None = None, seed: int = 0
    ) -> Ask:
        """What is wanted of a forecast; as the recipe says where nothing is said."""
        return self.asked.ask(horizon, levels, paths, seed)

    def forecast(self, model: nn.Module, rows: Dataset | None, ask: Ask, *, keep_state: bool = False) -> list[Any]:
        """From where each series was left, after reading new rows where there are some; see `Forecasts.forecast`."""
        network = self._network(model)
        return self.asked.forecast(network, self._series(network, rows), ask, keep_state=keep_state)

    def histories(self, model: nn.Module, rows: Dataset | None) -> list[tuple[np.ndarray, np.ndarray]]:
        """Times and values before each forecast: those that the run remembers, then the new rows."""
        network = self._network(model)
        return self.asked.histories(network, self._series(network, rows))

    def _network(self, model: nn.Module) -> TorchNetwork:
        assert isinstance(model, Forecaster)
        return TorchNetwork(model)

    def _series(self, network: TorchNetwork, rows: Dataset | None) -> list[Series] | None:
        """New rows; where gaps are masked or filled, steps that are missing before them are missing values."""
        if rows is None:
            return None
        found = only_series(rows)
        if self.recipe.gaps == "error":
            return found
        there = self.plan.scaler.rows
        return [begun_at(one, next_time(network, self.plan, one.id)) if one.id in there else one for one in found]
