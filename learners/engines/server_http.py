"""JSON over HTTP to a generation server: what may pass is tried again, what will not ends at once.

A lost connection, and 502, 503 and 504 of a proxy, may pass. Any other error status is the server's
answer, and a server that took too long once would do so again. The key comes from OPENAI_API_KEY
and is in no message and no file.
"""

from __future__ import annotations

import http.client
import json
import os
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

_PASSING = (502, 503, 504)
_LONGEST_WAIT_S = 60.0
_LOCAL = ("localhost", "127.0.0.1", "::1")


class RefusedError(Exception):
    """The server answered with an error: its HTTP status and what it said, on one line."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(status, said)
        self.status, self.said = status, said

    def __str__(self) -> str:
        return f"HTTP {self.status}: {self.said}".rstrip(": ")


class _PassingError(Exception):
    """A failure that may pass."""


class Server:
    """One base URL."""

    def __init__(
        self, url: str, *, timeout_s: float, retries: int = 0, backoff_s: float = 1.0
    ) -> None:
        """Nothing is sent yet.

        Args:
            url: With or without `/v1` at its end.
            timeout_s: Longest wait for one answer, in seconds.
            retries: Repeats of a request whose failure may pass.
            backoff_s: Wait before the first repeat, in seconds; doubles up to a minute.
        """
        self.url = url.rstrip("/").removesuffix("/v1")
        self._timeout_s, self._retries, self._backoff_s = timeout_s, retries, backoff_s
        local = urllib.parse.urlsplit(url).hostname in _LOCAL
        proxies = [urllib.request.ProxyHandler({})] if local else []
        self._opener = urllib.request.build_opener(*proxies)

    def ask(
        self,
        path: str,
        body: Mapping[str, Any] | None = None,
        stop: threading.Event | None = None,
    ) -> str:
        """The text of the answer to a POST of `body`, or to a GET where there is none.

        Args:
            path: After the base URL, such as "/v1/models".
            body: Values for JSON.
            stop: Once set, nothing is tried again.

        Raises:
            ConnectionError: No answer after all repeats, or none in time.
            RefusedError: The answer is an error that a repeat would not change.
            ValueError: The key in the environment cannot be sent.
        """
        stop = stop or threading.Event()
        why, attempt = "", 0
        for attempt in range(self._retries + 1):
            try:
                return self._once(path, body)
            except _PassingError as error:
                why = str(error)
            wait = min(self._backoff_s * 2**attempt, _LONGEST_WAIT_S)
            if attempt == self._retries or stop.wait(wait):
                break
        raise ConnectionError(
            f"the server at {self.url} must answer {path}, got {why} ({attempt + 1} attempts); "
            "is it up, and can this machine reach it?"
        )

    def _once(self, path: str, body: Mapping[str, Any] | None) -> str:
        headers = {"Content-Type": "application/json"}
        if key := os.environ.get("OPENAI_API_KEY", "").strip():
            if not key.isprintable():
                raise ValueError("OPENAI_API_KEY must be one line of printable characters")
            headers["Authorization"] = f"Bearer {key}"
        data = None if body is None else json.dumps(body).encode()
        call = urllib.request.Request(self.url + path, data, headers)
        try:
            with self._opener.open(call, timeout=self._timeout_s) as answer:
                return answer.read().decode("utf-8", "replace")
        except urllib.error.HTTPError as error:
            refused = RefusedError(error.code, _said(error))
            if error.code in _PASSING:
                raise _PassingError(str(refused)) from error
            raise refused from error
        except TimeoutError as error:
            raise ConnectionError(
                f"the server at {self.url} must answer {path} within {self._timeout_s:g} s, got "
                "nothing; see its log, or set a longer timeout_s"
            ) from error
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise _PassingError(f"no answer ({type(error).__name__}: {reason})") from error


def _said(error: urllib.error.HTTPError) -> str:
    """What an error answer says, on one line: its message where it is JSON of the OpenAI kind."""
    try:
        text = error.read(4000).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException):
        return str(error.reason)
    with suppress(ValueError, LookupError, TypeError):
        text = str(json.loads(text)["error"]["message"])
    return " ".join(text.split())[:300]
