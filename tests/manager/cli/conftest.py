import pytest

from support.scene import Scene


@pytest.fixture
def scene() -> Scene:
    return Scene()
