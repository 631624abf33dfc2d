"""Log-probs and advantages -> the policy-gradient loss of one micro-batch, with its statistics.

Pure functions of tensors. The denominator is given, never taken from the micro-batch: it belongs
to the whole optimizer step, so that accumulation and sharding leave the loss unchanged
(pitfalls 8, 25, 31).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

LossType = Literal["grpo", "dapo", "dr_grpo", "gspo"]
Importance = Literal["token", "sequence", "off"]
BeyondCap = Literal["truncate", "mask"]


@dataclass(frozen=True)
class Normaliser:
    """What the summed loss of the whole optimizer step is divided by."""

    sequences: float
    """Completions of the step, over all micro-batches and ranks."""
    tokens: float
    """Completion tokens of the step, over all micro-batches and ranks."""
    max_tokens: float
    """Length limit of a completion: the constant denominator of "dr_grpo"."""


@dataclass(frozen=True)
class PolicyLoss:
    """Loss of a micro-batch, already divided, and sums for logging."""

    loss: Tensor
    """Scalar; micro-batch losses add up to the loss of the step."""
    clipped: Tensor
    """Number of tokens whose clipped term was the active one; for "gspo", all of a sequence's."""
    ratio: Tensor
    """New over old probability, with gradient: (B, C), 1 at padding; (B, 1) for "gspo"."""
    kl: Tensor
    """Sum over tokens of the k3 estimate of KL(old || new), from unclamped ratios (pitfall 13)."""


def policy_loss(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    normaliser: Normaliser,
    *,
    loss_type: LossType = "dapo",
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    weights: Tensor | None = None,
) -> PolicyLoss:
    """Clipped surrogate loss of PPO, with one advantage per completion or per token.

    Per token: -min(ratio * A, clip(ratio, 1 - clip_low, 1 + clip_high) * A) * weight, summed as

    - "dapo": over all tokens, / tokens of the step (arXiv:2503.14476);
    - "grpo": mean over each completion's tokens, then / completions (arXiv:2402.03300);
    - "dr_grpo": over all tokens, / (completions * length limit) (arXiv:2503.20783);
    - "gspo": one ratio per sequence, exp(mean log-ratio), and one term per sequence, / completions
      (arXiv:2507.18071; pitfall 14).

    Args:
        logprobs: (B, C) log-probs of the sampled tokens under the policy, with gradient.
        old_logprobs: (B, C) the same under the policy that the ratio refers to, no gradient.
        advantages: (B,), or (B, C) with one per token (not for "gspo").
        mask: (B, C) 1 for sampled tokens, 0 for padding, from lengths.
        normaliser: Sizes of the whole optimizer step.
        loss_type: See above.
        clip_low: Lower clip distance of the ratio.
        clip_high: Upper clip distance of the ratio.
        weights: (B, C) or None: importance weights trainer / sampler, no gradient.
    """
    mask = mask.to(logprobs.dtype)
    log_ratio = torch.where(mask > 0, logprobs - old_logprobs, 0.0)  # (B, C), pitfall 6
    lengths = mask.sum(1).clamp(min=1)  # (B,)
    if loss_type == "gspo":
        if advantages.ndim != 1:
            raise ValueError(
                'loss_type "gspo" has one term per completion: it needs advantages (B,)'
            )
        mean = (log_ratio * mask).sum(1) / lengths  # (B,)
        ratio = mean.exp()
        per_term, clipped = _surrogate(ratio, advantages, clip_low, clip_high)
        if weights is not None:
            per_term = per_term * (weights * mask).sum(1) / lengths
        loss = per_term.sum() / normaliser.sequences
        terms = (clipped * lengths).sum().detach()
        return PolicyLoss(loss, terms, ratio[:, None], _k3(log_ratio, mask))
    ratio = log_ratio.exp()
    per_row = advantages[:, None] if advantages.ndim == 1 else advantages  # (B, 1) or (B, C)
    per_token, clipped = _surrogate(ratio, per_row, clip_low, clip_high)  # (B, C)
    if weights is not None:
        per_token = per_token * weights
    per_token = torch.where(mask > 0, per_token, 0.0)
    loss = reduce_tokens(per_token, mask, normaliser, loss_type)
    return PolicyLoss(loss, (clipped * mask).sum().detach(), ratio, _k3(log_ratio, mask))


