"""The update of one policy: its gradient, what leaves it unchanged, and what it moves."""

from __future__ import annotations

import copy
import dataclasses
import itertools

import numpy as np
import pytest
import torch
from tiny_llm import SMALL_LORA, VOCABULARY, policy, save, trajectory

from learners.advantages import group_advantages
from learners.batch import collate
from learners.grpo import GRPO, GRPOConfig
from learners.logprobs import _logprobs_of, completion_logprobs
from learners.optim import OptimConfig
from learners.policy import Policy, policy_pair, single_policy
from learners.policy_gradient import minibatches
from learners.trajectory import Trajectory
from learners.update_config import Horizon, UpdateConfig

LIMIT = 8
TYPES = ("dapo", "grpo", "dr_grpo", "gspo")
Gradient = dict[str, torch.Tensor]


def rollout(player: Policy, *, temperature: float = 1.0, drift: float = 0.0) -> list[Trajectory]:
    """Two groups of ragged made-up completions with the policy's own log-probs.

    The reward of one group varies and that of the other is constant. `drift` is added to the
    sampler's log-probs.
    """
    draw = np.random.default_rng(5)
    rows = []
    for problem, rewards in (("a", [1.0, 0.0, 3.0, 0.5]), ("b", [1.0, 1.0, 1.0])):
        for reward in rewards:
            prompt, completion = (
                draw.integers(7, 260, draw.integers(1, LIMIT)).tolist() for _ in range(2)
            )
            row = trajectory(prompt, completion, reward, problem=problem)
            with torch.no_grad(), player.using() as model:
                logprobs, _ = completion_logprobs(model, collate([row], 0), temperature)
            logged = tuple(float(x) + drift for x in logprobs[0])
            rows.append(dataclasses.replace(row, logprobs=logged))
    return rows


GRPO_FIELDS = {field.name for field in dataclasses.fields(GRPOConfig)}


def learner(player: Policy, *, temperature: float = 1.0, seed: int = 0, **options) -> GRPO:
    own = {k: v for k, v in options.items() if k in GRPO_FIELDS}
    shared = {k: v for k, v in options.items() if k not in GRPO_FIELDS}
    optim = OptimConfig(learning_rate=1e-3, warmup_ratio=0.0)
    return GRPO(
        player,
        UpdateConfig(**{"optim": optim, **shared}),
        GRPOConfig(**own),
        Horizon(total_steps=4, temperature=temperature, max_new_tokens=LIMIT, seed=seed),
    )


def gradients(grpo: GRPO, rows: list[Trajectory]) -> list[Gradient]:
    """The gradient of every optimizer step of one update, before clipping."""
    found: list[Gradient] = []
    step = grpo.gradient.optim.step

    def note_and_step() -> float:
        named = grpo.gradient.policy.trainable_parameters().items()
        found.append({n: p.grad.clone() for n, p in named if p.grad is not None})
        return step()

    grpo.gradient.optim.step = note_and_step  # pyright: ignore[reportAttributeAccessIssue]
    grpo.update(rows)
    return found


def gradient(player: Policy, rows: list[Trajectory], **options) -> Gradient:
    (only,) = gradients(learner(player, **options), rows)
    return only


def assert_same(first: Gradient, second: Gradient, bound: float = 1e-6) -> None:
    assert first.keys() == second.keys()
    scale = max(g.abs().max().item() for g in first.values())
    assert scale > 0
    for name in first:
        assert (first[name] - second[name]).abs().max().item() <= bound * scale, name


def differs(first: Gradient, second: Gradient) -> bool:
    scale = max(g.abs().max().item() for g in first.values())
    return any((first[n] - second[n]).abs().max().item() > 1e-3 * scale for n in first)


def double() -> Policy:
    """A policy in float64, so that bounds can be tight."""
    player = policy()
    player.model.double()
    return player


