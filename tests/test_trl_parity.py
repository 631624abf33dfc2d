"""The same rollout through TRL's GRPOTrainer itself: equal advantages, losses and gradients.

TRL gets our sampled ids and rewards through its own hooks (`rollout_func`, a reward function) and
runs its own scoring and loss; no formula of it is repeated here. The second optimizer step starts
from the weights that ours reached, so that ratios differ from 1 and clipping binds.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import Dataset
from tiny_llm import policy, trajectory
from trl import GRPOConfig as TRLConfig
from trl import GRPOTrainer

from learners.advantages import group_advantages
from learners.batch import collate
from learners.grpo import GRPO, GRPOConfig
from learners.logprobs import completion_logprobs
from learners.optim import OptimConfig
from learners.policy import Policy
from learners.trajectory import Trajectory
from learners.update_config import Horizon, UpdateConfig

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

LIMIT = 9
REWARDS = {"a": [1.0, 0.0, 3.0, 0.5], "b": [1.0, 1.0, 1.0, 1.0], "c": [0.0, 2.5, 2.5, 0.25]}


def rollout() -> list[Trajectory]:
    """Three groups of four: two with variance, one without; ragged prompts and completions."""
    draw = np.random.default_rng(11)
    rows = []
    for problem, rewards in REWARDS.items():
        prompt = draw.integers(7, 260, draw.integers(2, 8)).tolist()
        for reward in rewards:
            completion = draw.integers(7, 260, draw.integers(1, LIMIT + 1)).tolist()
            rows.append(trajectory(prompt, completion, reward, problem=problem))
    return rows


def trl_trainer(
    player: Policy, rows: list[Trajectory], folder: Path, **options: object
) -> GRPOTrainer:
    """TRL's trainer on a copy of the model, fed with our samples and rewards."""

    def sampled(prompts: list, trainer: GRPOTrainer) -> dict:
        return {
            "prompt_ids": [list(row.prompt_ids) for row in rows],
            "completion_ids": [list(row.completion_ids) for row in rows],
            "logprobs": None,
        }

    def reward(completions: list, **columns: object) -> list[float | None]:
        return [row.reward for row in rows]

    args = TRLConfig(
        output_dir=str(folder),
        per_device_train_batch_size=len(rows),
        num_generations=4,
        max_completion_length=LIMIT,
        report_to=[],
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        num_iterations=2,  # two steps per rollout: TRL then keeps the old log-probs
        model_init_kwargs={"dtype": "float32"},
        **options,  # pyright: ignore[reportArgumentType]
    )
    player.save(folder)
    trainer = GRPOTrainer(
        model=str(folder),  # a folder, so that TRL can load its own reference model too
        reward_funcs=reward,
        args=args,
        train_dataset=Dataset.from_dict({"prompt": ["-"] * len(rows)}),
        processing_class=player.tokenizer,
        rollout_func=sampled,
    )
    for model in filter(None, (trainer.model, trainer.ref_model)):
        model.to(player.model.dtype)
    trainer.current_gradient_accumulation_steps = 1  # what `train` sets
    trainer.model.train()
    return trainer


@dataclasses.dataclass(frozen=True)
class Step:
    """One optimizer step: the loss, its gradient and the weights that they were taken at."""

    loss: float
    gradient: dict[str, torch.Tensor]
    weights: dict[str, torch.Tensor]


def our_steps(player: Policy, rows: list[Trajectory], temperature: float, **options) -> list[Step]:
    """Two steps on one rollout, through `GRPO.update` itself."""
    rate = 0.002 if options["loss_type"] == "gspo" else 0.02  # sequences clip much sooner
    optim = OptimConfig(learning_rate=rate, warmup_ratio=0.0)
    scale = options.pop("scale_rewards", "group")
    update = UpdateConfig(optim=optim, epochs=2, **options)
    horizon = Horizon(total_steps=4, temperature=temperature, max_new_tokens=LIMIT)
    grpo = GRPO(player, update, GRPOConfig(scale_rewards=scale), horizon)
    steps: list[Step] = []
    losses: list[float] = []
    inner_step, inner_loss = grpo.gradient.optim.step, grpo.gradient._loss

    def note_loss(*args):
        loss = inner_loss(*args)
        losses.append(loss.item())
        return loss

    def note_step() -> float:
        named = player.trainable_parameters().items()
        gradient = {n: p.grad.clone() for n, p in named if p.grad is not None}
        weights = {n: p.detach().clone() for n, p in named}
        steps.append(Step(sum(losses), gradient, weights))
        losses.clear()
        return inner_step()

    grpo.gradient._loss, grpo.gradient.optim.step = note_loss, note_step  # pyright: ignore
    metrics = grpo.update(rows)
    assert 0.02 < metrics["clipfrac"] < 0.45, (
        "the second step must clip, or clipping is not compared"
    )
    return steps


