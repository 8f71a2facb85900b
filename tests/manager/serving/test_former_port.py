"""Where a manager listens that follows another one on this machine."""

import errno

import pytest

from specon_manager.serving import former_port
from specon_manager.serving.former_port import listen

HOST = "127.0.0.1"
FORMER, FREE = 4711, 5000


class Ports:
    """Stands in for a server: the former port is taken for so many tries, 0 gives a free one."""

    def __init__(self, taken: int = 0, number: int = errno.EADDRINUSE) -> None:
        self.taken, self.number, self.tried = taken, number, 0

    async def start(self, host: str, port: int) -> int:
        assert host == HOST
        self.tried += 1
        if port == FORMER and self.tried <= self.taken:
            raise OSError(self.number, "no")
        return port or FREE


def reported(*, to: bool):
    async def is_reported_to() -> bool:
        return to

    return is_reported_to


@pytest.fixture(autouse=True)
def _hurry(monkeypatch):
    monkeypatch.setattr(former_port, "_AGAIN_SECONDS", 0.0)


@pytest.mark.parametrize(("port", "former", "got"), [(80, FORMER, 80), (0, FORMER, FORMER), (0, 0, FREE)])
async def test_what_was_asked_for_counts_then_the_former_port(port, former, got):
    """A first manager in a directory gets a free one."""
    assert await listen(Ports(), HOST, port, former, reported(to=True)) == got


async def test_another_port_is_as_good_where_nobody_reports_to_the_former_one():
    """Any connection may have it by now."""
    assert await listen(Ports(taken=99), HOST, 0, FORMER, reported(to=False)) == FREE


async def test_a_port_where_jobs_report_is_waited_for():
    """Their sidecars know no other."""
    assert await listen(Ports(taken=3), HOST, 0, FORMER, reported(to=True)) == FORMER


async def test_a_port_where_jobs_report_and_that_stays_taken_is_named():
    """Silence about running jobs would be worse than no manager."""
    with pytest.raises(OSError, match="port 4711, where sidecars of running jobs report, is taken"):
        await listen(Ports(taken=99), HOST, 0, FORMER, reported(to=True))


@pytest.mark.parametrize("port", [FORMER, 0])
async def test_whatever_else_goes_wrong_is_told_at_once(port):
    """And so is a port that was asked for and is taken."""
    server = Ports(taken=99, number=errno.EACCES if port == 0 else errno.EADDRINUSE)
    with pytest.raises(OSError, match="no"):
        await listen(server, HOST, port, FORMER, reported(to=False))
    assert server.tried == 1
