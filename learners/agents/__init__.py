"""One string -> an agent: a model here, a model behind a server, a function, a person.

    hf:org/model          hub id, folder or .gguf file; hf:path#adapter adds a LoRA adapter
    run:runs/x#agent_1    an agent of a training run, newest checkpoint
    vllm:org/model        in vLLM; vllm:path#adapter
    openai:http://localhost:8000/v1#model
    completions:http://localhost:8000/v1#model    a base model there, without chat template
    scripted:module:function    or scripted:file.py:function; messages -> text
    human                 types in the terminal

Each kind is imported when it is asked for: a server or a function needs no torch.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from learners.agents.records import Agent, AgentError, AgentOptions, Decoding, Reply, Request

__all__ = [
    "KINDS",
    "Agent",
    "AgentError",
    "AgentOptions",
    "Decoding",
    "Reply",
    "Request",
    "make_agents",
]

KINDS = {
    "hf": ("local", "hf_agent"),
    "run": ("local", "run_agent"),
    "vllm": ("local", "vllm_agent"),
    "openai": ("openai", "openai_agent"),
    "completions": ("openai", "completions_agent"),
    "scripted": ("scripted", "scripted_agent"),
    "human": ("scripted", "human_agent"),
}
"""Kind -> (module of this package, function (rest of the string, options) -> agent)."""


def make_agents(specs: Sequence[str], options: AgentOptions) -> list[Agent]:
    """The agents that the strings name, in order; the same string twice is one agent.

    Raises:
        ValueError: A string names nothing that can be loaded; one line.
    """
    for spec in specs:
        _kind(spec)  # all are checked before the first is loaded
    made = {spec: _make(spec, options) for spec in dict.fromkeys(specs)}
    return [made[spec] for spec in specs]


def _kind(spec: str) -> tuple[str, str]:
    kind, _, rest = spec.partition(":")
    if kind not in KINDS or (not rest and kind != "human"):
        raise ValueError(
            f"an agent is written kind:name with a kind of {sorted(KINDS)}, such as "
            f"hf:HuggingFaceTB/SmolLM2-135M-Instruct, got {spec!r}"
        )
    return kind, rest


def _make(spec: str, options: AgentOptions) -> Agent:
    kind, rest = _kind(spec)
    module, function = KINDS[kind]
    return getattr(importlib.import_module(f"learners.agents.{module}"), function)(rest, options)
