"""Series from files: what is read, what is refused and with which words, and that no part knows what comes after it."""

from __future__ import annotations

import numpy as np
import pytest

from unrolled.data.calendar import Frequency, calendar_features, infer_frequency, parse_times, show_time
from unrolled.data.readers.series import SeriesColumns, only_series, read_series
from unrolled.data.series import Series, SeriesScaler, fill_forward, join, split_in_time
from unrolled.errors import DataError

COLUMNS = SeriesColumns(time="day", target="y", id="place")


def table(tmp_path, rows, header="place,day,y", name="loads.csv"):
    path = tmp_path / name
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def plain(values, **changes):
    values = np.asarray(values, np.float64)
    fields = {"known": np.zeros((len(values), 0)), "past": np.zeros((len(values), 0)), "start": 0}
    fields |= {"frequency": Frequency(1, "steps"), "dates": False}
    return Series(**{"id": "a", "where": "loads.csv:2", "target": values, **fields, **changes})


# reading


def test_many_series_of_different_length_with_rows_apart(tmp_path):
    rows = ["a,2024-01-30,1", "b,2024-01-01,7", "a,2024-01-31,2", "b,2024-01-02,8", "a,2024-02-01,"]
    data = read_series(table(tmp_path, rows), COLUMNS)
    first, second = only_series(data)
    assert (first.id, second.id, len(first), len(second)) == ("a", "b", 3, 2)
    np.testing.assert_array_equal(first.target, [1, 2, np.nan])
    assert [first.time(i) for i in range(4)] == ["2024-01-30", "2024-01-31", "2024-02-01", "2024-02-02"]
    assert str(first.frequency) == "1d"
    assert "missing values of 'y' are masked: 1, line 6" in data.notes[-1]


def test_rows_at_the_end_with_known_covariates_are_the_steps_ahead(tmp_path):
    rows = ["a,0,,1", "b,1,2,0", "a,1,5,0", "a,2,6,1", "a,3,,1", "a,4,,0"]
    columns = SeriesColumns("day", "y", "place", known=("promo",))
    data = read_series(table(tmp_path, rows, "place,day,y,promo"), columns)
    series, _ = only_series(data)
    assert (len(series), series.ahead) == (3, 2)
    np.testing.assert_array_equal(series.known[:, 0], [1, 0, 1, 1, 0])
    assert [note.split(": ", 1)[1] for note in data.notes[-2:]] == [
        "2 rows at the end have no target and are the steps ahead",
        "missing values of 'y' are masked: 1, line 2",
    ]


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "tsv"])
def test_other_formats_give_the_same_series(tmp_path, kind):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / f"loads.{kind}"
    if kind == "jsonl":
        path.write_text('{"place": "a", "day": 1, "y": 2.5}\n{"place": "a", "day": 2, "y": null}\n')
    elif kind == "tsv":
        path.write_text("place\tday\ty\na\t1\t2.5\na\t2\tNA\n")
    else:
        pq.write_table(pa.table({"place": ["a", "a"], "day": [1, 2], "y": [2.5, None]}), path)
    (series,) = only_series(read_series(path, COLUMNS))
    np.testing.assert_array_equal(series.target, [2.5, np.nan])
    assert series.time(2) == "3"


def test_gaps_are_named_or_masked_or_filled(tmp_path):
    rows = ["a,2024-01-01,1", "a,2024-01-02,", "a,2024-01-05,4", "a,2024-01-06,5", "a,2024-01-09,6", "a,2024-01-10,7"]
    path = table(tmp_path, rows)
    with pytest.raises(DataError) as caught:
        read_series(path, COLUMNS)
    text = str(caught.value)
    for part in ("loads.csv:4", "'a'", "2 missing between 2024-01-02 and 2024-01-05", "4 steps in all", "--gaps mask"):
        assert part in text, (part, text)
    nan = np.nan
    (masked,) = only_series(read_series(path, COLUMNS, gaps="mask"))
    np.testing.assert_array_equal(masked.target, [1, nan, nan, nan, 4, 5, nan, nan, 6, 7])
    (filled,) = only_series(read_series(path, COLUMNS, gaps="fill"))
    np.testing.assert_array_equal(filled.target, [1, 1, 1, 1, 4, 5, 5, 5, 6, 7])


