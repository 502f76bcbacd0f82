"""The equations: one function a law, one line a printed line, in the row convention of the textbooks.

Axes     T time, B batch, I input, H hidden, P projection, C classes; gates are an axis, never a slice.
Source   each function cites its own.

Letters  x input, h hidden state, c cell state, W input weights, U recurrent weights, b bias on the input side,
         b_h bias on the recurrent side (None: one bias per gate), V projection; gates i f g o (LSTM), r z n (GRU).
"""

from unrolled.equations.gru import GRUGates, gru_gates, gru_step, gru_update
from unrolled.equations.jacobian import gru_jacobian, lstm_jacobian, rnn_jacobian
from unrolled.equations.lstm import LSTMGates, LSTMState, lstm_gates, lstm_step, lstm_update
from unrolled.equations.output import cross_entropy, masked_cross_entropy, output_logits, softmax
from unrolled.equations.rnn import rnn_step

__all__ = [
    "GRUGates",
    "LSTMGates",
    "LSTMState",
    "cross_entropy",
    "gru_gates",
    "gru_jacobian",
    "gru_step",
    "gru_update",
    "lstm_gates",
    "lstm_jacobian",
    "lstm_step",
    "lstm_update",
    "masked_cross_entropy",
    "output_logits",
    "rnn_jacobian",
    "rnn_step",
    "softmax",
]
