"""Losses against numbers derived by hand, each shown to differ from its nearest wrong formula."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from learners.losses import Normaliser, importance_weights, policy_loss, reference_kl

TYPES = ("dapo", "grpo", "dr_grpo", "gspo")
SIZES = Normaliser(sequences=2, tokens=3, max_tokens=4)
MASK = torch.tensor([[1, 1], [1, 0]])
GARBAGE = 9.0
"""Log-prob at padding: never seen by a right loss, off the scale of a wrong one."""


def case(*ratios: float) -> tuple[Tensor, Tensor]:
    """(log-probs, old log-probs) of a two-token and a one-token row with the given ratios."""
    old = torch.tensor([[-1.0, -2.0], [-0.5, 0.0]], dtype=torch.float64)
    logs = torch.tensor([math.log(r) for r in ratios], dtype=torch.float64)
    new = old + torch.stack([logs[:2], torch.stack([logs[2], torch.tensor(GARBAGE)])])
    return new.requires_grad_(), old


def loss_of(ratios: tuple[float, ...], advantages: list[float], kind: str, **options) -> Tensor:
    new, old = case(*ratios)
    return policy_loss(
        new, old, torch.tensor(advantages), MASK, SIZES, loss_type=kind, **options
    ).loss


# Ratios 1.5, 1.0 with A = 1 and 0.5 with A = -2, clipped to [0.8, 1.2]:
#   -min(1.5, 1.2) = -1.2;  -min(1, 1) = -1;  -min(0.5 * -2, 0.8 * -2) = 1.6.
RATIOS, ADVANTAGES = (1.5, 1.0, 0.5), [1.0, -2.0]


@pytest.mark.parametrize(
    ("kind", "expected", "wrong", "why_wrong"),
    [
        ("dapo", (-1.2 - 1.0 + 1.6) / 3, (-1.2 - 1.0 + 1.6) / 4, "padding in the denominator"),
        ("grpo", (-1.1 + 1.6) / 2, (-1.2 - 1.0 + 1.6) / 3, "mean over tokens, not sequences"),
        ("dr_grpo", (-1.2 - 1.0 + 1.6) / (2 * 4), -0.6 / (2 * 2), "longest row, not the limit"),
        # sqrt(1.5 * 1) = 1.2247 is clipped to 1.2.
        ("gspo", (-1.2 + 1.6) / 2, (-1.1 + 1.6) / 2, "ratio per token"),
    ],
)
def test_each_loss_is_the_number_derived_by_hand(kind, expected, wrong, why_wrong):
    actual = loss_of(RATIOS, ADVANTAGES, kind).item()
    assert actual == pytest.approx(expected, abs=1e-6)
    assert abs(actual - wrong) > 0.01, why_wrong


def test_the_ratio_of_gspo_is_the_geometric_mean():
    """Pitfall 14. sqrt(1.3 * 0.9) = 1.0817; arithmetic mean 1.1, product 1.17."""
    actual = loss_of((1.3, 0.9, 1.0), [1.0, 1.0], "gspo").item()
    assert actual == pytest.approx(-(1.17**0.5 + 1.0) / 2, abs=1e-6)
    assert abs(actual - -(1.1 + 1.0) / 2) > 0.005
    assert abs(actual - -(1.17 + 1.0) / 2) > 0.01


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("dapo", [[-1 / 3, -1 / 3], [2 / 3, 0]]),
        ("grpo", [[-1 / 4, -1 / 4], [2 / 2, 0]]),
        ("dr_grpo", [[-1 / 8, -1 / 8], [2 / 8, 0]]),
        ("gspo", [[-1 / 4, -1 / 4], [2 / 2, 0]]),  # d exp(mean)/dx = 1/2 per token of row 0
    ],
)
def test_the_gradient_at_ratio_one_is_minus_the_advantage_over_the_denominator(kind, expected):
    """The first update of a rollout; padding gets exactly none (pitfalls 1, 6)."""
    new, old = case(1.0, 1.0, 1.0)
    result = policy_loss(new, old, torch.tensor([1.0, -2.0]), MASK, SIZES, loss_type=kind)
    result.loss.backward()
    torch.testing.assert_close(new.grad, torch.tensor(expected, dtype=torch.float64))
    assert result.clipped == 0
    assert result.kl == 0


@pytest.mark.parametrize("kind", TYPES)
def test_the_clipped_share_counts_tokens(kind):
    # RATIOS clip tokens 1 of row 0 and the only one of row 1; by sequence, all three tokens.
    new, old = case(*RATIOS)
    result = policy_loss(new, old, torch.tensor(ADVANTAGES), MASK, SIZES, loss_type=kind)
    assert result.clipped.item() == (3 if kind == "gspo" else 2)


def test_clipping_stops_the_gradient_only_where_it_lowers_the_objective():
    # A > 0 and ratio 1.5: clipped. A < 0 and ratio 1.5: the pessimistic side, gradient stays.
    for advantage, gradient, clipped in ((1.0, 0.0, 1), (-1.0, 1.5 / 3, 0)):
        new, old = case(1.5, 1.0, 1.0)
        result = policy_loss(new, old, torch.tensor([advantage, 0.0]), MASK, SIZES)
        result.loss.backward()
        assert new.grad is not None
        assert new.grad[0, 0].item() == pytest.approx(gradient)
        assert result.clipped == clipped


def test_the_two_clip_distances_are_not_exchanged():
    # Ratio 1.5, A = 1: high 0.4 caps at 1.4. Ratio 0.5, A = -1: low 0.1 floors at 0.9.
    high = loss_of((1.5, 1.0, 1.0), [1.0, 0.0], "dapo", clip_low=0.1, clip_high=0.4)
    low = loss_of((1.0, 1.0, 0.5), [0.0, -1.0], "dapo", clip_low=0.1, clip_high=0.4)
    assert high.item() == pytest.approx(-(1.4 + 1.0) / 3, abs=1e-6)
    assert low.item() == pytest.approx(0.9 / 3, abs=1e-6)


@pytest.mark.parametrize("kind", TYPES)
def test_micro_batches_add_up_to_the_loss_and_gradient_of_the_step(kind):
    """Pitfall 31: the denominators belong to the step, so no mean of means appears."""
    whole, old = case(*RATIOS)
    weights = torch.tensor([[0.5, 2.0], [1.5, 1.0]])
    advantages = torch.tensor(ADVANTAGES)
    expected = policy_loss(whole, old, advantages, MASK, SIZES, loss_type=kind, weights=weights)
    expected.loss.backward()
    split, old = case(*RATIOS)
    total = 0.0
    for row in (slice(0, 1), slice(1, 2)):
        part = policy_loss(
            split[row],
            old[row],
            advantages[row],
            MASK[row],
            SIZES,
            loss_type=kind,
            weights=weights[row],
        )
        part.loss.backward()
        total += part.loss.item()
    assert total == pytest.approx(expected.loss.item())
    torch.testing.assert_close(split.grad, whole.grad)


@pytest.mark.parametrize("kind", TYPES)
def test_more_padding_changes_nothing(kind):
    """Pitfalls 2, 6: not even padding that holds NaN."""
    new, old = case(*RATIOS)
    wide = torch.cat([new.detach(), torch.full((2, 3), math.nan)], 1).requires_grad_()
    wide_old, wide_mask = (
        torch.nn.functional.pad(old, (0, 3)),
        torch.nn.functional.pad(MASK, (0, 3)),
    )
    advantages = torch.tensor(ADVANTAGES)
    for logprobs, before, mask in ((new, old, MASK), (wide, wide_old, wide_mask)):
        policy_loss(logprobs, before, advantages, mask, SIZES, loss_type=kind).loss.backward()
    assert wide.grad is not None
    torch.testing.assert_close(wide.grad[:, :2], new.grad)
    assert wide.grad[:, 2:].tolist() == [[0.0] * 3] * 2


def test_the_logged_kl_comes_from_unclamped_ratios():
    """Pitfall 13. k3 = r - 1 - ln r: 0.5 - ln 1.5, 0 and -0.5 - ln 0.5."""
    new, old = case(*RATIOS)
    result = policy_loss(new, old, torch.tensor(ADVANTAGES), MASK, SIZES)
    expected = (0.5 - math.log(1.5)) + 0 + (-0.5 - math.log(0.5))
    assert result.kl.item() == pytest.approx(expected)
    clamped = (0.2 - math.log(1.2)) + (-0.2 - math.log(0.8))
    assert abs(result.kl.item() - clamped) > 0.01


def test_importance_weights_are_trainer_over_sampler_and_capped():
    """Pitfall 12. exp(-1 - -1.5) = 1.6487; exp(-2 - -5) = 20 -> 3; padding 1."""
    trainer = torch.tensor([[-1.0, -2.0], [-1.0, 50.0]], requires_grad=True)
    sampler = torch.tensor([[-1.5, -5.0], [-0.5, 0.0]])
    weights = importance_weights(trainer, sampler, MASK, cap=3.0)
    expected = torch.tensor([[math.exp(0.5), 3.0], [math.exp(-0.5), 1.0]])
    torch.testing.assert_close(weights, expected)
    assert not weights.requires_grad


def test_importance_weights_scale_each_token_loss():
    # -1.2 * 0.5 - 1 * 2 + 1.6 * 1.5 = -0.2, over 3 tokens.
    weights = torch.tensor([[0.5, 2.0], [1.5, 7.0]])
    actual = loss_of(RATIOS, ADVANTAGES, "dapo", weights=weights).item()
    assert actual == pytest.approx(-0.2 / 3, abs=1e-6)


def test_reference_kl_is_k3_of_policy_from_reference():
    # d = ln 2: 2 - ln 2 - 1 = 0.3069; the other direction (d = -ln 2) is 0.5 + ln 2 - 1 = 0.1931.
    policy = torch.tensor([[-1.0]], dtype=torch.float64, requires_grad=True)
    kl = reference_kl(policy, policy.detach() + math.log(2), torch.ones(1, 1))
    assert kl.item() == pytest.approx(1 - math.log(2))
    other = reference_kl(policy, policy.detach() - math.log(2), torch.ones(1, 1))
    assert other.item() == pytest.approx(math.log(2) - 0.5)


def test_the_gradient_of_the_reference_kl_is_that_of_the_exact_kl():
    """In expectation over all tokens. Without the ratio, k3 gives another direction."""
    logits = torch.tensor([1.0, 0.0, -1.0, 0.5], dtype=torch.float64, requires_grad=True)
    reference = torch.tensor([0.0, 1.0, 0.5, -1.0], dtype=torch.float64).log_softmax(0)
    logprobs = logits.log_softmax(0)
    exact = (logprobs.exp() * (logprobs - reference)).sum()
    ratio = (logprobs - logprobs.detach()).exp()
    share = logprobs.detach().exp()  # how often each token is sampled
    expected, actual, uncorrected = (
        torch.autograd.grad(value, logits, retain_graph=True)[0]
        for value in (
            exact,
            (share * reference_kl(logprobs, reference, ratio)).sum(),
            (share * reference_kl(logprobs, reference, torch.ones(4))).sum(),
        )
    )
    torch.testing.assert_close(actual, expected)
    assert (uncorrected - expected).abs().max() > 0.1