BAD = {
    "again": (["a,1,1", "a,2,2", "a,2,3"], r"loads.csv:4: .*after 2 \(line 3\), found 2 again.*Keep each time once"),
    "out of order": (["a,2,1", "b,1,1", "a,1,2"], r"loads.csv:4: .*after 2 \(line 2\), found 1 out of order.*Sort"),
    "infinite": (["a,1,1", "a,2,inf"], r"loads.csv:3: .*finite number in column 'y', found 'inf'"),
    "text": (["a,1,1", "a,2,many"], r"loads.csv:3: .*a number in column 'y'.*'many'"),
    "time": (["a,soon,1"], r"loads.csv:2: .*a time in column 'day'.*'soon'"),
    "no id": (["a,1,1", ",2,1"], r"loads.csv:3: .*an id in column 'place'"),
    "off the grid": (["a,2,1", "a,4,1", "a,6,1", "a,7,2"], r"loads.csv:5: .*on the grid of one 2 .*found 7"),
    "one row": (["a,1,1"], "two or more times in some series"),
    "no rows": ([], "at least one item"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_read_is_named(tmp_path, name):
    rows, message = BAD[name]
    with pytest.raises(DataError, match=message):
        read_series(table(tmp_path, rows), COLUMNS)


def test_columns_that_are_not_there_or_serve_twice(tmp_path):
    path = table(tmp_path, ["a,1,1", "a,2,1"])
    with pytest.raises(DataError, match=r"a column 'promo' for the known covariate, found columns 'place', 'day', 'y'"):
        read_series(path, SeriesColumns("day", "y", "place", known=("promo",)))
    with pytest.raises(DataError, match="one role a column, found column 'y' as target and past covariate"):
        read_series(path, SeriesColumns("day", "y", "place", past=("y",)))
    with pytest.raises(DataError, match="a frequency for times that are whole numbers, found 1h"):
        read_series(path, COLUMNS, frequency="h")
    with pytest.raises(DataError, match="a format for series"):
        read_series(tmp_path / "loads.conll", COLUMNS)


# parts in time


def test_a_part_knows_what_came_before_and_nothing_after():
    series = plain(np.arange(10.0), known=np.arange(12.0)[:, None], past=np.arange(10.0)[:, None])
    train, valid, test = split_in_time(series, 3, 2)
    assert [(part.begin, len(part)) for part in (train, valid, test)] == [(0, 5), (5, 8), (8, 10)]
    assert [part.known.shape[0] for part in (train, valid, test)] == [5, 8, 12]
    np.testing.assert_array_equal(valid.target, np.arange(8.0))


def test_a_second_file_goes_on_where_the_first_stops():
    whole = join(plain([1, 2, 3]), plain([4, 5], start=3))
    assert (whole.begin, len(whole)) == (3, 5)
    with pytest.raises(DataError, match=r"a first time of 3, found 4.*must go on"):
        join(plain([1, 2, 3]), plain([4, 5], start=4))


def test_scalers_see_the_training_part_only():
    """The test part is a thousand times as large."""
    values = np.concatenate([np.arange(20.0), 1000 * np.arange(20.0)])
    train, _, _ = split_in_time(plain(values), 10, 10)
    scaler = SeriesScaler.fit([train, plain([5, 5, np.nan], id="flat"), plain([np.nan], id="empty")])
    assert (scaler.mean[0], scaler.scale[0]) == (9.5, pytest.approx(np.std(np.arange(20))))
    assert scaler.of(plain([5.0], id="flat")) == (5.0, 1.0)
    assert scaler.of(plain([7.0], id="empty")) == (0.0, 1.0)
    assert scaler.of(plain([1, 3, 900], id="new", begin=2)) == (2.0, 1.0)
    again = SeriesScaler.from_dict(scaler.to_dict())
    np.testing.assert_array_equal(again.mean, scaler.mean)
    assert SeriesScaler.fit([plain([0, 2, 4])], counts=True).of(plain([0])) == (0.0, 3.0)


def test_filling_never_looks_ahead():
    rng = np.random.default_rng(0)
    values = np.where(rng.random((40, 2)) < 0.4, np.nan, rng.normal(size=(40, 2)))
    filled = fill_forward(values)
    for step in range(1, 40):
        np.testing.assert_array_equal(fill_forward(values[:step]), filled[:step])
    assert np.isfinite(filled[-1]).all()


# time


def test_steps_and_seasons():
    for text, shown, seasons in [
        ("15min", "15min", (96, 672)), ("h", "1h", (24, 168)), ("1d", "1d", (7,)), ("7d", "1w", (52,)),
        ("mo", "1mo", (12,)), ("3mo", "1q", (4,)), ("y", "1y", (1,)), ("1", "1", (1,)),
    ]:  # fmt: skip
        frequency = Frequency.parse(text)
        assert (str(frequency), frequency.seasons) == (shown, seasons)
    for bad in ("fortnight", "0h", "", "1.5h"):
        with pytest.raises(DataError, match="frequency"):
            Frequency.parse(bad)


def test_months_are_counted_by_the_calendar():
    times, dates = parse_times(["2023-11-30", "2023-12-31", "2024-01-31", "2024-02-29", "2024-03-31"])
    assert dates
    frequency = infer_frequency([times], dates)
    assert str(frequency) == "1mo"
    np.testing.assert_array_equal(frequency.positions(times, int(times[0])), np.arange(5))
    np.testing.assert_array_equal(frequency.after(int(times[0]), np.arange(5)), times)
    quarter = Frequency(3, "months")
    assert quarter.positions(times, int(times[0])).tolist() == [0, -1, -1, 1, -1]
    january = int(parse_times(["2024-01"])[0][0])
    shown = [show_time(int(time), True) for time in Frequency(1, "months").after(january, np.arange(3))]
    assert shown == ["2024-01-01", "2024-02-01", "2024-03-01"]


def days_apart(days, count, begin="2023-01-01"):
    return np.datetime64(begin, "s").astype(np.int64) + 86400 * days * np.arange(count)


@pytest.mark.parametrize("days", [28, 29, 30, 31, 365])
def test_equal_numbers_of_days_are_no_months(days):
    times = days_apart(days, 40)
    step = infer_frequency([times], dates=True)
    assert (step.size, step.unit) == (days * 86400, "seconds")
    np.testing.assert_array_equal(step.positions(times, int(times[0])), np.arange(40))


def test_months_whose_days_wander_are_months():
    first_mondays = parse_times(["2024-01-01", "2024-02-05", "2024-03-04", "2024-04-01", "2024-05-06"])[0]
    assert str(infer_frequency([first_mondays], dates=True)) == "1mo"
    new_years = parse_times(["2019-01-01", "2020-01-01", "2021-01-01", "2023-01-01"])[0]
    assert str(infer_frequency([new_years], dates=True)) == "1y"
    one_month = parse_times(["2024-07-15", "2024-08-15"])[0]
    assert str(infer_frequency([one_month], dates=True)) == "1mo"


def test_two_rows_of_one_step_are_refused_with_their_line(tmp_path):
    rows = [f"a,{np.datetime64('2024-01-01') + 9 * i},{i}" for i in range(5)]
    path = table(tmp_path, rows, "place,day,y")
    with pytest.raises(DataError, match=r"3.*one row for every 1mo of series 'a', found 2024-01-01 and 2024-01-10"):
        read_series(path, SeriesColumns("day", "y", "place"), frequency="mo")


@pytest.mark.parametrize("gaps", ["error", "mask"])
def test_a_series_of_another_step_is_told(tmp_path, gaps):
    daily = [f"a,{np.datetime64('2024-01-01') + i},{i}" for i in range(30)]
    weekly = [f"w,{np.datetime64('2024-01-01') + 7 * i},{i}" for i in range(5)]
    path = table(tmp_path, daily + weekly, "place,day,y")
    with pytest.raises(DataError, match=r"every 1d of series 'w', as in the other series, found one every 7 steps"):
        read_series(path, SeriesColumns("day", "y", "place"), gaps=gaps)
    read_series(path, SeriesColumns("day", "y", "place"), gaps="mask", frequency="d")


def test_time_zones_become_utc():
    times, _ = parse_times(["2024-01-01T00:30:00+02:00", "2024-01-01T00:00:00Z", "2024-01-01 00:00"])
    assert [show_time(int(t), True) for t in times] == ["2023-12-31 22:30", "2024-01-01", "2024-01-01"]
    assert parse_times(["1", "2024-01-01", "x"]) == 0


def test_the_calendar_repeats_after_its_cycle():
    hours = Frequency(3600, "seconds")
    assert hours.cycles(20 * 86400) == ("day", "week")
    assert Frequency(86400, "seconds").cycles(800 * 86400) == ("week", "year")
    assert Frequency(1, "months").cycles(800 * 86400) == ("year",)
    assert Frequency(1, "steps").cycles(10**9) == ()
    features = calendar_features(hours.after(0, np.arange(400)), ("day", "week"))
    np.testing.assert_allclose(features[:168], features[168:336], atol=1e-6)
    np.testing.assert_allclose(features[:24, :2], features[24:48, :2], atol=1e-6)
    assert np.abs(features[:24, 2:] - features[24:48, 2:]).max(axis=1).min() > 0.1
