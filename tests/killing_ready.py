"""What the server of `killing` imports before it forks: everything that a run needs, and one optimizer step."""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"

import pyarrow.csv
import pyarrow.json  # noqa: F401
import torch

from unrolled.training import train
from unrolled.training.tasks import find

assert train  # and with it all that a run imports
torch.set_num_threads(1)
for task in ("classify", "tag", "lm", "seq2seq", "forecast"):
    find(task)
weight = torch.nn.Parameter(torch.zeros(1))
weight.grad = torch.ones(1)
for optimizer in (torch.optim.AdamW([weight]), torch.optim.SGD([weight], momentum=0.9)):
    optimizer.step()
