"""REINFORCE with a moving baseline, RLOO, and options that all learners share."""

from __future__ import annotations

import copy
import dataclasses

import pytest
import torch
from test_grpo import LIMIT, Gradient, assert_same, differs, double, rollout
from tiny_llm import policy
from torch import nn

from learners.grpo import GRPO, GRPOConfig
from learners.learner import Learner, LearnerConfigs, make_learner
from learners.optim import Optim, OptimConfig
from learners.policy import Policy
from learners.ppo import PPO, PPOConfig
from learners.reinforce import Reinforce, ReinforceConfig
from learners.rloo import RLOO
from learners.trajectory import Trajectory
from learners.update_config import Horizon, UpdateConfig

HORIZON = Horizon(total_steps=8, temperature=1.0, max_new_tokens=LIMIT)
OPTIM = OptimConfig(learning_rate=1e-3, warmup_ratio=0.0)


def reinforce(player: Policy, *, decay: float = 0.9, **options) -> Reinforce:
    update = UpdateConfig(**{"optim": OPTIM, **options})
    return Reinforce(player, update, ReinforceConfig(decay=decay), HORIZON)


def rloo(player: Policy, **options) -> RLOO:
    return RLOO(player, UpdateConfig(**{"optim": OPTIM, **options}), HORIZON)


def grpo(player: Policy, *, constant_groups="keep", **options) -> GRPO:
    own = GRPOConfig(scale_rewards="none", constant_groups=constant_groups)
    return GRPO(player, UpdateConfig(**{"optim": OPTIM, **options}), own, HORIZON)


def seen_by(learner: Reinforce | RLOO | GRPO | PPO, rows: list[Trajectory]) -> list[float]:
    """The advantages that an update hands to the policy gradient; no weight moves."""
    found: list[float] = []

    def note(_, advantages) -> dict[str, float]:
        found.extend(float(a) for a in advantages)
        return {}

    learner.gradient.update = note  # pyright: ignore[reportAttributeAccessIssue]
    learner.update(rows)
    return found


def gradient(learner: Reinforce | RLOO | GRPO, rows: list[Trajectory]) -> Gradient:
    """The gradient of the only optimizer step, before clipping."""
    found: Gradient = {}
    step = learner.gradient.optim.step

    def note_and_step() -> float:
        named = learner.gradient.policy.trainable_parameters().items()
        found.update({n: p.grad.clone() for n, p in named if p.grad is not None})
        return step()

    learner.gradient.optim.step = note_and_step  # pyright: ignore[reportAttributeAccessIssue]
    learner.update(rows)
    return found


def rewarded(rows: list[Trajectory], rewards: list[float], role="drafter") -> list[Trajectory]:
    return [
        dataclasses.replace(row, reward=reward, role=role)
        for row, reward in zip(rows, rewards, strict=False)
    ]


def test_the_moving_baseline_is_read_before_it_is_updated():
    """Rewards 1, 3 (mean 2), then 4, 0 (mean 2), then 10, 4 (mean 7), decay 0.9."""
    learner, rows = reinforce(policy()), rollout(policy())
    # b: 0, then the first mean 2, then 0.9 * 2 + 0.1 * 2 = 2, then 0.9 * 2 + 0.1 * 7 = 2.5.
    assert seen_by(learner, rewarded(rows, [1.0, 3.0])) == [1.0, 3.0]
    assert seen_by(learner, rewarded(rows, [4.0, 0.0])) == [2.0, -2.0]
    assert seen_by(learner, rewarded(rows, [10.0, 4.0])) == [8.0, 2.0]
    assert learner.baselines == {"agent_0/drafter": pytest.approx(2.5)}


