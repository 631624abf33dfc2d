"""PPO: its gradient, and a critic that values one policy without ever moving it."""

from __future__ import annotations

import copy
import dataclasses

import pytest
import torch
from safetensors.torch import load_file
from test_grpo import LIMIT, assert_same, differs, double, rollout
from tiny_llm import SMALL_LORA, policy, save
from torch import Tensor

from learners.advantages import gae, whiten
from learners.critic import Critic, CriticConfig
from learners.optim import OptimConfig
from learners.policy import Policy, policy_pair
from learners.ppo import PPO, PPOConfig
from learners.trajectory import Trajectory
from learners.update_config import Horizon, UpdateConfig

HORIZON = Horizon(total_steps=4, temperature=1.0, max_new_tokens=LIMIT)
FAST = OptimConfig(learning_rate=1e-2, warmup_ratio=0.0, schedule="constant_with_warmup")
SHARED = {field.name for field in dataclasses.fields(UpdateConfig)}


def ppo(player: Policy, *, kind: str = "own", **options) -> PPO:
    shared = {k: v for k, v in options.items() if k in SHARED}
    own = {k: v for k, v in options.items() if k not in SHARED}
    critic = CriticConfig(kind=kind, optim=FAST)  # pyright: ignore[reportArgumentType]
    update = UpdateConfig(**{"optim": FAST, **shared})
    return PPO(player, update, PPOConfig(**{"critic": critic, **own}), HORIZON)


def weights(player: Policy) -> dict[str, Tensor]:
    return {n: p.detach().clone() for n, p in player.trainable_parameters().items()}


def same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    assert first.keys() == second.keys()
    return all(torch.equal(first[name], second[name]) for name in first)


def fit(critic: Critic, rows: list[Trajectory]) -> dict[str, float]:
    """One regression on the row's reward at every token."""
    returns = [torch.full((len(row.completion_ids),), row.reward) for row in rows]
    return critic.fit(rows, returns, critic.values(rows))


def policy_gradient(learner: PPO, rows: list[Trajectory]) -> dict[str, Tensor]:
    """The gradient of the policy's only optimizer step, before clipping."""
    found: dict[str, Tensor] = {}
    optim = learner.gradient.optim
    step = optim.step

    def note_and_step() -> float:
        named = learner.gradient.policy.trainable_parameters().items()
        found.update({n: p.grad.clone() for n, p in named if p.grad is not None})
        return step()

    optim.step = note_and_step  # pyright: ignore[reportAttributeAccessIssue]
    learner.update(rows)
    return found


def by_hand(player: Policy, rows: list[Trajectory], advantages: list[Tensor]) -> dict[str, Tensor]:
    """One unpadded row at a time: the gradient of -A_t log pi(token t), over all tokens."""
    size = sum(len(row.completion_ids) for row in rows)
    player.model.zero_grad()
    for row, advantages_T in zip(rows, advantages, strict=True):
        ids = torch.tensor([row.prompt_ids + row.completion_ids])
        logprobs = player.model(ids).logits[0, :-1].log_softmax(-1)
        chosen = logprobs.gather(1, ids[0, 1:, None])[len(row.prompt_ids) - 1 :, 0]
        (-(advantages_T.double() * chosen).sum() / size).backward()
    found = {n: p.grad.clone() for n, p in player.trainable_parameters().items()}
    player.model.zero_grad(set_to_none=True)
    return found


def token_advantages(rows: list[Trajectory], values: list[Tensor], **options) -> list[Tensor]:
    result = []
    for row, values_T in zip(rows, values, strict=True):
        rewards = torch.zeros(len(row.completion_ids))
        rewards[-1] = row.reward
        result.append(gae(rewards, values_T, **options)[0])
    return result


@pytest.mark.parametrize("white", [True, False])
def test_the_policy_gradient_of_ppo_is_the_one_made_by_hand(white):
    """Pitfalls 5, 33, 35: a trained critic, so that every token has its own advantage."""
    player = double()
    rows = rollout(player)
    learner = ppo(player, whiten=white, lam=0.5, gamma=0.9, importance="off")
    for _ in range(3):
        fit(learner.critic, rows)
    advantages = token_advantages(rows, learner.critic.values(rows), gamma=0.9, lam=0.5)
    assert max(a.std().item() for a in advantages if len(a) > 1) > 0.01, "the critic knows nothing"
    expected = by_hand(player, rows, whiten(advantages) if white else advantages)
    assert_same(policy_gradient(learner, rows), expected, bound=1e-5)


def test_a_critic_that_knows_nothing_makes_ppo_the_plain_return():
    """Values 0, lam 1, no whitening: A_t = r at every token."""
    player = double()
    rows = rollout(player)
    learner = ppo(player, whiten=False, lam=1.0, importance="off")
    flat = [torch.full((len(row.completion_ids),), row.reward) for row in rows]
    expected = by_hand(player, rows, flat)
    assert_same(policy_gradient(learner, rows), expected, bound=1e-5)


