"""Baselines, GAE, whitening, critic loss and importance weights against numbers derived by hand."""

from __future__ import annotations

import pytest
import torch

from learners.advantages import gae, group_advantages, leave_one_out, whiten
from learners.losses import Normaliser, importance_weights, policy_loss, value_loss
from learners.ppo import explained_variance


def assert_is(actual: torch.Tensor, expected: list, *, not_: list | None = None) -> None:
    """Equal to the number derived by hand, and to nothing that a nearby formula gives."""
    wanted = torch.tensor(expected, dtype=actual.dtype)
    torch.testing.assert_close(actual, wanted, rtol=1e-5, atol=1e-6)
    if not_ is not None:
        assert (actual - torch.tensor(not_, dtype=actual.dtype)).abs().max() > 1e-3


def test_the_baseline_of_rloo_is_the_mean_of_the_others():
    # Group 7, rewards 4, 0, 2: others' means 1, 3, 2 -> 3, -3, 0. Group 2, rewards 1, 0: 1, -1.
    rewards = torch.tensor([4.0, 1.0, 0.0, 2.0, 0.0])
    groups = torch.tensor([7, 2, 7, 7, 2])
    centred = [2.0, 0.5, -2.0, 0.0, -0.5]  # the nearest wrong formula: the own reward stays in
    assert_is(leave_one_out(rewards, groups), [3.0, 1.0, -3.0, 0.0, -1.0], not_=centred)


def test_rloo_has_no_advantage_in_a_group_of_one_or_of_equals():
    """Pitfalls 20, 23: neither the raw reward nor a rounding error is an advantage."""
    actual = leave_one_out(torch.tensor([5.0] + [0.1] * 7), torch.tensor([0] + [1] * 7))
    assert actual.tolist() == [0.0] * 8


REWARDS = torch.tensor([0.0, 0.0, 1.0])
VALUES = torch.tensor([0.5, 0.2, 0.4])


def test_gae_is_the_recursion_done_by_hand():
    # gamma 0.9, lam 0.5. delta_2 = 1 - 0.4 = 0.6; delta_1 = 0.9 * 0.4 - 0.2 = 0.16;
    # delta_0 = 0.9 * 0.2 - 0.5 = -0.32. A_2 = 0.6; A_1 = 0.16 + 0.45 * 0.6 = 0.43;
    # A_0 = -0.32 + 0.45 * 0.43 = -0.1265. With lam left out A_1 = 0.16 + 0.9 * 0.6 = 0.7.
    advantages, returns = gae(REWARDS, VALUES, 0.9, 0.5)
    assert_is(advantages, [-0.1265, 0.43, 0.6], not_=[0.31, 0.7, 0.6])
    assert_is(returns, [0.3735, 0.63, 1.0])


def test_gae_with_lam_one_is_the_discounted_return_minus_the_value():
    # Returns at gamma 0.9: 0.81, 0.9, 1.
    advantages, returns = gae(REWARDS, VALUES, 0.9, 1.0)
    assert_is(returns, [0.81, 0.9, 1.0])
    assert_is(advantages, [0.31, 0.7, 0.6])


def test_gae_with_lam_zero_is_the_one_step_error():
    advantages, _ = gae(REWARDS, VALUES, 0.9, 0.0)
    assert_is(advantages, [-0.32, 0.16, 0.6])


def test_the_end_of_a_completion_is_worth_nothing():
    """Pitfall 35: as one row of six tokens the last token of the first would see the second."""
    alone, _ = gae(REWARDS, VALUES, 1.0, 0.95)
    joined, _ = gae(REWARDS.repeat(2), VALUES.repeat(2), 1.0, 0.95)
    assert alone[-1].item() == pytest.approx(0.6)
    assert joined[2].item() > 1.0, "the test needs a crossing that would be seen"


def test_gae_refuses_rows_that_do_not_fit():
    with pytest.raises(ValueError, match="one length"):
        gae(REWARDS, VALUES[:2], 1.0, 1.0)
    with pytest.raises(ValueError, match="one length"):
        gae(REWARDS[None], VALUES[None], 1.0, 1.0)


