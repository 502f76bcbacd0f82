"""`unrolled compare`: cells of one size on the same data, with the same budget, over several seeds.

    contest   the runs: sizes, epochs, seeds, and the record that comes of them
    sizes     how many units give a cell a number of parameters
    child     one measurement in a process of its own, so that its peak of memory is its own
    growth    time and memory against the length of the sequence, with fitted exponents
    plot      the pictures

Source   the question is that of Greff et al. (2017), arXiv:1503.04069, and of Vaswani et al. (2017), arXiv:1706.03762,
         table 1: what a cell costs and what it gives.
"""

from __future__ import annotations

from unrolled.training.compare.contest import Entry, Plan, compare
from unrolled.training.compare.growth import Fit, fit
from unrolled.training.compare.sizes import Sized, sized

__all__ = ["Entry", "Fit", "Plan", "Sized", "compare", "fit", "sized"]
