"""Resident memory of a manager process with 10,000 replicas that report.

`python benchmarks/manager_memory.py [--json FILE]`. The process of `report_server.py real`: HTTP server,
controller, journal on disk, metrics, and the policy at each Tick. Every replica reports several times.
"""

import child
import figure
from figure import Figure
from report_ingestion import manager_and_client

BOUND = 300.0
REPLICAS = 10_000
_ROUNDS = 3


def measure(replicas: int = REPLICAS, round_seconds: float = 5.0) -> list[Figure]:
    """Have every replica report, and look at the memory."""
    with manager_and_client(1) as (small, _):
        empty = child.resident_mib(small.pid)
    with manager_and_client(replicas // 10) as (manager, client):
        sent = 0
        while sent < _ROUNDS * replicas:
            sent += client.load(manager, round_seconds, min(200, replicas), None).outcome.sent
        resident = child.resident_mib(manager.pid)
    return [
        Figure(what="manager with 10 replicas", value=empty, unit="MiB"),
        Figure(
            what=f"manager with {replicas:,} replicas",
            value=resident,
            unit="MiB",
            at_most=BOUND,
            note=f"after {sent:,} reports",
        ),
    ]


def smallest() -> list[Figure]:
    """Give every figure, of next to nothing."""
    return measure(replicas=20, round_seconds=0.2)


if __name__ == "__main__":
    figure.main(__doc__, measure, smallest)
