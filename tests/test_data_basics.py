"""Vocabulary, tokenizers, batches, streams, scaler: laws, and the same answer in every process."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unrolled.data import Scaler, Tokenizer, Vocabulary, batch_indices, pad, streams
from unrolled.errors import DataError

TOKENS = st.lists(st.lists(st.text(min_size=1, max_size=4), max_size=8), max_size=8)
SETTINGS = settings(max_examples=60, deadline=None)


class TestVocabulary:
    def test_order_is_count_then_token(self) -> None:
        vocabulary = Vocabulary.build([["b", "a", "c"], ["c", "b", "c"]], specials=("<s>",))
        assert vocabulary.tokens == ("<unk>", "<s>", "c", "b", "a")
        assert vocabulary.unknown_id == 0
        np.testing.assert_array_equal(vocabulary.encode(["a", "z"]), [4, 0])
        assert vocabulary.encode([]).shape == (0,)

    @given(TOKENS)
    @SETTINGS
    def test_round_trip_and_order_of_input(self, sequences: list[list[str]]) -> None:
        vocabulary = Vocabulary.build(sequences)
        assert Vocabulary.build(reversed(sequences)) == vocabulary
        assert Vocabulary.from_dict(vocabulary.to_dict()) == vocabulary
        for sequence in sequences:
            assert vocabulary.decode(vocabulary.encode(sequence)) == sequence

    def test_limits(self) -> None:
        words = [["a"] * 3 + ["b"] * 2 + ["c"]]
        assert Vocabulary.build(words, min_count=2).tokens == ("<unk>", "a", "b")
        assert len(Vocabulary.build(words, max_size=2)) == 2
        with pytest.raises(DataError, match="max_size"):
            Vocabulary.build(words, max_size=1)
        with pytest.raises(DataError, match="min_count"):
            Vocabulary.build(words, min_count=0)

    def test_an_unknown_token_of_the_text_is_the_unknown(self) -> None:
        vocabulary = Vocabulary.build([["<unk>", "a"]])
        assert vocabulary.tokens == ("<unk>", "a")
        assert vocabulary.id("<unk>") == vocabulary.unknown_id

    def test_labels_are_closed(self) -> None:
        labels = Vocabulary.of_labels(["no", "yes", "no"])
        assert labels.tokens == ("no", "yes")
        assert labels.unknown_id is None
        with pytest.raises(DataError, match="'maybe'"):
            labels.encode(["maybe"])

    def test_refuses(self) -> None:
        with pytest.raises(DataError, match="more than once"):
            Vocabulary(("a", "a"), None)
        with pytest.raises(DataError, match="unknown"):
            Vocabulary(("a",))
        with pytest.raises(DataError, match="0 to 0"):
            Vocabulary(("<unk>",)).decode([-1])
        with pytest.raises(DataError, match="vocabulary"):
            Vocabulary.from_dict({})


class TestTokenizer:
    @given(st.text())
    @SETTINGS
    def test_chars_round_trip(self, text: str) -> None:
        tokenizer = Tokenizer.train("chars", [])
        assert tokenizer.join(tokenizer.tokenize(text)) == text

    def test_subword_round_trip(self) -> None:
        tokenizer = Tokenizer.train("subword", ["low lower lowest"] * 9, vocabulary_size=280)
        saved = Tokenizer.from_dict(tokenizer.to_dict())
        assert tokenizer.pieces is not None
        assert len(tokenizer.pieces) <= 280
        for text in ("", "the lowest", "  two\n\nlines ", "牀前明月光 🌙", "\x00é"):
            tokens = tokenizer.tokenize(text)
            assert tokenizer.join(tokens) == text
            assert saved.tokenize(text) == tokens
            assert set(tokens) <= set(tokenizer.pieces)

    def test_words(self) -> None:
        tokenizer = Tokenizer("words")
        tokens = tokenizer.tokenize("Don't stop, 明月光!\nOK")
        assert tokens == ["Don't", "stop", ",", "明", "月", "光", "!", "\n", "OK"]
        assert tokenizer.join(tokens) == "Don't stop,明月光!\nOK"
        assert Tokenizer("words", lowercase=True).tokenize("ABC") == ["abc"]

    def test_spaces_keep_what_is_tokenised_already(self) -> None:
        tokenizer = Tokenizer("spaces")
        tokens = tokenizer.tokenize(" the <unk> 's N\n no \n")
        assert tokens == ["the", "<unk>", "'s", "N", "<eos>", "no", "<eos>"]
        assert tokenizer.join(tokens) == "the <unk> 's N\nno\n"

    def test_refuses(self) -> None:
        with pytest.raises(DataError, match="chars, words, spaces, subword"):
            Tokenizer("letters")  # type: ignore[arg-type]
        with pytest.raises(DataError, match="vocabulary_size"):
            Tokenizer.train("subword", ["a"], vocabulary_size=10)
        with pytest.raises(DataError, match="train"):
            Tokenizer("subword")
        with pytest.raises(DataError, match="kind"):
            Tokenizer.from_dict({})


SCRIPT = """
from unrolled.data import Dataset, Item, Tokenizer, Vocabulary, split
texts = [f"text {i % 17} of {chr(97 + i % 23) * 3}" for i in range(80)]
words = Tokenizer.train("words", texts)
print(Vocabulary.build(map(words.tokenize, texts)).tokens, Vocabulary.of_labels(texts).tokens)
print(Tokenizer.train("subword", texts, vocabulary_size=300).pieces)
items = [Item(f"a:{i}", text=text, label=str(i % 3)) for i, text in enumerate(texts)]
print([[item.where for item in part] for part in split(Dataset(items))])
"""


def test_same_in_every_process() -> None:
    outputs = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
        )
        outputs.add(done.stdout)
    assert len(outputs) == 1


def test_import_needs_numpy_alone() -> None:
    code = (
        "import sys, unrolled.data; "
        "print([m for m in ('torch', 'pyarrow', 'tokenizers', 'conllu', 'pydantic') if m in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


class TestBatches:
    @given(
        st.lists(st.integers(0, 40), max_size=120),
        st.integers(1, 9),
        st.booleans(),
        st.one_of(st.none(), st.integers(0, 5)),
    )
    @SETTINGS
    def test_every_index_once(self, lengths: list[int], size: int, bucket: bool, seed: int | None) -> None:
        def draw() -> list[np.ndarray]:
            rng = None if seed is None else np.random.default_rng(seed)
            return batch_indices(lengths, size, rng=rng, bucket=bucket)

        batches = draw()
        assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
        assert all(1 <= len(batch) <= size for batch in batches)
        assert [b.tolist() for b in batches] == [b.tolist() for b in draw()]

    def test_buckets_save_padding(self) -> None:
        lengths = np.random.default_rng(0).integers(1, 100, 1000)

        def padding(bucket: bool) -> int:
            rng = np.random.default_rng(1)
            return sum(
                int(lengths[b].max() * len(b) - lengths[b].sum())
                for b in batch_indices(lengths, 20, rng=rng, bucket=bucket)
            )

        assert padding(True) < 0.2 * padding(False)

    def test_order_without_rng_or_bucket(self) -> None:
        batches = batch_indices([3, 1, 2], 2, bucket=False)
        assert [b.tolist() for b in batches] == [[0, 1], [2]]
        with pytest.raises(DataError, match="batch_size"):
            batch_indices([1], 0)

    def test_pad(self) -> None:
        padded, lengths = pad([np.ones((2, 3), np.float32), np.zeros((0, 3), np.float32)], value=-1)
        assert padded.shape == (2, 2, 3)
        assert padded.dtype == np.float32
        assert lengths.dtype == np.int64
        np.testing.assert_array_equal(lengths, [2, 0])
        np.testing.assert_array_equal(padded[1], -1)
        with pytest.raises(DataError, match=r"arrays\[1\]"):
            pad([np.ones((2, 3)), np.ones((2, 4))])
        with pytest.raises(DataError, match="at least one"):
            pad([])

    @given(st.integers(1, 200), st.integers(1, 12))
    @SETTINGS
    def test_streams_drop_nothing(self, count: int, size: int) -> None:
        ids = np.arange(1, count + 1)
        tokens, lengths = streams(ids, size)
        assert tokens.shape == (size, -(-count // size))
        rows = [row[:length] for row, length in zip(tokens, lengths, strict=True)]
        np.testing.assert_array_equal(np.concatenate(rows), ids)
        assert lengths.max() - lengths.min() <= 1

    def test_streams_refuse(self) -> None:
        with pytest.raises(DataError, match="non-empty"):
            streams(np.array([], dtype=np.int64), 2)
        with pytest.raises(DataError, match="batch_size"):
            streams(np.arange(3), 0)


class TestScaler:
    def test_laws(self) -> None:
        rng = np.random.default_rng(0)
        arrays = [(rng.normal(size=(n, 3)) * [1, 50, 0] + [0, 1000, 0.1]).astype(np.float32) for n in (5, 0, 9)]
        scaler = Scaler.fit(arrays)
        scaled = np.concatenate([scaler.apply(a) for a in arrays])
        np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-4)
        np.testing.assert_allclose(scaled.std(axis=0), [1, 1, 0], atol=1e-4)
        assert scaler.scale[2] == 1
        np.testing.assert_allclose(scaler.invert(scaler.apply(arrays[0])), arrays[0], rtol=1e-5, atol=1e-5)
        again = Scaler.from_dict(scaler.to_dict())
        np.testing.assert_array_equal(again.mean, scaler.mean)
        np.testing.assert_array_equal(again.scale, scaler.scale)

    def test_refuses(self) -> None:
        with pytest.raises(DataError, match="finite"):
            Scaler.fit([np.array([[np.nan]])])
        with pytest.raises(DataError, match="time step"):
            Scaler.fit([])
        with pytest.raises(DataError, match="scaler"):
            Scaler.from_dict({"mean": [1]})
