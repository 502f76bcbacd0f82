"""The options of `unrolled train` are the fields of the recipe, one to one."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from typing import Any

import pytest
from pydantic.fields import FieldInfo
from typer.testing import CliRunner

from unrolled.cli import jobs, options
from unrolled.cli.app import build
from unrolled.cli.completion import complete
from unrolled.errors import RecipeError
from unrolled.training.recipe import Recipe

runner = CliRunner()


@pytest.fixture
def recipe_of(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run `unrolled train …` and give the recipe that it would have trained."""
    got: list[Recipe] = []
    monkeypatch.setattr(jobs, "_run", lambda recipe, _out: got.append(recipe))

    def call(*arguments: str) -> Recipe:
        result = runner.invoke(build(), ["train", *arguments])
        assert result.exit_code == 0, result.output + result.stderr
        return got.pop()

    return call


def train_parameters() -> dict[str, inspect.Parameter]:
    from unrolled.cli.commands.learning import train

    return dict(inspect.signature(complete(train)).parameters)


def test_every_field_is_an_option_and_every_option_a_field() -> None:
    own = {"task", "data", "recipe", "out", "resume", "log_json"}
    made = {name for name in train_parameters() if name not in own and not name.startswith(options.NO)}
    assert made | {"task", "data"} == set(Recipe.model_fields)


def test_every_boolean_has_its_twin() -> None:
    booleans = {name for name, field in Recipe.model_fields.items() if options.kind_of(field.annotation)[0] is bool}
    twins = {name.removeprefix(options.NO) for name in train_parameters() if name.startswith(options.NO)}
    assert booleans == twins != set()


def test_help_names_every_option_and_panel() -> None:
    text = runner.invoke(build(), ["train", "--help"], env={"COLUMNS": "200"}).output
    for name, field in Recipe.model_fields.items():
        if name not in options.ARGUMENTS:
            assert options.flag(name) in text
            assert str(field.json_schema_extra["panel"]) in text  # type: ignore[index,call-overload]


@pytest.mark.parametrize("width", ["80", "120"])
def test_no_line_of_help_is_cut(width: str) -> None:
    for command in ("train", "demo", "predict", "generate", "translate", "evaluate", "doctor"):
        text = runner.invoke(build(), [command, "--help"], env={"COLUMNS": width}).output
        assert "…" not in text
        assert max(map(len, text.splitlines())) <= int(width)


def test_flags_reach_the_recipe(recipe_of: Any) -> None:
    recipe = recipe_of("tag", "a.conll", "--cell", "gru", "--hidden", "7", "--learning-rate", "0.5", "--crf")
    assert (recipe.task, recipe.data, recipe.cell, recipe.hidden) == ("tag", "a.conll", "gru", 7)
    assert recipe.learning_rate == 0.5
    assert recipe.crf
    assert {"cell", "hidden", "learning_rate", "crf"} <= recipe.model_fields_set


def test_what_is_not_given_is_left_to_the_recipe(recipe_of: Any) -> None:
    assert recipe_of("classify", "a.csv") == Recipe(task="classify", data="a.csv")


def test_off_none_and_repeated(recipe_of: Any) -> None:
    recipe = recipe_of(
        "classify",
        "a.csv",
        "--no-bidirectional",
        "--clip",
        "none",
        "--patience",
        "none",
        "--features",
        "x",
        "--features",
        "y,z",
    )
    assert not recipe.bidirectional
    assert recipe.clip is None
    assert recipe.patience is None
    assert recipe.features == ("x", "y,z")