def reinforce(player: Policy, rows: list[Trajectory], kind: str, temperature: float) -> Gradient:
    """The gradient by another way: one unpadded row at a time, no ratio, no batch, no mask.

    At ratio 1 the gradient of the clipped loss is that of -A * log pi over the denominator.
    """
    rewards = torch.tensor([row.reward for row in rows], dtype=torch.float64)
    names = [row.group for row in rows]
    advantages = group_advantages(rewards, torch.tensor([names.index(n) for n in names]))
    tokens = sum(len(row.completion_ids) for row in rows)
    player.model.zero_grad()
    for row, advantage in zip(rows, advantages, strict=True):
        ids = torch.tensor([row.prompt_ids + row.completion_ids])
        logprobs = (player.model(ids).logits[0, :-1] / temperature).log_softmax(-1)
        chosen = logprobs.gather(1, ids[0, 1:, None])[len(row.prompt_ids) - 1 :, 0]
        size = {
            "dapo": tokens,
            "dr_grpo": len(rows) * LIMIT,
            "grpo": len(rows) * len(chosen),
            "gspo": len(rows) * len(chosen),
        }[kind]
        (-advantage * chosen.sum() / size).backward()
    found = {n: p.grad.clone() for n, p in player.trainable_parameters().items()}
    player.model.zero_grad(set_to_none=True)
    return found


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_the_first_update_is_reinforce_with_group_baselines(kind, temperature):
    """Pitfalls 1, 5, 10, 22, 33: masks, shifts, positions and temperature all have to be right."""
    player = double()
    rows = rollout(player, temperature=temperature)
    expected = reinforce(player, rows, kind, temperature)
    options = {"loss_type": kind, "temperature": temperature, "importance": "off"}
    assert_same(gradient(player, rows, **options), expected, bound=1e-5)


@pytest.mark.parametrize("kind", TYPES)
def test_micro_batches_do_not_change_the_gradient(kind):
    """Pitfalls 31, 32: 16 padded tokens at once, or all."""
    whole, split = (
        gradient(double(), rollout(double()), loss_type=kind, microbatch_tokens=budget)
        for budget in (100_000, 16)
    )
    assert_same(whole, split)


def test_the_order_of_rows_does_not_change_the_gradient():
    rows = rollout(double())
    assert_same(gradient(double(), rows), gradient(double(), rows[::-1]))


def test_the_pad_id_does_not_change_the_gradient():
    """Pitfalls 2, 3."""
    rows, other = rollout(double()), double()
    other.tokenizer.pad_token = "e"
    assert other.pad_id != double().pad_id
    assert_same(gradient(double(), rows), gradient(other, rows))


def test_checkpointed_activations_do_not_change_the_gradient():
    rows = rollout(double())
    player = double()
    plain = gradient(double(), rows)
    assert_same(plain, gradient(player, rows, gradient_checkpointing=True))
    assert player.model.is_gradient_checkpointing


@pytest.mark.parametrize("positions", [1, 3, 2 * LIMIT])
def test_log_probs_in_chunks_do_not_change_the_gradient(monkeypatch, positions):
    """Single tokens, pieces of a row, two rows at a time: no piece is larger."""
    rows = rollout(double())
    plain = gradient(double(), rows)
    sizes = []

    def note_size(logits, *rest):
        sizes.append(logits.shape[0] * logits.shape[1])
        return _logprobs_of(logits, *rest)

    monkeypatch.setattr("learners.logprobs.CHUNK_LOGITS", positions * VOCABULARY)
    monkeypatch.setattr("learners.logprobs._logprobs_of", note_size)
    assert_same(plain, gradient(double(), rows))
    assert max(sizes) <= positions


@pytest.mark.parametrize("kind", TYPES)
def test_rows_without_advantage_are_not_run_but_stay_in_the_denominator(kind):
    """Pitfall 25: group b has no variance. A beta too small to matter makes it run."""
    rows = rollout(double())
    skipped = gradient(double(), rows, loss_type=kind)
    assert_same(skipped, gradient(double(), rows, loss_type=kind, beta=1e-12))
    assert differs(skipped, gradient(double(), rows[:4], loss_type=kind)), "they left the batch"
    metrics = learner(double()).update(rows)
    assert metrics["trained_share"] == pytest.approx(4 / 7)
    assert metrics["constant_groups"] == 0.5


def test_a_step_without_any_advantage_updates_nothing_and_moves_the_schedule():
    """Pitfall 26: no crash when all rows are skipped."""
    player = policy()
    before = {n: p.clone() for n, p in player.trainable_parameters().items()}
    grpo = learner(player)
    metrics = grpo.update(rollout(player)[4:])
    assert all(torch.equal(p, before[n]) for n, p in player.trainable_parameters().items())
    assert grpo.gradient.optim.updates == 1
    assert metrics["trained_share"] == 0


