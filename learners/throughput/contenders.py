"""One contender, in a process of its own: peaks and caches of one do not show in another's."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Literal, TypeVar, get_args

from learners.throughput.records import EngineRow, Measured, Prompts, Work

T = TypeVar("T")
Contender = Literal["ours", "two TRL", "one of ours"]
CONTENDERS: tuple[Contender, ...] = get_args(Contender)
"""In the order of a round: TRL is given the prompts of our step."""


def measure(
    contender: Contender, work: Work, prompts: Prompts | None = None, *, profiled: bool = False
) -> Measured:
    """Let a contender step in a fresh process.

    Args:
        contender: Who.
        work: What to do.
        prompts: Of our steps, for "two TRL".
        profiled: Profile a further step of ours.

    Raises:
        MemoryError: The process was killed.
    """
    return _in_fresh_process(_run, contender, work, prompts, profiled)


def measure_engines(work: Work, prompts: Prompts) -> list[EngineRow]:
    """Let the engines sample one step's prompts of one agent, in a fresh process."""
    chats = [chat for _, chat in next(iter(prompts.values()))[0]]
    return _in_fresh_process(_run_engines, work, chats)


def quiet() -> None:
    """No progress bars and hints of `transformers` in this process: the table is what counts."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()


def _in_fresh_process(function: Callable[..., T], *args: Any) -> T:
    context = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(1, mp_context=context, initializer=quiet) as pool:
            return pool.submit(function, *args).result()
    except BrokenProcessPool as error:
        raise MemoryError(
            "a measured process was killed, most likely for memory; choose fewer --problems, "
            "--samples or --microbatch-tokens"
        ) from error


# Imports stand inside, so that a process holds only what its contender needs.


def _run(contender: Contender, work: Work, prompts: Prompts | None, profiled: bool) -> Measured:
    if contender == "two TRL":
        from learners.throughput.two_trl import run_two_trl

        if prompts is None:
            raise ValueError("TRL is measured on the prompts of our step; give them")
        return run_two_trl(work, prompts)
    from learners.throughput.ours import run_ours

    return run_ours(work, alone=contender == "one of ours", profiled=profiled)


def _run_engines(work: Work, chats: list[list[dict[str, str]]]) -> list[EngineRow]:
    from learners.throughput.engines import run_engines

    return run_engines(work, chats)
