"""The recipe: defaults by task, errors that name the field, and a file from which a run can be repeated."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from unrolled.errors import RecipeError
from unrolled.training.recipe import TASKS, Recipe, defaults, read_toml

RECIPES = sorted((Path(__file__).parent.parent / "recipes").glob("*.toml"))


def test_the_recipe_needs_no_torch():
    code = "import sys; import unrolled.training.recipe; assert 'torch' not in sys.modules, 'torch was imported'"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_field_has_a_description_a_panel_and_a_default_that_is_valid():
    for name, field in Recipe.model_fields.items():
        assert field.description, name
        assert isinstance(field.json_schema_extra, dict), name
        assert field.json_schema_extra["panel"] in ("Data", "Model", "Training", "Forecasting", "Run"), name
    for task in TASKS:
        assert Recipe(task=task, data="x").model_dump() == {"task": task, "data": "x", **defaults(task)}


def test_defaults_follow_the_task_and_only_what_was_said_counts_as_set():
    recipe = Recipe(task="lm", data="x", hidden=64)
    assert (recipe.tokenizer, recipe.bidirectional, recipe.hidden) == ("chars", False, 64)
    assert recipe.model_fields_set == {"task", "data", "hidden"}
    assert Recipe(task="tag", data="x").bidirectional is True


@pytest.mark.parametrize("task", TASKS)
def test_a_recipe_file_gives_the_same_recipe(task, tmp_path):
    recipe = Recipe(task=task, data='a "b" 数据.csv', clip=None, patience=None, vocabulary_size=50)
    file = tmp_path / "recipe.toml"
    file.write_text(recipe.dump(), encoding="utf-8")
    again = Recipe.load(file)
    assert again == recipe
    assert again.clip is None
    assert again.dump() == recipe.dump()


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.name)
def test_the_recipes_that_come_with_the_project_are_valid(path):
    assert Recipe(**read_toml(path)).dump()


def test_the_recipe_of_zaremba_is_the_published_one():
    recipe = Recipe.load(next(path for path in RECIPES if path.name == "zaremba-small.toml"))
    published = {
        "layers": 2,
        "hidden": 200,
        "chunk": 20,
        "batch_size": 20,
        "epochs": 13,
        "clip": 5.0,
        "init_range": 0.1,
    }
    published |= {"optimizer": "sgd", "learning_rate": 1.0, "decay": 0.5, "decay_after": 4}
    assert {name: getattr(recipe, name) for name in published} == published
    assert recipe.loss_scale == "sum_over_time"


@pytest.mark.parametrize(
    ("fields", "parts"),
    [
        ({"task": "lm", "bidirectional": True}, ["bidirectional", "the future", "not there yet"]),
        ({"task": "lm", "pooling": "max"}, ["pooling", "task classify only", "--pooling"]),
        ({"task": "translate"}, ["task", "'seq2seq' or 'forecast'", "'translate'"]),
        ({"hiden": 3}, ["hiden", "Did you mean hidden?"]),
        ({"hidden": 0}, ["hidden", "1 or more", "found 0", "--hidden"]),
        ({"output_dropout": 1.0}, ["output_dropout", "less than 1", "1.0"]),
        ({"learning_rate": float("nan")}, ["learning_rate", "finite"]),
        ({"epochs": "many"}, ["epochs", "integer", "'many'"]),
        ({"dropout": 0.5}, ["dropout", "layers = 1", "--output-dropout"]),
        ({"forget_bias": 1.0, "cell": "gru"}, ["forget_bias", "cell lstm only"]),
        ({"reset_after": False}, ["reset_after", "cell gru only"]),
        ({"crf": True}, ["crf", "task tag only"]),
        ({"task": "lm", "tie_weights": True}, ["tie_weights", "embedding = hidden", "--embedding 512"]),
        ({"device": "tpu"}, ["device", "cuda:0", "'tpu'"]),
        ({"momentum": 0.9}, ["momentum", "--optimizer sgd"]),
        ({"init": "irnn"}, ["init", "cell rnn"]),
        ({"valid_share": 0.6, "test_share": 0.5}, ["valid_share + test_share", "0.95"]),
        ({"data": None}, ["data", "string", "None"]),
    ],
)
def test_errors_name_the_field_the_want_the_found_and_the_way_out(fields, parts):
    with pytest.raises(RecipeError) as caught:
        Recipe(**{"task": "classify", "data": "x", **fields})
    for part in parts:
        assert part in str(caught.value)


def test_every_wrong_field_is_named_at_once():
    with pytest.raises(RecipeError, match=r"(?s)hidden: .*epochs: "):
        Recipe(task="classify", data="x", hidden=-1, epochs=0)


@pytest.mark.parametrize("content", ["hidden = ", "\xff\xfe", "[table"], ids=["half", "latin", "bracket"])
def test_a_recipe_file_that_is_not_toml(content, tmp_path):
    file = tmp_path / "recipe.toml"
    file.write_bytes(content.encode("latin-1"))
    with pytest.raises(RecipeError, match=r"recipe\.toml"):
        Recipe.load(file)
    with pytest.raises(RecipeError, match="readable"):
        Recipe.load(tmp_path / "absent.toml")


def test_a_recipe_is_frozen_and_changes_are_checked_again():
    recipe = Recipe(task="classify", data="x")
    with pytest.raises(ValueError, match="frozen"):
        recipe.hidden = 3  # type: ignore[misc]
    assert recipe.replace(hidden=3).hidden == 3
    with pytest.raises(RecipeError, match="hidden"):
        recipe.replace(hidden=0)
