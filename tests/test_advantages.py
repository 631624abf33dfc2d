"""Group advantages against numbers derived by hand, and what must never change them."""

from __future__ import annotations

import pytest
import torch

from learners.advantages import constant_groups, group_advantages

REWARDS = torch.tensor([1.0, 0.0, 0.0, 0.0, 3.0, 1.0])
GROUPS = torch.tensor([7, 7, 7, 7, 2, 2])
# Group 7: mean 1/4, deviations 3/4, -1/4, -1/4, -1/4, sum of squares 12/16 = 3/4.
#   sample std = sqrt((3/4) / 3) = 1/2; population std = sqrt((3/4) / 4) = sqrt(3)/4 = 0.4330.
# Group 2: mean 2, deviations 1, -1; sample std sqrt(2); population std 1.
CENTERED = torch.tensor([0.75, -0.25, -0.25, -0.25, 1.0, -1.0])


def assert_is(actual: torch.Tensor, expected: torch.Tensor, *, not_: torch.Tensor) -> None:
    """Equal to the number derived by hand, and to nothing that a nearby formula gives."""
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6)
    assert (actual - not_).abs().max() > 1e-4


def test_group_scale_is_the_sample_std_of_the_own_group():
    scales = torch.tensor([0.5, 0.5, 0.5, 0.5, 2**0.5, 2**0.5])
    population = torch.tensor([0.4330, 0.4330, 0.4330, 0.4330, 1.0, 1.0])
    actual = group_advantages(REWARDS, GROUPS, "group")
    assert_is(actual, CENTERED / (scales + 1e-4), not_=CENTERED / (population + 1e-4))


def test_eps_is_added_to_the_std_as_in_trl():
    """Pitfall 23: with 1e-9 a group that differs by 1e-3 would be blown up to full size."""
    rewards = torch.tensor([0.001, 0.0], dtype=torch.float64)
    # mean 0.0005, sample std 0.001 / sqrt(2) = 7.0711e-4
    expected = torch.tensor([5e-4, -5e-4], dtype=torch.float64) / (0.001 / 2**0.5 + 1e-4)
    inside = torch.tensor([5e-4, -5e-4], dtype=torch.float64) / (5e-7 + 1e-4) ** 0.5
    assert_is(group_advantages(rewards, torch.zeros(2, dtype=torch.long)), expected, not_=inside)


def test_batch_scale_is_the_std_of_all_rewards_not_of_the_centered_ones():
    # All six: mean 5/6, sum of squares 1 + 9 + 1 - 6 * 25/36 = 41/6, sample var 41/30.
    # Centered: sum of squares 3/4 + 2 = 11/4, sample var 11/20.
    expected = CENTERED / ((41 / 30) ** 0.5 + 1e-4)
    wrong = CENTERED / ((11 / 20) ** 0.5 + 1e-4)
    assert_is(group_advantages(REWARDS, GROUPS, "batch"), expected, not_=wrong)


def test_no_scale_only_centers_inside_the_group():
    """Pitfall 36; nearest wrong formula: one mean, 5/6, for the whole batch."""
    assert_is(group_advantages(REWARDS, GROUPS, "none"), CENTERED, not_=REWARDS - 5 / 6)


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_advantages_of_a_group_sum_to_zero(scale):
    actual = group_advantages(REWARDS, GROUPS, scale)
    for group in (7, 2):
        assert actual[group == GROUPS].sum().abs() < 1e-5


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_the_order_of_rows_and_the_names_of_groups_do_not_matter(scale):
    """Pitfall 30: groups are keys, not neighbours."""
    order = torch.tensor([5, 2, 0, 4, 3, 1])
    straight = group_advantages(REWARDS, GROUPS, scale)
    shuffled = group_advantages(REWARDS[order], 1000 - GROUPS[order], scale)
    torch.testing.assert_close(shuffled, straight[order])


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_a_group_of_one_has_no_advantage(scale):
    """Pitfall 20: the raw reward must not become the advantage."""
    actual = group_advantages(torch.tensor([5.0, 1.0, 0.0]), torch.tensor([0, 1, 1]), scale)
    assert actual[0] == 0
    assert actual[1] > 0


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_equal_rewards_have_exactly_no_advantage(scale):
    """Pitfall 23: the mean of seven 0.1s is not 0.1 in floating point, the advantage must be 0."""
    rewards = torch.tensor([0.1] * 7 + [1.0, 0.0])
    assert rewards[:7].mean() != rewards[0], "the test needs a mean that is rounded"
    groups = torch.tensor([0] * 7 + [1, 1])
    actual = group_advantages(rewards, groups, scale)
    assert actual[:7].tolist() == [0.0] * 7
    assert actual[7] > 0


def test_constant_groups_are_judged_on_the_whole_group():
    """Pitfall 24: the first members of group 0 are equal, the last one is not."""
    rewards, index = torch.tensor([1.0, 1.0, 1.0, 0.0, 2.0, 2.0]), torch.tensor([0, 0, 0, 0, 1, 1])
    assert constant_groups(rewards, index).tolist() == [False, True]


def test_a_reward_of_zero_is_a_score():
    """Pitfall 29: [0, 1] is a group with variance."""
    actual = group_advantages(torch.tensor([0.0, 1.0]), torch.tensor([0, 0]), "none")
    assert actual.tolist() == [-0.5, 0.5]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_rewards_that_are_not_finite_are_refused(bad):
    with pytest.raises(ValueError, match="finite"):
        group_advantages(torch.tensor([bad, 1.0]), torch.tensor([0, 0]))


def test_other_misuse_is_refused():
    two = torch.tensor([0.0, 1.0])
    with pytest.raises(ValueError, match="one length"):
        group_advantages(two, torch.tensor([0]))
    with pytest.raises(ValueError, match="scale"):
        group_advantages(two, torch.tensor([0, 0]), "std")  # pyright: ignore
