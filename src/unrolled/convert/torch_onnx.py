"""What torch.onnx has to know about our layers: the native engine's operator as one RNN, LSTM or GRU node.

    torch.onnx.export(model, (x,), dynamo=True, custom_translation_table=unrolled.convert.translations())

Axes     the operator is time-major, x (T, B, I), with gates as an axis: W (G, I, H), U (G, H, H), b and b_h (G, H).
Variant  a row of length 0 keeps its state, which ONNX leaves open. A projection and resets are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unrolled.conventions import OURS, find
from unrolled.convert.spec import ConvertError
from unrolled.errors import expected, require

__all__ = ["translations"]


def translations() -> dict[Any, Callable[..., Any]]:
    """The `custom_translation_table` for torch.onnx.export with dynamo=True.

    Raises:
        MissingExtra: onnxscript, which torch.onnx needs as well, is not installed.
    """
    require("onnxscript", "export")
    import torch

    from unrolled.kernels import native_ops  # noqa: F401  (registers the operator)

    return {torch.ops.unrolled.scan.default: _scan}


def _scan(
    x: Any, h: Any, c: Any, W: Any, U: Any, b: Any, b_h: Any, V: Any, restart_h: Any, restart_c: Any,
    cell: int, lengths: Any, resets: Any, reverse: bool, recompute: bool, threads: int, keep: bool,
) -> tuple[Any, Any, Any, Any]:  # fmt: skip
    """unrolled::scan as onnxscript: (out, h, c, nothing)."""
    del restart_h, restart_c, recompute, threads, keep
    import onnxscript

    from unrolled.kernels.native_calls import CELLS

    for name, given in (("proj_size", V), ("resets", resets)):
        if given is not None:
            raise ConvertError(expected(name, "none, since ONNX's nodes have no such thing", "one"))
    op: Any = onnxscript.opset18
    name = CELLS[cell]
    inputs, hidden = int(W.shape[-2]), int(W.shape[-1])
    kind = name.partition("_")[0]
    order = _order(kind, name)
    if len(W.shape) == 2:  # the simple cell has no gate axis
        W, U, b, b_h = (None if part is None else op.Unsqueeze(part, [0]) for part in (W, U, b, b_h))
    gates = op.Constant(value_ints=order)
    weights = [_rows(op, part, gates, columns) for part, columns in ((W, inputs), (U, hidden))]
    nothing = op.ConstantOfShape(op.Shape(op.Squeeze(op.Slice(W, [0], [1], [1]), [1])))  # (G, H) zeros
    biases = [op.Reshape(op.Gather(nothing if part is None else part, gates), [1, -1]) for part in (b, b_h)]
    first = [x, *weights, op.Concat(*biases, axis=1)]
    ends = None if lengths is None else op.Cast(lengths, to=6)  # int32
    options: dict[str, Any] = {"hidden_size": hidden, "direction": "reverse" if reverse else "forward"}
    begin = op.Unsqueeze(h, [0])
    if kind == "lstm":
        out, *finals = op.LSTM(*first, ends, begin, op.Unsqueeze(c, [0]), **options)
    elif kind == "gru":
        out, *finals = op.GRU(*first, ends, begin, linear_before_reset=int(name == "gru_after"), **options)
    else:
        out, *finals = op.RNN(*first, ends, begin, activations=[name.partition("_")[2].capitalize()], **options)
    done = [op.Squeeze(final, [0]) for final in finals]
    if lengths is not None:
        empty = op.Unsqueeze(op.Equal(lengths, op.Constant(value_int=0)), [1])
        done = [op.Where(empty, before, after) for before, after in zip((h, c), done, strict=False)]
    none = op.ConstantOfShape(op.Constant(value_ints=[0]))
    return op.Squeeze(out, [1]), done[0], done[1] if len(done) > 1 else none, none


def _order(kind: str, name: str) -> list[int]:
    """Where ONNX's blocks stand among ours."""
    layout = find("onnx", kind, name.partition("_")[2] if kind == "gru" else "")
    assert layout is not None
    return [OURS[kind].index(gate) for gate in layout.gates]


def _rows(op: Any, part: Any, gates: Any, columns: int) -> Any:
    """(G, I, H) → (1, G·H, I), the blocks in ONNX's order."""
    turned = op.Transpose(op.Gather(part, gates), perm=[0, 2, 1])
    return op.Reshape(turned, op.Constant(value_ints=[1, -1, columns]))
