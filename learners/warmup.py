"""Warm-up of the tiny models: rules, architecture, seed -> a folder with a model that can play.

Supervised fine-tuning from random weights on the examples of `warmup_data.py`: about a minute of
one CPU thread per model. Afterwards a model derives hard chains with roughly 1 in 6 right, is
ignorant of or mistaken about its own share of the facts, and follows a draft now and then.

`warm_up` writes one model, `warm_up_pair` both in parallel processes. A folder is named after
everything that shaped its weights, appears complete or not at all, and is not made twice.
Left out: resuming a warm-up, which takes less time than loading a large model.
"""

from __future__ import annotations

import hashlib
import json
import math
import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel
from transformers.utils.logging import disable_progress_bar

from agon_env.tasks.chains import END, WITHHELD, ChainRules, rules_of, write_derivation
from learners.tiny_models import (
    ANSWER,
    BOS,
    DRAFT,
    KINDS,
    PAD,
    Kind,
    tiny_model,
    tiny_tokenizer,
    vocabulary,
)
from learners.warmup_data import Curriculum, Examples, Knowledge, draw_examples, training_rows

CHUNKS = 4
"""Parts of a batch that are padded on their own; halves the time of a step."""
Chunk: TypeAlias = tuple[torch.Tensor, torch.Tensor]
"""Token ids and labels, (B, T) of int64 each, padded on the right."""
_IGNORED = -100
"""Label of a position that is not trained (the default of `cross_entropy`)."""


@dataclass(frozen=True)
class WarmUp:
    """The recipe of a warm-up; the same for both architectures but for the learning rate."""

    steps: int = 450
    batch_size: int = 64
    """Examples drawn per step; those of the held-out splits (1 in 5) are dropped."""
    lr: dict[str, float] = field(default_factory=lambda: {"qwen3": 4e-3, "gemma3": 3e-3})
    """Peak learning rate of each architecture."""
    lr_warmup_steps: int = 30
    lr_floor: float = 0.1
    """Where the cosine ends, as a share of the peak."""
    betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = 0.01
    max_grad_norm: float = 1.0
    curriculum: Curriculum = field(default_factory=Curriculum)

    def lr_at(self, kind: Kind, step: int) -> float:
        """Linear warm-up, then cosine from the peak to the floor at the last step."""
        warmed = min(1.0, (step + 1) / self.lr_warmup_steps)
        done = step / max(1, self.steps - 1)
        cosine = self.lr_floor + (1 - self.lr_floor) * 0.5 * (1 + math.cos(math.pi * done))
        return self.lr[kind] * warmed * cosine


def knowledge_of(rules: ChainRules, kind: Kind, seed: int, curriculum: Curriculum) -> Knowledge:
    """The gaps of a model; the two architectures never share a stream of random numbers."""
    rng = np.random.default_rng([seed, KINDS.index(kind), 0])
    return Knowledge.draw(rules, rng, unknown=curriculum.unknown, mistaken=curriculum.mistaken)


def batches(rules: ChainRules, kind: Kind, seed: int, recipe: WarmUp) -> Iterator[list[Chunk]]:
    """The examples of one step after the other, in chunks of similar length."""
    knowledge = knowledge_of(rules, kind, seed, recipe.curriculum)
    rng = np.random.default_rng([seed, KINDS.index(kind), 1])
    for step in range(recipe.steps):
        copy = step < recipe.curriculum.copy_until * recipe.steps
        examples = draw_examples(
            knowledge, recipe.curriculum, rng, size=recipe.batch_size, copy=copy
        )
        pairs = [example_tokens(examples, row) for row in training_rows(examples)]
        pairs.sort(key=lambda pair: len(pair[0]) + len(pair[1]))
        size = math.ceil(len(pairs) / CHUNKS)
        yield [encode(rules, pairs[i : i + size]) for i in range(0, len(pairs), size)]


