"""An OpenAI-compatible server as an agent: vLLM, llama.cpp, Ollama, a hosted API.

Requests run side by side up to a limit. What may pass (429, 5xx, a lost connection, an answer that
is no JSON) is repeated with a growing wait; what will not (401, 404) ends at once. A prompt that
the server refuses after it answered others is a reply with an `error`, so one long prompt does not
stop a benchmark. The key comes from OPENAI_API_KEY and is in no message and no file.
"""

from __future__ import annotations

import http.client
import json
import math
import os
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import Any

from learners.agents.records import AgentError, AgentOptions, Decoding, Reply, Request
from learners.plain_chat import REPLY_END, plain_text, reply_in

_REFUSED = (400, 413, 422)
"""The server does not take this prompt."""
_PASSING = (408, 409, 425, 429)
_LONGEST_WAIT_S = 60.0
_LOCAL = ("localhost", "127.0.0.1", "::1")


class _PassingError(Exception):
    """A failure that may pass."""

    def __init__(self, message: str, wait_s: float = 0.0) -> None:
        super().__init__(message)
        self.wait_s = wait_s


class _RefusedError(Exception):
    """The server does not take this prompt."""


class OpenAIAgent:
    """One model behind a URL: chat completions, or of a base model completions of plain text."""

    def __init__(
        self, url: str, model: str, options: AgentOptions, *, is_base: bool = False
    ) -> None:
        self.name = f"{'completions' if is_base else 'openai'}:{url}#{model}"
        self.needs_examples = is_base
        self._url, self._model, self._options = url, model, options
        self._answered = False
        local = urllib.parse.urlsplit(url).hostname in _LOCAL
        proxies = [urllib.request.ProxyHandler({})] if local else []
        self._opener = urllib.request.build_opener(*proxies)

    def replies(
        self, requests: Sequence[Request], decoding: Decoding
    ) -> Iterator[tuple[int, Reply]]:
        """Replies as the server gives them; see `Agent.replies`."""
        stop = threading.Event()
        failure: BaseException | None = None
        with ThreadPoolExecutor(self._options.concurrency) as pool:
            index_of: dict[Future[Reply], int] = {
                pool.submit(self._ask, request, decoding, stop): i
                for i, request in enumerate(requests)
            }
            try:
                for future in as_completed(index_of):
                    if future.cancelled():
                        continue
                    if (error := future.exception()) is None:
                        yield index_of[future], future.result()
                    elif failure is None:
                        failure = error
                        _give_up(stop, index_of)
            finally:
                _give_up(stop, index_of)
        if failure is not None:
            raise failure

    def _ask(self, request: Request, decoding: Decoding, stop: threading.Event) -> Reply:
        start = time.perf_counter()
        attempts = self._options.retries + 1
        why, attempt = "", 0
        for attempt in range(attempts):
            try:
                reply = self._reply(self._post(request, decoding), request)
            except _PassingError as error:
                why = str(error)
                wait = max(self._options.backoff_s * 2**attempt, error.wait_s)
                if attempt + 1 == attempts or stop.wait(min(wait, _LONGEST_WAIT_S)):
                    break
            except _RefusedError as error:
                if not self._answered:
                    raise AgentError(f"{self.name}: {error}; check the model and flags") from error
                spent = time.perf_counter() - start
                return Reply("", _estimate(_text(request)), 0, False, spent, str(error))
            else:
                self._answered = True
                return Reply(**{**reply, "seconds": time.perf_counter() - start})
        raise AgentError(f"{self.name}: {why} ({attempt + 1} attempts); is the server up?")

    def _post(self, request: Request, decoding: Decoding) -> bytes:
        body = {
            "model": self._model,
            **self._prompt(request),
            "max_tokens": decoding.max_new_tokens,
            "temperature": decoding.temperature,
            "top_p": decoding.top_p,
            "seed": request.seed % 2**31,
        }
        headers = {"Content-Type": "application/json"}
        if key := os.environ.get("OPENAI_API_KEY"):
            headers["Authorization"] = f"Bearer {key}"
        path = "completions" if self.needs_examples else "chat/completions"
        url = f"{self._url.rstrip('/')}/{path}"
        call = urllib.request.Request(url, json.dumps(body).encode(), headers)
        try:
            with self._opener.open(call, timeout=self._options.timeout_s) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            raise self._sorted(error) from error
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise _PassingError(f"no answer: {type(error).__name__}: {reason}") from error

    def _prompt(self, request: Request) -> dict[str, Any]:
        if self.needs_examples:
            return {"prompt": plain_text(request.messages), "stop": [REPLY_END]}
        return {"messages": [dict(message) for message in request.messages]}

    def _sorted(self, error: urllib.error.HTTPError) -> Exception:
        """What an HTTP status means for the benchmark."""
        try:
            said = " ".join(error.read(2000).decode("utf-8", "replace").split())[:200]
        except (OSError, http.client.HTTPException):
            said = ""
        message = f"HTTP {error.code} {error.reason}: {said}".rstrip(": ")
        if error.code in _REFUSED:
            return _RefusedError(message)
        if error.code in _PASSING or error.code >= 500:
            return _PassingError(message, _seconds(error.headers.get("Retry-After")))
        hint = "; set OPENAI_API_KEY" if error.code in (401, 403) else "; check the URL and model"
        return AgentError(f"{self.name}: {message}{hint}")

    def _reply(self, body: bytes, request: Request) -> dict[str, Any]:
        """The fields of a `Reply` in the server's answer.

        A server that splits off the thinking gets it put back where the model wrote it. Without
        a usage, tokens are estimated as a quarter of the characters.
        """
        try:
            data = json.loads(body)
            choice = data["choices"][0]
            message = self._message(choice)
            text = message.get("content") or ""
            if not isinstance(text, str):
                raise TypeError("content must be a text")
            thinking = message.get("reasoning_content") or message.get("reasoning") or ""
            usage = data.get("usage") or {}
            if thinking:
                text = f"<think>{thinking}</think>{text}"
            return {
                "text": text,
                "prompt_tokens": _count(usage.get("prompt_tokens"), _text(request)),
                "completion_tokens": _count(usage.get("completion_tokens"), text),
                "finished": choice.get("finish_reason") != "length",
            }
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            shown = body[:80].decode("utf-8", "replace")
            kind = "completion" if self.needs_examples else "chat completion"
            raise _PassingError(f"no {kind}: {shown!r}") from error

    def _message(self, choice: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"content": reply_in(choice["text"])} if self.needs_examples else choice["message"]


