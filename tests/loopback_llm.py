"""A real HTTP server on loopback that speaks the OpenAI protocol and misbehaves on demand."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Behaviour = Callable[[int, dict[str, Any]], tuple[int, bytes, dict[str, str]] | None]
"""(number of the request, its body) -> status, body, headers; None cuts the connection."""


@dataclass
class Loopback:
    """What a test knows of the server."""

    url: str
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    most_at_once: int = 0


def answer(text: str | None, **more: Any) -> tuple[int, bytes, dict[str, str]]:
    """A chat completion."""
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 11, "completion_tokens": 7}
    body = {"choices": [{**choice, **more}], "usage": usage}
    return 200, json.dumps(body).encode(), {}


@contextmanager
def loopback(behave: Behaviour) -> Iterator[Loopback]:
    """Serve on a free port until the block ends."""
    state = Loopback("")
    lock = threading.Lock()
    now = 0

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.do_POST()

        def do_POST(self) -> None:
            nonlocal now
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or "{}")
            with lock:
                number = len(state.bodies)
                state.bodies.append(body)
                state.headers.append(dict(self.headers))
                now += 1
                state.most_at_once = max(state.most_at_once, now)
            result = behave(number, {**body, "path": self.path})
            with lock:
                now -= 1
            if result is None:
                self.connection.close()
                return
            status, text, headers = result
            self.send_response(status)
            for name, value in {"Content-Length": str(len(text)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: Any) -> None:
            pass

        def handle(self) -> None:
            try:
                super().handle()
            except (OSError, ValueError):  # the connection that a test has cut
                self.close_connection = True

        def finish(self) -> None:
            try:
                super().finish()
            except (OSError, ValueError):
                self.close_connection = True

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
