"""Backends under contract. A new backend adds a stage here and passes the same suite."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from specon_manager.backends.local.backend import LocalBackend, LocalSettings
from specon_manager.backends.local.nodes import VirtualNode
from support.contract_stage import Stage


@pytest.fixture(params=["local"])
async def stage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stage]:
    """Yield a backend with two nodes, not begun yet."""
    assert request.param == "local"
    cpu = min(os.sched_getaffinity(0))
    settings = LocalSettings(
        directory=tmp_path,
        nodes=(VirtualNode("node-0", (cpu,)), VirtualNode("node-1", (cpu,))),
        working_directory=tmp_path,
        environment=os.environ,
        samples=tmp_path,
    )

    def make() -> LocalBackend:
        # No manager answers at that address; the sidecar of a trainer never disturbs it.
        return LocalBackend(settings, manager_url=lambda: "http://127.0.0.1:1", token=lambda *_: "token")

    made = Stage(make)
    yield made
    await made.backend.end()
    assert isinstance(made.backend, LocalBackend)
    await made.backend.evict_all(1.0)
