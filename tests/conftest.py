"""Fixtures that several files of tests share."""

import pytest
from sandboxes import SLOW_WAYS, slow

from agon_env.verifiers.probe import _find, _works


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
