"""A stage for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.cluster_stage import ClusterStage


@pytest.fixture
def nodes() -> int:
    """How many nodes the cluster has in the beginning."""
    return 4


@pytest.fixture
async def stage(tmp_path: Path, nodes: int) -> AsyncIterator[ClusterStage]:
    async with ClusterStage(tmp_path, nodes=nodes) as made:
        yield made
