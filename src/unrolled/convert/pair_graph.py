"""An encoder–decoder as two ONNX graphs: one reads the source once, the other writes one token a call.

Encoder  ids (batch, source), or features (batch, source, channels), or one vector (batch, channels); lengths (batch,).
         Gives h, and c of an LSTM, (layers, batch, units), where the decoder starts; with attention also memory
         (batch, source, width), and keys, what scores are made from, unless they are the memory itself.
Decoder  ids (batch,) of the tokens written last; lengths, memory and keys as they came; the states. Gives scores
         (batch, vocabulary), logits of the next token; weights (batch, source) of the attention; the states.
Metadata of the decoder: `states` says which output goes into which input for the next token, and which output of the
         encoder is the first; `memory` names what is passed on unchanged; the ids that begin and end a target.
Source   the equations are those of `unrolled.runtime.encoder_decoder`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unrolled.convert.task_graph import LOWEST, TaskGraph
from unrolled.runtime.recurrent import Recurrent

__all__ = ["decoder", "encoder"]


def encoder(model: Any, made: TaskGraph) -> Any:
    """The graph that reads a source."""
    reading = model.reading
    if model.vector:
        given = made.input("features", ["batch", len(reading.scaler.mean)])
        x = made.node("Tanh", made.linear(made.scaled(given), "vector.hidden."))
        joined = [made.node("Unsqueeze", x, made.ints(0))]
    else:
        joined = _read(model, made)
    for part, name in zip("hc", _bridge(model, made, joined), strict=False):
        made.output(name, part, [model.decoder.shape.layers, "batch", model.decoder.shape.hidden])
    about = {"task": "seq2seq", "part": "encoder", "streaming": False, "reading": _said(reading)}
    return made.model("encoder", about | {"why": "A target is written once the whole source has been read."})


def _read(model: Any, made: TaskGraph) -> list[str]:
    """The recurrent encoder: each part of its last state, (layers, batch, directions · H). Gives out the memory."""
    reading = model.reading
    x = made.vectors(reading, "source")
    lengths = made.lengths()
    if reading.scaler is not None:
        x = made.scaled(x, made.valid(x, lengths[0]))
    levels, learned = made.levels("encoder.", model.recipe)
    start = made.start(levels, learned, "encoder.", lengths[0])
    out, finals = made.run(levels, x, "encoder.", lengths, start)
    if model.look is not None:
        memory = made.node("Transpose", out, perm=[1, 0, 2])
        made.output(memory, "memory", ["batch", "source", model.encoder.width])
        if model.kind != "dot":
            prefix = "attention.scores.memory." if model.kind == "additive" else "attention.scores.weight."
            keys = made.linear("memory", prefix, bias=model.kind == "additive")
            made.output(keys, "keys", ["batch", "source", model.decoder.shape.hidden])
    return [_directions_joined(made, final, len(levels[0].units)) for final in finals]


def _directions_joined(made: TaskGraph, state: str, directions: int) -> str:
    """(layers · D, batch, H) → (layers, batch, D · H)."""
    if directions == 1:
        return state
    last = made.ints(np.iinfo(np.int64).max)
    halves = [made.node("Slice", state, made.ints(d), last, made.ints(0), made.ints(directions)) for d in range(2)]
    return made.node("Concat", *halves, axis=-1)


def _bridge(model: Any, made: TaskGraph, joined: list[str]) -> list[str]:
    """Where the decoder starts: (L, batch, P) a part."""
    bridge, shape = model.bridge, model.decoder.shape
    starts = []
    for part in range(model.decoder.parts):
        has_part = part < len(joined)
        rows = []
        for layer in range(shape.layers):
            place = made.constant(f"layer_{bridge.sources[layer]}", np.array(bridge.sources[layer], np.int64))
            source = made.node("Gather", joined[part if has_part else 0], place, axis=0)  # (batch, width)
            if bridge.kind == "projection":
                row = made.linear(source, f"bridge.maps.{layer}.{part}.")
                row = made.node("Tanh", row) if part == 0 else row
            elif bridge.kind == "copy" and has_part:
                row = source
            else:
                batch = made.node("Slice", made.node("Shape", source), made.ints(0), made.ints(1))
                size = made.node("Concat", batch, made.ints(shape.hidden), axis=0)
                row = made.node("Expand", made.constant("nothing", np.float32(0)), size)
            rows.append(made.node("Unsqueeze", row, made.ints(0)))
        starts.append(rows[0] if len(rows) == 1 else made.node("Concat", *rows, axis=0))
    return starts


def decoder(model: Any, made: TaskGraph) -> Any:
    """The graph that writes one token."""
    ids = made.input("ids", ["batch"], "INT64")
    x = made.node("Gather", made.tensor("target_inputs.embedding.weight"), ids)  # (batch, E)
    names = [made.state(part, _state_axes(model.decoder), {"encoder": part}) for part in "hc"[: model.decoder.parts]]
    memory = _memory(model, made) if model.look is not None else None
    context = weights = ""
    if model.kind == "additive":
        top = made.node("Gather", names[0], made.constant("last", np.array(-1, np.int64)), axis=0)
        context, weights = _look(model, made, top, memory)
        x = made.node("Concat", x, context, axis=-1)
    elif model.feeding:
        x = made.node("Concat", x, made.state("fed", ["batch", model.decoder.width]), axis=-1)
    out = _step(model, made, x, names)
    if context:
        out = made.node("Concat", out, context, axis=-1)
    elif model.combine is not None:
        context, weights = _look(model, made, out, memory)
        out = made.node("Tanh", made.linear(made.node("Concat", context, out, axis=-1), "combine."))
    if model.feeding:
        made.leave("fed", out)
    made.output(made.linear(out, "output."), "scores", ["batch", len(model.vocabulary)])
    if weights:
        made.output(weights, "weights", ["batch", "source"])
    return made.model("decoder", _about_decoder(model, memory))


def _state_axes(decoder: Recurrent) -> list[Any]:
    return [decoder.shape.layers, "batch", decoder.shape.hidden]


def _step(model: Any, made: TaskGraph, x: str, names: list[str]) -> str:
    """One step of the recurrent decoder, (batch, W) → (batch, P)."""
    from unrolled.convert.onnx import add_levels

    levels, _ = made.levels("decoder.", model.recipe)
    stepped = made.node("Unsqueeze", x, made.ints(0))
    out, finals = add_levels(made.graph, levels, stepped, prefix="decoder.", state=names)
    for name, final in zip(names, finals, strict=True):
        made.leave(name, final)
    return made.node("Squeeze", out, made.ints(0))


def _memory(model: Any, made: TaskGraph) -> tuple[str, str, str]:
    """memory, keys, and which positions are no padding, (batch, source)."""
    memory = made.input("memory", ["batch", "source", model.encoder.width])
    keys = memory
    if model.kind != "dot":
        keys = made.input("keys", ["batch", "source", model.decoder.shape.hidden])
    lengths = made.input("lengths", ["batch"], "INT64")
    size = made.node("Slice", made.node("Shape", memory), made.ints(1), made.ints(2))
    zero, one = made.constant("zero", np.array(0, np.int64)), made.constant("one", np.array(1, np.int64))
    places = made.node("Range", zero, made.node("Squeeze", size, made.ints(0)), one)
    return memory, keys, made.node("Less", places, made.node("Unsqueeze", lengths, made.ints(1)))


def _look(model: Any, made: TaskGraph, query: str, memory: tuple[str, str, str] | None) -> tuple[str, str]:
    """(batch, P) → the weighted mean of the memory (batch, M), and the weights (batch, source), 0 at padding."""
    assert memory is not None
    values, keys, valid = memory
    if model.kind == "additive":
        asked = made.node("Unsqueeze", made.linear(query, "attention.scores.query.", bias=False), made.ints(1))
        mixed = made.node("Tanh", made.node("Add", keys, asked))
        column = made.constant("attention_output", made.tensors["attention.scores.output"][:, None])
        scores = made.node("MatMul", mixed, column)
    else:
        scores = made.node("MatMul", keys, made.node("Unsqueeze", query, made.ints(2)))
    scores = made.node("Squeeze", scores, made.ints(2))
    scores = made.node("Where", valid, scores, made.constant("lowest", np.float32(LOWEST)))
    shares = made.node("Mul", made.node("Softmax", scores, axis=-1), made.node("Cast", valid, to=1))  # 1: FLOAT
    context = made.node("MatMul", made.node("Unsqueeze", shares, made.ints(1)), values)
    return made.node("Squeeze", context, made.ints(1)), shares


def _about_decoder(model: Any, memory: Any) -> dict[str, Any]:
    """What a search needs beside the graph."""
    never = model.vocabulary.unknown_id
    about = {"task": "seq2seq", "part": "decoder", "streaming": True, "target": _said(model.target)}
    about |= {"start": model.end, "end": model.end, "never": [] if never is None else [never], "limit": model.limit}
    passed = [] if memory is None else list(dict.fromkeys(memory[:2]))
    return about | {"memory": passed, "lengths": memory is not None}


def _said(reading: Any) -> dict[str, Any]:
    return {name: part for name, part in reading.to_dict().items() if name != "scaler" and part is not None}
