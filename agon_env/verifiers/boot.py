"""Script that becomes a verifier worker: sys.path (JSON), parent's pid, MiB of memory -> worker.

A worker needs the records and the judges, not the environments with gymnasium and PettingZoo, which
cost half a second and 50 MB each time a worker is replaced. So the package `agon_env` is first a
hollow one that knows where its modules lie; a judge that asks it for more gets the real package.
"""

from __future__ import annotations

import importlib
import json
import sys
import types
from pathlib import Path
from typing import Any

PACKAGE = "agon_env"


class HollowPackage(types.ModuleType):
    """A package without contents, filled when something asks for one of its names."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or sys.modules.get(PACKAGE) is not self:
            raise AttributeError(f"module {PACKAGE!r} has no attribute {name!r}")
        del sys.modules[PACKAGE]
        whole = importlib.import_module(PACKAGE)
        self.__dict__.update(whole.__dict__)
        return getattr(whole, name)


def boot(paths: list[str], parent: int, memory_mb: int) -> None:
    """Take over the parent's import paths and serve."""
    sys.path[:] = paths
    hollow = HollowPackage(PACKAGE)
    hollow.__path__ = [str(Path(__file__).resolve().parent.parent)]
    sys.modules[PACKAGE] = hollow
    worker = importlib.import_module(f"{PACKAGE}.verifiers.worker")
    worker.main(parent, memory_mb)


if __name__ == "__main__":
    boot(json.loads(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
