"""Fixtures that several files of tests share."""

import os

import pytest
from hypothesis import settings
from sandboxes import SLOW_WAYS, slow

from agon_env.verifiers.probe import _find, _works

# The suite draws the same examples every time: a red run means a changed program. `make fuzz`
# (AGON_FUZZ_EXAMPLES) looks for new ones.
settings.register_profile(
    "repeatable", derandomize="AGON_FUZZ_EXAMPLES" not in os.environ, max_examples=50
)
settings.load_profile("repeatable")

LONGEST = ("test_a_run_killed_at_random_moments", "test_smollm2_a_real_llm")
"""Minutes each: started first, so that no worker waits for them at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests first; the order of the others stays."""
    items.sort(key=lambda item: not item.name.startswith(LONGEST))


@pytest.fixture(
    scope="module",
    params=["best", *(slow(way) for way in SLOW_WAYS)],
    ids=str,
)
def way(request):
    """A way of isolation that works here; the slow run goes through all of them."""
    found = _find("auto") if request.param == "best" else request.param
    if found is None or not _works(found):
        pytest.skip(f"{request.param} does not work on this system")
    return found