def test_whitening_is_over_all_tokens_and_leaves_no_mean():
    # 1, 3 and 8: mean 4, deviations -3, -1, 4, sum of squares 26, sample std sqrt(13).
    rows = [torch.tensor([1.0, 3.0], dtype=torch.float64), torch.tensor([8.0], dtype=torch.float64)]
    first, second = whiten(rows)
    scale = 13**0.5 + 1e-4
    # Per row the first would be -1, 1 over sqrt(2) and the second 0.
    assert_is(first, [-3 / scale, -1 / scale], not_=[-(0.5**0.5), 0.5**0.5])
    assert_is(second, [4 / scale], not_=[0.0])
    assert torch.cat([first, second]).mean().abs() < 1e-15


def test_whitening_one_token_or_none_is_finite():
    assert whiten([]) == []
    assert whiten([torch.tensor([3.0])])[0].tolist() == [0.0]


def test_a_floor_under_the_std_keeps_near_ties_small():
    """Pitfall 23. Group 0: 0.01, 0 has the sample std 0.00707; group 1: 2, 0 has sqrt(2)."""
    rewards = torch.tensor([0.01, 0.0, 2.0, 0.0])
    groups = torch.tensor([0, 0, 1, 1])
    floored = group_advantages(rewards, groups, "group", 0.5)
    free = [0.005 / 0.00717107, -0.005 / 0.00717107, 1 / 1.4143136, -1 / 1.4143136]
    assert_is(floored, [0.005 / 0.5001, -0.005 / 0.5001, free[2], free[3]], not_=free)
    # Of the whole batch the std is 0.9983: a floor of 4 replaces it.
    batch = group_advantages(rewards, groups, "batch", 4.0)
    assert_is(batch, [0.005 / 4.0001, -0.005 / 4.0001, 1 / 4.0001, -1 / 4.0001])


def value_case(clip: float) -> tuple[torch.Tensor, float, float]:
    """Two tokens that moved from 0 to 1 (targets 2 and 0), one within the clip, one padding."""
    values = torch.tensor([[1.0, 1.0], [0.1, 9.0]], requires_grad=True)
    returns, mask = torch.tensor([[2.0, 0.0], [1.0, 0.0]]), torch.tensor([[1.0, 1.0], [1.0, 0.0]])
    loss, active = value_loss(values, torch.zeros(2, 2), returns, mask, clip)
    (gradient,) = torch.autograd.grad(loss, values)
    return gradient, loss.item(), active.item()


def test_the_critic_gains_nothing_from_moving_beyond_the_clip():
    # clip 0.2: the first token counts as 0.2, error 1.8^2 = 3.24 > 1: clipped, no gradient.
    # The second, at 0.2 too, 0.04 < 1: the plain error counts. The third 0.9^2 = 0.81.
    gradient, loss, active = value_case(0.2)
    assert loss == pytest.approx(0.5 * (3.24 + 1.0 + 0.81), rel=1e-6)
    assert active == 1
    assert_is(gradient, [[0.0, 1.0], [-0.9, 0.0]])


def test_without_a_clip_the_critic_loss_is_half_the_squared_error():
    # 0.5 * (1 + 1 + 0.81)
    gradient, loss, active = value_case(0.0)
    assert loss == pytest.approx(1.405, rel=1e-6)
    assert active == 0
    assert_is(gradient, [[-1.0, 1.0], [-0.9, 0.0]])


LOG = torch.tensor([[0.5, 0.25, 7.0], [2.0, -1.0, 0.25]])
MASK = torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]])


def weights(per, beyond, cap: float = 3.0) -> torch.Tensor:
    return importance_weights(LOG, torch.zeros(2, 3), MASK, cap, per=per, beyond=beyond)


def test_the_weight_of_a_sequence_is_the_product_of_its_tokens():
    """Pitfall 12. Sums 0.75 (the padding's 7 left out) and 1.25, whose exp 3.49 is capped."""
    first = 2.117000
    assert_is(weights("sequence", "truncate"), [[first, first, 1.0], [3.0, 3.0, 3.0]])


