"""Damaged and hostile files, by the thousand, for every reader: what each must end in, and how soon.

    python tests/fuzz.py 10000 [reader …] [--corpus FOLDER]

lets a coverage-guided search (Atheris, which is libFuzzer) make so many files for each reader, each reader in a process
of its own, and prints what came of them. The tests run ten thousand of each. A file is changed byte by byte, and inside
its form: members of a zip are changed and packed again with the right sum, so that what reads them is reached; values
of a JSON tree become others; rows of a table, fields of an ONNX model too. With --corpus, what reached new code is kept
and the next search begins there. A file that finds a fault is kept, and its place printed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from fuzzing import guided


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, help="files for each reader")
    parser.add_argument("readers", nargs="*", help="all, if none is named")
    parser.add_argument("--seed", type=int, default=31)
    parser.add_argument("--corpus", type=Path, help="a folder that keeps what reached new code")
    parser.add_argument("--kept", type=Path, default=Path(tempfile.gettempdir()), help="where files with faults go")
    given = parser.parse_args()
    given.kept.mkdir(parents=True, exist_ok=True)
    failed = False
    with guided.instrumented():
        from fuzzing.readers import READERS

        if unknown := sorted(set(given.readers) - set(READERS)):
            parser.error(f"readers: expected some of {', '.join(READERS)}, found {', '.join(unknown)}")
        for name in given.readers or READERS:
            try:
                print(guided.search(name, given.count, given.seed, given.kept, given.corpus), flush=True)
            except AssertionError as error:
                failed = True
                print(error, file=sys.stderr, flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
