"""The same step by two of TRL's `GRPOTrainer`s, one after the other in one process.

Each holds a model of its own and gets our prompts, rows and lengths; rewards are ours, with the
verdict made as in our step. What differs is TRL's code: its generation, its loss, its loop.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import PrinterCallback, TrainerCallback
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.utils import RepeatSampler

from agon_env.tasks import load_problems
from agon_env.types import AGENTS
from agon_env.verifiers import VerifierPool
from learners.chat import render
from learners.models import load_model
from learners.policy import LoRA
from learners.throughput.memory_peak import peak_mib, resident_mib, start_peak
from learners.throughput.ours import UnequalReward
from learners.throughput.records import Measured, Prompts, Row, Step, Work


class TimedTrainer(GRPOTrainer):
    """TRL's trainer with a stopwatch; prompts come in the dataset's order, each one once.

    A group is G prompts in a row, as always in TRL; ours are different prompts of one problem where
    each solver reads its own draft.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.spent: list[defaultdict[str, float]] = []
        self.add_callback(_Stopwatch(self.spent))
        self.remove_callback(PrinterCallback)

    def _get_train_sampler(self, dataset: Dataset | None = None) -> RepeatSampler:
        args: Any = self.args
        return RepeatSampler(
            data_source=cast(Dataset, self.train_dataset),
            mini_repeat_count=1,
            batch_size=args.generation_batch_size,
            repeat_count=args.steps_per_generation,
            shuffle=False,
        )

    def _generate(self, prompts: list) -> Any:
        generated = self._timed("generation_s", super()._generate, prompts)
        self.spent[-1]["prompt_tokens"] += sum(map(len, generated[0]))
        self.spent[-1]["new_tokens"] += sum(map(len, generated[1]))
        self.spent[-1]["rows"] += len(generated[0])
        return generated

    def _calculate_rewards(self, *args: Any) -> Any:
        return self._timed("judging_s", super()._calculate_rewards, *args)

    def _timed(self, name: str, call: Callable[..., Any], *args: Any) -> Any:
        started = time.perf_counter()
        result = call(*args)
        self.spent[-1][name] += time.perf_counter() - started
        return result


class _Stopwatch(TrainerCallback):
    """Opens an entry at the start of each optimizer step and closes it at the end."""

    def __init__(self, spent: list[defaultdict[str, float]]) -> None:
        self.spent, self.started = spent, 0.0

    def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
        self.spent.append(defaultdict(float))
        self.started = time.perf_counter()

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.spent[-1]["step_s"] = time.perf_counter() - self.started


def run_two_trl(work: Work, prompts: Prompts) -> Measured:
    """Step on the prompts of our steps."""
    warnings.filterwarnings("ignore")  # about settings that are deliberate here
    imports = resident_mib(work.device)
    with tempfile.TemporaryDirectory() as folder, VerifierPool() as pool:
        judged = _reward_function(work, pool)
        trainers = [
            _trainer(work, [row for step in prompts[agent] for row in step], judged, folder)
            for agent in AGENTS
        ]
        start_peak(work.device)
        for trainer in trainers:
            trainer.train()
        peak = peak_mib(work.device)
    steps = [_sum(*both) for both in zip(*(t.spent for t in trainers), strict=True)]
    return Measured(
        contender="two TRL",
        steps=tuple(steps[work.warmup :]),
        peak_mib=peak,
        imports_mib=imports,
        threads=torch.get_num_threads(),
        prompts={},
    )


def _sum(first: Mapping[str, float], second: Mapping[str, float]) -> Step:
    """One step of both trainers; all that is neither generating nor judging is the update."""
    total = {name: first[name] + second[name] for name in first}
    return Step(
        rows=int(total["rows"]),
        prompt_tokens=int(total["prompt_tokens"]),
        new_tokens=int(total["new_tokens"]),
        generation_s=total["generation_s"],
        judging_s=total["judging_s"],
        update_s=total["step_s"] - total["generation_s"] - total["judging_s"],
        step_s=total["step_s"],
    )


def _reward_function(work: Work, pool: VerifierPool) -> Any:
    config = work.config()
    problems = load_problems(config.task, split="train", limit=1000, seed=config.seed)
    by_id = {problem.id: problem for problem in problems}
    reward = UnequalReward()

    def judged(completions: list, problem_id: list[str], **columns: Any) -> list[float]:
        texts = [completion[0]["content"] for completion in completions]
        pool.verify_many([(by_id[i], text) for i, text in zip(problem_id, texts, strict=True)])
        return [reward() for _ in texts]

    return judged


def _trainer(work: Work, rows: list[Row], judged: Any, folder: str) -> TimedTrainer:
    model, tokenizer = load_model(work.model, dtype=work.dtype, device=work.device)
    widest = work.new_tokens + max(len(render(tokenizer, chat, {}).ids) for _, chat in rows)
    batch = rows_per_pass(work.rows, widest, work.microbatch_tokens)
    return TimedTrainer(
        model=model,
        reward_funcs=judged,
        args=_arguments(work, batch, folder),
        train_dataset=Dataset.from_list([{"prompt": c, "problem_id": i} for i, c in rows]),
        processing_class=tokenizer,
        peft_config=_adapter(work.lora) if work.lora else None,
    )


def _adapter(lora: LoRA) -> LoraConfig:
    modules = lora.target_modules
    return LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        target_modules=modules if isinstance(modules, str) else list(modules),
        task_type="CAUSAL_LM",
    )


def rows_per_pass(rows: int, widest: int, tokens: int) -> int:
    """Most rows of that width within the tokens that divide all rows evenly; at least one."""
    return max(n for n in range(1, rows + 1) if rows % n == 0 and (n == 1 or n * widest <= tokens))


def _arguments(work: Work, batch: int, folder: str) -> GRPOConfig:
    exact = {"min_new_tokens": work.new_tokens}
    vllm = {}
    if work.engine == "vllm":
        exact = {"min_tokens": work.new_tokens, "ignore_eos": True}
        vllm = {"use_vllm": True, "vllm_mode": "colocate", "vllm_gpu_memory_utilization": 0.3}
    return GRPOConfig(
        output_dir=str(Path(folder)),
        max_steps=work.warmup + work.steps,
        per_device_train_batch_size=batch,
        gradient_accumulation_steps=work.rows // batch,
        num_generations=work.samples,
        max_completion_length=work.new_tokens,
        generation_kwargs=exact,
        temperature=1.0,
        beta=0.0,
        loss_type="dapo",
        learning_rate=1e-5,
        lr_scheduler_type="constant",
        gradient_checkpointing=False,
        bf16=work.dtype == "bfloat16",
        use_cpu=work.device == "cpu",
        dataloader_pin_memory=False,
        logging_strategy="no",
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        seed=work.seed,
        **vllm,
    )
