"""One process at a time on a run folder: a lock that ends with the process, however it ends.

Source   flock(2): the system holds the lock for the open file and drops it when the process is gone, kill -9 included.
Variant  The file names the process for the message and is removed when the run ends well. On a network drive the lock
         holds between machines where the drive passes locks on (NFS 4 does). Windows has no flock: no lock there.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

from unrolled.errors import RunError, expected

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["Lock"]

NAME = ".lock"


class Lock:
    """The lock of one folder, which may move while it is held."""

    def __init__(self) -> None:
        self._handle: int | None = None
        self._folder = Path()

    @property
    def held(self) -> bool:
        """Whether this process has it; never where there are no locks."""
        return self._handle is not None

    def take(self, folder: Path) -> None:
        """Hold the folder's lock from here on; again is no error.

        Raises:
            RunError: another process holds it.
            OSError: the folder cannot be written to.
        """
        if self._handle is not None or fcntl is None:
            return
        self._folder = folder
        while self._handle is None:
            handle = os.open(folder / NAME, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self._is_in_place(handle):
                    self._sign(handle)
                    self._handle = handle
            except BlockingIOError:
                who = os.pread(handle, 200, 0).decode(errors="replace").strip()
                way_out = "Wait until it has ended, or stop it."
                raise RunError(
                    expected(str(folder), "a run that no other process works on", who or "another process", way_out)
                ) from None
            finally:
                if self._handle is None:
                    os.close(handle)

    def _is_in_place(self, handle: int) -> bool:
        """Whether the file is still the folder's: its holder removes it, and others may have opened it just before."""
        try:
            return os.path.samestat(os.fstat(handle), os.stat(self._folder / NAME))
        except FileNotFoundError:
            return False

    def _sign(self, handle: int) -> None:
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)

    def moved(self, folder: Path) -> None:
        """The folder that is held has another name from here on."""
        self._folder = folder

    def give_back(self) -> None:
        """Let others have it. Not held is no error."""
        if self._handle is None:
            return
        (self._folder / NAME).unlink(missing_ok=True)
        os.close(self._handle)
        self._handle = None
