"""Learning rates by hand, and what one step does and refuses."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from learners.optim import Optim, OptimConfig, learning_rate


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [
        # Warm-up of 2 of 6 updates: 1/3, 2/3, then 4 updates with progress 0, 1/4, 1/2, 3/4.
        ("linear", [1 / 3, 2 / 3, 1.0, 0.75, 0.5, 0.25]),
        ("constant_with_warmup", [1 / 3, 2 / 3, 1.0, 1.0, 1.0, 1.0]),
        (
            "cosine",
            [1 / 3, 2 / 3, 1.0, (1 + 0.5**0.5) / 2, 0.5, (1 - 0.5**0.5) / 2],
        ),
    ],
)
def test_the_rates_of_a_run_are_those_derived_by_hand(schedule, rates):
    """No update is wasted at rate 0, and a longer run than planned stays at the end."""
    config = OptimConfig(learning_rate=2.0, schedule=schedule, warmup_ratio=1 / 3)
    actual = [learning_rate(config, update, 6) for update in range(6)]
    assert actual == pytest.approx([2.0 * rate for rate in rates])
    end = 2.0 if schedule == "constant_with_warmup" else 0.0
    assert learning_rate(config, 9, 6) == pytest.approx(end)


def test_the_first_step_of_adamw_moves_by_the_rate_and_clears_the_gradient():
    """m / sqrt(v) is the sign of the gradient: one clean way to see which rate was used."""
    weight = nn.Parameter(torch.tensor([1.0, 1.0]))
    optim = Optim([weight], OptimConfig(learning_rate=0.1, warmup_ratio=0.5), total_updates=2)
    (weight * torch.tensor([3.0, -4.0])).sum().backward()
    assert optim.step() == pytest.approx(5.0)  # the norm before clipping
    torch.testing.assert_close(
        weight.detach(), torch.tensor([0.95, 1.05])
    )  # warm-up: half the rate
    assert weight.grad is None
    assert optim.learning_rate == pytest.approx(0.1)


def test_a_skipped_step_moves_the_schedule_and_nothing_else():
    weight = nn.Parameter(torch.ones(2))
    optim = Optim([weight], OptimConfig(learning_rate=0.1, warmup_ratio=0.0), total_updates=4)
    optim.skip()
    assert optim.learning_rate == pytest.approx(0.075)
    assert weight.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_gradient_that_is_not_finite_updates_nothing(bad):
    """Pitfall 39."""
    weight = nn.Parameter(torch.ones(2))
    optim = Optim([weight], OptimConfig(), total_updates=1)
    weight.grad = torch.tensor([1.0, bad])
    with pytest.raises(FloatingPointError, match="gradient norm"):
        optim.step()
    assert weight.tolist() == [1.0, 1.0]
    assert optim.updates == 0


def test_float16_weights_need_master_weights():
    """1e-8 is 0 in float16, so AdamW divides by zero where a gradient is small."""
    weight = nn.Parameter(torch.zeros(2, dtype=torch.float16))
    with pytest.raises(ValueError, match="master_weights=True"):
        Optim([weight], OptimConfig(), total_updates=1)
    optim = Optim([weight], OptimConfig(learning_rate=0.1, master_weights=True), total_updates=1)
    weight.grad = torch.full((2,), 1e-4, dtype=torch.float16)
    optim.step()
    assert weight.isfinite().all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"warmup_ratio": 1.5}, "warmup_ratio"),
        ({"learning_rate": math.nan}, "learning_rate"),
        ({"max_grad_norm": 0.0}, "max_grad_norm"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        OptimConfig(**options)
