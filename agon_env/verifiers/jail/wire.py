"""Bytes <-> frames on a pipe: a magic word, a length, a body.

The pool talks to its workers, and the code judge to its sandbox, in frames. The magic word tells a
garbled stream at the first wrong byte, so that a process that prints rubbish is replaced at once.
"""

from __future__ import annotations

import os
import struct

MAGIC = b"AGON"
HEADER = struct.Struct("<4sI")
MAX_BODY = 1 << 28
"""Longest body, bytes; a longer one is taken for garbage."""


class GarbageError(ValueError):
    """The bytes on the pipe are no frame."""


def pack(body: bytes) -> bytes:
    """One frame. Raises ValueError for a body above 256 MiB."""
    if len(body) > MAX_BODY:
        raise ValueError(f"a frame must hold at most {MAX_BODY} bytes, got {len(body)}")
    return HEADER.pack(MAGIC, len(body)) + body


def unpack(buffer: bytearray) -> list[bytes]:
    """Take all complete frames from the front of `buffer` and return their bodies.

    Raises:
        GarbageError: The buffer does not begin with a frame.
    """
    bodies = []
    while len(buffer) >= HEADER.size:
        magic, size = HEADER.unpack_from(buffer)
        if magic != MAGIC or size > MAX_BODY:
            raise GarbageError(f"a frame must begin with {MAGIC!r}, got {bytes(buffer[:8])!r}")
        if len(buffer) < HEADER.size + size:
            break
        bodies.append(bytes(buffer[HEADER.size : HEADER.size + size]))
        del buffer[: HEADER.size + size]
    if not MAGIC.startswith(bytes(buffer[:4])):
        raise GarbageError(f"a frame must begin with {MAGIC!r}, got {bytes(buffer[:8])!r}")
    return bodies


def read_frame(fd: int) -> bytes | None:
    """Block until one frame has arrived and return its body; None at the end of the stream."""
    header = _read_exactly(fd, HEADER.size)
    if header is None:
        return None
    magic, size = HEADER.unpack(header)
    if magic != MAGIC or size > MAX_BODY:
        raise GarbageError(f"a frame must begin with {MAGIC!r}, got {header!r}")
    return _read_exactly(fd, size)


def write_all(fd: int, data: bytes) -> None:
    """Write everything to a blocking descriptor."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _read_exactly(fd: int, size: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < size:
        part = os.read(fd, min(size - len(parts), 1 << 20))
        if not part:
            return None
        parts += part
    return bytes(parts)
