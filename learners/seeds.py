"""Keys -> independent random streams, so that nothing random depends on the order of calls.

A resumed run, another batch size or another rank draws the same numbers for the same key
(pitfalls 66, 71).
"""

from __future__ import annotations

import hashlib


def stream_seed(*key: int | str) -> int:
    """A 63-bit seed for a key such as (run seed, "rollout", step, "agent_0").

    Parts, their order, number and type all matter. Hashed, because numpy's own mixing of a
    sequence of integers takes (0,) and (0, 0) for the same.
    """
    text = repr([part if isinstance(part, str) else int(part) for part in key])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
