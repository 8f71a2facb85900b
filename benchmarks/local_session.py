"""A local manager with few jobs on virtual nodes, as benchmarks run it."""

import os
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from specon_manager.backends.local.jobs import LocalJob
from specon_manager.backends.local.nodes import VirtualNode
from specon_manager.cli.run.running import samples_directory
from specon_manager.model.settings import Settings
from specon_manager.serving.session import LocalSession, SessionOptions, open_session


def session_of(
    jobs: Sequence[LocalJob], directory: Path, nodes: Sequence[VirtualNode], settings: Settings
) -> AbstractAsyncContextManager[LocalSession]:
    """Return a session whose manager ends with it; `directory` is that of its state."""
    return open_session(
        SessionOptions(
            directory=directory,
            jobs=jobs,
            settings=settings,
            nodes=tuple(nodes),
            working_directory=directory.parent,
            environment=os.environ,
            samples=samples_directory(),
            end_with_manager=True,
        )
    )
