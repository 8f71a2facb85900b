"""A cluster whose policy proposes what a test tells it to."""

import pytest

from support.decisions.told import SETTINGS, Told, registered


@pytest.fixture
def told():
    """Two nodes of four cores each."""
    cluster = Told(nodes=2, cpus=4.0, settings=SETTINGS)
    with registered(cluster.proposed):
        yield cluster
