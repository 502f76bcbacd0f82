"""What data larger than memory are made of: counts, moments, tables, blocks on the disk, orders, streams."""

from __future__ import annotations

import threading
from collections import Counter

import numpy as np
import pytest

from unrolled.data import Counts, Moments, Scaler, batch_indices, streams
from unrolled.data.streaming import (
    Budget,
    Laid,
    Ragged,
    Store,
    Table,
    Writer,
    pieces_of,
    read_ahead,
    shuffled,
    stream_bounds,
)
from unrolled.errors import BundleError, DataError


def rows(count, seed=0, *, widest=9, channels=None):
    rng = np.random.default_rng(seed)
    shape = () if channels is None else (channels,)
    lengths = rng.integers(0, widest, count)
    if channels is None:
        return [rng.integers(0, 300, length) for length in lengths]
    return [rng.normal(size=(length, *shape)).astype(np.float32) for length in lengths]


def table(count, seed=0):
    inputs, targets = rows(count, seed), rows(count, seed + 1, channels=3)
    return Table({"inputs": Ragged.of(inputs), "targets": Ragged.of(targets), "lines": Ragged.of(numbered(count))})


def numbered(count, first=0):
    return [np.array([first + i]) for i in range(count)]


def assert_same(one, other):
    assert len(one) == len(other)
    for found, wanted in zip(one, other, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.fixture
def store(tmp_path):
    """1,000 rows of 0 to 20 steps in blocks of about 2 kB, written in parts of uneven size."""
    writer = Writer(tmp_path / "part", 2_000, "inputs")
    made, rng = rows(1_000, 7, widest=21), np.random.default_rng(8)
    begin = 0
    while begin < len(made):
        end = begin + int(rng.integers(1, 90))
        some = made[begin:end]
        lines = numbered(len(some), begin)
        writer.add(Table({"inputs": Ragged.of(some), "lines": Ragged.of(lines)}))
        begin = end
    writer.finish(place="a:")
    return Store(tmp_path / "part"), made


# counts and moments


def test_counts_are_exact_while_there_is_room():
    rng = np.random.default_rng(0)
    parts = [[f"w{i}" for i in rng.zipf(1.5, 500) % 90] for _ in range(9)]
    counts = Counts(100)
    for part in parts:
        counts.add(part)
    assert counts.table == Counter(name for part in parts for name in part)
    assert counts.lost == 0


@pytest.mark.parametrize("most", [20, 50, 200])
def test_counts_in_little_room_are_never_too_large_and_too_small_by_what_is_said(most):
    rng = np.random.default_rng(1)
    parts = [[f"w{i}" for i in rng.zipf(1.3, 300) % 5000] for _ in range(60)]
    counts, true = Counts(most), Counter()
    for part in parts:
        counts.add(part)
        true.update(part)
        assert len(counts.table) <= most
    assert counts.lost > 0
    for name, count in true.items():
        assert count - counts.lost <= counts.table[name] <= count
    assert counts.table.most_common(1)[0][0] == true.most_common(1)[0][0]
    with pytest.raises(ValueError, match="2 names or more"):
        Counts(1)


def test_moments_of_pieces_are_those_of_the_whole():
    rng = np.random.default_rng(2)
    arrays = [rng.normal(1e4, 3, (int(n), 4)) * [1, 2, 1e-3, 0] for n in rng.integers(0, 50, 200)]
    moments = Moments()
    for begin in range(0, 200, 17):
        moments.add(arrays[begin : begin + 17])
    whole = np.concatenate(arrays)
    assert moments.steps == len(whole)
    np.testing.assert_allclose(moments.mean, whole.mean(0), rtol=1e-13, atol=0)
    np.testing.assert_allclose(moments.variance, whole.var(0), rtol=1e-9, atol=1e-30)
    one = Scaler.fit(arrays)
    np.testing.assert_array_equal(one.mean, whole.mean(0).astype(np.float32))
    np.testing.assert_array_equal(one.scale[:3], whole.std(0).astype(np.float32)[:3])
    assert one.scale[3] == 1  # a channel that never changes
    with pytest.raises(DataError, match="at least one time step"):
        Moments().scaler()


# tables and stores


def test_a_table_gives_back_its_rows():
    inputs, values = rows(50), rows(50, 1, channels=3)
    made = Table({"inputs": Ragged.of(inputs), "values": Ragged.of(values)})
    again = Table.from_bytes(made.to_bytes())
    assert_same(list(again["inputs"]), inputs)
    assert_same(list(again["values"]), values)
    assert again["values"].values.dtype == np.float32
    assert again["inputs"].values.dtype == np.uint16  # 0 to 299
    order = np.random.default_rng(3).permutation(50)[:31]
    assert_same(list(made.taken(order)["inputs"]), [inputs[i] for i in order])
    assert_same(list(made.rows(4, 9)["values"]), values[4:9])
    assert_same(list(Table.joined([made, made.rows(0, 7)])["inputs"]), inputs + inputs[:7])
    parts = made.split(200)
    assert len(parts) > 5
    assert_same([row for part in parts for row in part["inputs"]], inputs)
    assert max(part.size for part in parts[:-1]) < 500


def test_rows_of_one_step_take_no_ends():
    made = Table({"lines": Ragged.of(numbered(1000))})
    assert len(made.to_bytes()) < 2300
    assert_same(list(Table.from_bytes(made.to_bytes())["lines"]), numbered(1000))
    with pytest.raises(BundleError, match="a safetensors file"):
        Table.from_bytes(b"no table")


def test_a_store_gives_back_what_was_written(store):
    found, made = store
    assert found.rows == 1000
    assert found.steps == sum(map(len, made))
    assert found.said == {"place": "a:"}
    assert_same([row for part in found for row in part["inputs"]], made)
    sizes = [block.room for block in found.blocks]
    assert len(sizes) > 8
    assert max(sizes) < 4_000
    groups = list(found.groups(6_000))
    assert [number for group in groups for number in group] == list(range(len(found.blocks)))
    assert all(sum(sizes[n] for n in group) <= 6_000 for group in groups)


def test_a_damaged_store_is_refused(store, tmp_path):
    found, _ = store
    content = (tmp_path / "part.blocks").read_bytes()
    (tmp_path / "part.blocks").write_bytes(content + b"x")
    with pytest.raises(DataError, match="bytes in place of"):
        Store(tmp_path / "part")
    place = found.blocks[3].begin + found.blocks[3].size // 2
    (tmp_path / "part.blocks").write_bytes(content[:place] + bytes([content[place] ^ 64]) + content[place + 1 :])
    again = Store(tmp_path / "part")
    again.read(2)
    with pytest.raises(DataError, match="other bytes in block 3"):
        again.read(3)
    (tmp_path / "part.blocks").unlink()
    with pytest.raises(DataError, match="blocks of numbers"):
        again.read(1)
    with pytest.raises(DataError, match="blocks of numbers"):
        Store(tmp_path / "part")


# the order of an epoch


def epoch(store, key, *, size=9_000, batch=32, behind=0, threads=0):
    """The line numbers of each batch, as `OnDisk.batches` takes them."""
    found = []
    for piece in shuffled(store, key, size=size, batch_size=batch, behind=behind, threads=threads):
        lengths = piece.table["inputs"].lengths[piece.rows]
        batches = batch_indices(lengths, batch, rng=piece.rng)[piece.behind :]
        found += [[int(piece.table["lines"][int(row)][0]) for row in piece.rows[indices]] for indices in batches]
    return found


@pytest.mark.parametrize("batch", [1, 7, 32, 400, 5000])
def test_every_row_comes_once_and_all_batches_but_one_are_full(batch, store):
    found, _ = store
    batches = epoch(found, 1, batch=batch)
    assert sorted(line for one in batches for line in one) == list(range(1000))
    assert sum(len(one) != batch for one in batches) <= 1
    assert len(batches) == -(-1000 // batch)


def test_an_order_depends_on_its_key_alone(store):
    found, _ = store
    first = epoch(found, 5)
    assert first == epoch(found, 5)
    for threads in (1, 3):
        assert first == epoch(found, 5, threads=threads)
    assert first != epoch(found, 6)


@pytest.mark.parametrize("batch", [1, 7, 32, 400])
def test_batches_that_are_behind_are_left_out_and_no_others(batch, store):
    found, _ = store
    whole = epoch(found, 4, batch=batch)
    for behind in {0, 1, 2, len(whole) // 2, len(whole) - 1, len(whole)}:
        assert epoch(found, 4, batch=batch, behind=behind) == whole[behind:]


def test_rows_that_stand_together_are_spread(store):
    """As the page on long runs says: of a row and the next one in the file, how many share a batch, and a piece."""
    found, _ = store
    pieces = pieces_of(found, 2, 9_000, 20)
    assert len(pieces) >= 3
    assert min(map(len, pieces)) >= 3
    batches = epoch(found, 2, batch=20)
    of = {line: number for number, one in enumerate(batches) for line in one}
    together = np.mean([of[line] == of[line + 1] for line in range(999)])
    assert together < 3 * len(pieces) * 20 / 1000  # mixed over the piece: about one in its batches
    reach = [np.ptp(one) for one in batches]
    assert np.median(reach) > 500


def test_reading_ahead_keeps_the_order_and_is_bounded():
    open_calls, most, lock = 0, 0, threading.Lock()

    def call(number):
        nonlocal open_calls, most
        with lock:
            open_calls += 1
            most = max(most, open_calls)
        return number

    found = []
    for number in read_ahead((lambda n=n: call(n) for n in range(50)), 3):
        found.append(number)
        with lock:
            open_calls -= 1
    assert found == list(range(50))
    assert most <= 4 + 1

    def broken():
        raise DataError("no")

    source = read_ahead(iter([lambda: 1, broken]), 2)
    assert next(source) == 1
    with pytest.raises(DataError, match="no"):
        next(source)


# rows laid end to end


@pytest.mark.parametrize("count", [1, 3, 16])
def test_streams_from_the_disk_are_those_of_memory(count, store):
    found, made = store
    line = np.concatenate(made)
    laid = Laid(found, "inputs")
    bounds = stream_bounds(laid.steps, count)
    inputs, lengths = streams(line[:-1], count)
    targets, _ = streams(line[1:], count)
    assert [length for _, length in bounds] == lengths.tolist()
    for begin, size, threads in ((0, 10**6, 0), (0, 64, 1), (50, 100, 1)):
        parts = list(laid.segments(bounds, begin, size, threads))
        np.testing.assert_array_equal(np.concatenate([part.inputs for part in parts], 1), inputs[:, begin:])
        np.testing.assert_array_equal(np.concatenate([part.targets for part in parts], 1), targets[:, begin:])


def test_rows_in_an_order_are_whole_and_followed_by_what_comes_after(store):
    found, made = store
    laid = Laid(found, "inputs", key=3, after=999)
    (whole,) = laid.segments([(0, laid.steps)], 0, laid.steps, 0)
    assert laid.steps == sum(map(len, made))
    np.testing.assert_array_equal(whole.targets[0, :-1], whole.inputs[0, 1:])
    assert whole.targets[0, -1] == 999
    cut = np.split(whole.inputs[0], np.flatnonzero(whole.begins[0])[1:])
    filled = [row.tolist() for row in made if len(row)]
    assert sorted(row.tolist() for row in cut) == sorted(filled)
    assert [row.tolist() for row in cut] != filled


def test_a_budget_is_dealt_out_and_never_more():
    for memory in (1, 16, 256, 4000, 100_000):
        budget = Budget(memory)
        assert 4 * budget.piece <= budget.bytes // 2
        assert budget.block <= max(budget.piece // 4, 1 << 14)
        assert budget.room.names * 200 <= max(budget.bytes // 4, 200_000)
