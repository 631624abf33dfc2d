"""The system -> how submissions are kept apart from it: bubblewrap, namespaces, or not at all.

A way of isolation counts only after a program has run in it: an installed `bwrap` that the kernel
refuses is no isolation. `AGON_ISOLATION` picks one of the ways; "none" must be picked, as nothing
but resource limits then stands between a submission and this user's files.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Way = Literal["bubblewrap", "namespaces", "none"]

VARIABLE = "AGON_ISOLATION"
JAIL = Path(__file__).with_name("jail")
SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache"),
    *("/etc/alternatives", "/etc/localtime"),
)
"""What a program may read of the system, where it exists."""
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
SCRATCH = (("/tmp", 64), ("/io", 128), ("/dev/shm", 64))
"""Empty folders in memory and their size, MiB."""
FIRST_PRIVATE_UID = 1_000_000_000


@dataclass(frozen=True)
class Isolation:
    """One way to start a sandbox."""

    way: Way
    """What `isolation()` reports."""
    user_namespace: bool
    """True: as the present user, in a user namespace. False: as root, who becomes somebody else."""

    def command(self, folder: str) -> list[str]:
        """The command that starts the first process of a sandbox.

        Args:
            folder: An empty folder for way "none"; the others bring their own.
        """
        config: dict[str, Any] = {
            "enter": self.way == "namespaces",
            "user_namespace": self.user_namespace,
            "uid": self._private_uid(),
            "system": [*SYSTEM, *DEVICES, _python_home()],
            "scratch": SCRATCH,
            "work": "/tmp",
            "io": "/io",
        }
        if self.way == "none":
            config |= {"work": f"{folder}/work", "io": f"{folder}/io"}
            config["scratch"] = [(config["work"], 64), (config["io"], 128)]
        inner = [_python(), "-P", "-S", "-B", "-X", "utf8", "-X", "int_max_str_digits=0"]
        script = "/jail/main.py" if self.way == "bubblewrap" else str(JAIL / "main.py")
        outer = self._bubblewrap() if self.way == "bubblewrap" else []
        return [*outer, *inner, script, json.dumps(config)]

    def _private_uid(self) -> int | None:
        """For root: a user that owns nothing and shares its process limit with nobody."""
        if os.geteuid() != 0 or self.user_namespace or self.way == "none":
            return None
        return FIRST_PRIVATE_UID + os.getpid()

    def _bubblewrap(self) -> list[str]:
        arguments = ["bwrap", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"]
        arguments += ["--hostname", "sandbox", "--die-with-parent", "--new-session", "--as-pid-1"]
        if self.user_namespace:
            arguments += ["--unshare-user", "--cap-drop", "ALL"]
        else:
            arguments += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
        arguments += ["--dev", "/dev", "--proc", "/proc"]
        for path in (*SYSTEM, _python_home()):
            if os.path.islink(path):
                arguments += ["--symlink", os.readlink(path), path]
            elif os.path.exists(path):
                arguments += [*_parents(path), "--ro-bind", path, path]
        arguments += ["--ro-bind", str(JAIL), "/jail"]
        for path, megabytes in SCRATCH:
            arguments += ["--perms", "1777", "--size", str(megabytes << 20), "--tmpfs", path]
        return [
            *arguments,
            "--remount-ro",
            "/proc",
            "--remount-ro",
            "/dev",
            "--remount-ro",
            "/",
            "--",
        ]


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
    from agon_env.verifiers.sandbox import Limits, Sandbox, SandboxError  # it imports this module

    try:
        with Sandbox(b"print(6 * 7)", Limits(), way) as sandbox:
            return sandbox.run(b"").output == b"42\n"
    except SandboxError:
        return False


def _python() -> str:
    """The interpreter for submissions: the one below this venv. They get its standard library."""
    return os.path.realpath(getattr(sys, "_base_executable", sys.executable))


def _python_home() -> str:
    return os.path.realpath(sys.base_prefix)


def _parents(path: str) -> list[str]:
    """Folders on the way to `path`, which may be passed through but not listed."""
    made: list[str] = []
    for parent in reversed(Path(path).parents[:-1]):
        made += ["--perms", "0111", "--dir", str(parent)]
    return made
