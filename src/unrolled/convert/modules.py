"""From a module in memory to the middle form: our layers and cells, torch.nn's, stacks, and models that are stacks."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from unrolled.convert.spec import ConvertError, Dense, Embedding, Network, Part, Recurrent, Unit, refuse
from unrolled.convert.stack import Activation, Block, Stack
from unrolled.convert.states import levels_of
from unrolled.errors import expected
from unrolled.layers import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNCell
from unrolled.models import Classifier, LanguageModel, Tagger
from unrolled.models.inputs import TokenInput

__all__ = ["levels_of_layer", "network_of"]

LAYERS = (RNN, LSTM, GRU, nn.RNN, nn.LSTM, nn.GRU)
CELLS = (RNNCell, LSTMCell, GRUCell, nn.RNNCell, nn.LSTMCell, nn.GRUCell)


def network_of(module: Any) -> Network:
    """The middle form of a module.

    Raises:
        ConvertError: it is not a layer, a cell or a plain stack, or holds what no other framework has.
    """
    if isinstance(module, LAYERS):
        return Network(tuple(levels_of_layer(module)), module.batch_first, layer=True)
    if isinstance(module, CELLS):
        return Network(tuple(levels_of_layer(module)), False, layer=True)
    if isinstance(module, Stack):
        return _of_stack(module)
    if isinstance(module, Classifier | Tagger | LanguageModel):
        return _of_model(module)
    names = "RNN, LSTM, GRU or their cells, ours or torch.nn's, a Stack, a Classifier, Tagger or LanguageModel"
    way_out = "Convert its recurrent layers by themselves."
    raise refuse("module", names, type(module).__name__, way_out)


def levels_of_layer(layer: Any) -> list[Recurrent]:
    """One `Recurrent` for each layer of an RNN, LSTM or GRU, ours or torch.nn's."""
    state = {name: _array(value) for name, value in layer.state_dict().items()}
    for name in [name for name in state if name.startswith("initial_")]:
        if state.pop(name).any():
            way_out = "Pass it as hx instead: other frameworks keep no initial state among the weights."
            raise refuse(name, "zeros", "a learned initial state", way_out)
    nonlinearity = getattr(layer, "nonlinearity", "tanh")
    return levels_of(state, nonlinearity=nonlinearity, reset_after=getattr(layer, "reset_after", True))


def _of_stack(stack: Stack) -> Network:
    parts: list[Part] = []
    for module in stack.parts:
        if isinstance(module, nn.Embedding):
            parts.append(Embedding(_array(module.weight), stack.mask_zero))
        elif isinstance(module, nn.Linear):
            parts.append(_dense(module, f"part {len(parts)}"))
        elif isinstance(module, Activation):
            last = parts.pop()
            assert isinstance(last, Dense)
            parts.append(Dense(last.weight, last.bias, module.name, last.where))
        elif isinstance(module, Block):
            levels = levels_of_layer(module.layer)
            settings: dict[str, Any] = {"every": module.every, "merge": module.merge, "hold": module.hold}
            turned: dict[str, Any] = {"backwards": module.backwards, "reverse": module.reverse}
            levels[-1] = Recurrent(levels[-1].units, **settings, **(turned if len(levels) == 1 else {}))
            parts += levels
        else:
            raise ConvertError(expected("stack", "embedding, blocks and dense parts", type(module).__name__))
    return Network(tuple(parts), stack.batch_first)


def _of_model(model: Any) -> Network:
    inputs = model.inputs
    if isinstance(model, Classifier) and model.pooling != "last":
        raise refuse("pooling", "last: a stack reads the final step", repr(model.pooling))
    if getattr(model, "crf", None) is not None:
        raise refuse("crf", "no CRF: other frameworks' stacks have none", "one")
    parts: list[Part] = []
    if isinstance(inputs, TokenInput):
        if inputs.characters is not None:
            raise refuse("characters", "no character encoder: a stack has one input", "one")
        parts.append(Embedding(_array(inputs.embedding.weight)))
    levels = levels_of_layer(model.recurrent)
    if isinstance(model, Classifier):
        levels[-1] = Recurrent(levels[-1].units, every=False)
    parts += levels
    if isinstance(model, LanguageModel):
        weight = model.inputs.embedding.weight if model.output_weight is None else model.output_weight
        parts.append(Dense(_array(weight).T, _array(model.output_bias), where="output"))
    else:
        parts.append(_dense(model.output, "output"))
    return Network(tuple(parts), True)


def _dense(linear: nn.Linear, where: str) -> Dense:
    return Dense(_array(linear.weight).T, None if linear.bias is None else _array(linear.bias), where=where)


def _array(tensor: torch.Tensor) -> np.ndarray:
    tensor = tensor.detach().cpu()
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.float()  # NumPy has no bfloat16; float32 holds each exactly
    return tensor.numpy().copy()


def units_of(module: Any) -> list[Unit]:
    """Every unit, layer by layer, forward first."""
    return list(network_of(module).units)
