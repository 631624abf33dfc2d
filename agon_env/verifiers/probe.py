"""The system -> how submissions are kept apart from it: bubblewrap, namespaces, or not at all.

A way of isolation counts only after a program has run in it: an installed `bwrap` that the kernel
refuses is no isolation. `AGON_ISOLATION` picks one of the ways; "none" must be picked, as nothing
but resource limits then stands between a submission and this user's files.
"""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Iterator

from agon_env.verifiers.sandbox import Limits, Sandbox, SandboxError
from agon_env.verifiers.walls import Isolation, Way

VARIABLE = "AGON_ISOLATION"


def isolation() -> Way:
    """How submissions are isolated here: "bubblewrap", "namespaces" or "none"."""
    found = find_isolation()
    return "none" if found is None else found.way


def require_isolation() -> Isolation:
    """The way to start sandboxes; RuntimeError when there is none and nobody allowed "none"."""
    found = find_isolation()
    if found is None:
        raise RuntimeError(
            "code problems need a sandbox: install bubblewrap (`apt-get install bubblewrap`) or "
            f"allow user namespaces; {VARIABLE}=none runs submissions without isolation, "
            "with resource limits only"
        )
    return found


def find_isolation() -> Isolation | None:
    """The first way that works here, or the one in AGON_ISOLATION; tried once per process."""
    return _find(os.environ.get(VARIABLE, "auto"))


@functools.cache
def _find(wanted: str) -> Isolation | None:
    if wanted not in ("auto", "bubblewrap", "namespaces", "none"):
        raise ValueError(
            f"{VARIABLE} must be 'auto', 'bubblewrap', 'namespaces' or 'none', got {wanted!r}"
        )
    if wanted == "none":
        return Isolation("none", user_namespace=False)
    ways = [way for way in _candidates() if wanted in ("auto", way.way)]
    return next((way for way in ways if _works(way)), None)


def _candidates() -> Iterator[Isolation]:
    root = os.geteuid() == 0
    for way in ("bubblewrap", "namespaces"):
        if way == "bubblewrap" and shutil.which("bwrap") is None:
            continue
        if root:
            yield Isolation(way, user_namespace=False)
        yield Isolation(way, user_namespace=True)


def _works(way: Isolation) -> bool:
    try:
        with Sandbox(b"print(6 * 7)", Limits(), way) as sandbox:
            return sandbox.run(b"").output == b"42\n"
    except SandboxError:
        return False
