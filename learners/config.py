"""Everything that defines a training run, as one frozen value that is logged as it is used."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from agon_env.rewards import reward_scheme
from learners.checks import check_fields
from learners.engines.records import Sampling
from learners.engines.vllm import VLLMConfig
from learners.engines.vllm_server import VLLMServerConfig
from learners.grpo import GRPOConfig
from learners.learner import LearnerConfigs, LearnerName
from learners.policy import LoRA
from learners.ppo import PPOConfig
from learners.reinforce import ReinforceConfig
from learners.schedule import Regime, Rotation
from learners.update_config import UpdateConfig


@dataclass(frozen=True)
class PairConfig:
    """One run of `PairTrainer`."""

    task: str = "arithmetic-easy"
    """Task name or problem file (see `agon_env.load_problems`)."""
    models: tuple[str, str] = ("smollm2-135m", "smollm2-135m")
    """Model names of agent_0 and agent_1 (see `learners.models.load_model`)."""
    lora: LoRA | None = None
    """Train adapters (one frozen base when both names are equal); None: all weights."""
    adapter_noise: float = 1e-3
    """Std of the noise that agent_1's adapter starts from."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Of the weights."""
    device: str = "auto"
    """"auto": CUDA where there is one, else the CPU. Two names give each agent its own device, on
    which it works beside the other: "cuda:0,cuda:1"; they then share no base."""
    reward: str = "agon"
    """Reward scheme: agon, cooperative, margin, agon-brevity or both-paid (`agon_env.rewards`)."""
    reveal: Literal["summary", "full", "none"] = "summary"
    """What of a draft the solver sees."""
    regime: Regime = "pair"
    """Who plays: "pair" the two models against each other; "self" both seats are the first model
    (self-play; with the reward "cooperative" self-refinement); "solo" each model alone, 2N drafts
    per problem and no solutions (single-model training with a pair's budget)."""
    rotation: Rotation = "step"
    """Who drafts: "step" agent_0 in even steps and agent_1 in odd ones (the paper), "episode" each
    in half of a problem's matches, "both" each agent in every match (2N rollouts per model and
    problem), "fixed" always agent_0."""
    shared_draft: bool = False
    """True: a problem's solvers all read the same draft, the first (the paper's ablation: the
    bonus is then constant in a group). The drafters still sample N."""
    alternate_every: int = 0
    """Train one agent at a time, agent_0 first, and swap after this many steps; 0: both always."""
    refill_rounds: int = 0
    """Problems whose groups are all constant (no signal) are replaced by others, at most this many
    times in a step; 0: they stay. The share is logged."""
    steps: int = 100
    """Training steps."""
    problems_per_step: int = 8
    """Different problems in one step."""
    samples: int = 8
    """N: drafts per problem, each with one solution."""
    train_problems: int | None = None
    """Use this many training problems; None: the task's default."""
    sampling: Sampling = field(default_factory=Sampling)
    """How both agents sample, in training and in evaluation."""
    engine: Literal["hf", "vllm", "vllm-server"] = "hf"
    """What generates: the training model itself, vLLM in this process, or vLLM servers elsewhere
    (for adapters)."""
    vllm: VLLMConfig = field(default_factory=VLLMConfig)
    """Options of vLLM in this process."""
    vllm_server: VLLMServerConfig = field(default_factory=VLLMServerConfig)
    """Where the vLLM servers are."""
    play_ahead: bool = False
    """True: "vllm-server" samples the next step while this one's update runs, so from weights that
    are one update old (`rollout_age` in the metrics); not over an evaluation or a checkpoint."""
    learner: tuple[LearnerName, ...] = ("grpo",)
    """The learner of both agents, or one for each: grpo, rloo, reinforce or ppo."""
    update: UpdateConfig = field(default_factory=UpdateConfig)
    """What all learners share: optimizer, loss, batches."""
    grpo: GRPOConfig = field(default_factory=GRPOConfig)
    """Options of GRPO."""
    ppo: PPOConfig = field(default_factory=PPOConfig)
    """Options of PPO."""
    reinforce: ReinforceConfig = field(default_factory=ReinforceConfig)
    """Options of REINFORCE."""
    eval_every: int = 20
    """Steps between evaluations on validation problems; 0: only before and after."""
    validation_problems: int = 128
    """Problems of an evaluation in the loop; they choose the cascade's direction."""
    test_problems: int = 256
    """Problems of the evaluations before and after training."""
    checkpoint_every: int = 20
    """Steps between checkpoints; 0: only at the end."""
    keep_checkpoints: int = 2
    """Older ones are removed, but never the one with the best validation result."""
    transcripts_per_step: int = 2
    """Episodes of each step that are stored to be read."""
    seed: int = 0
    """Seeds problems, sampling and adapters."""
    deterministic: bool = False
    """True: only deterministic kernels, and no wall-clock times in the metrics, so that two runs on
    one machine write identical files."""

    def __post_init__(self) -> None:
        check_fields(self)
        reward_scheme(self.reward)  # refuses an unknown name
        if len(self.models) != 2:
            raise ValueError(f"models must name two models, got {list(self.models)}")
        self._check_game()
        self._check_devices()
        self._check_engine()
        self._check_shard()
        for name, least in _LEAST.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}")
        if self.train_problems is not None and self.train_problems < 1:
            raise ValueError(f"train_problems must be at least 1, got {self.train_problems}")
        if not self.sampling.temperature > 0:
            raise ValueError("training needs sampling.temperature above 0, got 0 (greedy)")

    def _check_game(self) -> None:
        """What rotation, regime, samples and learners ask of each other."""
        least = 2 if {"grpo", "rloo"} & set(self.learner) else 1
        if self.samples < least:
            raise ValueError(
                f"samples (N) must be at least {least}, got {self.samples}: GRPO compares the "
                "completions of one problem with each other"
            )
        if self.rotation == "episode" and self.samples < 2 * least:
            raise ValueError(
                f'rotation "episode" halves the groups: samples (N) must be at least {2 * least}, '
                f"got {self.samples}"
            )
        if self.regime == "self" and self.models[0] != self.models[1]:
            raise ValueError(
                f'in the regime "self" both models must be the same, got {list(self.models)}'
            )
        names = get_args(LearnerName)
        if len(self.learner) not in (1, 2) or not set(self.learner) <= set(names):
            raise ValueError(
                f"learner must be one or two of {list(names)}, got {list(self.learner)}"
            )
        if "ppo" in self.learner and self.update.loss_type == "gspo":
            raise ValueError(
                'PPO has an advantage per token and "gspo" a term per completion; choose another '
                "update.loss_type"
            )
        if self.regime == "self" and self.learner[0] != self.learner[-1]:
            raise ValueError(
                f'in the regime "self" one learner trains the one model, got {list(self.learner)}; '
                "name one"
            )

    def _check_devices(self) -> None:
        """Two devices are those of two models that this process runs itself."""
        names = self.device.split(",")
        if len(names) > 2 or not all(name.strip() for name in names):
            raise ValueError(
                f"device must be one name, or two with a comma between them, got {self.device!r}"
            )
        first, second = self.devices
        if self.apart and first == second != "cpu":
            raise ValueError(
                f"two agents on one device are named once, got device {self.device!r}; name "
                f'{first!r}, or another second device, such as "cuda:1"'
            )
        if self.apart and self.regime == "self":
            raise ValueError(
                f'in the regime "self" there is one model, got device {self.device!r}; name one'
            )
        if self.apart and self.engine == "vllm":
            raise ValueError(
                f'engine "vllm" chooses its GPU itself, got device {self.device!r}; name one, or '
                'choose engine "hf" or "vllm-server"'
            )

    def _check_engine(self) -> None:
        """vLLM's log-probs are those after top-p, top-k and min-p (pitfall 11); a server of its
        takes no new weights but adapters, and what is played ahead needs a correction."""
        exact = self.update.importance == "sequence" or self.update.old_logprobs == "sampler"
        if self.engine != "hf" and self.sampling.filters and exact:
            raise ValueError(
                "vLLM with top-p, top-k or min-p reports log-probs after the filter: choose "
                'update.importance "token" or "off", and update.old_logprobs "trainer"'
            )
        if self.engine == "vllm-server" and self.lora is None:
            raise ValueError(
                'engine "vllm-server" needs lora, as a running server takes no other new weights, '
                'got None (all weights train); set lora, or choose engine "vllm" or "hf"'
            )
        if self.play_ahead and self.engine != "vllm-server":
            raise ValueError(
                'play_ahead needs engine "vllm-server", which keeps weights of its own, got '
                f"{self.engine!r}; set play_ahead False"
            )
        if self.play_ahead and self.update.importance == "off":
            raise ValueError(
                "play_ahead samples from weights that are one update old and needs "
                'update.importance "token" or "sequence", got "off"'
            )

    def _check_shard(self) -> None:
        """Shards are those of a full model that generates itself and has no critic."""
        if not self.update.shard:
            return
        if self.lora is not None:
            raise ValueError(
                "update.shard spreads full weights over the processes, got lora: an adapter's "
                "optimizer is small; set update.shard False, or lora None"
            )
        if "ppo" in self.learner:
            raise ValueError(
                f"update.shard knows no critic, got learner {list(self.learner)}; choose grpo, "
                "rloo or reinforce, or set update.shard False"
            )
        if self.engine != "hf":
            raise ValueError(
                f'update.shard needs engine "hf", got {self.engine!r}; choose "hf", or set '
                "update.shard False"
            )

    @property
    def devices(self) -> tuple[str, str]:
        """The devices of agent_0 and agent_1, as named."""
        names = [name.strip() for name in self.device.split(",")]
        return (names[0], names[-1])

    @property
    def apart(self) -> bool:
        """Whether each agent has a device of its own."""
        return "," in self.device

    @property
    def shares_base(self) -> bool:
        """Whether the agents are two adapters on one frozen model."""
        return self.lora is not None and self.models[0] == self.models[1] and not self.apart

    @property
    def learner_names(self) -> tuple[LearnerName, LearnerName]:
        """The learners of agent_0 and agent_1."""
        return (self.learner[0], self.learner[-1])

    @property
    def learner_configs(self) -> LearnerConfigs:
        """The options of the learners."""
        return LearnerConfigs(self.update, self.grpo, self.ppo, self.reinforce)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PairConfig:
        """Read what `to_dict` returned; an unknown key is an error."""
        return _build(cls, data)


_LEAST = {
    "steps": 0,
    "problems_per_step": 1,
    "eval_every": 0,
    "validation_problems": 1,
    "test_problems": 1,
    "checkpoint_every": 0,
    "keep_checkpoints": 1,
    "transcripts_per_step": 0,
    "adapter_noise": 0,
    "alternate_every": 0,
    "refill_rounds": 0,
    "seed": 0,
}


def _build(kind: Any, value: Any) -> Any:
    """Plain values -> the annotated type: nested dataclasses, optional ones, tuples."""
    if value is None:
        return None
    options = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    for option in options:
        if is_dataclass(option) and isinstance(value, Mapping):
            known = {f.name for f in fields(option)}
            if unknown := sorted(set(value) - known):
                name = getattr(option, "__name__", option)
                raise ValueError(f"unknown keys {unknown} for {name}; it has {sorted(known)}")
            hints = get_type_hints(option)
            built = {key: _build(hints[key], part) for key, part in value.items()}
            return cast(Any, option)(**built)
    return tuple(value) if isinstance(value, list) else value
