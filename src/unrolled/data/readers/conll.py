"""Tagged sentences, one token a line, a blank line (also one of spaces) after each sentence.

conll    two or more columns parted by tabs, or else by spaces: the first is the token, the last is the tag.
         Every line has as many columns as the first one. `-DOCSTART-` lines begin a new group.
conllu   the ten columns of Universal Dependencies, read by the `conllu` library. Words only: ranges such as 3-4
         (the surface form of several words) and empty nodes such as 8.1 carry no tag and are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from unrolled.data.items import Columns, Dataset, Item
from unrolled.data.readers.source import Request, decode, numbered_lines, read_bytes, to_dataset
from unrolled.errors import require

_START = "-DOCSTART-"
_TAG_FIELDS = {"tags": "upos", "upos": "upos", "xpos": "xpos", "deprel": "deprel"}


def _blocks(request: Request, text: str) -> Iterator[list[tuple[int, str]]]:
    """Sentences as numbered lines."""
    block: list[tuple[int, str]] = []
    for number, line in numbered_lines(request, text):
        if line.strip():
            block.append((number, line))
        elif block:
            yield block
            block = []
    if block:
        yield block


def _before(request: Request) -> tuple[int, str | None]:
    """The width and the group with which a reading begins."""
    return (request.piece.width, request.piece.group) if request.piece is not None else (0, None)


def read_conll(request: Request) -> Dataset:
    text = decode(request, read_bytes(request))
    items: list[Item] = []
    width, group = _before(request)
    for block in _blocks(request, text):
        tokens, tags = [], []
        for number, line in block:
            columns = _columns(line)
            if columns[0] == _START:
                group = f"{request.name}:{number}"
                continue
            width = width or len(columns)
            _check_columns(request, number, columns, width)
            tokens.append(columns[0])
            tags.append(columns[-1])
        if tokens:
            known = tuple(tags) if width > 1 else None
            items.append(Item(f"{request.name}:{block[0][0]}", tokens=tuple(tokens), tags=known, group=group))
    notes = [f"{request.name}: {width} columns; the first is the token, the last the tag"] if width > 2 else []
    return to_dataset(request, items, [], notes)


def _columns(line: str) -> list[str]:
    if "\t" in line:
        return [column.strip() for column in line.rstrip("\t ").split("\t")]
    return line.split()


def _check_columns(request: Request, number: int, columns: list[str], width: int) -> None:
    if request.labelled and len(columns) < 2:
        way_out = "Add the tag, or a blank line if the sentence ends here."
        raise request.fail(number, "a token and its tag", f"one column, {columns[0]!r}", way_out)
    if len(columns) != width:
        found = f"{len(columns)}: {' | '.join(columns)[:80]}"
        way_out = "One token and its tag a line; put tabs between columns if a token holds a space."
        if columns[0].startswith("#"):
            way_out += " If these are the comments of a CoNLL-U file, pass format='conllu'."
        raise request.fail(number, f"{width} columns as in the first line", found, way_out)
    if not columns[0] or not columns[-1]:
        raise request.fail(number, "a token and its tag", "an empty column", "Fill it, or remove the line.")


def read_conllu(request: Request, columns: Columns) -> Dataset:
    library = require("conllu", "train")
    wanted = columns.tags
    if wanted not in _TAG_FIELDS:
        found = f"tags={wanted!r}"
        raise request.fail(None, f"tags to be one of {', '.join(_TAG_FIELDS)}", found)
    field = _TAG_FIELDS[wanted]
    items: list[Item] = []
    _, group = _before(request)
    for block in _blocks(request, decode(request, read_bytes(request))):
        sentence = _parse_conllu(request, library, block)
        if sentence is None:
            continue
        group = _document(sentence, block, group)
        words = [word for word in sentence if isinstance(word["id"], int)]
        tags = [word[field] for word in words]
        untagged = [word for word, tag in zip(words, tags, strict=True) if tag in (None, "_")]
        if untagged and request.labelled:
            found = f"none at word {untagged[0]['id']}, {untagged[0]['form']!r}"
            raise request.fail(block[0][0], f"a tag in column {field} for every word", found)
        if words:
            where = f"{request.name}:{block[0][0]}"
            known = None if untagged else tuple(tags)
            items.append(Item(where, tokens=tuple(w["form"] for w in words), tags=known, group=group))
    return to_dataset(request, items, [])


def _parse_conllu(request: Request, library: Any, block: list[tuple[int, str]]) -> Any:
    rows = [(number, line) for number, line in block if not line.startswith("#")]
    for number, line in rows:
        if line.count("\t") != 9:
            found = f"{line.count(chr(9)) + 1}: {line[:60]!r}"
            way_out = "For two columns, pass format='conll'."
            raise request.fail(number, "ten columns parted by tabs", found, way_out)
    try:
        sentences = library.parse("\n".join(line for _, line in block) + "\n\n")
    except Exception as error:  # the library raises its own and built-in kinds; its text says what is wrong
        raise request.fail(f"{block[0][0]}-{block[-1][0]}", "a CoNLL-U sentence", str(error)) from error
    return sentences[0] if sentences else None


def after(request: Request, format: str) -> tuple[int, str | None]:
    """The width and the group with which the piece after this one begins."""
    width, group = _before(request)
    data = read_bytes(request)
    if format == "conllu":
        return 0, _last_document(request, data, group)
    marked = _START.encode() in data
    if width and not marked:
        return width, group
    for number, line in numbered_lines(request, decode(request, data)):
        columns = _columns(line) if line.strip() else []
        if columns and columns[0] == _START:
            group = f"{request.name}:{number}"
        elif columns:
            width = width or len(columns)
            if not marked:
                break
    return width, group


def _last_document(request: Request, data: bytes, group: str | None) -> str | None:
    """The group that is open after a piece of a CoNLL-U file."""
    blocks = list(_blocks(request, decode(request, data))) if b"newdoc" in data else []
    for block in reversed(blocks):
        if any(line.startswith("#") and "newdoc" in line for _, line in block):
            sentence = _parse_conllu(request, require("conllu", "train"), block)
            if sentence is not None and {"newdoc", "newdoc id"} & set(sentence.metadata):
                return _document(sentence, block, group)
    return group


def _document(sentence: Any, block: list[tuple[int, str]], group: str | None) -> str | None:
    """The group of a sentence, where that of the one before is `group`."""
    document = sentence.metadata.get("newdoc id", sentence.metadata.get("newdoc", group))
    return document if document is not None or "newdoc" not in sentence.metadata else f"line {block[0][0]}"