def encode(rules: ChainRules, pairs: Sequence[tuple[list[str], list[str]]]) -> Chunk:
    """(prompt, target) pairs -> token ids and labels; only targets carry a label."""
    ids = {token: i for i, token in enumerate(vocabulary(rules))}
    length = max(len(prompt) + len(target) for prompt, target in pairs)
    token_ids = torch.full((len(pairs), length), ids[PAD])
    labels = torch.full((len(pairs), length), _IGNORED)
    for row, (prompt, target) in enumerate(pairs):
        end = len(prompt) + len(target)
        token_ids[row, :end] = torch.tensor([ids[token] for token in prompt + target])
        labels[row, len(prompt) : end] = token_ids[row, len(prompt) : end]
    return token_ids, labels


def example_tokens(examples: Examples, row: int) -> tuple[list[str], list[str]]:
    """Prompt and target of one example, as the chat template and a perfect reply would be."""
    chain = examples.chain(row)
    length = len(chain.operations)
    prompt = [BOS, *chain.question.split()]
    if examples.has_draft_B[row]:
        shown = [*examples.draft_BL[row, : length - 1].tolist(), WITHHELD]
        prompt += [DRAFT, *write_derivation(chain.operations, shown).split()]
    values = examples.values_BL[row, :length].tolist()
    target = write_derivation(chain.operations, values).split()
    return [*prompt, ANSWER], [*target, END]


def train(
    model: PreTrainedModel,
    rules: ChainRules,
    kind: Kind,
    seed: int,
    recipe: WarmUp,
    on_step: Callable[[int, float], None] | None = None,
) -> None:
    """Fine-tune in place on the recipe's batches; `on_step(steps done, loss)` after each."""
    optimizer = torch.optim.AdamW(
        model.parameters(), betas=recipe.betas, weight_decay=recipe.weight_decay
    )
    model.train()
    for step, chunks in enumerate(batches(rules, kind, seed, recipe)):
        for group in optimizer.param_groups:
            group["lr"] = recipe.lr_at(kind, step)
        optimizer.zero_grad(set_to_none=True)
        targets = sum(int((labels != _IGNORED).sum()) for _, labels in chunks)
        loss = sum(_backward(model, token_ids, labels, targets) for token_ids, labels in chunks)
        torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.max_grad_norm)
        optimizer.step()
        if on_step:
            on_step(step + 1, loss)
    model.eval()


def _backward(
    model: PreTrainedModel, token_ids: torch.Tensor, labels: torch.Tensor, targets: int
) -> float:
    """Add the gradient of one chunk's share of the mean loss over `targets` tokens."""
    # Right padding: under causal attention no real token sees a pad, so no mask is needed.
    logits = model(input_ids=token_ids, use_cache=False).logits  # (B, T, V)
    total = cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), reduction="sum")
    loss = total / targets
    loss.backward()
    return loss.item()


def warm_up(
    rules: ChainRules,
    kind: Kind,
    seed: int,
    out_dir: str | Path,
    recipe: WarmUp | None = None,
    on_step: Callable[[int, float], None] | None = None,
) -> Path:
    """Train one tiny model and write it, with its tokenizer, as a Hugging Face folder.

    Args:
        rules: The family of chains to learn.
        kind: "qwen3" or "gemma3".
        seed: Of the weights, the knowledge gaps and the examples; one seed, one result.
        out_dir: The folder to write. It is written beside its place and renamed at the end.
        recipe: None for the default.
        on_step: Called with the steps done and the loss.

    Returns:
        `out_dir`.

    Raises:
        FileExistsError: `out_dir` is there already.
    """
    out_dir, recipe = Path(out_dir), recipe or WarmUp()
    if out_dir.exists():
        raise FileExistsError(f"{out_dir} must not exist yet; remove it or choose another folder")
    model = tiny_model(rules, kind, seed)
    train(model, rules, kind, seed, recipe, on_step)
    out_dir.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{out_dir.name}-", dir=out_dir.parent))
    try:
        model.save_pretrained(partial)
        tiny_tokenizer(rules).save_pretrained(partial)
        (partial / "warmup.json").write_text(json.dumps(_identity(kind, seed, recipe), indent=1))
        partial.chmod(0o755)
        _appear(partial, out_dir)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return out_dir


