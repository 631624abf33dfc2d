"""Rewards of one batch -> one advantage per trajectory. Tensors in, tensors out, no state.

Groups are given by key, never by text (pitfall 30). A trajectory without a score has no place in
a baseline (pitfalls 27, 28): drop it before calling.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

EPS = 1e-4
"""Added to the std, as in TRL, so that both can be compared number for number."""

ScaleRewards = Literal["group", "batch", "none"]


def group_advantages(
    rewards_N: Tensor, groups_N: Tensor, scale: ScaleRewards = "group", std_floor: float = 0.0
) -> Tensor:
    """Center rewards inside each group: A = (r - mean(r)) / (std + EPS).

    Args:
        rewards_N: (N,) one reward per trajectory.
        groups_N: (N,) integer key of the group of each; groups may differ in size.
        scale: "group" divides by the sample std of the trajectory's group (GRPO,
            arXiv:2402.03300), "batch" by the sample std of all N rewards, "none" does not divide
            (Dr. GRPO, arXiv:2503.20783: scaling by the group's std weighs easy and hard problems
            more, pitfall 36).
        std_floor: Least std to divide by (pitfall 23).

    Returns:
        (N,). Sums to 0 inside each group; a group of one or of equal rewards is all zeros
        (pitfalls 20, 23).

    Raises:
        ValueError: The shapes differ, a reward is not finite, or `scale` is unknown.
    """
    if rewards_N.ndim != 1 or rewards_N.shape != groups_N.shape:
        raise ValueError(
            "rewards and groups must be vectors of one length, got shapes "
            f"{tuple(rewards_N.shape)} and {tuple(groups_N.shape)}"
        )
    if not bool(torch.isfinite(rewards_N).all()):
        raise ValueError("every reward must be finite; drop unscored trajectories first")
    if scale not in ("group", "batch", "none"):
        raise ValueError(f"scale must be one of group, batch, none, got {scale!r}")
    _, index_N = groups_N.unique(return_inverse=True)
    size_G = index_N.bincount().to(rewards_N.dtype)
    mean_G = _sum_by(rewards_N, index_N, len(size_G)) / size_G
    centered_N = rewards_N - mean_G[index_N]
    constant_N = constant_groups(rewards_N, index_N)[index_N]
    centered_N = torch.where(constant_N, torch.zeros_like(centered_N), centered_N)
    if scale == "none":
        return centered_N
    if scale == "batch":
        std = rewards_N.std() if len(rewards_N) > 1 else rewards_N.new_zeros(())
        return centered_N / (std.clamp(min=std_floor) + EPS)
    var_G = _sum_by(centered_N.square(), index_N, len(size_G)) / (size_G - 1).clamp(min=1)
    return centered_N / (var_G.sqrt().clamp(min=std_floor)[index_N] + EPS)


def leave_one_out(rewards_N: Tensor, groups_N: Tensor) -> Tensor:
    """r_i minus the mean of the other rewards of its group (RLOO, arXiv:2402.14740).

    Args:
        rewards_N: (N,) one reward per trajectory.
        groups_N: (N,) integer key of the group of each.

    Returns:
        (N,) n / (n - 1) * (r - mean); 0 in a group of one, which has no other (pitfall 20).
    """
    _, index_N = groups_N.unique(return_inverse=True)
    size_G = index_N.bincount().to(rewards_N.dtype)
    factor_G = torch.where(size_G > 1, size_G / (size_G - 1).clamp(min=1), 0.0)
    return factor_G[index_N] * group_advantages(rewards_N, groups_N, "none")


def gae(rewards_T: Tensor, values_T: Tensor, gamma: float, lam: float) -> tuple[Tensor, Tensor]:
    """Generalised advantage estimation over the tokens of one completion (arXiv:1506.02438).

    delta_t = r_t + gamma * V_{t+1} - V_t, with V after the last token 0: the reply ends the
    episode, cut or not. A_t = delta_t + gamma * lam * A_{t+1}. One call sees one completion, so
    nothing runs across a boundary (pitfall 35).

    Args:
        rewards_T: (T,) reward received after each token.
        values_T: (T,) value before each token was sampled.
        gamma: Discount per token.
        lam: 1 is the Monte Carlo return minus the value, 0 the one-step error.

    Returns:
        (T,) advantages and (T,) returns, the critic's targets: advantage + value.
    """
    if rewards_T.shape != values_T.shape or rewards_T.ndim != 1:
        raise ValueError(
            f"rewards and values must be vectors of one length, got {tuple(rewards_T.shape)} and "
            f"{tuple(values_T.shape)}"
        )
    following = torch.cat([values_T[1:], values_T.new_zeros(1)])
    delta = (rewards_T + gamma * following - values_T).tolist()
    advantage, reversed_T = 0.0, []
    for error in reversed(delta):
        advantage = error + gamma * lam * advantage
        reversed_T.append(advantage)
    advantages_T = values_T.new_tensor(reversed_T[::-1])
    return advantages_T, advantages_T + values_T


def whiten(rows: Sequence[Tensor]) -> list[Tensor]:
    """Center and scale ragged rows by the mean and sample std of all their elements together.

    The mean stays removed. Fewer than two elements are only centred.
    """
    every = torch.cat(list(rows)) if rows else torch.zeros(0)
    std = every.std() if len(every) > 1 else every.new_zeros(())
    return [(row - every.mean()) / (std + EPS) for row in rows]


def constant_groups(rewards_N: Tensor, index_N: Tensor) -> Tensor:
    """(G,) bool: groups whose rewards are all equal, decided on the whole group (pitfall 24).

    Args:
        rewards_N: (N,) rewards.
        index_N: (N,) group index of each, 0..G-1.
    """
    groups = int(index_N.max()) + 1 if len(index_N) else 0
    high_G = rewards_N.new_full((groups,), -torch.inf)
    high_G = high_G.scatter_reduce(0, index_N, rewards_N, "amax")
    low_G = rewards_N.new_full((groups,), torch.inf)
    low_G = low_G.scatter_reduce(0, index_N, rewards_N, "amin")
    return high_G == low_G


def _sum_by(values_N: Tensor, index_N: Tensor, groups: int) -> Tensor:
    return values_N.new_zeros(groups).index_add(0, index_N, values_N)
