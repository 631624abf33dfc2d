"""A way of isolation -> the command that starts a sandbox behind it: bubblewrap, namespaces, none.

Which of the ways works on this system is found out by `probe.py`, by running a program in it.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Way = Literal["bubblewrap", "namespaces", "none"]

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
