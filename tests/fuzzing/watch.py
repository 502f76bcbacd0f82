"""What every file must end in: a value, or one line of ours; within a second, and in little memory."""

from __future__ import annotations

import hashlib
import os
import resource
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unrolled.errors import UnrolledError

SECOND = 1.0  # of processor time, for a file of some kilobytes
MEMORY = 300 * 2**20  # bytes that all files together may add to the peak of the process
ADDRESSES = 2 * 2**30  # bytes of address space beyond what the process has: an array without end fails at once
LONGEST = 3000  # characters of an error


@dataclass
class Watch:
    """Reads one file after the other, and keeps those that end in something else; of each kind of fault, the first."""

    read: Callable[[Path], Any]
    path: Path
    kept: Path  # the folder for the files that found a fault
    files: int = 0
    refused: int = 0
    slowest: float = 0.0
    faults: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._before = self._peak = peak()

    def one(self, content: bytes) -> None:
        self.path.write_bytes(content)
        self.files += 1
        start, said = time.process_time(), ""
        try:
            self.read(self.path)
        except UnrolledError as error:
            self.refused += 1
            said = str(error)
            if not said or len(said) > LONGEST or not all(line.isprintable() for line in said.split("\n")):
                self._fault(f"an error of {len(said)} characters that cannot be shown: {said[:200]!r}", content)
        except BaseException as error:
            self._fault(f"{type(error).__name__} {_place(error)}", content, _told(error))
        took, now = time.process_time() - start, peak()
        self.slowest = max(self.slowest, took)
        if took > SECOND:
            self._fault("takes more than a second", content, f"{took:.2f} s")
        if now - self._peak > MEMORY / 3 or now - self._before > MEMORY:
            self._fault("takes memory", content, f"{(now - self._peak) / 2**20:.0f} MB more than all before")
            self._before = now
        self._peak = now

    def _fault(self, kind: str, content: bytes, told: str = "") -> None:
        if kind in self.faults:
            return
        digest = hashlib.sha256(content).hexdigest()[:12]
        kept = self.kept / f"{self.path.stem}-{digest}{''.join(self.path.suffixes)}"
        kept.write_bytes(content)
        self.faults[kind] = f"{kind}; the file is kept as {kept}\n{told}"

    def line(self, name: str, seconds: float) -> str:
        """What is known of a reader, for people."""
        grown = (self._peak - self._before) / 2**20
        return (
            f"{name}: {self.files} files, {self.refused} refused, slowest {self.slowest * 1000:.0f} ms, "
            f"{grown:.0f} MB more at the peak, {seconds:.0f} s"
        )


def bound_addresses() -> None:
    """Let this process have no more than ADDRESSES beyond what it has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + ADDRESSES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def peak() -> int:
    """The most memory that this process has had, in bytes; getrusage would tell that of its parent too."""
    status = Path("/proc/self/status").read_bytes()
    return int(status.partition(b"VmHWM:")[2].split(None, 1)[0]) * 1024


def _place(error: BaseException) -> str:
    """Where our own code was when it was raised."""
    ours = [frame for frame in traceback.extract_tb(error.__traceback__) if "unrolled" in frame.filename]
    return f"in {ours[-1].filename}:{ours[-1].lineno}" if ours else "from the reader"


def _told(error: BaseException) -> str:
    return "".join(traceback.format_exception(error, limit=-6))[-1500:]
