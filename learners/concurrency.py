"""The work of the two agents side by side, where they share nothing.

Two models of their own, on the CPU or on two devices, can sample and update at the same time; two
adapters on one base cannot, and two models on one GPU would only add up their memory. Results do
not depend on it: nothing is shared, and every random stream is keyed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

from learners.policy import Policy

T = TypeVar("T")


def are_independent(first: Policy, second: Policy) -> bool:
    """Whether two policies can run at the same time without sharing or crowding anything."""
    separate = first.model is not second.model and first.tokenizer is not second.tokenizer
    return separate and (first.device != second.device or first.device.type == "cpu")


def run_jobs(jobs: Sequence[Callable[[], T]], *, side_by_side: bool) -> list[T]:
    """Call every job and return the results in order; the first exception is raised.

    Args:
        jobs: Functions without arguments.
        side_by_side: One thread per job, which share the CPU's threads; False: one after another.
    """
    if not side_by_side or len(jobs) < 2:
        return [job() for job in jobs]
    threads = torch.get_num_threads()
    share = max(1, threads // len(jobs))
    with ThreadPoolExecutor(
        len(jobs), initializer=torch.set_num_threads, initargs=(share,)
    ) as pool:
        futures = [pool.submit(job) for job in jobs]
        results = [future.result() for future in futures]
    torch.set_num_threads(threads)
    return results
