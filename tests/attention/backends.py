"""The kernels that tests run on: every one that is found; one that cannot run on this machine is skipped, and says why."""

import os

import pytest
import torch

from headwise.attention.attend import make_call
from headwise.catalog import entries

KERNELS = dict(sorted(entries("headwise.attention.kernels").items()))


def why_not(name: str) -> str | None:
    """Why this machine cannot run a kernel at all, or None."""
    x = torch.zeros(1, 1, 2, 4)
    return KERNELS[name].refusal(x, x, x, make_call(x, x), ())


def parameters(*left_out: str) -> list:
    return [_parameter(name) for name in KERNELS if name not in left_out]


def _parameter(name: str):
    refusal = why_not(name)
    required = os.environ.get(f"HEADWISE_REQUIRE_{name.upper()}") == "1"
    return pytest.param(name, marks=[] if refusal is None or required else pytest.mark.skip(reason=f"{name}: {refusal}"))


every_backend = pytest.mark.parametrize("backend", parameters())
judged_backend = pytest.mark.parametrize("backend", parameters("reference"))
