"""The frozen policy that a KL penalty pulls towards: the base without its adapter, or a copy."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from learners import sharding
from learners.batch import Batch
from learners.logprobs import completion_logprobs
from learners.policy import Policy


class Reference:
    """What a policy was before training."""

    def __init__(self, policy: Policy, temperature: float) -> None:
        """Copy the weights of a full model; an adapter needs no copy, its base stays as it is."""
        self._policy, self._temperature = policy, temperature
        full = policy.adapter is None
        self._copy = copy.deepcopy(policy.model).eval().requires_grad_(False) if full else None

    @property
    def models(self) -> list[nn.Module]:
        """The copy, where there is one."""
        return [] if self._copy is None else [self._copy]

    @torch.no_grad()
    def logprobs(self, batch: Batch) -> Tensor:
        """(B, C) log-probs of the sampled tokens; call it inside `policy.using()`."""
        if self._copy is not None:
            return completion_logprobs(self._copy, batch, self._temperature)[0]
        with self._policy.model.disable_adapter():  # pyright: ignore[reportCallIssue]
            return completion_logprobs(self._policy.model, batch, self._temperature)[0]

    def state_dict(self) -> dict[str, Any] | None:
        """The copied weights; None for an adapter."""
        return self._copy.state_dict() if self._copy is not None else None

    def load_state_dict(self, state: dict[str, Any] | None) -> None:
        """Restore what `state_dict` returned."""
        if self._copy is not None and state is not None:
            sharding.load_weights(self._copy, state)
