"""A function from chat messages to text as an agent, and a person at the terminal as one.

Their tokens are counted in words.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from learners.agents.records import AgentError, AgentOptions, Decoding, Reply, Request, words


class ScriptedAgent:
    """Calls `function(messages)` or `function(messages, seed)` for every reply."""

    needs_examples = False

    def __init__(self, name: str, function: Callable[..., object]) -> None:
        self.name = name
        self._function = function
        self._takes_seed = len(inspect.signature(function).parameters) > 1

    def replies(
        self, requests: Sequence[Request], decoding: Decoding
    ) -> Iterator[tuple[int, Reply]]:
        """One after the other; the length limit does not apply to a function."""
        for index, request in enumerate(requests):
            start = time.perf_counter()
            messages = [dict(message) for message in request.messages]
            arguments = (messages, request.seed) if self._takes_seed else (messages,)
            try:
                text = self._function(*arguments)
            except Exception as error:
                raise AgentError(f"{self.name} raised {type(error).__name__}: {error}") from error
            if not isinstance(text, str):
                raise AgentError(
                    f"{self.name} must return the text of a reply, got {type(text).__name__}"
                )
            seconds = time.perf_counter() - start
            yield index, Reply(text, words(messages), len(text.split()), True, seconds)


def scripted_agent(rest: str, options: AgentOptions) -> ScriptedAgent:
    """`module:function` or `path/to/file.py:function`."""
    place, _, name = rest.rpartition(":")
    function = getattr(_load(place), name, None)
    if not callable(function):
        raise ValueError(f"scripted:{rest}: {place} has no function {name!r}")
    return ScriptedAgent(f"scripted:{rest}", function)


def _load(place: str) -> object:
    if place.endswith(".py"):
        spec = importlib.util.spec_from_file_location(Path(place).stem, place)
        if spec is None or spec.loader is None or not Path(place).is_file():
            raise ValueError(f"scripted: there is no file {place!r}; write file.py:function")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    if "" not in sys.path:
        sys.path.insert(0, "")  # a module beside the user, as with python -m
    try:
        return importlib.import_module(place)
    except ImportError as error:
        raise ValueError(
            f"scripted: cannot import module {place!r} ({error}); write module:function"
        ) from error


class HumanAgent:
    """A person: reads the prompt in the terminal and types a reply."""

    name = "human"
    needs_examples = False

    def replies(
        self, requests: Sequence[Request], decoding: Decoding
    ) -> Iterator[tuple[int, Reply]]:
        """One after the other; a line with a single dot ends a reply.

        Raises:
            AgentError: The input ended.
        """
        for index, request in enumerate(requests):
            print(f"\n=== your turn ({index + 1} of {len(requests)}) ===")
            for message in request.messages:
                print(f"[{message['role']}]\n{message['content']}")
            print("--- your reply; end it with a line that holds a single dot ---")
            start = time.perf_counter()
            text = _typed()
            seconds = time.perf_counter() - start
            yield index, Reply(text, words(request.messages), len(text.split()), True, seconds)


def _typed() -> str:
    lines: list[str] = []
    for line in sys.stdin:
        if line.rstrip("\n") == ".":
            return "\n".join(lines)
        lines.append(line.rstrip("\n"))
    raise AgentError("human: the input ended in the middle of a reply; start again to go on")


def human_agent(rest: str, options: AgentOptions) -> HumanAgent:
    """A person; takes no further name."""
    if rest:
        raise ValueError(f"human takes nothing behind it, got {rest!r}")
    return HumanAgent()
