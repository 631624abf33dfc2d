"""A headless Chromium driven over its debugging pipe: no driver, no network, no package.

The browser is `chromium`, `google-chrome`, or the program named by AGON_CHROMIUM.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = (os.environ.get("AGON_CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome")
BROWSER = next((found for name in NAMES if name and (found := shutil.which(name))), None)
FLAGS = (
    *("--headless", "--no-sandbox", "--no-zygote", "--single-process", "--disable-gpu"),
    *("--in-process-gpu", "--use-gl=angle", "--use-angle=swiftshader", "--no-first-run"),
)


class Page:
    """One page of a browser."""

    def __init__(self, to: int, answers: int) -> None:
        self._to, self._answers, self._number = to, answers, 0
        self._session: str | None = None
        self._buffer = b""

    def open(self, file: Path) -> None:
        """Load a file and wait until its scripts have run."""
        target = self._call("Target.createTarget", url=file.as_uri())["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        deadline = time.time() + 30
        while self.js("document.readyState + location.protocol") != "completefile:":
            assert time.time() < deadline, f"{file} does not load"
            time.sleep(0.05)

    def js(self, expression: str) -> Any:
        """The value of an expression in the page."""
        found = self._call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:  # events come in between
            text, mark, rest = self._buffer.partition(b"\0")
            if not mark:
                assert select.select([self._answers], [], [], 60)[0], f"no answer to {method}"
                self._buffer += os.read(self._answers, 65536)
                continue
            self._buffer = rest
            answer = json.loads(text)
            if answer.get("id") == self._number:
                assert "result" in answer, answer
                return answer["result"]


@contextmanager
def browser(profile: Path) -> Iterator[Page]:
    """A browser that ends with the block."""
    assert BROWSER is not None
    there, to = os.pipe()
    answers, back = os.pipe()
    flags = [*FLAGS, "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"]
    process = subprocess.Popen(
        ["bash", "-c", f'exec "$0" "$@" 3<&{there} 4>&{back}', BROWSER, *flags],
        pass_fds=(there, back),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(there)
    os.close(back)
    try:
        yield Page(to, answers)
    finally:
        process.kill()
        process.wait()
        os.close(to)
        os.close(answers)