def _appear(partial: Path, out_dir: Path) -> None:
    """Rename into place; where another process was faster, its folder is the same."""
    try:
        os.rename(partial, out_dir)
    except OSError:
        if not (out_dir / "warmup.json").exists():
            raise


def warm_up_pair(
    rules: ChainRules,
    out_dir: str | Path,
    seed: int,
    recipe: WarmUp | None = None,
    *,
    quiet: bool = False,
) -> tuple[Path, Path]:
    """Both tiny models, each trained in a process of its own with one thread.

    The processes are spawned, so a script that calls this needs the usual
    `if __name__ == "__main__":`. Folders that exist are taken as they are (see `folder_name`).

    Returns:
        The folders of the Qwen 3 and the Gemma 3 model, below `out_dir`.
    """
    recipe = recipe or WarmUp()
    folders = pair_folders(rules, out_dir, seed, recipe)
    missing: dict[Kind, Path] = {
        kind: folder for kind, folder in folders.items() if not folder.exists()
    }
    if missing:
        _warm_up_in_processes(rules, missing, seed, recipe, quiet=quiet)
    return folders["qwen3"], folders["gemma3"]


def pair_folders(
    rules: ChainRules, out_dir: str | Path, seed: int, recipe: WarmUp | None = None
) -> dict[Kind, Path]:
    """Where `warm_up_pair` keeps its two models; they need not exist yet."""
    recipe = recipe or WarmUp()
    return {kind: Path(out_dir) / rules.name / folder_name(kind, seed, recipe) for kind in KINDS}


def folder_name(kind: Kind, seed: int, recipe: WarmUp) -> str:
    """Name of a model's folder: the architecture, the seed, and a hash of all that shaped it."""
    identity = json.dumps(_identity(kind, seed, recipe), sort_keys=True)
    return f"{kind}-seed{seed}-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"


def _warm_up_in_processes(
    rules: ChainRules, folders: dict[Kind, Path], seed: int, recipe: WarmUp, *, quiet: bool
) -> None:
    context = multiprocessing.get_context("spawn")
    reports = context.Queue()
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("loss {task.fields[loss]:.3f}"),
        disable=quiet,
    )
    pool = ProcessPoolExecutor(len(folders), context, _start_worker, (reports,))
    with pool, bar:
        bars = {
            kind: bar.add_task(f"warm-up {kind}", total=recipe.steps, loss=math.nan)
            for kind in folders
        }
        jobs = [
            pool.submit(_work, rules.name, kind, seed, folder, recipe)
            for kind, folder in folders.items()
        ]
        _show(reports, jobs, lambda kind, n, loss: bar.update(bars[kind], completed=n, loss=loss))
        for job in jobs:
            job.result()


def _show(reports: Any, jobs: list[Future], update: Callable[[Kind, int, float], object]) -> None:
    while True:
        pending = wait(jobs, timeout=0.2).not_done
        while not reports.empty():
            update(*reports.get())
        if not pending:
            return


def _start_worker(reports: Any) -> None:
    global _reports
    _reports = reports
    torch.set_num_threads(1)
    disable_progress_bar()


def _work(family: str, kind: Kind, seed: int, folder: Path, recipe: WarmUp) -> None:
    def report(step: int, loss: float) -> None:
        if step % 10 == 0 or step == recipe.steps:
            _reports.put((kind, step, loss))

    warm_up(rules_of(family), kind, seed, folder, recipe, report)


def _identity(kind: Kind, seed: int, recipe: WarmUp) -> dict[str, Any]:
    return {"kind": kind, "seed": seed, "recipe": asdict(recipe)}
