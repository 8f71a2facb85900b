import pytest

from support.decisions.scene import Scene


@pytest.fixture
def scene() -> Scene:
    return Scene()
