"""How the memory that data may take is dealt out."""

from __future__ import annotations

from dataclasses import dataclass

from unrolled.data.items import Room

__all__ = ["Budget"]

MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Budget:
    """Bytes for each thing, out of a bound on all of them.

    A piece is in memory four times at most while it is trained on: itself, what it was joined from, and the same of the
    next one, which a thread reads ahead; beside it stand numbers for each of its rows.
    """

    memory: int  # megabytes

    @property
    def bytes(self) -> int:
        """All of it."""
        return self.memory * MEGABYTE

    @property
    def piece(self) -> int:
        """Of numbers, whose rows are mixed."""
        return self.bytes // 12

    @property
    def block(self) -> int:
        """Of numbers that stay together on the disk: a piece has about a hundred blocks."""
        return min(max(self.bytes // 1000, 1 << 14), 1 << 20)

    @property
    def read(self) -> int:
        """Of a file, at a time; short rows take up to fifty times as much as items and tokens."""
        return min(max(self.bytes // 128, 1 << 14), 4 << 20)

    @property
    def room(self) -> Room:
        """Names in a table of counts, about 200 bytes each, and characters to learn pieces from."""
        return Room(max(self.bytes // 4 // 200, 1000), self.bytes // 16)
