"""Layers and cells: parameters, stacking, direction, lengths, packing. The maths is in `equations` and `kernels`."""

from unrolled.layers.cells import GRUCell, LSTMCell, RNNCell
from unrolled.layers.lengths import final_state, hold_last, last_valid, lengths_from_mask, state_by_layer
from unrolled.layers.recurrent import GRU, LSTM, RNN, Recurrent
from unrolled.layers.stream import Stream

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "GRUCell",
    "LSTMCell",
    "RNNCell",
    "Recurrent",
    "Stream",
    "final_state",
    "hold_last",
    "last_valid",
    "lengths_from_mask",
    "state_by_layer",
]
