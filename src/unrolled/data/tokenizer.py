"""From a text to tokens and back.

Kinds    chars    every character of the text; `join` gives back the same text.
         words    words, single punctuation marks and line ends; Chinese and Japanese characters stand alone.
         spaces   what stands between spaces, as in files that are already tokenised; a line end becomes `<eos>`.
         subword  byte-level pieces learnt by byte-pair encoding (the `tokenizers` library); `join` gives back the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from unrolled.errors import DataError, expected, require

TokenizerKind = Literal["chars", "words", "spaces", "subword"]
KINDS: tuple[str, ...] = get_args(TokenizerKind)
END_OF_LINE = "<eos>"
SUBWORD_DEFAULT = 4000

_ALONE = "぀-ヿ㐀-䶿一-鿿豈-﫿\U00020000-\U0003ffff"  # kana and Han characters
_WORD = re.compile(rf"\n|[{_ALONE}]|[^\W{_ALONE}]+(?:['’-][^\W{_ALONE}]+)*|[^\w\s]")
_NO_SPACE_BEFORE = set(",.;:!?)]}%，。；：！？）」』、…")
_NO_SPACE_AFTER = set("([{（「『")


@dataclass(frozen=True)
class Tokenizer:
    """A rule, and for `subword` the learnt pieces as the JSON text of the `tokenizers` library."""

    kind: TokenizerKind
    lowercase: bool = False
    model: str | None = None
    _engine: Any = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise DataError(expected("tokenizer", f"one of {', '.join(KINDS)}", repr(self.kind)))
        if self.kind != "subword":
            return
        if self.model is None:
            way_out = 'Call Tokenizer.train("subword", texts).'
            raise DataError(expected("model", "the pieces of a trained tokenizer", "None", way_out))
        library = require("tokenizers", "train")
        object.__setattr__(self, "_engine", library.Tokenizer.from_str(self.model))

    @classmethod
    def train(
        cls,
        kind: TokenizerKind,
        texts: Iterable[str],
        *,
        vocabulary_size: int | None = None,
        lowercase: bool = False,
    ) -> Tokenizer:
        """Learn pieces where the kind has any to learn. `texts` must be the training part only."""
        if kind != "subword":
            return cls(kind, lowercase)
        return cls(kind, lowercase, _train_pieces(texts, vocabulary_size or SUBWORD_DEFAULT, lowercase))

    @property
    def pieces(self) -> tuple[str, ...] | None:
        """All pieces that `subword` can give, in the order of their rank; None for the other kinds."""
        if self._engine is None:
            return None
        ranks: dict[str, int] = self._engine.get_vocab()
        return tuple(sorted(ranks, key=ranks.__getitem__))

    def tokenize(self, text: str) -> list[str]:
        """A text, cut into tokens."""
        if self.lowercase:
            text = text.lower()
        if self.kind == "chars":
            return list(text)
        if self.kind == "words":
            return _WORD.findall(text)
        if self.kind == "spaces":
            return text.replace("\n", f" {END_OF_LINE} ").split()
        return list(self._engine.encode(text, add_special_tokens=False).tokens)

    def join(self, tokens: Sequence[str]) -> str:
        """The text of the tokens: the same text for chars and subword, a readable one for words and spaces."""
        if self.kind == "chars":
            return "".join(tokens)
        if self.kind == "subword":
            return str(self._engine.decoder.decode(list(tokens)))
        if self.kind == "spaces":
            return re.sub(rf" ?{re.escape(END_OF_LINE)} ?", "\n", " ".join(tokens))
        return _join_words(tokens)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        model = None if self.model is None else json.loads(self.model)
        return {"kind": self.kind, "lowercase": self.lowercase, "model": model}

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> Tokenizer:
        """The inverse of `to_dict`."""
        try:
            model = saved.get("model")
            kind, lowercase = saved["kind"], bool(saved["lowercase"])
        except (KeyError, TypeError, AttributeError):
            raise DataError(expected("tokenizer", "a dict with kind and lowercase", repr(saved)[:80])) from None
        return cls(kind, lowercase, None if model is None else json.dumps(model, ensure_ascii=False))


def _join_words(tokens: Sequence[str]) -> str:
    out: list[str] = []
    for i, token in enumerate(tokens):
        before = tokens[i - 1] if i else "\n"
        tight = (
            token in _NO_SPACE_BEFORE
            or before in _NO_SPACE_AFTER
            or "\n" in (token, before)
            or (_stands_alone(token) and _stands_alone(before))
            or (before in _NO_SPACE_BEFORE and _stands_alone(token))
        )
        out.append(token if tight else " " + token)
    return "".join(out)


def _stands_alone(token: str) -> bool:
    return re.fullmatch(f"[{_ALONE}]", token) is not None


def _train_pieces(texts: Iterable[str], size: int, lowercase: bool) -> str:
    library = require("tokenizers", "train")
    if size < 257:  # one for each byte, so that no text is unknown, and at least one piece to learn
        raise DataError(expected("vocabulary_size", "257 or more for subword", size))
    engine = library.Tokenizer(library.models.BPE())
    engine.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = library.decoders.ByteLevel()
    trainer = library.trainers.BpeTrainer(
        vocab_size=size,
        show_progress=False,
        initial_alphabet=sorted(library.pre_tokenizers.ByteLevel.alphabet()),
    )
    engine.train_from_iterator((text.lower() if lowercase else text for text in texts), trainer)
    return str(engine.to_str())