@pytest.mark.parametrize("kind", ["own", "head"])
def test_fitting_the_critic_moves_the_values_and_never_the_policy(kind):
    """The policy is moved by the policy gradient alone, also where its trunk is shared."""
    player = policy()
    rows = rollout(player)
    learner = ppo(player, kind=kind)
    start = weights(player)
    assert all(not row.any() for row in learner.critic.values(rows)), "first values are 0"
    losses = [fit(learner.critic, rows)["value_loss"] for _ in range(8)]
    assert losses[-1] < 0.8 * losses[0]
    assert same(start, weights(player))
    assert all(p.grad is None for p in player.trainable_parameters().values())


def test_a_head_is_all_that_a_head_critic_trains_and_saves():
    """Pitfall 67: no second copy of the model in the state."""
    head = ppo(policy(), kind="head").critic.state_dict()["weights"]
    own = ppo(policy(), kind="own").critic.state_dict()["weights"]
    assert set(head) == {"head.weight", "head.bias"}
    assert len(own) > len(head)


def test_a_value_is_that_of_the_state_before_its_token():
    """The last sampled token cannot change any value, the last prompt token changes all."""
    player = policy()
    learner = ppo(player)
    rows = rollout(player)
    row = next(row for row in rows if len(row.completion_ids) > 2)
    for _ in range(3):
        fit(learner.critic, rows)
    other_end = dataclasses.replace(row, completion_ids=(*row.completion_ids[:-1], 7))
    other_start = dataclasses.replace(row, prompt_ids=(*row.prompt_ids[:-1], 7))
    plain, end, start = (
        learner.critic.values([changed])[0] for changed in (row, other_end, other_start)
    )
    torch.testing.assert_close(plain, end, rtol=0, atol=0)
    assert (plain != start).all()
    padded = learner.critic.values(rows)[rows.index(row)]
    torch.testing.assert_close(padded, plain, rtol=1e-4, atol=1e-5)


def adapter_pair(tmp_path) -> tuple[Policy, Policy]:
    name = save(tmp_path, "qwen3")
    return policy_pair((name, name), lora=SMALL_LORA, noise=0.1)


def test_critic_adapters_stay_out_of_the_policies(tmp_path):
    """Pitfall 44: each agent has its own critic; on one base nobody moves anybody else."""
    first, second = adapter_pair(tmp_path)
    rows = rollout(first)
    mine, theirs = ppo(first), ppo(second)
    frozen = {n: p.clone() for n, p in first.model.named_parameters() if "critic_0" not in n}
    other_values = theirs.critic.values(rows)
    fit(mine.critic, rows)
    moved = dict(first.model.named_parameters())
    assert all(torch.equal(moved[n], p) for n, p in frozen.items())
    assert all(v.any() for v in mine.critic.values(rows))
    for before, after in zip(other_values, theirs.critic.values(rows), strict=True):
        assert torch.equal(before, after), "the critic of agent_1 learned from agent_0's returns"
    names = mine.critic.state_dict()["weights"].keys() & theirs.critic.state_dict()["weights"]
    assert names == {"head.weight", "head.bias"}, "the two share adapter weights"


@pytest.mark.parametrize("lora", [False, True], ids=["full", "lora"])
def test_the_critic_recomputes_its_activations_too(tmp_path, lora):
    """A layer runs once forwards and, with `gradient_checkpointing`, again in the backward pass."""
    player = adapter_pair(tmp_path)[0] if lora else policy()
    rows = rollout(player)
    critic = ppo(player, gradient_checkpointing=True).critic
    calls = []
    layer = critic._trunk().layers[0]  # pyright: ignore
    layer.register_forward_pre_hook(lambda *_: calls.append(1))
    values = critic.values(rows)
    assert len(calls) == 1
    critic.fit(rows, values, values)
    assert len(calls) == 1 + 2
    assert not critic._model.training


def test_an_update_of_ppo_moves_one_adapter_and_its_critic(tmp_path):
    """Pitfalls 41, 44."""
    first, second = adapter_pair(tmp_path)
    mine, theirs = ppo(first), ppo(second)
    start, other = weights(first), weights(second)
    start_critic = copy.deepcopy(mine.critic.state_dict()["weights"])
    other_critic = copy.deepcopy(theirs.critic.state_dict()["weights"])
    for _ in range(3):  # the head is 0 at first, then B is: A gets a gradient in the third
        mine.update(rollout(first))
    now = mine.critic.state_dict()["weights"]
    assert all(not torch.equal(now[n], p) for n, p in start_critic.items())
    assert all(not torch.equal(weights(first)[n], p) for n, p in start.items())
    assert same(other, weights(second))
    assert same(other_critic, theirs.critic.state_dict()["weights"])


