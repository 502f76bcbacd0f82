"""What a reader of a report should look at: each finding has a key, its numbers, and a sentence.

Variant  The words "dead" and "stuck" are about units at the end of a gate's range at 99 of 100 steps or more. A forget
         gate (LSTM) or update gate (GRU) that is always open is a memory and no fault, and is not named.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["finding", "findings_of"]

ALWAYS = 0.99  # share of the steps at which a unit sits at the end of its gate's range
MANY = 0.25  # share of the units of a layer that must do so
TANH = 0.5  # share of all states of a tanh RNN beyond 0.9
CLIPPED = 0.5  # share of the logged steps
LATE = 0.1  # share of the epochs
OFF = 0.1  # of an interval's coverage


def finding(key: str, text: str, *, level: str = "warning", **values: Any) -> dict[str, Any]:
    """One finding; level is "warning" or "note"."""
    return {"key": key, "level": level, "text": text, "values": values}


def findings_of(
    *,
    model: Any,
    inside: dict[str, Any] | None,
    entries: list[dict[str, Any]],
    report: dict[str, Any] | None,
    score: tuple[str, bool] | None,
) -> list[dict[str, Any]]:
    """All findings, warnings first.

    Args:
        model: the trained network, whose weights are counted.
        inside: an inspection; None where there is none.
        entries: the lines of metrics.jsonl.
        report: `Report.to_dict` of the evaluation.
        score: the name of the score that counts, and whether more is better.
    """
    found = [*_weights(model), *_training(entries), *_scores(report, score)]
    if inside is not None:
        found += [*_gates(inside), *_radius(inside), *_gradient(inside)]
    return sorted(found, key=lambda one: one["level"] != "warning")


def _weights(model: Any) -> Iterator[dict[str, Any]]:
    total = bad = 0
    first = ""
    for name, parameter in model.named_parameters():
        wrong = int((~parameter.detach().isfinite()).sum())
        total, bad = total + parameter.numel(), bad + wrong
        first = first or (name if wrong else "")
    if bad:
        text = f"{bad:,} of {total:,} weights are not finite; the first stands in {first}."
        yield finding("not_finite", text, bad=bad, total=total, share=bad / total, first=first)
    else:
        text = f"All {total:,} weights are finite numbers."
        yield finding("all_finite", text, level="note", bad=0, total=total, share=0.0)


def _training(entries: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    epochs = [e for e in entries if e.get("event") == "epoch"]
    if not any(e.get("event") == "end" for e in entries):
        text = f"The run has no end: {len(epochs)} epochs are done. Go on with unrolled train --resume."
        yield finding("unfinished", text, epochs=len(epochs))
    best = max((int(e["epoch"]) for e in epochs if e.get("best")), default=0)
    last = max((int(e["epoch"]) for e in epochs), default=0)
    if len(epochs) > 2 and best == last:
        text = f"The last epoch, {last}, was the best on the validation part: more epochs may help."
        yield finding("still_better", text, level="note", epoch=last)
    elif last and last - best > max(2, LATE * last):
        text = f"The validation part was best at epoch {best} of {last}: what came after it did not help."
        yield finding("past_best", text, level="note", best=best, last=last)
    steps = [e for e in entries if e.get("event") == "step" and "clipped" in e]
    touched = sum(bool(e["clipped"]) for e in steps)
    if steps and touched > CLIPPED * len(steps):
        share = touched / len(steps)
        text = f"Clipping touched {share:.0%} of the {len(steps):,} logged steps: clip decides how long most steps are."
        yield finding("clipped", text, share=share, touched=touched, seen=len(steps))


def _scores(report: dict[str, Any] | None, score: tuple[str, bool] | None) -> Iterator[dict[str, Any]]:
    if report is None or score is None:
        return
    name, more = score
    value = report["metrics"].get(name)
    for baseline, numbers in report["baselines"].items():
        other = numbers.get(name)
        if value is None or other is None:
            continue
        if (value <= other) if more else (value >= other):
            text = f"No better than the baseline {baseline}: {name} {value:.4g} against {other:.4g}."
            yield finding("baseline", text, name=name, value=value, other=other, baseline=baseline)
    coverage, nominal = report["metrics"].get("coverage"), report.get("nominal")
    if coverage is not None and nominal is not None and abs(coverage - nominal) > OFF:
        text = f"The intervals hold {coverage:.0%} of the values; {nominal:.0%} would be right."
        yield finding("coverage", text, coverage=coverage, nominal=nominal)


def _gates(inside: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for layer in inside["layers"]:
        keeps = {"lstm": "f", "gru_after": "z", "gru_before": "z"}.get(layer["kind"])
        for gate, seen in layer["gates"].items():
            units, steps = len(seen["left"]), max(1, seen["count"])
            place = {"gate": gate, "name": layer["name"], "layer": layer["layer"], "direction": layer["direction"]}
            if gate == "h" and layer["kind"] == "rnn_tanh":
                share = (sum(seen["left"]) + sum(seen["right"])) / (steps * max(1, units))
                if share > TANH:
                    text = (
                        f"{_title(layer)}: {share:.0%} of the states lie beyond 0.9, where tanh passes little gradient."
                    )
                    yield finding("tanh", text, share=share, **place)
                continue
            for side, key, word in (("left", "dead", "closed"), ("right", "stuck", "open")):
                if side == "right" and gate in (keeps, "h", "g", "n"):
                    continue
                if side == "left" and gate in ("g", "n"):
                    continue
                count = sum(number >= ALWAYS * steps for number in seen[side])
                if count > MANY * units:
                    at = "exactly 0" if gate == "h" else word
                    text = f"{_title(layer)}: {count} of {units} units of gate {gate} are {at} at nearly every step."
                    yield finding("silent" if gate == "h" else key, text, count=count, units=units, **place)


def _radius(inside: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Only where the recurrent weights alone make the step: in a gated cell the gates decide as well."""
    for layer in inside["weights"]:
        radius, largest = layer["radius"].get("h"), layer["largest"].get("h")
        if isinstance(radius, float) and isinstance(largest, float) and radius > 1:
            text = (
                f"{_title(layer)}: the recurrent weights have spectral radius {radius:.3f} (largest singular value "
                f"{largest:.3f}). Above 1 the gradient can explode where tanh or relu lets it through; it need not."
            )
            place = {"name": layer["name"], "layer": layer["layer"], "direction": layer["direction"]}
            yield finding("radius", text, level="note", radius=radius, largest=largest, **place)


def _gradient(inside: dict[str, Any]) -> Iterator[dict[str, Any]]:
    verdict = inside.get("verdict")
    if verdict is not None and verdict["word"] in ("vanishing", "exploding", "not finite"):
        text = f"{verdict['title']}: the gradient through time is {verdict['word']}; {verdict['evidence'][0]['text']}"
        name, layer, way = verdict["title"].rsplit(", ", 2)
        place = {"name": name, "layer": int(layer.removeprefix("layer ")), "direction": int(way == "backward")}
        values = {name: verdict[name] for name in ("word", "factor", "memory", "span")}
        yield finding("gradient", text, **values, **place)
    if inside.get("non_finite") is not None:
        text = inside["non_finite"]["text"]
        yield finding("run_not_finite", text, said=text)


def _title(layer: dict[str, Any]) -> str:
    return f"{layer['name']}, layer {layer['layer']}, {'backward' if layer['direction'] else 'forward'}"
