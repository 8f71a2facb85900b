import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.local.stage import Stage


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """Give a folder to run things in, and end whatever was started there; a failure shows what it wrote."""
    stage = Stage(tmp_path)
    yield stage
    stage.close()
    sys.stdout.write(stage.story())
