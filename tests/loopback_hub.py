"""A folder -> a Hugging Face hub on loopback that serves it as data sets and counts the bytes.

`<root>/<org>/<name>/...` becomes the data set `org/name` at one commit. Speaks the few routes that
huggingface_hub uses to read: info, tree, paths-info and files with byte ranges.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

COMMIT = "0123456789abcdef0123456789abcdef01234567"

INFO = re.compile(r"/api/datasets/([^/]+/[^/]+)(?:/revision/([^/]+))?")
TREE = re.compile(r"/api/datasets/([^/]+/[^/]+)/tree/([^/]+)/?(.*)")
PATHS = re.compile(r"/api/datasets/([^/]+/[^/]+)/paths-info/([^/]+)")
FILE = re.compile(r"/datasets/([^/]+/[^/]+)/resolve/([^/]+)/(.+)")


@dataclass
class Hub:
    """The running server."""

    url: str
    root: Path
    sent: dict[str, int] = field(default_factory=dict)
    """File -> bytes of its content that were sent."""
    requests: list[str] = field(default_factory=list)
    revisions: set[str] = field(default_factory=set)
    """Every revision that was asked for."""


def _entry(path: Path, base: Path) -> dict[str, object]:
    name = str(path.relative_to(base))
    if path.is_dir():
        return {"type": "directory", "path": name, "oid": "0" * 40, "size": 0}
    digest = hashlib.sha1(path.read_bytes()).hexdigest()
    return {"type": "file", "path": name, "oid": digest, "size": path.stat().st_size}


def _handler(hub: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            hub.requests.append(format % args)

        def reply(self, body: bytes, status: int = 200, **headers: str) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def reply_json(self, value: object) -> None:
            self.reply(json.dumps(value).encode(), Content_Type="application/json")

        def missing(self) -> None:
            self.reply(b"{}", 404, X_Error_Code="EntryNotFound")

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            path = unquote(self.path.split("?")[0])
            if match := FILE.fullmatch(path):
                self.file(*match.groups())
            elif match := TREE.fullmatch(path):
                repo, revision, below = match.groups()
                hub.revisions.add(revision)
                base = hub.root / repo
                recursive = "recursive=true" in self.path.lower()
                found = (base / below).rglob("*") if recursive else (base / below).iterdir()
                self.reply_json([_entry(p, base) for p in sorted(found)])
            elif match := INFO.fullmatch(path):
                self.info(*match.groups())
            else:
                self.missing()

        def info(self, repo: str, revision: str | None) -> None:
            base = hub.root / repo
            hub.revisions.add(revision or "main")
            if not base.is_dir():
                self.reply(b"{}", 404, X_Error_Code="RepoNotFound")
                return
            names = sorted(str(p.relative_to(base)) for p in base.rglob("*") if p.is_file())
            sha = revision if revision and re.fullmatch("[0-9a-f]{40}", revision) else COMMIT
            self.reply_json({"id": repo, "sha": sha, "siblings": [{"rfilename": n} for n in names]})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            match = PATHS.fullmatch(unquote(self.path))
            if not match:
                self.missing()
                return
            if self.headers["Content-Type"].startswith("application/json"):
                names = json.loads(body)["paths"]
            else:
                names = [unquote(p.split("=")[1]) for p in body.decode().split("&") if "paths" in p]
            base = hub.root / match[1]
            self.reply_json([_entry(base / n, base) for n in names if (base / n).exists()])

        def file(self, repo: str, revision: str, name: str) -> None:
            path = hub.root / repo / name
            hub.revisions.add(revision)
            if not path.is_file():
                self.missing()
                return
            content = path.read_bytes()
            headers = {
                "ETag": f'"{hashlib.sha1(content).hexdigest()}"',
                "X_Repo_Commit": revision if re.fullmatch("[0-9a-f]{40}", revision) else COMMIT,
                "Accept_Ranges": "bytes",
            }
            status = 200
            if wanted := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
                start, end = int(wanted[1]), int(wanted[2] or len(content) - 1)
                headers["Content_Range"] = f"bytes {start}-{end}/{len(content)}"
                content, status = content[start : end + 1], 206
            if self.command == "GET":
                hub.sent[name] = hub.sent.get(name, 0) + len(content)
            self.reply(content, status, **headers)

    return Handler


@contextmanager
def serve(root: Path) -> Iterator[Hub]:
    """Run the hub until the end of the block."""
    hub = Hub("", root)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(hub))
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
