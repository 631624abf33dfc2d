"""What every contender is asked to do, and what it hands back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from agon_env.types import AgentID
from learners.checks import check_fields
from learners.config import PairConfig
from learners.engines import Sampling
from learners.optim import OptimConfig
from learners.policy import LoRA
from learners.update_config import UpdateConfig


@dataclass(frozen=True)
class Work:
    """One training step, said so that every contender does the same."""

    model: str
    """Folder in Hugging Face format; both agents start from it."""
    task: str
    """Where the problems come from."""
    lora: LoRA | None
    """Adapters on one base (ours) or on a base each (TRL); None: all weights of two models."""
    problems: int
    """Problems of a step."""
    samples: int
    """Drafts of a problem, each with one solution."""
    new_tokens: int
    """Of every completion: none ends earlier."""
    warmup: int
    """Steps that are not counted."""
    steps: int
    """Steps that are."""
    microbatch_tokens: int
    """Padded tokens of a forward and backward pass."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    device: str = "cpu"
    engine: Literal["hf", "vllm"] = "hf"
    """What generates, for both."""
    seed: int = 0

    def __post_init__(self) -> None:
        check_fields(self)
        if "," in self.device:
            raise ValueError(
                "one device is compared, as a trainer of TRL has one, got device "
                f"{self.device!r}; name one"
            )
        least = {"problems": 1, "samples": 2, "new_tokens": 1, "warmup": 0, "steps": 1}
        for name, bound in least.items():
            if getattr(self, name) < bound:
                raise ValueError(f"{name} must be at least {bound}, got {getattr(self, name)}")

    @property
    def rows(self) -> int:
        """Completions of one agent in a step."""
        return self.problems * self.samples

    def config(self) -> PairConfig:
        """The step as a run of ours."""
        return PairConfig(
            task=self.task,
            models=(self.model, self.model),
            lora=self.lora,
            dtype=self.dtype,
            device=self.device,
            steps=self.warmup + self.steps,
            problems_per_step=self.problems,
            samples=self.samples,
            sampling=Sampling(max_new_tokens=self.new_tokens),
            engine=self.engine,
            update=UpdateConfig(
                optim=OptimConfig(learning_rate=1e-5, schedule="constant_with_warmup"),
                microbatch_tokens=self.microbatch_tokens,
            ),
            seed=self.seed,
        )


@dataclass(frozen=True)
class Step:
    """What one step of both agents took."""

    rows: int
    prompt_tokens: int
    new_tokens: int
    """Sampled, of both agents; what rates are per."""
    generation_s: float
    """Rendering and tokenising prompts, sampling, decoding replies."""
    judging_s: float
    """Env, verifier and rewards, as far as generation waited for them."""
    update_s: float
    step_s: float


Row: TypeAlias = tuple[str, list[dict[str, str]]]
"""Problem id and chat messages of one prompt."""

Prompts: TypeAlias = dict[AgentID, list[list[Row]]]
"""Agent -> step -> the prompts of its completions, in order; G in a row are one group."""


@dataclass(frozen=True)
class Measured:
    """One contender in one process of its own."""

    contender: str
    steps: tuple[Step, ...]
    """The counted ones."""
    peak_mib: float
    """Of the process (on a GPU: of the tensors) while it stepped, warm-up included."""
    imports_mib: float
    """Of the process with all packages imported and no model; 0 on a GPU."""
    threads: int
    prompts: Prompts
    """What was asked, warm-up included; empty where they were given."""
    profile: str = ""
    """Table of a further step, where it was asked for."""


@dataclass(frozen=True)
class EngineRow:
    """One engine."""

    engine: str
    new_tokens: int
    rates: tuple[float, ...]
    """New tokens per second of each repeat."""
