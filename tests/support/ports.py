"""Ports for what a test starts."""

import itertools
import random
import socket
from typing import Final

# Below the range from which the system takes the ports of outgoing connections: a connection of a test
# that runs beside this one could else take the port before anybody listens on it.
_PORTS: Final = range(10_000, 32_000)
_next = itertools.cycle(random.SystemRandom().sample(_PORTS, len(_PORTS)))


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that nobody listens on, and none that was given to this process before."""
    for port in itertools.islice(_next, len(_PORTS)):
        with socket.socket() as found:
            try:
                found.bind((host, port))
            except OSError:
                continue
            return port
    raise OSError(f"no port of {_PORTS.start} to {_PORTS.stop - 1} is free on {host}")
