"""The largest memory that a stretch of a process held.

On the CPU the kernel's high-water mark of the resident set, which Linux can reset; elsewhere the
peak since the process began. On a GPU the tensors that torch allocated.
"""

from __future__ import annotations

import ctypes
import gc
import resource
import sys
from pathlib import Path

import torch

MIB = 2**20
_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")


def start_peak(device: str) -> None:
    """Forget earlier peaks, and give freed memory back to the system."""
    gc.collect()
    if device.startswith("cuda"):
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    elif _RESET.exists():
        ctypes.CDLL(None).malloc_trim(0)
        _RESET.write_text("5")


def peak_mib(device: str) -> float:
    """The peak since `start_peak`."""
    if device.startswith("cuda"):
        return torch.cuda.max_memory_allocated() / MIB
    if _RESET.exists():
        return _status("VmHWM")
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / MIB


def resident_mib(device: str) -> float:
    """What is held now."""
    if device.startswith("cuda"):
        return torch.cuda.memory_allocated() / MIB
    return _status("VmRSS") if _STATUS.exists() else peak_mib(device)


def _status(name: str) -> float:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024 / MIB
