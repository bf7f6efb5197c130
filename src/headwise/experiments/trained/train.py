"""Training: AdamW with a warm start and a falling rate."""

import math
from collections.abc import Callable

import torch
from torch import nn

from headwise.axes import Tensor
from headwise.progress import ProgressCallback, no_progress

WARM = 0.05  # share of the steps in which the rate rises


def train_model(model: nn.Module, loss: Callable[[int], Tensor], steps: int, rate: float, progress: ProgressCallback = no_progress) -> list[float]:
    """Train a model in place.

    Args:
        loss: of the model on the batch of a step.
        rate: the largest one; it rises over the first steps and falls as half a cosine.

    Returns:
        The loss at every step.
    """
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: _height(step, steps))
    found = []
    model.train()
    for step in range(steps):
        now = loss(step)
        now.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        optimiser.zero_grad()
        found.append(now.item())
        progress("training", step + 1, steps)
    model.eval()
    return found


def _height(step: int, steps: int) -> float:
    warm = max(1, round(WARM * steps))
    if step < warm:
        return (step + 1) / warm
    return 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm)))
