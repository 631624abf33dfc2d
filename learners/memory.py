"""A run's config and the shapes of its models -> the bytes that training will need. Nothing loads.

Weights, adapters, gradients and optimizer state are exact (in shards up to uneven rows). The cache
is that of the planned rows at full length, activations (`model_shape.py`) are those of the fullest
micro-batch, without the saving by a shared beginning of prompts. Left out: the process itself,
libraries, fragmentation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import torch

from learners.config import PairConfig
from learners.engines.hf import HFEngine
from learners.evaluate import CHUNK
from learners.learner import LearnerName
from learners.logprobs import CHUNK_LOGITS
from learners.model_shape import FLOAT, Shape

KNOBS = {
    "activations, logits": "update.microbatch_tokens, update.gradient_checkpointing",
    "cache, sampling": "samples, problems_per_step, sampling.max_new_tokens",
    "weights": "dtype, lora with one model twice, smaller models, update.shard",
    "gradients, optimizer": "lora, lora.rank, update.optim.master_weights, update.shard",
    "vLLM": "vllm.memory_share, vllm.max_length, engine",
    "reference, critic": "update.beta, ppo.critic.kind, learner",
}
"""What takes memory -> the options that change it."""


@dataclass(frozen=True)
class StepSize:
    """Completions and tokens of one step."""

    completions: int
    """Of all agents and processes."""
    tokens: int
    """Sampled by them, at most."""
    longest: int
    """Tokens of the longest prompt with its completion: a solver's, who reads a whole draft."""
    longest_trained: int
    """The same for what is trained on: without drafts in the regime "solo"."""
    at_once: int
    """Most prompts of one call of the engine in one process, in a step or in an evaluation."""
    trained: int
    """Completions that one learner trains on in one process."""


