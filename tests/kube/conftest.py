"""A stage for each test, and time for it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.kube.cluster_stage import ClusterStage

LONGEST = 600
"""Seconds of the wall that a test may take beside whatever else there is."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the tests of this folder take longer than others."""
    for item in items:
        if item.path.parent == Path(__file__).parent and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LONGEST))


@pytest.fixture
def nodes() -> int:
    """How many nodes the cluster has in the beginning."""
    return 4


@pytest.fixture
async def stage(tmp_path: Path, nodes: int) -> AsyncIterator[ClusterStage]:
    async with ClusterStage(tmp_path, nodes=nodes) as made:
        yield made
