"""The `.ts` format of the UEA and UCR archives: a header of @ lines, then one labelled series a line.

A line is its channels parted by colons, the values of a channel parted by commas, and the label last. The channels
of one series have the same length; series may differ.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from unrolled.data.items import Dataset, Item
from unrolled.data.readers.source import (
    Request,
    check_features,
    decode,
    numbered_lines,
    read_bytes,
    to_dataset,
)


@dataclass
class _Header:
    labelled: bool = False
    labels: tuple[str, ...] = ()
    dimensions: int | None = None
    seen: set[str] = field(default_factory=set)


def read_ts(request: Request) -> Dataset:
    header = _Header()
    items: list[Item] = []
    in_data = False
    for number, line in numbered_lines(request, decode(request, read_bytes(request))):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if in_data:
            items.append(_series(request, number, line, header))
        elif line.startswith("@"):
            in_data = _read_header_line(request, number, line, header)
        else:
            found = f"{line[:40]!r} before @data"
            raise request.fail(number, "header lines such as @classLabel, then @data", found, _HINT)
    if not in_data:
        raise request.fail(None, "a line @data, and the series below it", "no such line", _HINT)
    return to_dataset(request, items, [])


_HINT = "The header of the format is missing or incomplete; for a plain table use CSV with an id column."


def _read_header_line(request: Request, number: int, line: str, header: _Header) -> bool:
    """Note one @ line. True when the data begin."""
    key, *values = line.split()
    key = key.lower()
    header.seen.add(key)
    first = values[0].lower() if values else ""
    if key == "@timestamps" and first == "true":
        raise request.fail(number, "@timeStamps false", "true", "Remove the time stamps from the values.")
    if key == "@targetlabel" and first == "true":
        raise request.fail(number, "@classLabel true", "@targetLabel", "A file of numbers to predict has no classes.")
    if key == "@classlabel":
        header.labelled, header.labels = first == "true", tuple(values[1:])
        if header.labelled and not header.labels:
            raise request.fail(number, "the labels after @classLabel true", "none")
    if key in ("@dimensions", "@dimension"):
        if not first.isdigit() or int(first) < 1:
            raise request.fail(number, "@dimensions and a number", repr(line))
        header.dimensions = int(first)
    if key == "@univariate" and first == "true":
        header.dimensions = header.dimensions or 1
    if key == "@data" and "@classlabel" not in header.seen:
        raise request.fail(number, "a line @classLabel before @data", "none", _HINT)
    if key == "@data" and request.labelled and not header.labelled:
        raise request.fail(number, "@classLabel true and its labels", "@classLabel false")
    return key == "@data"


def _series(request: Request, number: int, line: str, header: _Header) -> Item:
    channels = line.split(":")
    label = channels.pop().strip() if header.labelled else None
    if label is not None and label not in header.labels:
        wanted = f"a label of the header ({', '.join(header.labels)})"
        raise request.fail(number, wanted, repr(label[:40]), "The label stands after the last colon.")
    header.dimensions = header.dimensions or len(channels)
    if len(channels) != header.dimensions:
        raise request.fail(number, f"{header.dimensions} channels (dimensions)", len(channels))
    rows = [_values(request, number, i, text) for i, text in enumerate(channels, start=1)]
    lengths = {len(row) for row in rows}
    if len(lengths) > 1:
        i = next(i for i, row in enumerate(rows) if len(row) != len(rows[0]))
        wanted = f"{len(rows[0])} values in every channel, as in channel 1"
        raise request.fail(number, wanted, f"{len(rows[i])} in channel {i + 1}", "Pad or cut the series first.")
    with np.errstate(over="ignore"):  # it becomes infinity, which the check names
        features = np.array(rows, dtype=np.float64).T.astype(np.float32)
    check_features(request, number, features)
    return Item(f"{request.name}:{number}", features=np.ascontiguousarray(features), label=label)


def _values(request: Request, number: int, channel: int, text: str) -> list[float]:
    pieces = text.split(",")
    try:
        return [float(piece) for piece in pieces]
    except ValueError:
        for step, piece in enumerate(pieces, start=1):
            try:
                float(piece)
            except ValueError:
                found = f"{piece.strip()!r} at time step {step} of channel {channel}"
                way_out = "A question mark is a missing value: fill it, or remove the series."
                raise request.fail(number, "a number", found, way_out if piece.strip() == "?" else "") from None
        raise