def step_size(
    config: PairConfig, prompt_tokens: int, learners: int = 2, processes: int = 1
) -> StepSize:
    """How much one step is; `prompt_tokens` are those of the longest drafter's prompt."""
    matches, new = config.problems_per_step * config.samples, config.sampling.max_new_tokens
    samples = config.samples * (2 if config.regime == "solo" else 1)
    evaluated = min(CHUNK, max(config.validation_problems, config.test_problems))
    solo, twice = config.regime == "solo", config.rotation == "both"
    completions = matches * (4 if solo or twice else 2)
    return StepSize(
        completions=completions,
        tokens=completions * new,
        longest=prompt_tokens + 2 * new,
        longest_trained=prompt_tokens + new * (1 if solo else 2),
        at_once=max(
            -(-config.problems_per_step // processes) * samples,  # one process plays a problem
            -(-evaluated // processes),
        ),
        trained=-(-completions // (learners * processes)),
    )


@dataclass(frozen=True)
class AgentMemory:
    """Bytes of one agent in one process."""

    weights: int
    """Of its own model; of a shared base, 0 for the second agent."""
    adapter: int
    masters: int
    """The float32 copies of `update.optim.master_weights`."""
    optimizer: int
    """Adam's two averages."""
    reference: int
    """The frozen copy of `update.beta` with full weights."""
    critic: int
    """PPO's critic with gradients and optimizer."""
    gradients: int
    activations: int
    logits: int
    cache: int
    """Keys and values of the embedded engine, at full length."""
    sampling: int
    """The prompt's forward pass and the distribution of the next tokens."""
    gathered: int = 0
    """With `update.shard`, the whole weights beside the shards, while the model works."""
    gathered_reference: int = 0
    """The same of the reference, in the update."""

    @property
    def held(self) -> int:
        """All through the run."""
        weights = self.weights + self.adapter + self.masters + self.reference
        return weights + self.optimizer + self.critic

    @property
    def updating(self) -> int:
        """On top of it, during the update."""
        whole = self.gathered + self.gathered_reference
        return self.gradients + self.activations + self.logits + whole

    @property
    def generating(self) -> int:
        """On top of it, while the embedded engine generates."""
        return self.cache + self.sampling


@dataclass(frozen=True)
class MemoryPlan:
    """What a run needs in each of its processes."""

    agents: tuple[AgentMemory, ...]
    """One per model that trains."""
    side_by_side: bool
    """Both agents work at the same time (two models on the CPU, or on two devices)."""
    vllm: int
    """What vLLM needs beside at least: its own weights and the cache of one completion, as long as
    `vllm.max_length` or the model's context."""
    vllm_queue: int
    """More cache, with which it has all completions under way at once; else they wait."""
    size: StepSize

    @property
    def held(self) -> int:
        """Both agents, all through the run."""
        return sum(agent.held for agent in self.agents)

    def peak(self, engine: str) -> int:
        """Held, and the larger of the two phases; vLLM's memory stands beside both."""
        both = sum if self.side_by_side else max
        updating = both(agent.updating for agent in self.agents)
        if engine == "vllm":
            return self.held + self.vllm + updating
        generating = both(agent.generating for agent in self.agents)
        generating += sum(agent.gathered for agent in self.agents)  # those of both at once
        return self.held + max(updating, generating)


def memory_plan(
    config: PairConfig,
    shapes: Sequence[Shape],
    prompt_tokens: int,
    *,
    on_cpu: bool = True,
    processes: int = 1,
) -> MemoryPlan:
    """What each process of a run needs.

    Args:
        config: The run.
        shapes: Of both models; one where it plays both seats.
        prompt_tokens: Of the longest prompt of a drafter; a solver reads a whole draft more.
        on_cpu: Two models on the CPU work at the same time.
        processes: Each takes its part of the completions, and holds all weights; with
            `update.shard` a part of them.

    Raises:
        ValueError: Several processes, and two devices in each.
    """
    if config.apart and processes > 1:
        raise ValueError(
            f"two devices are those of one process, got device {config.device!r} and {processes} "
            "processes; name one device, or plan one process"
        )
    size = step_size(config, prompt_tokens, len(shapes), processes)
    agents = tuple(
        _agent(config, shape, learner, size, config.shares_base and index > 0)
        for index, (shape, learner) in enumerate(zip(shapes, config.learner_names, strict=False))
    )
    if config.update.shard and processes > 1:
        pairs = zip(agents, shapes, strict=True)
        agents = tuple(_in_shards(agent, shape, processes) for agent, shape in pairs)
    engines = shapes[:1] if config.models[0] == config.models[1] else shapes
    # vLLM starts with room for one completion as long as it may become.
    rooms = [config.vllm.max_length or shape.context or size.longest for shape in engines]
    waiting = [max(0, size.at_once * size.longest - room) for room in rooms]
    return MemoryPlan(
        agents=agents,
        side_by_side=(on_cpu or config.apart) and len(shapes) == 2 and not config.shares_base,
        vllm=sum(s.base + n * s.cached_per_token for s, n in zip(engines, rooms, strict=True)),
        vllm_queue=sum(n * s.cached_per_token for s, n in zip(engines, waiting, strict=True)),
        size=size,
    )


def is_out_of_memory(error: BaseException) -> bool:
    """Whether torch or Python could not get memory, on the CPU or on a GPU."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


def out_of_memory_line(error: BaseException) -> str:
    """One line for the user: what happened and what can be turned."""
    reason = (str(error).strip().splitlines() or ["no memory left"])[0]
    options = "; ".join(f"{name}: {knobs}" for name, knobs in KNOBS.items())
    return f"out of memory: {reason} | look at --plan, then turn one of {options}"


def _agent(
    config: PairConfig,
    shape: Shape,
    learner: LearnerName,
    size: StepSize,
    base_is_shared: bool,
) -> AgentMemory:
    optim, numbers = config.update.optim, shape.trained_numbers
    masters = FLOAT * numbers if optim.master_weights else 0
    full = config.lora is None
    activations, logits = _update(config, shape, size)
    longest = size.longest
    rows = min(size.at_once, HFEngine.max_rows, max(1, HFEngine.max_tokens // longest))
    critic = 0
    if learner == "ppo" and config.ppo.critic.kind == "own":  # weights, gradients, two averages
        kept = FLOAT * numbers if config.ppo.critic.optim.master_weights else 0
        critic = 2 * (shape.trained_bytes + kept) + 2 * (kept or shape.trained_bytes)
        critic += shape.base - shape.trained_bytes if full else 0
    return AgentMemory(
        weights=0 if base_is_shared else shape.base,
        adapter=0 if full else shape.trained_bytes,
        masters=masters,
        optimizer=2 * (masters or shape.trained_bytes),
        reference=shape.base if full and config.update.beta > 0 else 0,
        critic=critic,
        gradients=shape.trained_bytes + masters,
        activations=activations,
        logits=logits,
        cache=_cache(shape, rows, longest),
        sampling=_sampling(shape, rows, longest - config.sampling.max_new_tokens),
    )


def _in_shards(agent: AgentMemory, shape: Shape, holders: int) -> AgentMemory:
    """What one of several processes holds of an agent; gradients are whole until the sum."""
    held = ("weights", "masters", "optimizer", "reference", "gradients")
    parts = {name: -(-getattr(agent, name) // holders) for name in held}
    parts["gradients"] += FLOAT * shape.trained_numbers
    whole = {"gathered": agent.weights, "gathered_reference": agent.reference}
    return replace(agent, **parts, **whole)


def _cache(shape: Shape, rows: int, longest: int) -> int:
    """A layer's cache is copied when it grows: one layer stands there twice."""
    whole = rows * longest * shape.cached_per_token
    return whole + whole // max(shape.cached_layers, 1)


def _sampling(shape: Shape, rows: int, prompt: int) -> int:
    """The widest moment of the prompt's pass, and what `sample_tokens` makes of the last logits."""
    wide = max(shape.hidden, shape.heads * shape.head_dim) * 4 + shape.feed_forward * 3
    distribution = shape.vocabulary * (3 * FLOAT + 3 * 8)  # logits, log-probs, probs, in float64
    return rows * (prompt * wide * shape.itemsize + distribution)


def _update(config: PairConfig, shape: Shape, size: StepSize) -> tuple[int, int]:
    """Activations and logits of one micro-batch in its backward pass."""
    stepped = -(-size.trained // config.update.minibatches)
    rows = min(stepped, max(1, config.update.microbatch_tokens // size.longest_trained))
    tokens = rows * size.longest_trained
    layer = tokens * shape.kept_per_token
    activations = shape.layers * layer
    if config.update.gradient_checkpointing:
        activations = tokens * shape.hidden * shape.itemsize * shape.layers + layer
    numbers = rows * (config.sampling.max_new_tokens + 1) * shape.vocabulary
    chunk = min(numbers, CHUNK_LOGITS) * FLOAT * 4  # scaled, log-softmax and their gradients
    return activations, 2 * numbers * shape.itemsize + chunk  # logits and their gradient


def rows_of(agent: AgentMemory) -> dict[str, int]:
    """Name -> bytes of every part, in the order of the fields."""
    return {field.name: getattr(agent, field.name) for field in fields(agent)}
