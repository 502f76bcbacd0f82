"""From the stored files to items. Every stored file has the parts in it, or in its rows, as the scripts wrote them."""

from __future__ import annotations

import gzip
import json
from importlib import resources
from typing import Any

import numpy as np

from unrolled.data.calendar import Frequency
from unrolled.data.items import Dataset, Item, duplicates
from unrolled.data.series import Series, split_in_time
from unrolled.data.splitting import PARTS

Parts = tuple[Dataset, Dataset, Dataset]


def _bytes(name: str) -> bytes:
    return (resources.files("unrolled.data.examples") / "sets" / name).read_bytes()


def _json(name: str) -> Any:
    return json.loads(gzip.decompress(_bytes(name)))


def _parts(name: str, items: dict[str, list[Item]]) -> Parts:
    train, valid, test = (Dataset(items[part], f"{name}[{part}]") for part in PARTS)
    return train, valid, test


def speakers() -> Parts:
    path = resources.files("unrolled.data.examples") / "sets" / "speakers.npz"
    with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
        values, lengths, labels, part = (stored[key] for key in ("values", "lengths", "labels", "part"))
        scale = float(stored["scale"])
    features = np.split((values / scale).astype(np.float32), np.cumsum(lengths)[:-1])
    items: dict[str, list[Item]] = {name: [] for name in PARTS}
    for i, (array, label, where) in enumerate(zip(features, labels, part, strict=True)):
        items[PARTS[where]].append(Item(f"speakers:{i + 1}", features=array, label=str(label)))
    return _parts("speakers", items)


def tags() -> Parts:
    items: dict[str, list[Item]] = {name: [] for name in PARTS}
    for conversation in _json("tags.json.gz"):
        name, group = conversation["name"], conversation["conversation"]
        for i, (tokens, tags) in enumerate(conversation["utterances"], start=1):
            item = Item(f"{name}:{i}", tokens=tuple(tokens.split()), tags=tuple(tags.split()), group=group)
            items[conversation["part"]].append(item)
    parts = _parts("tags", items)
    seen = {item.content() for item in parts[0]}
    for part in parts[1:]:
        count = sum(item.content() in seen for item in part)
        part.notes.append(f"{part.name}: {count} of {len(part)} utterances, mostly of a word or two, are also in train")
    return parts


def poems() -> Parts:
    stored = _json("poems.json.gz")
    items = {
        part: [Item(f"poems:{part}:{i}", text=text) for i, text in enumerate(stored[part], start=1)] for part in PARTS
    }
    return _parts("poems", items)


def plays() -> Parts:
    items: dict[str, list[Item]] = {name: [] for name in PARTS}
    for name, parts in _json("plays.json.gz").items():
        for part in PARTS:
            items[part].append(Item(f"{name}:{part}", text=parts[part], group=name))
    return _parts("plays", items)


def cities() -> Parts:
    stored = _json("cities.json.gz")
    items: dict[str, list[Item]] = {name: [] for name in PARTS}
    for part in PARTS:
        for country, names in stored[part].items():
            items[part] += [Item(f"cities:{country}:{name}", text=name, label=country) for name in names]
    parts = _parts("cities", items)
    for dataset in parts:
        if count := duplicates(dataset):
            dataset.notes.append(f"{dataset.name}: {count} names belong to cities of more than one country")
    return parts


def weather() -> Parts:
    """Past covariates in the order dewp, humid, wind_speed, pressure."""
    path = resources.files("unrolled.data.examples") / "sets" / "weather.npz"
    with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
        values, scales, first = stored["values"], stored["scales"], int(stored["first"])
    numbers = np.where(values == np.iinfo(np.int16).min, np.nan, values / scales)
    whole = Series(
        "JFK",
        "weather",
        start=first,
        target=numbers[:, 0],
        known=np.zeros((len(numbers), 0)),
        past=numbers[:, 1:],
        frequency=Frequency(3600, "seconds"),
        dates=True,
    )
    parts = split_in_time(whole, 40 * 24, 60 * 24)
    train, valid, test = (
        Dataset([Item(f"weather:{name}", series=part)], f"weather[{name}]")
        for part, name in zip(parts, PARTS, strict=True)
    )
    train.notes.append(f"{int(np.isnan(numbers[:, 0]).sum())} hours are missing and masked")
    return train, valid, test
