"""A coverage-guided fuzzer for every file that can come from a stranger; `tests/fuzz.py` is its command.

In the order to read them: `readers` (which readers there are, with small good files of each), `changes` (how a good
file becomes a bad one without losing its form), `watch` (what every file must end in), `guided` (the search).
"""
