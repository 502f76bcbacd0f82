"""The equations over whole sequences: one signature, several engines, one chooser that can say why.

    rnn_scan(x, h, W, U, b, b_h, *, nonlinearity, lengths, resets, restart_h, reverse)       -> out, h
    lstm_scan(x, h, c, W, U, b, b_h, V, *, lengths, resets, restart_h, restart_c, reverse)   -> out, h, c
    gru_scan(x, h, W, U, b, b_h, *, reset_after, lengths, resets, restart_h, reverse)        -> out, h

Axes     x (T, B, I); h (B, H); W (gates, I, H); U (gates, H, H); lengths (B,); resets (B, T); out (T, B, H).
"""

from unrolled.kernels.choose import ENGINES, Choice, choose, engine_status
from unrolled.kernels.layer_calls import Gates, LayerCall

NAMES = ("rnn_scan", "lstm_scan", "gru_scan")

__all__ = ["ENGINES", "NAMES", "Choice", "Gates", "LayerCall", "choose", "engine_status"]
