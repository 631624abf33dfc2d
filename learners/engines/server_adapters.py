"""A policy's adapter -> its name at the servers: written to a folder that they see, and loaded.

Each version has a name and a folder of its own, so that nothing that a server cached for an older
one is ever used; the older one is then unloaded and removed.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import cast

import torch
from peft import PeftModel

from learners.adapters import save_adapter
from learners.engines.server_check import RUNTIME_LORA
from learners.engines.server_http import RefusedError, Server
from learners.policy import Policy


class ServerAdapters:
    """What the servers of one base model have of the policies' adapters."""

    def __init__(self, servers: Sequence[Server], parent: str) -> None:
        """Nothing is written yet.

        Args:
            servers: All of which get every adapter.
            parent: Folder for the adapters; "": the temporary one.
        """
        self._servers, self._parent = servers, parent
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._held: dict[str, tuple[str, torch.Tensor]] = {}
        """Adapter -> its name at the servers and the fingerprint of the weights that they have."""
        self._versions = 0

    def push(self, policy: Policy, now: torch.Tensor) -> str:
        """The name under which the servers have these weights; loads them where they have not.

        Args:
            policy: With an adapter.
            now: Fingerprint of its weights.

        Raises:
            ConnectionError: A server does not answer.
            ValueError: A server does not take the adapter.
        """
        adapter = _adapter_of(policy)
        before = self._held.get(adapter)
        if before is not None and torch.equal(before[1], now):
            return before[0]
        self._versions += 1
        root = self._folder()
        name = f"{root.name}-{adapter}-{self._versions}"
        save_adapter(cast(PeftModel, policy.model), adapter, root / name)
        for server in self._servers:
            _load(server, name, root / name)
        self.note(policy, now, name)
        if before is not None:
            for server in self._servers:
                _unload(server, before[0])
            shutil.rmtree(root / before[0], ignore_errors=True)
        return name

    def held(self, policy: Policy) -> str:
        """The name of what the servers have of the policy, of its newest weights or older ones."""
        return self._held[_adapter_of(policy)][0]

    def note(self, policy: Policy, now: torch.Tensor, name: str) -> None:
        """These weights are at the servers under this name, whoever pushed them."""
        self._held[_adapter_of(policy)] = (name, now)

    def _folder(self) -> Path:
        """A new folder for these adapters alone, removed with this object."""
        if self._scratch is None:
            if self._parent:
                Path(self._parent).mkdir(parents=True, exist_ok=True)
            self._scratch = tempfile.TemporaryDirectory(prefix="agon-", dir=self._parent or None)
            Path(self._scratch.name).chmod(0o755)  # the server may be another user's
        return Path(self._scratch.name).resolve()


def _adapter_of(policy: Policy) -> str:
    if policy.adapter is None:
        raise ValueError(
            "a vLLM server takes adapters alone while it runs, got a policy of which all weights "
            'train; set lora, or choose engine "vllm" or "hf"'
        )
    return policy.adapter


def _load(server: Server, name: str, folder: Path) -> None:
    try:
        server.ask("/v1/load_lora_adapter", {"lora_name": name, "lora_path": str(folder)})
    except RefusedError as error:
        if "already been loaded" in error.said:  # by a request whose answer was lost
            return
        raise ValueError(
            f"the server at {server.url} must load the adapter in {folder}, got {error}; "
            + _what_to_do(error.said)
        ) from error


def _what_to_do(said: str) -> str:
    """Against what vLLM says when it does not load an adapter."""
    if "max_lora_rank" in said:
        return "start it with a larger --max-lora-rank, or choose a smaller lora.rank"
    if "not enabled" in said:
        return f"start it with --enable-lora and {RUNTIME_LORA} in its environment"
    if "No adapter found" in said:
        return "set vllm_server.adapter_folder to a folder that it sees under the same path"
    return "see its log"


def _unload(server: Server, name: str) -> None:
    with suppress(RefusedError):  # it has no such adapter any more, which is what is wanted
        server.ask("/v1/unload_lora_adapter", {"lora_name": name})
