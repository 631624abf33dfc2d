"""Keys -> seeds that do not collide and never change."""

from __future__ import annotations

import itertools

from learners.seeds import stream_seed


def test_a_key_has_one_seed_on_every_machine():
    """Recorded once: a change here breaks every resumed run."""
    assert stream_seed(0, "rollout", 3) == 1144863920044975221


def test_different_keys_have_different_seeds():
    """Pitfall 71: in number, order and type of their parts."""
    keys = [
        key
        for length in (1, 2, 3)
        for key in itertools.product((0, 1, 2, "agent_0", "agent_1", "evaluate"), repeat=length)
    ]
    seeds = [stream_seed(*key) for key in keys]
    assert len(set(seeds)) == len(keys)
    assert all(0 <= seed < 2**63 for seed in seeds)
