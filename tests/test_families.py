"""Every pair of families plays a match and learns from it, as full models and as adapters.

The two models of a pair differ in everything that two families differ in: vocabulary, chat
template, pad token. Whatever is trained moves, whatever is not stays (pitfalls 41-44).
"""

from __future__ import annotations

import itertools

import pytest
import torch
from tiny_llm import FAMILIES, SMALL_LORA, save

from agon_env.types import AGENTS, Problem
from agon_env.vector import vector_env
from learners.engines import HFEngine, Sampling
from learners.grpo import GRPO, GRPOConfig
from learners.optim import OptimConfig
from learners.policy import Policy, policy_pair
from learners.rollout import Player, Rollout, play
from learners.schedule import Plan
from learners.update_config import Horizon, UpdateConfig

PROBLEMS = [Problem(id=f"p{i}", question=f"{i} + {i}?", answer=str(2 * i)) for i in range(2)]
SAMPLES = 4
SAMPLING = Sampling(max_new_tokens=12)

QUICK = [("gemma3", "gemma3")]
REST = [pair for pair in itertools.product(FAMILIES, FAMILIES) if pair not in QUICK]
NEIGHBOURS = list(zip(FAMILIES, (*FAMILIES[1:], FAMILIES[0]), strict=True))
"""Each family once in each seat: adapters of two bases share nothing."""
PAIRS = [*QUICK, *(pytest.param(*pair, marks=pytest.mark.slow) for pair in REST)]


def even(problem: Problem, text: str) -> bool:
    """A judge that random text satisfies half of the time, so that rewards vary."""
    return sum(text.encode()) % 2 == 0


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], str]:
    """(family, seat) -> a saved model; the second seat has other ids, template and no pad token."""
    root = tmp_path_factory.mktemp("families")
    found = {}
    for family in FAMILIES:
        found[family, 0] = save(root / f"{family}_0", family, chat="plain")
        found[family, 1] = save(
            root / f"{family}_1", family, seed=1, chat="think", pad=False, shift=17
        )
    return found


def match(policies: tuple[Policy, Policy]) -> Rollout:
    env = vector_env(problems=PROBLEMS, verifier=even)
    players = {
        agent: Player(policy, HFEngine(), SAMPLING)
        for agent, policy in zip(AGENTS, policies, strict=True)
    }
    ids = [problem.id for problem in PROBLEMS for _ in range(SAMPLES)]
    return play(env, players, Plan.simple(ids, "both"), step=0, seed=1)


def learn(policy: Policy, rollout: Rollout, agent: str) -> dict[str, float]:
    update = UpdateConfig(optim=OptimConfig(learning_rate=1e-3, warmup_ratio=0.0), epochs=2)
    horizon = Horizon(total_steps=1, temperature=1.0, max_new_tokens=12)
    grpo = GRPO(policy, update, GRPOConfig(), horizon)
    return grpo.update(rollout.of(agent))


def weights(policy: Policy) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in policy.model.named_parameters()}


def changed(policy: Policy, before: dict[str, torch.Tensor]) -> set[str]:
    return {n for n, p in policy.model.named_parameters() if not torch.equal(p, before[n])}


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_full_models_of_two_families_play_and_every_parameter_moves(folders, first, second):
    policies = policy_pair((folders[first, 0], folders[second, 1]))
    rollout = match(policies)
    for agent, policy, rival in zip(AGENTS, policies, policies[::-1], strict=True):
        before, untouched = weights(policy), weights(rival)
        metrics = learn(policy, rollout, agent)
        assert metrics["trained_share"] > 0, "the rollout must have variance"
        assert metrics["sampler_mismatch"] < 1e-4
        assert changed(policy, before) == set(policy.trainable_parameters()) == set(before)
        assert not changed(rival, untouched)


@pytest.mark.parametrize(
    ("first", "second"),
    [pytest.param(a, b, marks=pytest.mark.slow) for a, b in [*QUICK, *NEIGHBOURS]],
)
def test_adapters_of_two_families_play_and_only_they_move(folders, first, second):
    """Two adapters of one base where both seats name one model."""
    same = first == second
    names = (folders[first, 0], folders[second, 0 if same else 1])
    policies = policy_pair(names, lora=SMALL_LORA, noise=0.01)
    assert (policies[0].model is policies[1].model) == same
    rollout = match(policies)
    for agent, policy in zip(AGENTS, policies, strict=True):
        before = [weights(p) for p in policies]
        assert learn(policy, rollout, agent)["trained_share"] > 0
        for other, old in zip(policies, before, strict=True):
            moved = changed(other, old)
            shared = other.model is policy.model
            assert moved == (set(policy.trainable_parameters()) if shared else set())


def test_a_rollout_is_reproducible_and_follows_its_seed(folders):
    policies = policy_pair((folders["qwen3", 0], folders["llama", 1]))
    first, second = match(policies), match(policies)
    assert first.trajectories == second.trajectories
    assert first.episodes == second.episodes
