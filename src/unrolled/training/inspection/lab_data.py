"""What the lab draws, as JSON: inspections of models, texts they write step by step, and toys with an exact answer.

    data = lab_data([("mine", "runs/plays")], ["To be, or not to be"])
    data["models"][0]["name"], data["generation"][0]["paths"][0]["tokens"]

The object, written by Python alone; a page draws it:

    page         "lab"
    version      of unrolled
    language     "en", "zh", or null: as the reader's browser says
    models       [an inspection (see `unrolled.insight`, with its `fine` parts) + {name, demo: whether it came with us}]
    generation   [{name, cell, demo, prompt: [tokens], vocabulary: [tokens], never: [tokens that are not drawn],
                   complete: whether the vocabulary is all there,
                   paths: [{temperature, top_k, seed, tokens: [numbers in the vocabulary], text,
                            draws: [the random number of each step; null at temperature 0],
                            scores: HEAT of 16 bits (steps, tokens), -inf for those that are not drawn,
                            rest: [log of the sum of exp of the scores of the tokens left out; "-inf" without any],
                            units: [numbers], h: HEAT (units, steps) of the top layer, before each token is drawn}]}]
    tasks        {linear: [{scale, hidden, jacobians: [as in an inspection]}],
                  planted: {position, models: [inspections]},      planted comes with the demo only
                  pairs: {name, items: as `forcing.forcing`}}      of the first encoder–decoder, or of the included one
    compare      the record of `unrolled compare`, or null

A step's token follows from its scores: divide by the temperature, keep the top_k largest, take exp and divide by the
sum; the token is the first whose running sum, in the order of the vocabulary, is larger than the draw.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from unrolled import __version__
from unrolled.errors import RunError, expected
from unrolled.insight import describe
from unrolled.insight.gates import gates
from unrolled.insight.jacobians import jacobians
from unrolled.insight.packing import heat, number, numbers
from unrolled.insight.stepping import Trace
from unrolled.training.inspection.forcing import own_pairs
from unrolled.training.inspection.inspecting import inspect
from unrolled.training.trained import Trained

__all__ = ["SETTINGS", "continuations", "lab_data", "linear_nets", "model_data"]

SETTINGS: tuple[dict[str, Any], ...] = (  # of the texts that a model writes
    {"temperature": 0.0, "top_k": None, "seed": 0},
    {"temperature": 0.7, "top_k": 5, "seed": 0},
    {"temperature": 1.0, "top_k": None, "seed": 1},
)
LENGTH = 32  # tokens that are written
MOST_TOKENS = 256  # of a vocabulary
MOST_UNITS = 64  # rows of the state beside a written text
SCALES = (0.5, 1.0, 1.5)


def lab_data(
    runs: Sequence[tuple[str, str | Path | Trained]],
    items: Iterable[Any] | None = None,
    *,
    language: str | None = None,
    prompt: str | None = None,
    at: Sequence[int] | None = None,
    length: int = LENGTH,
) -> dict[str, Any]:
    """The lab's data for some runs, each with the name it is shown under.

    Args:
        items: as `inspect` takes them, the same for every run; None: of each run's own test part.
        language: the page's first language, "en" or "zh"; None: as the browser says.
        prompt: what language models go on from; None: the beginning of the first text.
        at: the output steps to explain, as `inspect` takes them.
        length: tokens that language models write.

    Raises:
        RunError: a run cannot be looked into.
        DataError: an item cannot be read, or is empty.
    """
    if language not in (None, "en", "zh"):
        raise ValueError(expected("language", "en, zh or None", repr(language)))
    given = None if items is None else list(items)
    found: dict[str, Any] = {"page": "lab", "version": __version__, "language": language}
    loaded = [(name, run, run if isinstance(run, Trained) else Trained.load(run, "cpu")) for name, run in runs]
    found["models"] = [model_data(run, name, given, at=at) for name, run, _ in loaded]
    found["generation"] = [
        continuations(trained, name, _prompt(model) if prompt is None else prompt, length=length)
        for (name, _, trained), model in zip(loaded, found["models"], strict=True)
        if trained.task.name == "lm"
    ]
    found["tasks"] = {"linear": linear_nets()}
    own = (own_pairs(name, trained) for name, _, trained in loaded if trained.task.name == "seq2seq")
    if (pairs := next((one for one in own if one is not None), None)) is not None:
        found["tasks"]["pairs"] = pairs
    return found | {"compare": None}


def model_data(
    run: str | Path | Trained, name: str, items: Iterable[Any] | None = None, *, at: Sequence[int] | None = None
) -> dict[str, Any]:
    """One model as the lab draws it: its inspection, with the parts that only the lab needs, and its name."""
    return inspect(run, items, at=at, fine=True) | {"name": name, "demo": False}


def _prompt(model: dict[str, Any]) -> str:
    text = model["items"][0]["text"]
    return (text or "")[:12]


def continuations(
    trained: Trained,
    name: str,
    prompt: str,
    *,
    length: int = LENGTH,
    settings: Sequence[dict[str, Any]] = SETTINGS,
) -> dict[str, Any]:
    """What a language model writes after a prompt, step by step, at several settings.

    Args:
        length: tokens to add; fewer where the model ends its text.
        settings: of `generate`: temperature, top_k and seed.

    Raises:
        RunError: the model is not a language model, or there is nothing to go on from.
    """
    if trained.task.name != "lm":
        other = f"one that was trained to {trained.recipe.task}"
        raise RunError(expected("run", "a language model (task lm)", other, "Train one with: unrolled train lm DATA"))
    written = [trained.task.go_on(trained.model, prompt, length, **one) for one in settings]  # type: ignore[attr-defined]
    looked = [_scored(trained, first, tokens) for _, first, tokens in written]
    vocabulary = trained.task.vocabulary  # type: ignore[attr-defined]
    every, never = vocabulary.tokens, vocabulary.unknown_id
    taken = {int(i) for _, _, tokens in written for i in vocabulary.encode(tokens)}
    kept = _kept([scores for scores, _ in looked], taken, never)
    found: dict[str, Any] = {"name": name, "cell": trained.recipe.cell, "demo": False}
    found |= {"prompt": list(written[0][1]), "vocabulary": [every[i] for i in kept]}
    found |= {"never": [] if never is None else [every[never]], "complete": len(kept) == len(every)}
    parts = zip(settings, written, looked, strict=True)
    return found | {"paths": [_path(one, text, tokens, found, kept, *seen) for one, (text, _, tokens), seen in parts]}


@torch.no_grad()
def _scored(trained: Trained, first: Sequence[str], tokens: Sequence[str]) -> tuple[np.ndarray, Trace]:
    """The scores (steps, V) from which each token was drawn, and the top layer while it read."""
    vocabulary = trained.task.vocabulary  # type: ignore[attr-defined]
    ids = torch.from_numpy(vocabulary.encode([*first, *tokens[:-1]]))[None]
    logits, _ = trained.model(ids)
    scores = logits[0, len(first) - 1 :].double().numpy()[: len(tokens)]
    if vocabulary.unknown_id is not None:
        scores[:, vocabulary.unknown_id] = -np.inf
    return scores, gates(trained.model, ids)[-1]


def _kept(scores: Sequence[np.ndarray], taken: set[int], never: int | None) -> list[int]:
    """The tokens that are shown: all; or those that were drawn, and of the rest those that came nearest to it."""
    best = np.concatenate(scores).max(0, initial=-np.inf)
    if len(best) <= MOST_TOKENS:
        return list(range(len(best)))
    others = [int(i) for i in np.argsort(-best, kind="stable") if int(i) != never and int(i) not in taken]
    return sorted([*taken, *others[: max(0, MOST_TOKENS - len(taken))]])


def _path(
    setting: dict[str, Any],
    text: str,
    tokens: list[str],
    found: dict[str, Any],
    kept: list[int],
    scores: np.ndarray,
    trace: Trace,
) -> dict[str, Any]:
    steps = len(tokens)
    place = {token: i for i, token in enumerate(found["vocabulary"])}
    rng = np.random.default_rng(setting["seed"])
    draws = [None if setting["temperature"] == 0 else rng.random() for _ in tokens]
    out = np.delete(scores, kept, axis=1)
    rest = np.logaddexp.reduce(out, axis=1) if out.shape[1] else np.full(steps, -np.inf)
    units = describe.top_units([trace], MOST_UNITS)
    h = trace.h[trace.steps - steps :, 0][:, units]
    made = setting | {"tokens": [place[token] for token in tokens], "text": text, "draws": draws}
    made |= {"scores": heat(scores[:, kept], bits=16), "rest": numbers(rest.tolist())}
    return made | {"units": units, "h": heat(h.T if steps else h.new_zeros(len(units), 0))}


@torch.no_grad()
def linear_nets(hidden: int = 16, steps: int = 100) -> list[dict[str, Any]]:
    """Networks that are linear where they rest: input 0, so h = 0, and the slope of tanh is 1; U is a scale times an
    orthogonal matrix. Their product of k Jacobians has every singular value scale^k, exactly."""
    found = []
    for scale in SCALES:
        layer = nn.RNN(1, hidden, bias=False, dtype=torch.float64)
        noise = torch.randn(hidden, hidden, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        layer.get_parameter("weight_hh_l0").copy_(scale * torch.linalg.qr(noise).Q)
        made = jacobians(layer, torch.zeros(steps, 1, 1, dtype=torch.float64))
        layers = [describe.products_json(one) for one in made]
        found.append({"scale": number(scale), "hidden": hidden, "jacobians": layers})
    return found
