"""Build the interactive page: sources in lab/, results in src/unrolled/lab/static/, which are committed.

    python tools/build_lab.py             build
    python tools/build_lab.py --out DIR   build elsewhere (a test compares the two)

Needs lab/node_modules (`npm ci` in lab/), latex2mathml and PyYAML. The same sources give the same bytes.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import itertools
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import latex2mathml.converter
import yaml

ROOT = Path(__file__).resolve().parents[1]
LAB = ROOT / "lab"
WORK = LAB / "build"
STATIC = ROOT / "src" / "unrolled" / "lab" / "static"
LANGUAGES = ("en", "zh")
LARGEST_SCRIPT = 350_000


class BuildError(Exception):
    """A source of the page is wrong: which file, and what about it."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=STATIC, help="folder to write")
    out = parser.parse_args().out
    try:
        build(out)
    except BuildError as error:
        sys.exit(f"build_lab: {error}")


def build(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    write(out / "content.json", json.dumps(content(), ensure_ascii=False, separators=(",", ":"), sort_keys=True) + "\n")
    used = bundle(out)
    write(out / "THIRD_PARTY.txt", third_party(used))
    names = ("lab.js", "lab.css", "content.json", "THIRD_PARTY.txt")
    sums = (f"{hashlib.sha256((out / name).read_bytes()).hexdigest()}  {name}\n" for name in names)
    write(out / "SHA256SUMS", "".join(sums))
    for name in names:
        print(f"{(out / name).stat().st_size:8d}  {name}")
    if (size := (out / "lab.js").stat().st_size) > LARGEST_SCRIPT:
        raise BuildError(f"lab.js: expected at most {LARGEST_SCRIPT} bytes, found {size}")


def write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")


def content() -> dict[str, Any]:
    """What the page reads as content: texts and quiz in both languages, the glossary, equations as trees."""
    return {
        "texts": {language: texts(language) for language in LANGUAGES},
        "quiz": {language: read_yaml(LAB / "quiz" / f"{language}.yaml") for language in LANGUAGES},
        "code": {cell: code(cell) for cell in ("lstm", "gru")},
        "glossary": read_yaml(LAB / "glossary.yaml"),
        "equations": {name: equation(name, source) for name, source in read_yaml(LAB / "equations.yaml").items()},
    }


def texts(language: str) -> dict[str, str]:
    """All dictionaries of a language as one. A key may stand in one file only."""
    merged: dict[str, str] = {}
    for path in sorted((LAB / "i18n" / language).glob("*.json")):
        try:
            own = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=no_twice(path))
        except json.JSONDecodeError as error:
            raise BuildError(f"{path.relative_to(ROOT)}: {error}") from None
        if twice := sorted(merged.keys() & own.keys()):
            raise BuildError(f"{path.relative_to(ROOT)}: {twice[0]} stands in another file too")
        merged |= own
    return merged


def no_twice(path: Path) -> Any:
    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in found]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise BuildError(f"{path.relative_to(ROOT)}: {twice} stands here twice")
        return dict(found)

    return pairs


def read_yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def equation(name: str, source: str) -> list[Any]:
    """LaTeX as a tree [tag, attributes, …children] of MathML; the page makes elements of it, never markup of a text."""
    try:
        mathml = latex2mathml.converter.convert(source)
    except Exception as error:
        raise BuildError(f"lab/equations.yaml: {name}: {source!r} is not LaTeX that can be read ({error!r})") from error
    return tree(ElementTree.fromstring(mathml))


def tree(element: ElementTree.Element) -> list[Any]:
    children: list[Any] = [element.text] if element.text and element.text.strip() else []
    children += [tree(child) for child in element]
    attributes = {key: value for key, value in element.attrib.items() if key != "xmlns"}
    return [element.tag.split("}")[-1], attributes, *children]


