"""JapaneseVowels: which of nine speakers said it? The recipe of `unrolled demo`, five seeds."""

from __future__ import annotations

from harness import arguments, run_seeds, save
from unrolled.training.examples import FIELDS

if __name__ == "__main__":
    options = arguments(__doc__)
    recipe = {"data": "speakers", **FIELDS["speakers"]}
    runs = {"bidirectional GRU": run_seeds(recipe, options)}
    aim = "at least 97 % test accuracy, chosen on a validation part of the 270 training rows"
    save("speakers", title="JapaneseVowels, speaker", aim=aim, runs=runs, recipes={"bidirectional GRU": recipe})
