"""Do the register tiles of the built core keep their sums in registers? `make assembly` asks objdump.

For each tile function: its innermost loop with the most multiply-adds, how many of those it holds, and how many vectors
it moves between registers and the stack. A spill inside that loop is an error: such a tile runs at half the speed.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

FUNCTION = re.compile(r"^[0-9a-f]+ <(?P<name>.*)>:$")
TILE = re.compile(
    r"unrolled::(?P<target>\w+)::(?P<kind>tile|transposed_tile)"
    r"<(?P<type>float|double), (?P<rows>\d+), (?P<vectors>\d+)>"
)
LINE = re.compile(r"^\s*(?P<at>[0-9a-f]+):\s+(?P<text>\S.*)$")
JUMP = re.compile(r"^(?:j\w+|b(?:\.\w+)?|cbn?z\s+\w+,|tbn?z\s+\w+, #\d+,)\s+(?P<to>[0-9a-f]+)\b")
MULTIPLY = re.compile(r"^(?:v?f?n?madd\w*p[sd]|v?mulp[sd]|fmla)\b")
STACK = re.compile(r"[xyz]mm\d+.*\(%r[sb]p|\(%r[sb]p.*[xyz]mm\d+|^(?:ldr|str|ldp|stp)\s+q\d+.*\[sp")


def listing(objdump: str, path: Path) -> dict[str, list[tuple[int, str]]]:
    """Each function's instructions with their addresses."""
    command = [objdump, "--disassemble", "--demangle", "--no-show-raw-insn", str(path)]
    functions: dict[str, list[tuple[int, str]]] = {}
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        if start := FUNCTION.match(line):
            body = functions.setdefault(start["name"], [])
        elif functions and (found := LINE.match(line)):
            body.append((int(found["at"], 16), found["text"]))
    return functions


def inner_loop(body: list[tuple[int, str]]) -> list[str]:
    """The instructions of the loop, with no other loop inside, that multiplies most."""
    spans = []
    for at, text in body:
        jump = JUMP.match(text)
        if jump and body[0][0] <= int(jump["to"], 16) < at:
            spans.append((int(jump["to"], 16), at))
    inner = [s for s in spans if not any(o != s and s[0] <= o[0] and o[1] <= s[1] for o in spans)]
    loops = [[text for at, text in body if first <= at <= last] for first, last in inner]
    return max(loops, key=lambda loop: sum(bool(MULTIPLY.match(text)) for text in loop), default=[])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path, help="the build directory: its engine objects are read")
    parser.add_argument("--objdump", default="objdump")
    arguments = parser.parse_args()
    objects = sorted(arguments.build.glob("**/unrolled_*.dir/**/engine.cpp.o*"))
    if not objects:
        sys.exit(
            f"{arguments.build}: expected engine.cpp.o of a target below it, found none. Build it first: make assembly"
        )
    print("target   tile             type    rows x vectors  multiplies  instructions  spills")
    seen = spilling = 0
    for path in objects:
        for name, body in listing(arguments.objdump, path).items():
            tile = TILE.search(name)
            if not tile:
                continue
            loop = inner_loop(body)
            multiplies = sum(bool(MULTIPLY.match(text)) for text in loop)
            spills = sum(bool(STACK.search(text)) for text in loop)
            seen, spilling = seen + 1, spilling + bool(spills or not multiplies)
            print(
                f"{tile['target']:8} {tile['kind']:16} {tile['type']:6} {tile['rows']:>6} x {tile['vectors']:<7}"
                f"{multiplies:>11} {len(loop):>13} {spills:>7}"
            )
    print(f"{seen} tiles, {spilling} with sums on the stack in their inner loop")
    return spilling > 0 or not seen


if __name__ == "__main__":
    sys.exit(main())