def code(cell: str) -> list[dict[str, str]]:
    """The lines of src/unrolled/equations that compute a cell, each with the gate that it computes."""
    path = ROOT / "src" / "unrolled" / "equations" / f"{cell}.py"
    source = path.read_text(encoding="utf-8")
    functions = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}
    lines: list[dict[str, str]] = []
    for node in ast.walk(functions[f"{cell}_gates"]):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            gate = ast.unparse(node.targets[0])
            lines.append({"gate": gate, "text": ast.get_source_segment(source, node) or ""})
    for node in functions[f"{cell}_update"].body[1:]:
        gate = "c" if isinstance(node, ast.Assign) else "h" if cell == "lstm" else "s"
        lines.append({"gate": gate, "text": ast.get_source_segment(source, node) or ""})
    if len(lines) < 5:
        raise BuildError(f"{path.relative_to(ROOT)}: expected the lines of the gates, found {lines}")
    return lines


def bundle(out: Path) -> list[Path]:
    """Run esbuild; which files of node_modules it put in."""
    WORK.mkdir(exist_ok=True)
    styles = sorted((LAB / "styles").glob("*.css"), key=lambda path: (path.name != "base.css", path.name))
    write(WORK / "lab.css", "".join(f'@import "../styles/{path.name}";\n' for path in styles))
    if not (LAB / "node_modules" / "esbuild").exists():
        raise BuildError("lab/node_modules: esbuild is not installed. Run `npm ci` in lab/ first.")
    script = ["src/main.js", str(out.resolve() / "lab.js"), str(WORK / "meta.json")]
    sheet = ["build/lab.css", str(out.resolve() / "lab.css")]
    for entry in (script, sheet):
        done = subprocess.run(["node", "build.mjs", *entry], cwd=LAB, check=False)
        if done.returncode:
            raise BuildError(f"esbuild failed on lab/{entry[0]}")
    # Line ends are left in templates only, where htm and CSS pass over the indentation that follows them.
    write(out / "lab.js", re.sub(r"\n[ \t]+", "\n", (out / "lab.js").read_text(encoding="utf-8")))
    inputs = json.loads((WORK / "meta.json").read_text(encoding="utf-8"))["outputs"]
    names = {name for found in inputs.values() for name, part in found["inputs"].items() if part["bytesInOutput"]}
    return [LAB / name for name in sorted(names) if name.startswith("node_modules/")]


def third_party(used: list[Path]) -> str:
    """The licences of what lab.js contains."""
    packages = sorted({package_of(path) for path in used})
    if not packages:
        raise BuildError("lab/node_modules: nothing of it is in lab.js. If it is a link, put the folder itself there.")
    texts: dict[str, list[str]] = {}
    for package in packages:
        about = json.loads((package / "package.json").read_text(encoding="utf-8"))
        licences = [path for path in sorted(package.iterdir()) if path.name.lower().startswith(("licen", "copying"))]
        if not licences:
            raise BuildError(f"{package.relative_to(ROOT)}: no licence file")
        notice, text = notice_and_text(licences[0].read_text(encoding="utf-8"))
        texts.setdefault(text, []).append(f"{about['name']} {about['version']} ({about['license']})\n{notice}".rstrip())
    parts = ["lab.js contains the packages below. Each is used under the licence below its name and its notice.\n"]
    for text, names in texts.items():
        line = "-" * max(len(row) for name in names for row in name.splitlines())
        parts.append("\n".join([line, *names, line, "", text, ""]))
    return "\n".join(parts)


def notice_and_text(licence: str) -> tuple[str, str]:
    """What a licence says of its package, which are the lines above the first paragraph that is neither a title nor a
    notice, and the paragraphs that it shares with others. A licence that begins otherwise is all text."""
    paragraphs = licence.replace("\r\n", "\n").strip().split("\n\n")
    own = list(itertools.takewhile(lambda text: text.startswith(("Copyright ", "The MIT License")), paragraphs))
    return "\n".join(own), "\n\n".join(paragraphs[len(own) :])


def package_of(path: Path) -> Path:
    """The folder of the package that a file belongs to."""
    parts = path.relative_to(LAB / "node_modules").parts
    return LAB / "node_modules" / Path(*parts[: 2 if parts[0].startswith("@") else 1])


if __name__ == "__main__":
    main()
