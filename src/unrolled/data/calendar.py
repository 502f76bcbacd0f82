"""Times of a series: how they are read, the step between them, and what the calendar says about each.

Axes     T time. Times are int64: seconds since 1970-01-01 in UTC, or plain step numbers.
Variant  A step is a number of seconds, of months, or of plain units. A time zone in the text is converted to UTC; a
         text without one is taken as it stands. Months are counted by the calendar, so 31 January and 28 February are
         one step apart where the step is a month and both are ends of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import numpy as np

from unrolled.errors import DataError, expected

__all__ = ["Frequency", "calendar_features", "infer_frequency", "parse_times", "show_time"]

Unit = Literal["seconds", "months", "steps"]
NAMES = {"s": 1, "min": 60, "h": 3600, "d": 86400, "w": 7 * 86400}  # seconds
MONTHS = {"mo": 1, "q": 3, "y": 12}
DAY = 86400
FURTHEST = 2**53  # a step number beyond it has neighbours that a float cannot tell from it


@dataclass(frozen=True)
class Frequency:
    """The step of a series: `size` seconds, months or plain units."""

    size: int
    unit: Unit

    @classmethod
    def parse(cls, text: str) -> Frequency:
        """`15min`, `h`, `1d`, `mo`, `q`, `y`, or a whole number of plain steps.

        >>> Frequency.parse("15min"), Frequency.parse("q")
        (Frequency(size=900, unit='seconds'), Frequency(size=3, unit='months'))
        """
        digits = text[: len(text) - len(text.lstrip("0123456789"))]
        name, count = text[len(digits) :].strip().lower(), int(digits or 1)
        if count and name in NAMES:
            return cls(count * NAMES[name], "seconds")
        if count and name in MONTHS:
            return cls(count * MONTHS[name], "months")
        if count and digits and not name:
            return cls(count, "steps")
        wanted = f"auto, or a number and one of {', '.join([*NAMES, *MONTHS])}"
        raise DataError(expected("frequency", wanted, repr(text), "For example 15min, h, d, mo."))

    def __str__(self) -> str:
        names = MONTHS if self.unit == "months" else NAMES if self.unit == "seconds" else {"": 1}
        name, size = next((n, s) for n, s in sorted(names.items(), key=lambda one: -one[1]) if self.size % s == 0)
        return f"{self.size // size}{name}"

    @property
    def seasons(self) -> tuple[int, ...]:
        """Steps of the natural seasons, the shortest first; (1,) where there is none.

        >>> Frequency.parse("h").seasons, Frequency.parse("d").seasons, Frequency.parse("mo").seasons
        ((24, 168), (7,), (12,))
        """
        if self.unit == "months":
            return (12 // self.size,) if self.size < 12 and 12 % self.size == 0 else (1,)
        if self.unit == "steps":
            return (1,)
        if self.size < DAY:
            return tuple(length // self.size for length in (DAY, 7 * DAY) if length % self.size == 0) or (1,)
        return (7,) if self.size == DAY else (52,) if self.size == 7 * DAY else (1,)

    def cycles(self, span: int) -> tuple[str, ...]:
        """The cycles of the calendar that are longer than a step and of which the span (seconds) has two.

        >>> Frequency.parse("h").cycles(300 * 86400)
        ('day', 'week')
        """
        if self.unit == "steps":
            return ()
        step = self.size if self.unit == "seconds" else self.size * 30 * DAY
        lengths = {"day": DAY, "week": 7 * DAY, "year": 365 * DAY}
        return tuple(name for name, length in lengths.items() if step < 0.99 * length and span >= 1.99 * length)

    def positions(self, times: np.ndarray, origin: int) -> np.ndarray:
        """(T,) how many steps after `origin` each time is; −1 where it lies between two steps."""
        if self.unit == "months":
            months = _months(times) - _months(np.array([origin]))
            return np.where(months % self.size == 0, months // self.size, -1)
        passed = times - origin
        return np.where(passed % self.size == 0, passed // self.size, -1)

    def after(self, origin: int, steps: np.ndarray | int) -> np.ndarray:
        """(…) the times that many steps after `origin`."""
        steps = np.asarray(steps, dtype=np.int64)
        if self.unit != "months":
            return origin + steps * self.size
        start = np.datetime64(int(origin), "s")
        month = start.astype("datetime64[M]")
        moved = month + steps * self.size
        within = start - month.astype("datetime64[s]")  # day of the month, kept where the month has it
        last = (moved + 1).astype("datetime64[D]") - np.timedelta64(1, "D")
        end = start.astype("datetime64[D]") == (month + 1).astype("datetime64[D]") - np.timedelta64(1, "D")
        day = last if end else np.minimum(moved.astype("datetime64[D]") + within.astype("timedelta64[D]"), last)
        clock = within - within.astype("timedelta64[D]")
        return (day.astype("datetime64[s]") + clock).astype(np.int64)


def parse_times(cells: Sequence[str]) -> tuple[np.ndarray, bool] | int:
    """The times, and whether they are dates rather than step numbers; or the place of the first that is neither."""
    try:
        steps = [int(cell) for cell in cells]
    except ValueError:
        pass
    else:
        far = next((place for place, step in enumerate(steps) if abs(step) > FURTHEST), None)
        return (np.array(steps, dtype=np.int64), False) if far is None else far
    times = np.zeros(len(cells), dtype=np.int64)
    for place, cell in enumerate(cells):
        seconds = _seconds(cell.strip())
        if seconds is None:
            return place
        times[place] = seconds
    return times, True


def _seconds(text: str) -> int | None:
    if len(text) == 7 and text[4:5] == "-":
        text += "-01"  # a month
    try:
        moment = datetime.fromisoformat(text)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        whole = moment.timestamp()
    except (ValueError, OverflowError):  # the second: a time zone that leads out of the calendar
        return None
    return int(whole) if whole == int(whole) else None


def show_time(time: int, dates: bool) -> str:
    """A time as a person writes it: `2013-01-31 05:00`, or the step number."""
    if not dates:
        return str(time)
    moment = datetime.fromtimestamp(int(time), tz=UTC)
    clock = "" if moment.time() == moment.time().min else " %H:%M" if moment.second == 0 else " %H:%M:%S"
    return moment.strftime("%Y-%m-%d" + clock)


def infer_frequency(series: Sequence[np.ndarray], dates: bool) -> Frequency:
    """The most common step of all the series together. Times must rise.

    Steps of four weeks or more are months where the days of the month say so, or where the steps differ and no two
    rows share a month; rows that are 28 or 30 days apart are no months.

    Raises:
        DataError: no series has two times.
    """
    steps = np.concatenate([np.zeros(0, np.int64), *(np.diff(times) for times in series)])
    if not len(steps):
        raise DataError(expected("time", "two or more times in some series", "one", "Name the step with --frequency."))
    usual = _most_common(steps)
    if dates and usual >= 28 * DAY:
        months = Frequency(
            max(1, _most_common(np.concatenate([np.diff(_months(times)) for times in series]))), "months"
        )
        on_days = all(
            np.isin(times, months.after(int(times[0]), months.positions(times, times[0]))).all() for times in series
        )
        differ, apart = (steps % usual != 0).any(), all((np.diff(_months(times)) > 0).all() for times in series)
        if on_days or (differ and apart):
            return months
    return Frequency(usual, "seconds" if dates else "steps")


def _most_common(values: np.ndarray) -> int:
    sizes, counts = np.unique(values, return_counts=True)
    return int(sizes[counts.argmax()])


def calendar_features(times: np.ndarray, cycles: Sequence[str]) -> np.ndarray:
    """(T,) → (T, 2 · cycles) sine and cosine of the place in each cycle: day, week, year."""
    stamps = times.astype("datetime64[s]")
    days = stamps.astype("datetime64[D]")
    in_day = (stamps - days).astype(np.int64) / DAY
    in_week = ((days.astype(np.int64) + 3) % 7 + in_day) / 7  # 1970-01-01 was a Thursday; Monday is 0
    in_year = (days - stamps.astype("datetime64[Y]").astype("datetime64[D]")).astype(np.int64) / 366
    places = {"day": in_day, "week": in_week, "year": in_year}
    waves = [wave(2 * np.pi * places[cycle]) for cycle in cycles for wave in (np.sin, np.cos)]
    return np.stack(waves, axis=1).astype(np.float32) if waves else np.zeros((len(times), 0), np.float32)


def _months(times: np.ndarray) -> np.ndarray:
    return times.astype("datetime64[s]").astype("datetime64[M]").astype(np.int64)
