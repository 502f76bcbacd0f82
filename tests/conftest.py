"""Settings of every test: one thread, one seed, hypothesis without deadlines and without chance."""

from __future__ import annotations

import os

os.environ["KERAS_BACKEND"] = "torch"  # read when Keras is first imported, so before any test
os.environ["JAX_PLATFORMS"] = "cpu"

import pytest
import torch
from hypothesis import HealthCheck, settings

settings.register_profile(
    "suite", deadline=None, derandomize=True, database=None, max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
settings.load_profile("suite")
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """Every test starts from the same random state, so that the order of tests changes nothing."""
    torch.manual_seed(20_240_229)
