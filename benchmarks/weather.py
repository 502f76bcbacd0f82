"""JFK temperature, 24 hours ahead from 240 origins: the recipe of `unrolled demo weather`, beside ETS.

The intervals of each trained network are scored three times: as it says them, calibrated on the validation part, and
calibrated further as horizons pass, which is the recipe's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness import arguments, run_seeds, save
from unrolled.training import load
from unrolled.training.examples import FIELDS
from unrolled.training.sources import open_parts


def other_calibrations(result: Any) -> dict[str, float]:
    """Coverage and CRPS of the same network with less calibration, and of its validation part without any."""
    trained = load(result.run)
    parts, plan = open_parts(trained.recipe), trained.task.plan
    fixed = replace(plan, calibration=replace(plan.calibration, rate=0.0))
    none = replace(plan, calibration=None)
    found = {}
    for name, changed, part in (
        ("not calibrated", none, parts.test),
        ("calibrated once", fixed, parts.test),
        ("not calibrated, validation part", none, parts.valid),
    ):
        trained.task.use(changed)
        metrics = trained.task.measure(trained.model, trained.task.encode(part))
        found |= {f"{score}, {name}": metrics[score] for score in ("coverage", "crps")}
    return found


if __name__ == "__main__":
    options = arguments("JFK temperature, 24 hours ahead from 240 origins")
    recipe = {"data": "weather", **FIELDS["weather"], "compare_with": "ets"}
    runs = {"GRU, quantiles": run_seeds(recipe, options, other_calibrations)}
    aim = "MASE better than the last season and ETS; 75 to 85 % of the values inside the 80 % interval"
    save("weather", title="JFK temperature", aim=aim, runs=runs, recipes={"GRU, quantiles": recipe})