def test_a_weight_beyond_the_cap_may_drop_out():
    # Per token only exp(2) = 7.39 is above 3; per sequence the whole second row is.
    per_token = [[1.648721, 1.284025, 1.0], [0.0, 0.367879, 1.284025]]
    assert_is(weights("token", "mask"), per_token)
    assert_is(weights("sequence", "mask"), [[2.117, 2.117, 1.0], [0.0, 0.0, 0.0]])


@pytest.mark.parametrize("per", ["token", "sequence"])
def test_a_weight_too_large_for_a_float_drops_out_too(per):
    """Pitfall 12: exp(200) is infinite, and infinity times 0 would be NaN."""
    found = importance_weights(
        torch.tensor([[200.0]]), torch.zeros(1, 1), torch.ones(1, 1), 3.0, per=per, beyond="mask"
    )
    assert found.tolist() == [[0.0]]


@pytest.mark.parametrize("beyond", ["truncate", "mask"])
def test_a_log_prob_that_is_not_a_number_is_not_hidden_by_the_cap(beyond):
    """Pitfalls 15, 39: it has to reach the loss, which refuses it."""
    bad = torch.tensor([[float("nan")]])
    found = importance_weights(bad, torch.zeros(1, 1), torch.ones(1, 1), 3.0, beyond=beyond)
    assert found.isnan().all()


def test_weights_have_no_gradient():
    logprobs = torch.zeros(1, 2, requires_grad=True)
    found = importance_weights(logprobs, torch.ones(1, 2), torch.ones(1, 2), 3.0)
    assert not found.requires_grad


def test_explained_variance_is_one_for_the_returns_and_zero_for_a_constant():
    returns = torch.tensor([0.0, 1.0, 2.0])
    assert explained_variance(returns + 5, returns) == pytest.approx(1.0)  # a shift is no variance
    flat = torch.full((3,), 0.3)
    assert explained_variance(flat, returns) == pytest.approx(0.0, abs=1e-6)
    # Returns minus values 0, 2, 4: variance 4 against 1.
    assert explained_variance(-returns, returns) == pytest.approx(-3.0)
    assert explained_variance(returns, torch.ones(3)) == 0.0


@pytest.mark.parametrize("kind", ["dapo", "grpo", "dr_grpo"])
def test_equal_advantages_per_token_are_an_advantage_per_completion(kind):
    generator = torch.Generator().manual_seed(0)
    old = torch.randn(2, 3, generator=generator)
    new = (old + 0.3 * torch.randn(2, 3, generator=generator)).requires_grad_()
    per_row = torch.tensor([1.5, -0.5])
    sizes = Normaliser(sequences=2.0, tokens=5.0, max_tokens=4.0)
    gradients = []
    for advantages in (per_row, per_row[:, None].expand(2, 3), per_row[:, None] * MASK):
        loss = policy_loss(new, old, advantages, MASK, sizes, loss_type=kind).loss
        gradients.append(torch.autograd.grad(loss, new)[0])
    assert gradients[0].abs().max() > 0
    assert torch.equal(gradients[0], gradients[1])
    assert torch.equal(gradients[0], gradients[2])


def test_an_advantage_per_token_stays_at_its_token():
    """Pitfall 33. At ratio 1 the gradient is -A over 5 tokens, token by token."""
    new = torch.zeros(2, 3, requires_grad=True)
    advantages = torch.tensor([[1.0, -2.0, 9.0], [3.0, 0.0, 5.0]])
    sizes = Normaliser(sequences=2.0, tokens=5.0, max_tokens=4.0)
    loss = policy_loss(new, torch.zeros(2, 3), advantages, MASK, sizes).loss
    (gradient,) = torch.autograd.grad(loss, new)
    assert_is(gradient, [[-0.2, 0.4, 0.0], [-0.6, 0.0, -1.0]])


def test_one_ratio_per_sequence_takes_no_advantage_per_token():
    """Pitfall 14."""
    zeros, sizes = torch.zeros(2, 3), Normaliser(2.0, 5.0, 4.0)
    with pytest.raises(ValueError, match="one term per completion"):
        policy_loss(zeros, zeros, zeros, MASK, sizes, loss_type="gspo")