def test_unscored_rows_leave_groups_and_denominators():
    """Pitfalls 27, 28: as if they had not been played; 0.0 stays (pitfall 29)."""
    rows = rollout(double())
    extra = [
        dataclasses.replace(rows[1], reward=None),
        dataclasses.replace(rows[4], reward=None),
    ]
    assert_same(gradient(double(), rows), gradient(double(), [extra[0], *rows, extra[1]]))
    assert learner(double()).update([*rows, *extra])["unscored"] == 2


def test_a_step_of_unscored_rows_is_counted_and_skipped():
    grpo = learner(policy(), epochs=2)
    rows = [dataclasses.replace(row, reward=None) for row in rollout(policy())]
    assert grpo.update(rows) == {"unscored": 7.0}
    assert grpo.gradient.optim.updates == 2


def test_masked_truncated_rows_stay_in_baselines_and_denominators():
    """Pitfall 8: the masked gradient is the full one less the truncated row's own part."""
    rows = rollout(double())
    cut = [dataclasses.replace(rows[0], finished=False), *rows[1:]]
    masked = gradient(double(), cut, truncated="mask")
    full = gradient(double(), cut)
    # The row alone: give every other row of its group to the mask.
    others = [cut[0], *(dataclasses.replace(row, finished=False) for row in rows[1:])]
    others[0] = dataclasses.replace(others[0], finished=True)
    alone = gradient(double(), others, truncated="mask")
    assert_same({n: masked[n] + alone[n] for n in full}, full)
    assert differs(masked, full)
    assert differs(masked, gradient(double(), rows[1:])), "it left the baseline"


def test_the_ratio_is_one_and_nothing_clips_on_the_first_update():
    """One optimizer step per rollout: old log-probs are the new ones, no second forward."""
    player = policy()
    metrics = learner(player).update(rollout(player))
    assert metrics["clipfrac"] == 0
    assert metrics["approx_kl"] == 0
    assert metrics["sampler_mismatch"] < 1e-6


def test_the_engines_mismatch_is_logged_and_weighted():
    """Pitfalls 12, 17: log-probs 0.5 lower at the sampler weigh every token by exp(0.5), capped."""
    plain = gradient(double(), rollout(double()))
    off = rollout(double(), drift=-0.5)
    assert_same(
        gradient(double(), off), {n: g * float(np.exp(0.5)) for n, g in plain.items()}, 1e-5
    )
    assert_same(
        gradient(double(), off, importance_cap=1.25), {n: g * 1.25 for n, g in plain.items()}
    )
    assert_same(gradient(double(), off, importance="off"), plain)
    assert learner(double()).update(off)["sampler_mismatch"] == pytest.approx(0.5, abs=1e-6)
    for old in ("trainer", "sampler"):
        several = learner(double(), minibatches=2, old_logprobs=old).update(off)
        assert several["sampler_mismatch"] == pytest.approx(0.5, abs=1e-6), old


def test_later_epochs_refer_to_the_log_probs_from_before():
    """Two passes: the second has ratios other than 1, so its gradient is not a first pass'."""
    player = double()
    rows = rollout(player)
    grpo = learner(player, epochs=2)
    first, second = gradients(grpo, rows)
    moved = double()
    moved_rows = rows
    other = learner(moved)
    other.update(rows)
    (fresh,) = gradients(learner(moved), moved_rows)
    assert differs(second, fresh), "the ratio of the second pass was 1"
    assert differs(first, second)


def test_a_second_pass_clips_what_has_moved_too_far():
    player = policy()
    fast = OptimConfig(learning_rate=0.3, warmup_ratio=0.0)
    metrics = learner(player, epochs=3, optim=fast).update(rollout(player))
    assert metrics["clipfrac"] > 0.1
    assert metrics["approx_kl"] > 0.01


def test_minibatches_share_the_rows_among_the_steps_and_follow_the_seed():
    """Pitfalls 40, 45: no row lost, own random stream."""
    split = [minibatches(7, 3, (seed, "minibatches", 0, 0)) for seed in (0, 0, 1)]
    for batches in split:
        assert sorted(itertools.chain(*batches)) == list(range(7))
        assert len(batches) == 3
    assert split[0] == split[1]
    assert split[0] != split[2]