def openai_agent(rest: str, options: AgentOptions) -> OpenAIAgent:
    """`http://host:port/v1#model`, asked by chat."""
    return OpenAIAgent(*_url_and_model("openai", rest), options)


def completions_agent(rest: str, options: AgentOptions) -> OpenAIAgent:
    """The same of a base model, which has no chat template: it continues plain text."""
    return OpenAIAgent(*_url_and_model("completions", rest), options, is_base=True)


def _url_and_model(kind: str, rest: str) -> tuple[str, str]:
    url, _, model = rest.rpartition("#")
    if not url.startswith(("http://", "https://")) or not model:
        raise ValueError(
            f"{kind}: needs a URL and a model, such as http://localhost:8000/v1#name, got {rest!r}"
        )
    return url, model


def _give_up(stop: threading.Event, futures: Mapping[Future[Reply], int]) -> None:
    """Let no further request start and no waiting one wait on."""
    stop.set()
    for future in futures:
        future.cancel()


def _seconds(retry_after: str | None) -> float:
    """A Retry-After in seconds; dates and nonsense count as none."""
    try:
        found = float(retry_after or 0)
    except ValueError:
        return 0.0
    return found if math.isfinite(found) else 0.0


def _count(reported: Any, text: str) -> int:
    return reported if isinstance(reported, int) else _estimate(text)


def _estimate(text: str) -> int:
    return math.ceil(len(text) / 4)


def _text(request: Request) -> str:
    return "".join(message["content"] for message in request.messages)
