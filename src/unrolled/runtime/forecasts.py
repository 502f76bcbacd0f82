"""What a forecaster is asked, and how it answers: written once for PyTorch's network and the runtime's.

Axes     T time steps, h steps of the horizon, Q quantile levels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unrolled.data.items import Dataset, Item
from unrolled.data.series import Series
from unrolled.errors import DataError, expected
from unrolled.runtime.plan import Plan, Scale, check_values
from unrolled.runtime.rolling import (
    Ask,
    Network,
    forecast_from,
    forecast_left,
    go_on,
    keep,
    kept_values,
    next_time,
)

__all__ = ["Forecasts"]


@dataclass(frozen=True)
class Forecasts:
    """A plan, and what the recipe says where nothing is said."""

    plan: Plan
    quantiles: tuple[float, ...]
    paths: int
    own_vectors: bool  # each series has a vector of its own, so that a new one cannot be forecast

    @property
    def is_point(self) -> bool:
        """Whether there are no intervals."""
        return self.plan.layout.output == "point"

    def check_new(self, series: Series) -> None:
        """Raise where only series that were trained on can be forecast, and this is another one."""
        if self.own_vectors and series.id not in self.plan.scaler.rows:
            where = f"{series.where}: series {series.id!r}"
            way_out = "Train without --series-embedding to forecast new series."
            raise DataError(expected(where, "one that the model was trained on", "a new one", way_out))

    def item(self, given: Any, where: str) -> Item:
        """A history: an array (T,), or a mapping with id, start, target, known and past."""
        if isinstance(given, Item):
            return given
        plan = self.plan
        fields = dict(given) if isinstance(given, Mapping) else {"target": given}
        try:
            target = np.array([np.nan if v is None else v for v in fields["target"]], np.float64)
            known, past = (
                np.array(fields.get(name, np.zeros((len(target), 0))), np.float64).reshape(-1, len(columns))
                if len(columns) else np.zeros((len(target), 0))
                for name, columns in (("known", plan.known), ("past", plan.past))
            )  # fmt: skip
        except (KeyError, TypeError, ValueError) as error:
            wanted = "numbers (time,), or a mapping with target and its covariates"
            raise DataError(expected(where, wanted, f"{type(given).__name__} ({error})")) from None
        if not len(target) or np.isinf(target).any() or target.ndim != 1:
            raise DataError(expected(where, "finite numbers (time,), None or NaN where missing", given))
        name, start = str(fields.get("id", where)), int(fields.get("start", 0))
        return Item(where, series=Series(name, where, start, target, known, past, plan.frequency, plan.dates))

    def ask(
        self, horizon: int | None = None, levels: Sequence[float] = (), paths: int | None = None, seed: int = 0
    ) -> Ask:
        """What is wanted of a forecast; as the recipe says where nothing is said."""
        usual = (0.5,) if self.is_point else self.quantiles
        if self.is_point and levels:
            found = ", ".join(map(str, levels))
            way_out = "Train with --output student-t or quantile for intervals."
            raise DataError(expected("quantile", "none: the model gives points", found, way_out))
        wanted = tuple(sorted({*levels, 0.5})) if levels else usual
        return Ask(horizon or self.plan.horizon, wanted, paths or self.paths, seed)

    def predict(self, network: Network, items: Sequence[Item]) -> list[dict[str, Any]]:
        """id, and for each step ahead its time, the forecast and its quantiles; each series from its own rows alone."""
        plan = self.plan
        series = [item.series for item in items if item.series is not None]
        for one in series:
            self._check_values(one)
            self.check_new(one)
            plan.check_ahead(one, plan.horizon)
        frames = [plan.frame(one, ahead=plan.horizon) for one in series]
        ask = self.ask()
        found = forecast_from(network, plan, frames, [len(one) for one in series], ask)
        return [self._answer(one, values, ask) for one, values in zip(series, found, strict=True)]

    def forecast(
        self, network: Network, rows: Sequence[Series] | None, ask: Ask, *, keep_state: bool = False
    ) -> list[Any]:
        """From where each series was left, after reading new rows where there are some.

        Args:
            rows: new rows, or known covariates of the steps ahead; None: forecast every series as it was left.
            keep_state: leave the series after these rows.
        """
        return [self._one(network, series, ask, keep_state) for series in self.rows(network, rows)]

    def histories(self, network: Network, rows: Sequence[Series] | None) -> list[tuple[np.ndarray, np.ndarray]]:
        """Times and values before each forecast: those that the run remembers, then the new rows."""
        plan, found = self.plan, []
        for series in self.rows(network, rows):
            values, start = series.target, series.start
            if series.id in plan.scaler.rows:
                kept = plan.back(kept_values(network, plan, series.id), Scale(0.0, 1.0))
                values = np.concatenate([kept, values])
                start = int(plan.frequency.after(start, len(series) - len(values)))
            found.append((plan.frequency.after(start, np.arange(len(values))), values))
        return found

    def rows(self, network: Network, rows: Sequence[Series] | None) -> list[Series]:
        """The new rows, checked; without any, every series with no rows."""
        if rows is not None:
            for series in rows:
                self._check_values(series)
            return list(rows)
        plan = self.plan
        nothing = np.zeros(0), np.zeros((0, len(plan.known))), np.zeros((0, len(plan.past)))
        return [
            Series(name, "the run", next_time(network, plan, name), *nothing, plan.frequency, plan.dates)
            for name in plan.scaler.ids
        ]

    def _check_values(self, series: Series) -> None:
        check_values(self.plan.layout.output, self.plan.log, series)

    def _one(self, network: Network, series: Series, ask: Ask, keep_state: bool) -> dict[str, Any]:
        self.plan.check_ahead(series, ask.horizon)
        if series.id not in self.plan.scaler.rows:
            self.check_new(series)
            if not np.isfinite(series.target).any():
                where = f"{series.where}: series {series.id!r}"
                raise DataError(expected(where, "values, since the run does not know the series", "none"))
            frame = self.plan.frame(series, ahead=ask.horizon)
            (found,) = forecast_from(network, self.plan, [frame], [len(series)], ask)
            return self._answer(series, found, ask)
        left = go_on(network, self.plan, series, ask.horizon, ask.paths)
        found = forecast_left(network, self.plan, left, ask)
        if keep_state:
            keep(network, left)
        return self._answer(series, found, ask)

    def _answer(self, series: Series, found: np.ndarray, ask: Ask) -> dict[str, Any]:
        times = [series.time(len(series) + step) for step in range(ask.horizon)]
        middle = ask.levels.index(0.5)
        answer: dict[str, Any] = {"id": series.id, "time": times, "forecast": found[: ask.horizon, middle].tolist()}
        if not self.is_point:
            answer["quantiles"] = {f"{level:g}": found[: ask.horizon, q].tolist() for q, level in enumerate(ask.levels)}
        return answer


def series_of(rows: Dataset | None) -> list[Series] | None:
    """The series of a data set."""
    return None if rows is None else [item.series for item in rows if item.series is not None]