def test_each_role_has_its_own_baseline():
    """Pitfall 46: drafts earn 1 and 3, solutions 10: no draft is judged by a solution's pay."""
    learner, rows = reinforce(policy()), rollout(policy())
    drafts, solutions = rewarded(rows, [1.0, 3.0]), rewarded(rows, [10.0], "solver")
    metrics = learner.update([*drafts, *solutions])
    assert metrics["baseline/drafter"] == pytest.approx(2.0)
    assert metrics["baseline/solver"] == pytest.approx(10.0)
    both = [*rewarded(rows, [3.0]), *rewarded(rows, [10.0], "solver")]
    assert seen_by(learner, both) == pytest.approx([1.0, 0.0])


def test_unscored_rewards_do_not_enter_the_baseline():
    """Pitfall 28."""
    learner, rows = reinforce(policy()), rewarded(rollout(policy()), [1.0, 3.0, 9.0])
    rows[2] = dataclasses.replace(rows[2], reward=None)
    assert learner.update(rows)["unscored"] == 1
    assert learner.baselines == {"agent_0/drafter": pytest.approx(2.0)}


def test_a_step_without_rows_keeps_the_baseline():
    learner = reinforce(policy())
    learner.update(rewarded(rollout(policy()), [1.0, 3.0]))
    learner.update([])
    assert learner.baselines == {"agent_0/drafter": pytest.approx(2.0)}
    assert learner.gradient.optim.updates == 2


def test_reinforce_has_no_baseline_inside_the_group():
    """Its first gradient is that of the plain reward, so a constant group trains."""
    rows = rollout(double())
    learner = reinforce(double())
    metrics = learner.update(rows)
    assert metrics["trained_share"] == pytest.approx(6 / 7)  # one of the rewards is 0
    assert "constant_groups" not in metrics


def test_the_gradient_of_rloo_is_n_over_n_minus_one_of_the_centred_one():
    """Group a has four rows, so 4 / 3; group b is constant."""
    rows = rollout(double())
    centred = gradient(grpo(double()), rows)
    assert_same(gradient(rloo(double()), rows), {n: g * 4 / 3 for n, g in centred.items()})
    # 1, 0, 3, 0.5: the others' means are 3.5/3, 4.5/3, 1.5/3, 4/3.
    expected = [-1 / 6, -1.5, 2.5, -5 / 6, 0.0, 0.0, 0.0]
    assert seen_by(rloo(double()), rows) == pytest.approx(expected, abs=1e-6)


def test_constant_groups_leave_the_denominator_only_where_they_are_masked():
    """Pitfall 25."""
    rows = rollout(double())  # group b, the last three, is constant
    without = gradient(grpo(double()), rows[:4])
    kept = gradient(grpo(double()), rows)
    masked = gradient(grpo(double(), constant_groups="mask"), rows)
    assert_same(masked, without)
    tokens = [sum(len(row.completion_ids) for row in part) for part in (rows[:4], rows)]
    assert_same(kept, {n: g * tokens[0] / tokens[1] for n, g in without.items()})
    assert differs(masked, kept)


def test_masked_constant_groups_have_no_kl_either():
    """Pitfall 25: "keep" trains them towards the reference, "mask" does not."""
    rows = rollout(policy())[4:]
    shares = []
    for option in ("keep", "mask"):
        metrics = grpo(policy(), constant_groups=option, beta=1.0).update(rows)
        shares.append(metrics.get("trained_share", 0.0))
    assert shares == [1.0, 0.0]


LEARNERS = ("grpo", "rloo", "reinforce", "ppo")


def make(name, player: Policy, **options) -> Learner:
    update = UpdateConfig(**{"optim": OPTIM, **options})
    plain = LearnerConfigs(update, GRPOConfig("none"), PPOConfig(lam=1.0, whiten=False))
    return make_learner(name, player, plain, HORIZON)


@pytest.mark.parametrize("name", LEARNERS)
def test_a_penalty_for_cut_completions_is_part_of_the_trained_reward(name):
    """Pitfall 8: 0.25 less for the one row that was cut, in the baseline as well."""
    rows = rollout(policy())
    cut = [dataclasses.replace(rows[0], finished=False), *rows[1:]]
    metrics = make(name, policy(), truncated="penalise", truncation_penalty=0.25).update(cut)
    plain = make(name, policy()).update(cut)
    assert metrics["reward"] == pytest.approx(plain["reward"] - 0.25 / 7)
    assert metrics["grad_norm"] != pytest.approx(plain["grad_norm"], rel=1e-3)


