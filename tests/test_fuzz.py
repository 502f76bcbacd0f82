"""Ten thousand damaged files for every reader, from a search that coverage guides; and that the search sees faults."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from fuzzing.readers import READERS
from fuzzing.watch import MEMORY, Watch
from unrolled.errors import DataError

HERE = Path(__file__).parent
COUNT = 10_000


@pytest.mark.parametrize("part", [0, 1])
def test_every_reader(part: int, tmp_path: Path) -> None:
    """Each file is read, or refused in words, within a second and in little memory; nothing crashes or hangs."""
    names = list(READERS)[part::2]
    command = [sys.executable, str(HERE / "fuzz.py"), str(COUNT), *names, "--kept", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {match[1]: (int(match[2]), int(match[3])) for match in re.finditer(LINE, done.stdout, re.MULTILINE)}
    assert list(found) == names
    for name, (files, refused) in found.items():
        assert files == COUNT
        assert 0.05 * COUNT < refused < 0.995 * COUNT, f"{name}: a search that is always refused, or never, sees little"


LINE = r"^([\w-]+): (\d+) files, (\d+) refused, slowest \d+ ms, "


def watched(read: Any, folder: Path, content: bytes = b"x") -> Watch:
    watch = Watch(read, folder / "a.txt", folder)
    watch.one(content)
    return watch


class TestWhatIsAFault:
    def test_none(self, tmp_path: Path) -> None:
        assert not watched(lambda path: path.read_bytes(), tmp_path).faults

        def refuse(_: Path) -> None:
            raise DataError("a.txt:1: expected a number, found 深圳.")

        watch = watched(refuse, tmp_path)
        assert not watch.faults
        assert watch.refused == 1

    @pytest.mark.parametrize("error", [IndexError("x"), RecursionError("x"), OSError("x"), DataError(""),
                                       DataError("\x1b[2J"), DataError("x" * 4000), SystemExit(1)])  # fmt: skip
    def test_an_error(self, error: BaseException, tmp_path: Path) -> None:
        def fail(_: Path) -> None:
            raise error

        watch = watched(fail, tmp_path, b"the file")
        assert len(watch.faults) == 1
        (kept,) = tmp_path.glob("a-*.txt")
        assert kept.read_bytes() == b"the file"
        watch.one(b"another")
        assert len(watch.faults) == 1

    def test_time(self, tmp_path: Path) -> None:
        def busy(_: Path) -> None:
            end = time.process_time() + 1.05
            while time.process_time() < end:
                pass

        assert "takes more than a second" in watched(busy, tmp_path).faults

    def test_memory(self, tmp_path: Path) -> None:
        code = """
            import sys
            from pathlib import Path
            from fuzzing.watch import MEMORY, Watch, bound_addresses
            watch = Watch(lambda _: b"x" * (MEMORY // 2), Path(sys.argv[1]) / "a.txt", Path(sys.argv[1]))
            watch.one(b"x")
            assert "takes memory" in watch.faults, watch.faults
            bound_addresses()
            watch.read = lambda _: bytearray(2**40)
            watch.one(b"x")
            assert any(kind.startswith("MemoryError") for kind in watch.faults), watch.faults
        """
        assert MEMORY < 2**30
        inside(code, str(tmp_path))


def inside(code: str, *arguments: str, timeout: float = 120) -> str:
    """Run a program beside the fuzzer; what it prints."""
    command = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    environment = os.environ | {"PYTHONPATH": str(HERE)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


SEARCH = """
    import os, sys, time
    from pathlib import Path
    from fuzzing import guided
    with guided.instrumented():
        import atheris
        from fuzzing.changes import some_bytes
        from fuzzing.readers import READERS, Reader

        @atheris.instrument_func
        def deep(path):
            content = path.read_bytes()
            if b"u" in content:
                if b"un" in content:
                    if b"unr" in content:
                        raise IndexError("three letters deep")

        def crash(path):
            path.read_bytes() == b"a seed" or os.abort()

        def hang(path):
            path.read_bytes() == b"a seed" or time.sleep(60)

        guided.HANG = 2
        for read, count in ((deep, 60_000), (crash, 100), (hang, 100), (Path.read_bytes, 100)):
            READERS["toy"] = Reader(".toy", lambda _: [b"a seed"], read, some_bytes)
            try:
                print(guided.search("toy", count, 3, Path(sys.argv[1])))
            except AssertionError as error:
                print(error)
"""


def test_the_search(tmp_path: Path) -> None:
    """It is guided: bytes at random would need millions of files. A crash and a hang are seen."""
    said = inside(SEARCH, str(tmp_path))
    for found in ("three letters deep", "toy: ended with code", "timeout after", "toy: 100 files, 0 refused"):
        assert found in said
    assert len(list(tmp_path.iterdir())) == 3