def trl_step(trainer: GRPOTrainer, inputs: dict, weights: dict[str, torch.Tensor]) -> Step:
    """TRL's loss and gradient at given weights."""
    model = trainer.model
    model.load_state_dict(weights, strict=False)
    model.zero_grad()
    loss = trainer.compute_loss(model, inputs)
    loss.backward()
    gradient = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    return Step(loss.item(), gradient, weights)


def with_engine_logprobs(player: Policy, rows: list[Trajectory], t: float) -> list[Trajectory]:
    """Our importance weights are then 1, as TRL has none without vLLM."""
    with torch.no_grad():
        logprobs, _ = completion_logprobs(player.model, collate(rows, 0), t)
    return [
        dataclasses.replace(row, logprobs=tuple(values[: len(row.completion_ids)].tolist()))
        for row, values in zip(rows, logprobs, strict=True)
    ]


KINDS = {
    "grpo": {"loss_type": "grpo"},
    "dapo": {"loss_type": "dapo"},
    "dr_grpo": {"loss_type": "dr_grpo"},
    "gspo": {"loss_type": "grpo", "importance_sampling_level": "sequence"},
}


def compare(
    folder: Path,
    *,
    ours: dict,
    theirs: dict,
    family: str = "qwen3",
    temperature: float = 0.8,
    bound: float = 1e-5,
) -> None:
    """Both optimizer steps, ours against TRL's; `bound` is relative to the largest gradient."""
    player = policy(family)
    player.model.double()  # what is left is the float32 of the logits, in both
    rows = with_engine_logprobs(player, rollout(), temperature)
    shared = {"beta": ours.get("beta", 0.0), "scale_rewards": ours.get("scale_rewards", "group")}
    trainer = trl_trainer(player, rows, folder, temperature=temperature, **theirs, **shared)
    inputs = trainer._generate_and_score_completions(
        [{"prompt": "-"} for _ in rows]  # pyright: ignore[reportArgumentType]
    )
    for step in our_steps(player, rows, temperature, **ours):
        expected = trl_step(trainer, inputs, step.weights)
        assert step.loss == pytest.approx(expected.loss, abs=1e-5)
        assert step.gradient.keys() == expected.gradient.keys()
        scale = max(g.abs().max().item() for g in expected.gradient.values())
        assert scale > 1e-3
        for name, gradient in expected.gradient.items():
            assert (step.gradient[name] - gradient).abs().max().item() < bound * scale, name


@pytest.mark.parametrize("kind", KINDS)
def test_loss_and_gradient_equal_trls(tmp_path, kind):
    compare(tmp_path, ours={"loss_type": kind}, theirs=KINDS[kind])


@pytest.mark.slow
@pytest.mark.parametrize("scale", ["batch", "none"])
def test_other_reward_scales_equal_trls(tmp_path, scale):
    ours = {"loss_type": "dapo", "scale_rewards": scale}
    compare(tmp_path, ours=ours, theirs=KINDS["dapo"], temperature=1.0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["grpo", "dapo", "gspo"])
def test_the_kl_term_equals_trls(tmp_path, kind):
    ours = {"loss_type": kind, "beta": 0.3}
    compare(tmp_path, ours=ours, theirs=KINDS[kind])


@pytest.mark.slow
def test_asymmetric_clipping_equals_trls(tmp_path):
    ours = {"loss_type": "dapo", "clip_low": 0.05, "clip_high": 0.5}
    theirs = {**KINDS["dapo"], "epsilon": 0.05, "epsilon_high": 0.5}
    compare(tmp_path, ours=ours, theirs=theirs, temperature=1.0)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["qwen3_5", "gemma3", "gemma4", "llama"])
@pytest.mark.parametrize("kind", KINDS)
def test_other_families_equal_trls(tmp_path, family, kind):
    # Their norms are float32 inside, whatever the weights are.
    ours = {"loss_type": kind}
    compare(tmp_path, ours=ours, theirs=KINDS[kind], family=family, bound=1e-4)


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_advantages_equal_trls_with_unscored_rows(tmp_path, scale):
    """Pitfall 28: TRL skips a None in the baseline and gives it advantage 0; we drop the row."""
    player, rows = policy("qwen3"), rollout()
    rows[2] = dataclasses.replace(rows[2], reward=None)
    trainer = trl_trainer(player, rows, tmp_path, loss_type="dapo", scale_rewards=scale)
    inputs = trainer._generate_and_score_completions(
        [{"prompt": "-"} for _ in rows]  # pyright: ignore[reportArgumentType]
    )
    scored = [i for i, row in enumerate(rows) if row.reward is not None]
    rewards = torch.tensor([rows[i].reward for i in scored])
    groups = torch.tensor([sorted(REWARDS).index(rows[i].group[1]) for i in scored])
    ours = group_advantages(rewards, groups, scale)
    torch.testing.assert_close(inputs["advantages"][scored], ours, rtol=1e-5, atol=1e-6)
    assert inputs["advantages"][2] == 0
