"""Plain text.

Task lm          format `text`: the whole file is one document; format `documents`: blank lines part the documents.
Other tasks      one item a line, without labels: what a trained model is asked about.
"""

from __future__ import annotations

from unrolled.data.items import Dataset, Item
from unrolled.data.readers.source import Request, decode, numbered_lines, read_bytes, to_dataset


def read_text(request: Request, *, documents: bool) -> Dataset:
    text = decode(request, read_bytes(request)).replace("\r\n", "\n").replace("\r", "\n")
    if documents:
        return _read_documents(request, text)
    if request.task == "lm":
        items = [Item(f"{request.name}:{request.line(1)}", text=text)] if text else []
        return to_dataset(request, items, [])
    if request.labelled:
        way_out = "Use CSV, TSV, JSON lines or Parquet; for task tag, CoNLL files as well."
        raise request.fail(None, "a format that holds labels", "plain text", way_out)
    return _read_lines(request, text)


def _read_lines(request: Request, text: str) -> Dataset:
    items, empty = [], []
    for number, line in numbered_lines(request, text):
        where = f"{request.name}:{number}"
        if not line.strip():
            empty.append(str(number))
        elif request.task == "tag":
            items.append(Item(where, tokens=tuple(line.split())))
        else:
            items.append(Item(where, text=line))
    return to_dataset(request, items, empty)


def _read_documents(request: Request, text: str) -> Dataset:
    items: list[Item] = []
    block: list[str] = []
    start = 1
    for number, line in [*numbered_lines(request, text), (0, "")]:
        if line.strip():
            start = start if block else number
            block.append(line)
        elif block:
            items.append(Item(f"{request.name}:{start}", text="\n".join(block)))
            block = []
    return to_dataset(request, items, [])
