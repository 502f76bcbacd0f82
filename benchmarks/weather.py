"""JFK temperature, 24 hours ahead from 240 origins: the recipe of `unrolled demo weather`, beside ETS."""

from __future__ import annotations

from harness import arguments, run_seeds, save
from unrolled.training.examples import FIELDS

if __name__ == "__main__":
    options = arguments(__doc__)
    recipe = {"data": "weather", **FIELDS["weather"], "compare_with": "ets"}
    runs = {"GRU, quantiles": run_seeds(recipe, options)}
    aim = "MASE better than the last season and ETS; 75 to 85 % of the values inside the 80 % interval"
    save("weather", title="JFK temperature", aim=aim, runs=runs, recipes={"GRU, quantiles": recipe})