def reduce_tokens(
    per_token: Tensor, mask: Tensor, normaliser: Normaliser, loss_type: LossType
) -> Tensor:
    """Sum a (B, C) per-token loss with the denominator that `loss_type` asks for."""
    if loss_type == "dapo":
        return (per_token * mask).sum() / normaliser.tokens
    if loss_type == "dr_grpo":
        return (per_token * mask).sum() / (normaliser.sequences * normaliser.max_tokens)
    lengths = mask.sum(1).clamp(min=1)
    return ((per_token * mask).sum(1) / lengths).sum() / normaliser.sequences


def importance_weights(
    trainer_logprobs: Tensor,
    sampler_logprobs: Tensor,
    mask: Tensor,
    cap: float,
    *,
    per: Literal["token", "sequence"] = "token",
    beyond: BeyondCap = "truncate",
) -> Tensor:
    """pi_trainer / pi_sampler, bounded; 1 at padding. No gradient (pitfall 12).

    Args:
        trainer_logprobs: (B, C) of the sampling weights, recomputed by the trainer.
        sampler_logprobs: (B, C) as the engine reported them.
        mask: (B, C).
        cap: Upper bound of a weight.
        per: One weight per token, or the product of a completion's for all of its tokens.
        beyond: A weight above the cap becomes the cap, or 0: the token (or completion) drops out.

    Returns:
        (B, C).
    """
    log_weight = torch.where(mask > 0, trainer_logprobs.detach() - sampler_logprobs, 0.0)
    if per == "sequence":
        log_weight = log_weight.sum(1, keepdim=True).expand_as(log_weight)
    weight = log_weight.exp()
    over = cap if beyond == "truncate" else 0.0
    weight = torch.where(weight > cap, over, weight)  # no product (exp may be infinite); NaN stays
    return torch.where(mask > 0, weight, 1.0)


def value_loss(
    values: Tensor, old_values: Tensor, returns: Tensor, mask: Tensor, clip: float
) -> tuple[Tensor, Tensor]:
    """Half the squared error of a critic, summed over tokens, clipped as in PPO.

    Per token 0.5 * max((v - R)^2, (v_clipped - R)^2) with v_clipped within `clip` of the value
    before the update (arXiv:1707.06347 as implemented by OpenAI baselines; arXiv:2005.12729).

    Args:
        values: (B, C) with gradient.
        old_values: (B, C) the same before the update.
        returns: (B, C) targets.
        mask: (B, C).
        clip: Clip distance in units of reward; 0 does not clip.

    Returns:
        The sum, a scalar, and the number of tokens whose clipped term was the active one.
    """
    error = (values - returns).square()
    if clip == 0:
        return 0.5 * (error * mask).sum(), mask.new_zeros((), dtype=values.dtype)
    near = old_values + (values - old_values).clamp(-clip, clip)
    clipped_error = (near - returns).square()
    active = (clipped_error > error).to(values.dtype) * mask
    return 0.5 * (torch.maximum(error, clipped_error) * mask).sum(), active.sum().detach()


def reference_kl(logprobs: Tensor, reference_logprobs: Tensor, ratio: Tensor) -> Tensor:
    """k3 estimate of KL(policy || reference) per token, (B, C): (exp(d) - d - 1) * ratio.

    d = log reference - log policy; never negative (arXiv:2402.03300). The ratio of the policy to
    the one that sampled makes its gradient that of the KL: without it, k3 as a loss pulls along
    another direction even on fresh samples (arXiv:2512.02556).

    Args:
        logprobs: (B, C) under the policy, with gradient.
        reference_logprobs: (B, C) under the reference.
        ratio: `PolicyLoss.ratio`.
    """
    log_ratio = reference_logprobs - logprobs
    return (log_ratio.exp() - log_ratio - 1) * ratio


def _surrogate(
    ratio: Tensor, advantages: Tensor, clip_low: float, clip_high: float
) -> tuple[Tensor, Tensor]:
    """(loss term, 1 where the clip binds), both shaped like the ratio."""
    plain = ratio * advantages
    clipped = ratio.clamp(1 - clip_low, 1 + clip_high) * advantages
    return -torch.minimum(plain, clipped), (clipped < plain).to(ratio.dtype)


def _k3(log_ratio: Tensor, mask: Tensor) -> Tensor:
    """k3 of KL(old || new) summed over tokens: exp(log new/old) - log new/old - 1."""
    log_ratio = log_ratio.detach()
    return ((log_ratio.exp() - 1 - log_ratio) * mask).sum()
