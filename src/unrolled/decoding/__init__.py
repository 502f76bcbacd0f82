"""Decoding: from a model's scores to tokens, written once over NumPy arrays. Imports no torch."""

from unrolled.decoding.filters import apply_temperature, keep_top_k, keep_top_p, softmax
from unrolled.decoding.sampling import greedy, sample

__all__ = ["apply_temperature", "greedy", "keep_top_k", "keep_top_p", "sample", "softmax"]
