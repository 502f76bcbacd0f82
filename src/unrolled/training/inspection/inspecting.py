"""An inspection: some items through a trained model, everything that can be seen as one JSON object.

The shape is documented in `unrolled.insight`. Caps keep it small, and each that was reached is said in "notes".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from unrolled import __version__
from unrolled.data import Item
from unrolled.errors import DataError, RecipeError, expected
from unrolled.insight import describe
from unrolled.insight.attention import attention
from unrolled.insight.attribution import METHODS, WARNING, Attribution, attribute, occlusions
from unrolled.insight.cells import is_recurrent, spells
from unrolled.insight.flow import gradient_flow
from unrolled.insight.gates import gates
from unrolled.insight.jacobians import Products, products
from unrolled.insight.non_finite import find_non_finite
from unrolled.insight.packing import number, numbers
from unrolled.insight.stepping import Trace
from unrolled.insight.verdict import Verdict, judge, worst
from unrolled.training.inspection.budget import Budget, budget
from unrolled.training.inspection.metrics import clipping_of, events, looks_of
from unrolled.training.inspection.shown import Inspection
from unrolled.training.inspection.views import MOST_STEPS, View, view
from unrolled.training.sources import open_parts
from unrolled.training.trained import Trained

__all__ = ["FORMAT", "inspect", "summary_lines"]

FORMAT = 1
MOST_ITEMS = 32  # whose gates are counted
SHOWN = 3  # of these, with their states, scores and attention
MOST_UNITS = 256
BYTES = 900_000  # of states and gates in one inspection
MOST_LAGS = 100  # of the products of Jacobians
OUTPUT_STEPS = 4  # outputs of an item that are explained
BRIEF_STEPS, BRIEF_LAGS = 128, 30  # of a brief look, which also shows one item and explains its last output alone
WORK, BRIEF_WORK = 3e10, 4e9  # multiplications that the products of Jacobians may take, S³ a lag
TOP = 3
Key = tuple[str, int, int]


def inspect(
    run: str | Path | Trained,
    items: Iterable[Any] | None = None,
    *,
    at: Sequence[int] | None = None,
    anomaly: bool = False,
    fine: bool = False,
    brief: bool = False,
) -> dict[str, Any]:
    """Look into a run: gates, states, gradients through time, Jacobians, attributions, attention, and a verdict.

    Args:
        run: a run folder, a bundle, or a model that is loaded.
        items: texts, lists of tokens, arrays of features, or items of a data set; None: the first of the run's test
            part.
        at: the output steps to explain; None: up to 4, evenly spread, the last among them.
        anomaly: where a number is not finite, run once more with autograd's anomaly recording.
        fine: what the lab needs beyond a report: states to 8 millionths of their range, the triangle of gradients as
            float32, counts of saturation for every threshold.
        brief: a look that costs little, as a report takes one: 128 steps of an item, 30 lags, one item shown.

    Raises:
        RunError: the model has no recurrent layers, or they compute something else than their equations.
        DataError: an item cannot be read, or is empty.
    """
    trained = run if isinstance(run, Trained) else Trained.load(run, "cpu")
    folder = None if isinstance(run, Trained) or not Path(run).is_dir() else Path(run)
    model = trained.model.eval()
    given = _items(trained, items)
    fits = _budget(trained, given, at, brief)
    views = [view(trained.task, model, item, fits.steps) for item in given]
    made = _Inspection(trained, model, views[:MOST_ITEMS], fits, fine, brief)
    if fits.note is not None:
        made.notes.append(fits.note)
    if len(views) > MOST_ITEMS:
        made.notes.append(f"{len(views)} items: the first {MOST_ITEMS} are counted")
    entries = [] if folder is None else events(folder / "metrics.jsonl")
    return Inspection(made.look(entries, at, anomaly))


def _items(trained: Trained, given: Iterable[Any] | None) -> list[Item]:
    if isinstance(given, str):
        raise DataError(expected("items", "a list of texts", "one text", "Write inspect(run, [text])."))
    if given is None:
        try:
            parts = open_parts(trained.recipe)
        except (DataError, RecipeError, OSError) as error:
            way_out = "Give a text or a file: --text TEXT, or --data FILE."
            raise DataError(
                f"the data of the run cannot be read, so there is nothing to look at: {error} {way_out}"
            ) from None
        part = parts.scored.shown()
        given = [part[i] for i in range(min(len(part), MOST_ITEMS))]
    items = [one if isinstance(one, Item) else trained.task.item(one, f"input {i}") for i, one in enumerate(given, 1)]
    items = [one for one in items if one.length] if len(items) > 1 else items
    if not items:
        raise DataError(expected("items", "one or more that are not empty", "none"))
    return items


def _budget(trained: Trained, items: Sequence[Item], at: Sequence[int] | None, brief: bool) -> Budget:
    one = trained.task.name == "classify" or (brief and at is None)
    outputs = 1 if one else OUTPUT_STEPS if at is None else len(at)
    longest = 0 if trained.task.name == "forecast" else max(item.length for item in items)  # which is not explained
    most = BRIEF_STEPS if brief else MOST_STEPS
    return budget(trained.model, longest, most, outputs, chosen=at is not None)


@dataclass
class _Inspection:
    trained: Trained
    model: nn.Module
    views: list[View]
    fits: Budget
    fine: bool = False
    brief: bool = False
    notes: list[str] = field(default_factory=list)

    def look(self, entries: list[dict[str, Any]], at: Sequence[int] | None, anomaly: bool) -> dict[str, Any]:
        task, recipe = self.trained.task, self.trained.recipe
        first = self.views[0]
        found: dict[str, Any] = {"format": FORMAT, "kind": "inspection", "version": __version__, "task": task.name}
        found |= {"cell": recipe.cell, "recipe": recipe.model_dump(mode="json")}
        found["parameters"] = describe.parameters_json(self.model)
        broken = find_non_finite(self.model, *first.args, losses=first.losses, anomaly=anomaly)
        found["non_finite"] = describe.found_json(broken)
        traces = [gates(self.model, *one.args) for one in self.views]
        by_layer = _by_layer(traces)
        found["weights"] = describe.weights_json([some[0] for some in by_layer.values()])
        found["layers"] = [describe.statistics_json(some, fine=self.fine) for some in by_layer.values()]
        longest = max(range(len(self.views)), key=lambda i: self.views[i].steps)
        found |= self._gradients(longest, traces[longest], entries)
        units = self._units(traces, by_layer)
        found["items"] = [self._item(i, traces[i], units, at) for i in self._shown()]
        found["counted"] = len(self.views)
        found["warning"] = WARNING
        found["training"] = numbers(looks_of(entries))
        cut = [one for one in self.views if one.cut]
        self.notes += [f"{one.where}: cut to {one.steps} steps, {one.cut} left out" for one in cut[:5]]
        found["notes"] = self.notes
        return found

    def _gradients(self, item: int, traces: list[Trace], entries: list[dict[str, Any]]) -> dict[str, Any]:
        """Jacobians, gradient flow and the verdict, of the longest item."""
        recipe, one = self.trained.recipe, self.views[item]
        clipping = clipping_of(entries, recipe.clip)
        chunk = recipe.chunk if self.trained.task.name == "lm" else None
        causal = chunk is not None
        cut = chunk if chunk is not None and chunk < one.steps else None
        verdicts: list[Verdict] = []
        made: list[Products] = []
        for trace in traces:
            if spells(self.model, trace.name):
                continue
            some = products(trace, rows=[0], max_lag=self._lags(trace))
            made += some
            verdicts.append(judge(some, trace, chunk=chunk, clipping=clipping, layers=recipe.layers, causal=causal))
            if some[0].capped:
                self.notes.append(f"{trace.title}: products of Jacobians go back {some[0].lags[-1]} steps")
        flows = gradient_flow(self.model, *one.args, losses=one.losses, chunk=cut)
        if flows and flows[0].skipped:
            self.notes.append(
                f"gradient flow: {len(flows[0].targets)} losses of {len(flows[0].targets) + flows[0].skipped}"
            )
        found: dict[str, Any] = {"jacobians": {"item": item, "layers": [describe.products_json(part) for part in made]}}
        found["flow"] = {"item": item, "layers": [describe.flow_json(part, fine=self.fine) for part in flows]}
        found["verdicts"] = [describe.verdict_json(verdict) for verdict in verdicts]
        found["verdict"] = describe.verdict_json(worst(verdicts)) if verdicts else None
        found["clipping"] = None if clipping is None else numbers(clipping._asdict())
        return found

    def _lags(self, trace: Trace) -> int:
        size = sum(part.shape[-1] for part in trace.before)
        most, work = (BRIEF_LAGS, BRIEF_WORK) if self.brief else (MOST_LAGS, WORK)
        return max(4, min(most, int(work / size**3)))

    def _shown(self) -> range:
        """The items that are shown whole; a forecast answers with numbers, which have no names to show."""
        most = 0 if self.views[0].answers == "value" else 1 if self.brief else SHOWN
        return range(min(most, len(self.views)))

    def _units(self, traces: list[list[Trace]], by_layer: dict[Key, list[Trace]]) -> dict[Key, list[int]]:
        """The units that are shown of each layer: all, or those of largest variance where that would be too much."""
        shown = [trace for i in self._shown() or [0] for trace in traces[i]]
        a_unit = sum(trace.steps * (len(trace.gates) + (1 + self.fine) * len(trace.before)) for trace in shown)
        most = max(1, min(MOST_UNITS, BYTES // max(a_unit, 1)))
        widest = max(trace.h.shape[-1] for trace in shown)
        if widest > most:
            self.notes.append(f"{most} units of {widest} are shown of each layer, those that vary most")
        return {key: describe.top_units(some, most) for key, some in by_layer.items()}

    def _item(
        self, number: int, traces: list[Trace], units: dict[Key, list[int]], at: Sequence[int] | None
    ) -> dict[str, Any]:
        one = self.views[number]
        found: dict[str, Any] = {"where": one.where, "text": one.text, "tokens": one.tokens, "unknown": one.unknown}
        found |= {"steps": one.steps, "cut": one.cut, "output_tokens": one.output_tokens}
        with torch.no_grad():
            scores = one.scores(self.model(*one.args))[0].double()
        found["answers"] = _answers(one, scores)
        seen = [trace for trace in traces if not spells(self.model, trace.name)]
        found["states"] = [describe.states_json(trace, units[_key(trace)], fine=self.fine) for trace in seen]
        found["attributions"] = self._attributions(one, scores, at)
        found["attention"] = [describe.attention_json(weights) for weights in attention(self.model, *one.args)]
        return found

    def _attributions(self, one: View, scores: torch.Tensor, at: Sequence[int] | None) -> list[dict[str, Any]]:
        """What the likeliest answer rests on, by each method, at some output steps."""
        if not any(is_recurrent(module) and hasattr(module, "num_layers") for module in self.model.modules()):
            return []
        last = one.answers != "class" and self.fits.outputs == 1 and at is None
        steps = _explained(one, scores, [-1] if last else at)
        answers = [int((scores if step is None else scores[step]).argmax()) for step in steps]
        targets = [one.target(*place) for place in zip(steps, answers, strict=True)]
        hidden = occlusions(self.model, *one.args, targets=targets, rows_alike=True)
        found = []
        for step, answer, target, seen in zip(steps, answers, targets, hidden, strict=True):
            made = [self._attribution(one, method, target, seen) for method in METHODS]
            found.append({"step": step, "answer": one.names[answer], "methods": made})
        return found

    def _attribution(self, one: View, method: str, target: Any, seen: Attribution) -> dict[str, Any]:
        if method != "occlusion":
            seen = attribute(self.model, *one.args, target=target, method=method, rows_alike=True)
        return describe.attribution_json(seen)


def _explained(one: View, scores: torch.Tensor, at: Sequence[int] | None) -> Sequence[int | None]:
    """The output steps that are explained; None where the item has one answer."""
    if one.answers == "class":
        return [None]
    steps = len(scores)
    if at is None:
        return [int(step) for step in torch.linspace(0, steps - 1, OUTPUT_STEPS).round().unique()]
    for step in at:
        if not -steps <= step < steps:
            raise DataError(expected("at", f"output steps from 0 to {steps - 1}", step))
    return sorted({step % steps for step in at})


def _answers(one: View, scores: torch.Tensor) -> dict[str, Any]:
    """The likeliest answers with their probabilities; for the pages that list the top three."""
    top = scores.softmax(-1).topk(min(TOP, scores.shape[-1]))
    rows = zip(
        top.indices.reshape(-1, top.indices.shape[-1]).tolist(),
        top.values.reshape(-1, top.values.shape[-1]).tolist(),
        strict=True,
    )
    likeliest = [[[one.names[i], number(p)] for i, p in zip(*row, strict=True)] for row in rows]
    right = None
    if one.right is not None:
        right = [None if i < 0 else one.names[i] for i in one.right.reshape(-1).tolist()]
    return {"kind": one.answers, "top": likeliest, "right": right}


def _key(trace: Trace) -> Key:
    return trace.name, trace.layer, trace.direction


def _by_layer(traces: list[list[Trace]]) -> dict[Key, list[Trace]]:
    found: dict[Key, list[Trace]] = {}
    for some in traces:
        for trace in some:
            found.setdefault(_key(trace), []).append(trace)
    return found


def summary_lines(found: dict[str, Any]) -> list[str]:
    """The inspection in a few lines for a terminal."""
    items, parameters = found["items"], sum(one["count"] for one in found["parameters"])
    lines = [f"{found['task']} with {found['cell']}, {parameters:,} parameters; items: {found['counted']}"]
    for layer in found["layers"]:
        way = "backward" if layer["direction"] else "forward"
        parts = []
        for name, gate in layer["gates"].items():
            cells = max(1, gate["count"] * len(gate["left"]))
            parts.append(f"{name} {sum(gate['left']) / cells:.0%} | {sum(gate['right']) / cells:.0%}")
        lines.append(f"{layer['name']}, layer {layer['layer']}, {way}: at the lower | upper end: {', '.join(parts)}")
    lines += [f"{verdict['title']}: {verdict['word']}; {_factor(verdict)}" for verdict in found["verdicts"]]
    if found["verdict"] is not None:
        lines.append(f"most in need of attention: {found['verdict']['title']}")
        lines += [f"  {one['text']}" for one in found["verdict"]["evidence"]]
        lines += [f"  try: {one['text']}" for one in found["verdict"]["remedies"]]
    if found["non_finite"] is not None:
        lines.append(found["non_finite"]["text"])
    for item in items:
        lines += _item_lines(item)
    if any(item["attributions"] for item in items):
        lines.append(found["warning"])
    return lines


def _factor(verdict: dict[str, Any]) -> str:
    factor, steps = verdict["factor"], verdict["memory"]
    said = f"{factor:.3g}" if isinstance(factor, float) else str(factor)
    left = f"1 % is left after {steps:.3g} steps" if isinstance(steps, int | float) else "nothing fades"
    return f"a step back multiplies by {said}, {left}"


def _item_lines(item: dict[str, Any]) -> list[str]:
    lines = [f"{item['where']}: {item['steps']} steps"]
    for entry in item["attributions"][-1:]:
        scores = next(m["scores"] for m in entry["methods"] if m["method"] == "occlusion")
        order = sorted((i for i, s in enumerate(scores) if isinstance(s, int | float)), key=lambda i: -abs(scores[i]))[
            :5
        ]
        labels = item["tokens"] or [f"step {i}" for i in range(item["steps"])]
        said = ", ".join(f"{labels[i]!r} ({i}) {scores[i]:+.3g}" for i in order)
        where = "" if entry["step"] is None else f" at output step {entry['step']}"
        lines.append(f"  answer{where}: {entry['answer']!r}; it rests most, by occlusion, on {said}")
    return lines
