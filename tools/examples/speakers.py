"""JapaneseVowels from the wheel of aeon 1.6.0.

    pip download --no-deps aeon==1.6.0
    python tools/examples/speakers.py aeon-1.6.0-py3-none-any.whl

The values are stored as whole millionths (the file has six decimals), so nothing is lost to rounding. The last 370
series are the official test part. Of the 30 training series of each speaker, the 6 first in the order of a hash of
their text become the validation part.
"""

from __future__ import annotations

import io
import sys

import numpy as np
from common import one, rank, write, write_licence

SCALE = 1_000_000
VALID = 6


def series(data: bytes) -> list[str]:
    lines = data.decode().split("@data", 1)[1].splitlines()
    return [line.strip() for line in lines if line.strip()]


def main(package: str) -> None:
    folder = "aeon/datasets/data/JapaneseVowels/JapaneseVowels_"
    train, test = series(one(package, f"{folder}TRAIN.ts")), series(one(package, f"{folder}TEST.ts"))
    labels = [line.rpartition(":")[2] for line in train + test]
    arrays = [
        np.array([[float(v) for v in channel.split(",")] for channel in line.split(":")[:-1]]).T
        for line in train + test
    ]
    values = np.concatenate(arrays) * SCALE
    whole = np.rint(values).astype(np.int32)
    assert np.abs(values - whole).max() < 0.01, "more than six decimals"
    part = np.array([0] * len(train) + [2] * len(test), dtype=np.uint8)
    for label in sorted(set(labels)):
        mine = [i for i in range(len(train)) if labels[i] == label]
        part[sorted(mine, key=lambda i: rank(train[i]))[:VALID]] = 1
    file = io.BytesIO()
    np.savez_compressed(
        file,
        values=whole,
        scale=np.int32(SCALE),
        lengths=np.array([len(a) for a in arrays], dtype=np.uint8),
        labels=np.array(labels),
        part=part,
    )
    write("speakers.npz", file.getvalue())
    write_licence(
        "speakers",
        """JapaneseVowels: M. Kudo, J. Toyama and M. Shimbo (1999), "Multidimensional Curve Classification Using
Passing-Through Regions", Pattern Recognition Letters 20 (11-13), 1103-1111. Given to the UCI Machine Learning
Repository (https://archive.ics.uci.edu/dataset/128/japanese+vowels), which distributes it under the Creative
Commons Attribution 4.0 International licence: https://creativecommons.org/licenses/by/4.0/legalcode
Taken from the package aeon 1.6.0, whose licence follows. Changes: another file format, the same values.""",
        one(package, "aeon-*.dist-info/licenses/LICENSE").decode(),
    )


if __name__ == "__main__":
    main(sys.argv[1])