def test_flags_win_over_the_recipe_file(recipe_of: Any, tmp_path: Any) -> None:
    file = tmp_path / "recipe.toml"
    file.write_text('task = "classify"\ndata = "a.csv"\nhidden = 8\nseed = 4\n', encoding="utf-8")
    recipe = recipe_of("--recipe", str(file), "--seed", "5")
    assert (recipe.data, recipe.hidden, recipe.seed) == ("a.csv", 8, 5)
    assert recipe_of("tag", "b.conll", "--recipe", str(file)).data == "b.conll"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train"], "TASK"),
        (["train", "classify"], "DATA"),
        (["train", "guess", "a.csv"], "classify"),
        (["train", "classify", "a.csv", "--hidden", "0"], "--hidden"),
        (["train", "classify", "a.csv", "--hidden", "many"], "--hidden"),
        (["train", "classify", "a.csv", "--clip", "tight"], "--clip"),
        (["train", "classify", "a.csv", "--cell", "gru2"], "--cell"),
        (["train", "classify", "a.csv", "--colour", "red"], "--colour"),
        (["train", "tag", "a.conll", "--crf", "--no-crf"], "both"),
        (["train", "lm", "a.txt", "--bidirectional"], "not there yet"),
        (["train", "--recipe", "no-such.toml"], "no-such.toml"),
        (["dance"], "dance"),
        (["predict"], "RUN"),
    ],
)
def test_wrong_usage_is_code_2_and_names_the_culprit(arguments: list[str], words: str) -> None:
    result = runner.invoke(build(), arguments, env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert words in re.sub(r"\s+", " ", result.stderr)
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("annotation", "kind", "choices", "optional"),
    [
        (bool, bool, (), False),
        (bool | None, bool, (), True),
        (int | None, int, (), True),
        (int | float, float, (), False),
        (tuple[str, ...], list, (), False),
        (str | int, str, (), False),
    ],
)
def test_kinds_of_annotations(annotation: Any, kind: type, choices: tuple[str, ...], optional: bool) -> None:
    assert options.kind_of(annotation) == (kind, choices, optional)


def test_a_new_field_is_at_once_an_option() -> None:
    field = FieldInfo(annotation=float, default=1.5, description="How [loud].", json_schema_extra={"panel": "Sound"})
    (made,) = options.parameters_of("volume_up", field)
    assert made.default.param_decls == ("--volume-up",)
    assert made.default.rich_help_panel == "Sound"
    assert r"How \[loud]." in made.default.help
    assert "1.5" in made.default.help


def test_both_twins_are_refused() -> None:
    with pytest.raises(RecipeError, match="--crf or --no-crf"):
        options.given({"crf": True, options.NO + "crf": True})


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, timeout=60)


def test_help_needs_neither_torch_nor_pyarrow() -> None:
    code = (
        "import sys\nfrom unrolled.cli import main\n"
        "try:\n    main(['train', '--help'])\nexcept SystemExit as stop:\n    assert stop.code == 0\n"
        "heavy = {'torch', 'pyarrow', 'conllu', 'tokenizers', 'torchmetrics', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = run_python("-c", code)
    assert done.returncode == 0, done.stderr


def test_help_is_quick() -> None:
    """Processor time of the fastest of three, since other work on the machine only ever adds to it."""
    code = (
        "import resource, subprocess, sys\n"
        "subprocess.run([sys.executable, '-m', 'unrolled', '--help'], check=True, stdout=subprocess.DEVNULL)\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN)\nprint(used.ru_utime + used.ru_stime)\n"
    )
    times = [float(run_python("-c", code).stdout) for _ in range(3)]
    assert min(times) < 0.35


def test_only_the_command_that_is_asked_for_has_the_options_of_the_recipe() -> None:
    code = "from unrolled.cli.app import build; import sys; build({!r}); print('pydantic' in sys.modules)"
    assert run_python("-c", code.format("")).stdout == "False\n"
    assert run_python("-c", code.format("predict")).stdout == "False\n"
    assert run_python("-c", code.format("train")).stdout == "True\n"


def test_the_module_is_the_command() -> None:
    done = run_python("-m", "unrolled", "--version")
    assert re.fullmatch(r"unrolled \d+\.\d+\.\d+\n", done.stdout), done.stderr
