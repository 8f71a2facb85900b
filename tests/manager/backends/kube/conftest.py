"""An API server with its controllers, a client and a manager's backend on it; modules say what differs."""

import pytest

from fakekube.cluster import FakeCluster
from specon_manager.backends.kube.transport.api import Api
from support.clocks.fair_time import be_fair
from support.kube.stage import HASTY, Stage


@pytest.fixture
def nodes():
    """How many nodes the cluster has."""
    return 3


@pytest.fixture
def settings():
    """Those of the backend: of little patience."""
    return HASTY


@pytest.fixture
async def cluster(nodes):
    """Yield the cluster; waiting takes no time, and nothing is late because others have the machine."""
    be_fair()
    async with FakeCluster(nodes=nodes) as made:
        yield made


@pytest.fixture
async def api(cluster):
    """Yield a client of it."""
    made = Api(cluster.url)
    yield made
    await made.close()


@pytest.fixture
async def stage(api, settings):
    """Yield a backend at work."""
    async with Stage(api, settings=settings) as made:
        yield made
