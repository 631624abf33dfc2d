"""Several processes of one run: whose share is what, and how the shares come together again.

Data parallel by hand, because the work of a step is not one batch through one module. Every process
holds the weights of both agents (or of its adapters) and the same state of sampler, schedule and
optimizer; of full models it may hold a part instead (`sharding.py`). A process plays its share of a
step's problems; the rollouts are gathered, so that all know the whole step and compute the same
advantages; it runs its share of the micro-batches, and the gradients are summed. What is written is
written by the first process. So a step is the same step with any number of processes, up to the
order of sums.

`accelerate launch` or `torchrun` starts them and says who is who through the environment; without
it there is one process and every function here does nothing.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from accelerate import PartialState
from torch import nn

T = TypeVar("T")
E = TypeVar("E", bound=Exception)

BUCKET = 2**24
"""Most gradient values in one message (64 MB); a larger tensor has one of its own."""
PATIENCE = timedelta(hours=2)
"""How long processes wait for each other: rollouts differ in length, downloads take time."""


def count() -> int:
    """Processes of this run; 1 unless a launcher says otherwise."""
    return int(os.environ.get("WORLD_SIZE", "1")) if "RANK" in os.environ else 1


def rank() -> int:
    """Number of this process, from 0."""
    return int(os.environ["RANK"]) if count() > 1 else 0


def is_main() -> bool:
    """Whether this is the process that writes and prints."""
    return rank() == 0


def connect(device: str) -> None:
    """Meet the other processes; call it before anything else here.

    Args:
        device: "auto", "cpu" or "cuda"; each process of a machine takes a GPU of its own.

    Raises:
        ValueError: A single GPU, or one for each agent, was named for several processes.
    """
    if count() == 1:
        return
    if device not in ("auto", "cpu", "cuda"):
        error = ValueError(
            f'with {count()} processes device must be "auto", "cpu" or "cuda", got {device!r}; '
            "each process takes one of its own: choose one of these, or start one process"
        )
        raise of_all(error)
    PartialState(cpu=device == "cpu", timeout=PATIENCE)


def share(items: Sequence[T]) -> Sequence[T]:
    """Every n-th item, beginning with this process's own."""
    return items[rank() :: count()]


def bounds(items: int) -> tuple[int, int]:
    """(start, end) of this process's part of a row of items, cut into parts of about one size."""
    return items * rank() // count(), items * (rank() + 1) // count()


def gather(value: T) -> list[T]:
    """The value of every process, in their order, for all of them."""
    if count() == 1:
        return [value]
    found: list[Any] = [None] * count()
    dist.all_gather_object(found, value)
    return found


def together(make: Callable[[], T]) -> list[T]:
    """Call on every process; all get all results, or raise the error of the first that failed."""
    if count() == 1:
        return [make()]
    result, error = _attempt(make)
    _raise_any(error)
    return gather(cast(T, result))


def is_of_all(error: BaseException) -> bool:
    """Whether every process raised this error, so that one of them may report it."""
    return count() == 1 or getattr(error, _OF_ALL, False)


_OF_ALL = "raised_by_all_processes"


def of_all(error: E) -> E:
    """The error, marked as one that every process raises at this point."""
    setattr(error, _OF_ALL, True)
    return error


def _portable(error: Exception) -> Exception:
    """The error, or its text where it cannot travel to another process."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def from_main(make: Callable[[], T]) -> T:
    """Call on the first process alone; all get the result, or raise the same exception."""
    if count() == 1:
        return make()
    answer: Any = list(_attempt(make)) if is_main() else [None, None]
    dist.broadcast_object_list(answer, src=0)
    if answer[1] is not None:
        raise of_all(answer[1])
    return answer[0]


def main_first(make: Callable[[], T]) -> T:
    """Call on the first process of every machine, then on the others, who find what it cached.

    An error of one is raised by all.
    """
    if count() == 1:
        return make()
    first = PartialState().is_local_main_process
    result, error = _attempt(make) if first else (None, None)
    _raise_any(error)
    if not first:
        result, error = _attempt(make)
    _raise_any(error)
    return cast(T, result)


def _attempt(make: Callable[[], T]) -> tuple[T | None, Exception | None]:
    try:
        return make(), None
    except Exception as error:
        return None, _portable(error)


def _raise_any(error: Exception | None) -> None:
    """On all processes the error of the first that has one."""
    for found in gather(error):
        if found is not None:
            raise of_all(found)


def sum_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Replace each gradient by its sum over the processes, in float32; none counts as zero.

    A parameter without a gradient on any process keeps none.
    """
    if count() == 1:
        return
    parameters = list(parameters)
    device = parameters[0].device
    has = torch.tensor([float(p.grad is not None) for p in parameters], device=device)
    dist.all_reduce(has)
    bucket: list[nn.Parameter] = []
    size = 0
    for parameter, somewhere in zip(parameters, has.tolist(), strict=True):
        if not somewhere:
            continue
        if bucket and size + parameter.numel() > BUCKET:
            _sum_bucket(bucket)
            bucket, size = [], 0
        bucket.append(parameter)
        size += parameter.numel()
    if bucket:
        _sum_bucket(bucket)


def _sum_bucket(parameters: list[nn.Parameter]) -> None:
    zeros = (torch.zeros_like(p) if p.grad is None else p.grad for p in parameters)
    flat = torch.cat([gradient.flatten().float() for gradient in zeros])
    dist.all_reduce(flat)
    parts = flat.split([p.numel() for p in parameters])
    for parameter, part in zip(parameters, parts, strict=True):
        parameter.grad = part.view_as(parameter).to(parameter.dtype)


def sum_numbers(numbers: Mapping[str, float]) -> dict[str, float]:
    """Key -> sum over the processes; a key may be missing on some."""
    total: dict[str, float] = {}
    for part in gather(dict(numbers)):
        for key, value in part.items():
            total[key] = total.get(key, 0.0) + value
    return total


def merge(found: Mapping[int, torch.Tensor]) -> dict[int, torch.Tensor]:
    """Index -> tensor, of all processes together; on the CPU where there are several."""
    if count() == 1:
        return dict(found)
    parts = gather({index: tensor.cpu() for index, tensor in found.items()})
    return {index: tensor for part in parts for index, tensor in part.items()}


def check_equal(values: torch.Tensor, what: str) -> None:
    """Raise RuntimeError on every process unless all hold the same values."""
    parts = gather(values.cpu())
    apart = [index for index, part in enumerate(parts) if not torch.equal(part, parts[0])]
    if apart:
        error = RuntimeError(
            f"{what} must be the same in all processes, got others in {apart} than in 0; resume "
            "from the last checkpoint, and report it: this is a bug or broken hardware"
        )
        raise of_all(error)