@pytest.mark.parametrize("lora", [None, SMALL_LORA], ids=["full", "lora"])
def test_the_reference_is_the_policy_from_before_training(tmp_path, lora):
    """At the start KL and its gradient are 0; after an update they are not. LoRA needs no copy."""
    player = single_policy(save(tmp_path, "qwen3"), lora=lora)
    grpo = learner(player, beta=0.5)
    assert grpo.gradient.reference is not None
    copied = grpo.gradient.reference.state_dict()
    assert (copied is None) == (lora is not None)
    rows = rollout(player)
    plain = gradient(single_policy(str(tmp_path), lora=lora), rows)
    (with_kl,) = gradients(grpo, rows)
    assert_same(plain, with_kl, bound=1e-4)
    metrics = grpo.update(rows)
    assert metrics["reference_kl"] > 1e-6
    if lora is None:
        start = single_policy(str(tmp_path)).model.state_dict()
        assert copied is not None
        kept = grpo.gradient.reference.state_dict()
        assert all(torch.equal(v, start[k]) for k, v in kept.items())


def test_the_kl_ignores_what_the_reference_says_at_padding():
    """Pitfall 6: exp(1000) there would be inf, and inf * 0 no number."""
    rows = rollout(double())
    plain = gradient(double(), rows, beta=0.5)
    grpo = learner(double(), beta=0.5)
    reference = grpo.gradient.reference
    assert reference is not None
    measure = reference.logprobs
    reference.logprobs = lambda batch: measure(batch) + 1000.0 * (1 - batch.completion_mask)
    assert_same(plain, gradients(grpo, rows)[0])


def test_the_kl_pulls_towards_the_reference():
    """With equal rewards only the KL is left: it must shrink (and constant groups must run)."""
    player = policy()
    grpo = learner(player, beta=1.0)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in player.trainable_parameters().values():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.02)
    rows = rollout(player)[4:]
    values = [grpo.update(rows)["reference_kl"] for _ in range(4)]
    assert values[-1] < 0.9 * values[0]


def test_the_reference_of_an_adapter_is_the_base_and_comes_back(tmp_path):
    name = save(tmp_path, "qwen3")
    first, second = policy_pair((name, name), lora=SMALL_LORA, noise=0.1)
    rows = rollout(second)
    learner(second, beta=0.5).update(rows)
    assert second.model.active_adapter == "agent_1"
    trainable = {n for n, p in second.model.named_parameters() if p.requires_grad}
    assert trainable == set(second.trainable_parameters())
    assert not trainable & set(first.trainable_parameters())


def test_a_learner_continues_from_its_state():
    player, other = policy(), policy()
    grpo, twin = learner(player, beta=0.1), learner(other, beta=0.1)
    rows = rollout(player)
    grpo.update(rows)
    other.model.load_state_dict(player.model.state_dict())
    twin.load_state_dict(copy.deepcopy(grpo.state_dict()))  # as a checkpoint file does
    grpo.update(rows)
    twin.update(rows)
    theirs = other.trainable_parameters()
    assert all(torch.equal(p, theirs[n]) for n, p in player.trainable_parameters().items())


def test_a_loss_that_is_not_finite_stops_the_update():
    """Pitfall 39: never replaced by a constant; the weights are those from before."""
    player = policy()
    rows = rollout(player)
    rows[0] = dataclasses.replace(rows[0], logprobs=(float("nan"),) * len(rows[0].logprobs))
    before = {n: p.clone() for n, p in player.trainable_parameters().items()}
    with pytest.raises(FloatingPointError, match="must be finite"):
        learner(player).update(rows)
    assert all(torch.equal(p, before[n]) for n, p in player.trainable_parameters().items())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, "at least 1"),
        ({"minibatches": 0}, "at least 1"),
        ({"clip_low": -0.1}, "not be negative"),
        ({"beta": -1.0}, "not be negative"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        UpdateConfig(**options)


def test_greedy_samples_cannot_be_trained_on():
    with pytest.raises(ValueError, match="above 0"):
        learner(policy(), temperature=0.0)