def test_a_saved_adapter_holds_no_key_of_a_critic(tmp_path):
    """Pitfall 67: only the policy's own, whatever other adapters its base has."""
    first, second = adapter_pair(tmp_path / "base")
    expected = len(weights(first))
    mine = ppo(first)
    ppo(second)
    mine.update(rollout(first))
    for player in (first, second):
        player.save(tmp_path / str(player.adapter))
        saved = load_file(tmp_path / str(player.adapter) / "adapter_model.safetensors")
        assert len(saved) == expected
        assert not [name for name in saved if "critic" in name or "agent" in name]
    before = weights(first)
    with torch.no_grad():
        for parameter in first.trainable_parameters().values():
            parameter.zero_()
    first.load_weights(tmp_path / "agent_0")
    assert same(before, weights(first))


def test_the_kl_in_the_reward_is_paid_token_by_token():
    """r_t = -beta * (log pi - log pi_ref), and the reward at the last token."""
    player = policy()
    learner = ppo(player, beta=0.5, kl_in="reward", whiten=False, lam=1.0)
    assert learner.gradient.config.beta == 0, "it is not in the loss as well"
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in player.trainable_parameters().values():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.05)
    rows = rollout(player)
    seen: list[Tensor] = []
    learner.gradient.update = lambda _, advantages: seen.extend(advantages) or {}  # pyright: ignore
    metrics = learner.update(rows)
    references = learner.gradient.reference_logprobs(rows)
    for row, reference, advantages in zip(rows, references, seen, strict=True):
        paid = -0.5 * (torch.tensor(row.logprobs) - reference)
        paid[-1] += row.reward
        # Values are 0 and lam 1: the advantage of a token is the sum of what is paid from it on.
        expected = paid.flip(0).cumsum(0).flip(0)
        torch.testing.assert_close(advantages, expected, rtol=1e-4, atol=1e-5)
    gaps = torch.cat([torch.tensor(r.logprobs) - x for r, x in zip(rows, references, strict=True)])
    assert metrics["reference_kl"] == pytest.approx(gaps.mean().item(), rel=1e-5)
    assert abs(metrics["reference_kl"]) > 1e-3


def test_the_kl_in_the_loss_is_no_part_of_the_reward():
    learner = ppo(policy(), beta=0.5)
    assert learner.gradient.config.beta == 0.5
    rows = rollout(policy())
    rewards = learner._token_rewards(rows, torch.tensor([r.reward for r in rows]), {})
    assert [row.sum().item() for row in rewards] == [r.reward for r in rows]
    assert [row[-1].item() for row in rewards] == [r.reward for r in rows]


@pytest.mark.parametrize("kind", ["own", "head"])
def test_ppo_continues_from_its_state_bit_for_bit(kind):
    """Pitfall 66: the critic's weights, its optimizer and the shuffles come back."""
    player, other = policy(), policy()
    options = {"kind": kind, "epochs": 2, "minibatches": 2, "beta": 0.1, "kl_in": "reward"}
    learner, twin = ppo(player, **options), ppo(other, **options)
    rows = rollout(player)
    learner.update(rows)
    other.model.load_state_dict(player.model.state_dict())
    twin.load_state_dict(copy.deepcopy(learner.state_dict()))
    assert learner.update(rows) == twin.update(rows)
    assert same(weights(player), weights(other))
    assert same(learner.critic.state_dict()["weights"], twin.critic.state_dict()["weights"])


def test_a_step_without_scored_rows_moves_both_schedules_and_nothing_else():
    """Pitfalls 28, 40."""
    player = policy()
    learner = ppo(player, epochs=2)
    start = weights(player)
    rows = [dataclasses.replace(row, reward=None) for row in rollout(player)]
    assert learner.update(rows) == {"unscored": 7.0}
    assert learner.gradient.optim.updates == learner.critic.optim.updates == 2
    assert same(start, weights(player))


def test_the_critic_explains_more_of_the_returns_after_updates():
    player = policy()
    learner = ppo(player)
    rows = rollout(player)
    found = [learner.update(rows)["explained_variance"] for _ in range(12)]
    assert found[0] == 0, "values of 0 explain nothing"
    assert found[-1] > 0.3


def test_micro_batches_do_not_change_the_critic():
    """Pitfall 31."""
    states = []
    for budget in (100_000, 16):
        player = double()
        learner = ppo(player, microbatch_tokens=budget)
        fit(learner.critic, rollout(player))
        fit(learner.critic, rollout(player))
        states.append(learner.critic.state_dict()["weights"])
    assert not differs(states[0], states[1])


def test_ppo_refuses_one_ratio_per_sequence():
    """Pitfall 14."""
    with pytest.raises(ValueError, match="choose another"):
        ppo(policy(), loss_type="gspo")
