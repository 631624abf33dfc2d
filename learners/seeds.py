"""Keys -> independent random streams, so that nothing random depends on the order of calls.

A resumed run, another batch size or another rank draws the same numbers for the same key
(pitfalls 66, 71).
"""

from __future__ import annotations

import zlib

import numpy as np


def stream_seed(*key: int | str) -> int:
    """A 63-bit seed for a key such as (run seed, "rollout", step, "agent_0")."""
    words = [zlib.crc32(part.encode()) if isinstance(part, str) else part for part in key]
    state = np.random.SeedSequence(words).generate_state(1, np.uint64)[0]
    return int(state) >> 1