@pytest.mark.parametrize("name", LEARNERS)
def test_masked_cut_completions_have_no_gradient(name):
    """Pitfall 8."""
    rows = rollout(policy())
    cut = [dataclasses.replace(row, finished=i > 1) for i, row in enumerate(rows)]
    with_all = make(name, policy()).update(cut)["trained_share"]
    masked = make(name, policy(), truncated="mask").update(cut)
    # The second row has the reward 0, which is no advantage only where there is no baseline.
    lost = 1 if name == "reinforce" else 2
    if name == "ppo":  # values of 0: its advantage, too, is the reward
        lost = 1
    assert masked["trained_share"] == pytest.approx(with_all - lost / 7)


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_continues_from_its_state_bit_for_bit(name):
    """Pitfalls 51, 66: baselines, optimizer and shuffles come back."""
    player, other = policy(), policy()
    options = {"epochs": 2, "minibatches": 2, "beta": 0.1}
    learner, twin = make(name, player, **options), make(name, other, **options)
    rows = rollout(player)
    learner.update(rows)
    other.model.load_state_dict(player.model.state_dict())
    twin.load_state_dict(copy.deepcopy(learner.state_dict()))
    assert learner.update(rows) == twin.update(rows)
    theirs = other.trainable_parameters()
    assert all(torch.equal(p, theirs[n]) for n, p in player.trainable_parameters().items())


def test_a_restarted_baseline_would_be_seen():
    """Pitfall 51: the state carries it, so the next advantage is the uninterrupted one."""
    rows = rollout(policy())
    learner, twin = reinforce(policy()), reinforce(policy())
    learner.update(rewarded(rows, [1.0, 3.0]))
    assert seen_by(twin, rewarded(rows, [4.0])) == [4.0]
    twin.load_state_dict(copy.deepcopy(learner.state_dict()))
    assert seen_by(twin, rewarded(rows, [4.0])) == [2.0]


def test_a_decay_of_one_is_refused():
    with pytest.raises(ValueError, match="below 1"):
        ReinforceConfig(decay=1.0)


def moved(*, master_weights: bool, updates: int = 40) -> float:
    """How far a bfloat16 weight of 1 goes in updates of 1e-3; its spacing below 1 is 2^-8."""
    weight = nn.Parameter(torch.ones(1, dtype=torch.bfloat16))
    config = OptimConfig(
        learning_rate=1e-3,
        schedule="constant_with_warmup",
        warmup_ratio=0.0,
        master_weights=master_weights,
    )
    optim = Optim([weight], config, updates)
    for _ in range(updates):
        weight.grad = torch.ones_like(weight)
        optim.step()
    return 1.0 - weight.item()


def test_master_weights_keep_updates_smaller_than_the_precision():
    """Pitfall 17. 40 * 1e-3 = 0.04; half a spacing is 0.00195, so without them all are lost."""
    assert moved(master_weights=False) == 0.0
    assert moved(master_weights=True) == pytest.approx(0.04, abs=2**-8)


def test_master_weights_come_back_with_the_state():
    """Pitfall 66: the rounded weight alone would forget what has not shown yet."""
    config = OptimConfig(learning_rate=1e-3, warmup_ratio=0.0, master_weights=True)
    first, second = (nn.Parameter(torch.ones(1, dtype=torch.bfloat16)) for _ in range(2))
    optim, twin = Optim([first], config, 100), Optim([second], config, 100)
    first.grad = torch.ones_like(first)
    optim.step()
    assert first.item() == 1.0, "the update has not shown yet"
    twin.load_state_dict(copy.deepcopy(optim.state_dict()))
    assert twin.masters is not None
    assert twin.masters[0].item() == pytest.approx(0.999, abs=1e-6)
