"""Decoding: from a model's scores to tokens, tags and answers, written once over NumPy arrays. Imports no torch."""

from unrolled.decoding.answers import answer_each, likelihood, log_softmax, one_label, tagged
from unrolled.decoding.beam import beam_search, coverage_penalty, length_penalty
from unrolled.decoding.filters import apply_temperature, keep_top_k, keep_top_p, softmax
from unrolled.decoding.sampling import greedy, sample
from unrolled.decoding.searching import Search, search_targets, translated
from unrolled.decoding.sequences import Hypothesis, greedy_search, sample_sequences, take_rows
from unrolled.decoding.viterbi import Allowed, Pairs, Path, allowed_spans, bio_allowed, is_span_scheme, viterbi
from unrolled.decoding.writing import END, first_tokens, write

__all__ = [
    "END",
    "Allowed",
    "Hypothesis",
    "Pairs",
    "Path",
    "Search",
    "allowed_spans",
    "answer_each",
    "apply_temperature",
    "beam_search",
    "bio_allowed",
    "coverage_penalty",
    "first_tokens",
    "greedy",
    "greedy_search",
    "is_span_scheme",
    "keep_top_k",
    "keep_top_p",
    "length_penalty",
    "likelihood",
    "log_softmax",
    "one_label",
    "sample",
    "sample_sequences",
    "search_targets",
    "softmax",
    "tagged",
    "take_rows",
    "translated",
    "viterbi",
    "write",
]
