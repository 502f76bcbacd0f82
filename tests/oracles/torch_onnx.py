"""torch.onnx on our layers, run as a program of its own: the type-checking hook of the suite breaks torch.export.

Prints one JSON object, name of the check -> "" or what went wrong.
"""

from __future__ import annotations

import json
import traceback
from typing import Any

import numpy as np
import onnxruntime
import torch
from torch import Tensor, nn

import unrolled
from oracles.cases import randomise
from unrolled import convert

CASES: dict[str, tuple[Any, dict[str, Any], bool]] = {
    "gru": (unrolled.GRU, {}, True),
    "gru before": (unrolled.GRU, {"reset_after": False, "single_bias": True}, False),
    "lstm": (unrolled.LSTM, {}, True),
    "rnn relu": (unrolled.RNN, {"nonlinearity": "relu"}, True),
}


class Model(nn.Module):
    """A layer between two linear maps, two layers, both ways."""

    def __init__(self, kind: Any, options: dict[str, Any]) -> None:
        super().__init__()
        self.before, self.after = nn.Linear(4, 4), nn.Linear(6, 2)
        self.layer = kind(4, 3, 2, batch_first=True, bidirectional=True, **options)
        randomise(self, 1)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        out, state = self.layer(self.before(x), lengths=lengths)
        return self.after(out), state[0] if isinstance(state, tuple) else state


def check(kind: Any, options: dict[str, Any], ragged: bool) -> None:
    """Exported at one size, run at others, in batch and time."""
    model = Model(kind, options).eval()
    batch, time = torch.export.Dim("batch", min=2, max=1000), torch.export.Dim("time", min=2, max=1000)
    given: tuple[Any, ...] = (torch.randn(2, 5, 4), *([torch.tensor([5, 3])] if ragged else []))
    shapes: dict[str, Any] = {"x": {0: batch, 1: time}} | ({"lengths": {0: batch}} if ragged else {})
    program = torch.onnx.export(
        model, given, dynamo=True, dynamic_shapes=shapes, custom_translation_table=convert.translations(), verbose=False
    )
    proto = program.model_proto
    names = [node.op_type for node in proto.graph.node]
    word = {"GRU": "GRU", "LSTM": "LSTM", "RNN": "RNN"}[kind.__name__]
    assert names.count(word) == 4, names  # two layers, two directions
    assert not {"Loop", "Scan"} & set(names)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    for rows, steps in ((3, 9), (4, 2)):
        x = torch.randn(rows, steps, 4)
        lengths = torch.tensor([steps, 1, 0, 2][:rows])
        inputs = [x, lengths] if ragged else [x]
        feed = {info.name: value.numpy() for info, value in zip(session.get_inputs(), inputs, strict=True)}
        with torch.no_grad():
            wanted = model(*inputs)
        for found, right in zip(session.run(None, feed), wanted, strict=True):
            np.testing.assert_allclose(found, right.numpy(), rtol=1e-5, atol=1e-5)


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    results = {}
    for name, arguments in CASES.items():
        try:
            check(*arguments)
            results[name] = ""
        except Exception:  # a report, so that one failure does not hide the others
            results[name] = traceback.format_exc()[-1800:]
    print(json.dumps(results))


if __name__ == "__main__":
    main()
