"""Every command and every block of Python in both READMEs, taken from the READMEs themselves.

Files shown under their name in backticks are written; `unrolled` commands and Python run in their order, in one folder;
`make` and `pip` are looked up in the Makefile and in pyproject.toml, since they build environments. A block or a
command of any other kind fails the test, so nothing is skipped.
"""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import shlex
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from unrolled.cli import main
from unrolled.data import examples

ROOT = Path(__file__).resolve().parent.parent
READMES = ("README.md", "README.zh.md")
# Options that make a command short enough for a test, by how it begins; all others run as they are printed.
SHORTER = {
    "unrolled demo": ["--epochs", "1", "--hidden", "8"],
    "unrolled compare": ["--epochs", "1", "--seeds", "1"],
    "unrolled bench memory": ["--steps", "2"],
    "unrolled lab": ["--no-open"],
}


@dataclass(frozen=True)
class Block:
    line: int
    language: str
    text: str
    file: str | None  # the name in backticks on the line above, where there is one


def blocks(readme: str) -> list[Block]:
    lines = (ROOT / readme).read_text(encoding="utf-8").splitlines()
    found: list[Block] = []
    start, above = None, ""
    for number, line in enumerate(lines):
        if line.startswith("```") and start is None:
            start = number
        elif line.startswith("```"):
            name = re.fullmatch(r"`([\w.-]+\.\w+)`", above)
            text = "\n".join(lines[start + 1 : number]) + "\n"
            found.append(Block(start + 1, lines[start][3:].strip(), text, name[1] if name else None))
            start, above = None, ""
        elif start is None and line.strip():
            above = line.strip()
    assert start is None, f"{readme}:{start}: a block that does not end"
    return found


def commands(readme: str) -> list[str]:
    return [line for block in blocks(readme) if block.language == "sh" for line in block.text.splitlines() if line]


def run_unrolled(arguments: list[str], standard_input: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run in this process, as importing torch anew for each command would take most of the time."""
    if "--help" not in arguments:
        for beginning, more in SHORTER.items():
            if ["unrolled", *arguments][: len(beginning.split())] == beginning.split():
                arguments = [*arguments, *more]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(standard_input.encode()), encoding="utf-8"))
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 0, f"unrolled {shlex.join(arguments)}\n{out.getvalue()}\n{err.getvalue()}"
    return out.getvalue()


def run_command(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    piped, _, last = command.rpartition(" | ")
    words, given = shlex.split(last), ""
    if piped:
        printf, form, *texts = shlex.split(piped)
        assert (printf, form) == ("printf", "%s\\n"), f"cannot run {command!r}"
        given = "".join(text + "\n" for text in texts)
    if words[0] == "unrolled":
        if words[1:2] == ["demo"] and words[2:] and words[2] != "speakers":
            return  # run by test_demos, so that this one stays short
        output = run_unrolled(words[1:], given, monkeypatch)
        assert output.strip() or words[1] == "train", f"{command} printed nothing"
    elif words[0] == "make":
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        for word in words[1:]:
            variable, is_setting, _ = word.partition("=")
            wanted = rf"\$\(?\{{?{variable}\b|\b{variable}\b" if is_setting else rf"^{re.escape(word)}\s*:"
            assert re.search(wanted, makefile, re.MULTILINE), f"{command}: not in the Makefile"
    elif words[:2] == ["pip", "install"]:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        extra = re.fullmatch(r"\.\[(\w+)\]", words[2])
        assert extra, f"cannot check {command!r}"
        assert extra[1] in project["optional-dependencies"]
    else:
        pytest.fail(f"do not know how to check {command!r}")


def run_python(block: Block, folder: Path) -> None:
    script = folder / f"block_{block.line}.py"
    script.write_text(block.text, encoding="utf-8")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        runpy.run_path(str(script), run_name="__main__")
    for said in re.findall(r"  # (.+)$", block.text, re.MULTILINE):
        for part in said.split(", then "):
            assert part in out.getvalue(), f"line {block.line}: {part!r} is not in {out.getvalue()!r}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


@pytest.mark.parametrize("readme", READMES)
def test_everything_runs(readme: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for block in blocks(readme):
        if block.file is not None:
            (folder / block.file).write_text(block.text, encoding="utf-8")
        elif block.language == "sh":
            for command in filter(None, block.text.splitlines()):
                run_command(command, monkeypatch)
        elif block.language == "python":
            run_python(block, folder)
        else:
            pytest.fail(f"{readme}:{block.line}: a block of kind {block.language!r} that nothing checks")


def demo_names() -> list[str]:
    found = [shlex.split(c)[2] for c in commands(READMES[0]) if re.match(r"unrolled demo \w", c)]
    return [name for name in found if name != "speakers"]


def first_items(whole: examples.Splits, count: int) -> examples.Splits:
    """The beginning of each part, less what has a tag that the shorter training part does not have."""
    train = whole.train.subset(range(min(count, len(whole.train))), whole.train.name)
    known = {answer for item in train for answer in item.answers()}
    others = [
        part.subset([i for i in range(min(count, len(part))) if known.issuperset(part[i].answers())], part.name)
        for part in (whole.valid, whole.test)
    ]
    return examples.Splits(train, others[0], others[1], whole.task)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", demo_names())
def test_demos(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the first 100 items of each part, as whole sets take minutes."""
    load = examples.load
    monkeypatch.setattr(examples, "load", lambda name: first_items(load(name), 100))
    assert run_unrolled(["demo", name], "", monkeypatch).strip()


def test_both_have_the_same_commands_and_code() -> None:
    """Equal but for the texts in double quotes, which are in the language of the page."""
    plain = [
        [(b.language, b.file, "" if b.file else re.sub(r'"[^"]*"', '"…"', b.text)) for b in blocks(readme)]
        for readme in READMES
    ]
    assert plain[0] == plain[1]


def test_both_have_the_same_sections() -> None:
    def shape(readme: str) -> list[str]:
        text = re.sub(r"```.*?```", "", (ROOT / readme).read_text(encoding="utf-8"), flags=re.DOTALL)
        return [mark for mark in re.findall(r"^(#+ |- |\|)", text, re.MULTILINE)]

    assert shape(READMES[0]) == shape(READMES[1])


def pages() -> list[Path]:
    return [ROOT / name for name in (*READMES, "CONTRIBUTING.md", "CHANGELOG.md")] + sorted(ROOT.glob("docs/*.md"))


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_folders_of_the_map_exist() -> None:
    for readme in READMES:
        named = re.findall(r"^\| .*?`([\w./]+/)`", (ROOT / readme).read_text(encoding="utf-8"), re.MULTILINE)
        assert named
        for name in named:
            assert (ROOT / name).is_dir(), f"{readme}: {name}"


def test_changelog_and_citation_name_the_version() -> None:
    from unrolled import __version__

    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == __version__
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", ["textbook.md", "textbook.zh.md"])
def test_parameter_counts_of_the_textbook_page(page: str) -> None:
    """The table of counts is what the layers have."""
    from unrolled import GRU, LSTM, RNN

    rows = re.findall(
        r"^\| (RNN|LSTM|GRU)\D*(\d+)\D+(\d+) \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|",
        (ROOT / "docs" / page).read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert len(rows) == 5
    for cell, width, hidden, none, one, two in rows:
        layer = {"RNN": RNN, "LSTM": LSTM, "GRU": GRU}[cell]
        made = [layer(int(width), int(hidden), **how) for how in ({"bias": False}, {"single_bias": True}, {})]
        counts = [sum(p.numel() for p in m.parameters()) for m in made]
        assert [f"{count:,}" for count in counts] == [none, one, two]
