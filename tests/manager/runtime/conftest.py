"""A controller with a backend that does what a test says, and a journal in a temporary folder."""

import pytest

from support.runtime.quiet_manager import QUIET, Manager


@pytest.fixture
async def manager(tmp_path):
    async with Manager(tmp_path).at_work() as manager:
        yield manager


class Managers:
    """Makes managers in folders of their own."""

    def __init__(self, path):
        self._path = path
        self._count = 0

    def made(self, settings=QUIET, state=None):
        self._count += 1
        folder = self._path / str(self._count)
        folder.mkdir()
        return Manager(folder, settings, state)

    def __call__(self, settings=QUIET, state=None):
        return self.made(settings, state).at_work()


@pytest.fixture
def manager_of(tmp_path):
    return Managers(tmp_path)
