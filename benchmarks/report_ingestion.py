"""How many reports one manager process takes in, against a bare aiohttp handler that parses the same JSON.

`python benchmarks/report_ingestion.py [--json FILE]`. Three processes: the manager's server with 10,000
replicas (`report_server.py real`), the bare one, and a client that loads them in turn (A B B A ...). The
ratio is that of the processor time per report, which other work on the machine disturbs less than the rate.
Then the client sends what 10,000 sidecars send, one report each per 5 s, and the latency is taken from the
moment when a report was due.
"""

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import msgspec

import child
import figure
from figure import Figure, percentile
from report_load import Outcome, Round

NODES = 1_000
ROUND_SECONDS = 2.0
PAIRS = 4
PACE = 2_000.0  # 10,000 sidecars, one report per 5 s
PACED_SECONDS = 15.0
BOUND_RATIO = 0.5
BOUND_LATENCY = 100.0
_SERVER = str(child.HERE / "report_server.py")


@dataclass(frozen=True)
class Loaded:
    """A server under one round of load."""

    outcome: Outcome
    server_seconds: float
    """Processor time of the server."""

    @property
    def seconds_per_report(self) -> float:
        """Processor time of the server for one report."""
        return self.server_seconds / self.outcome.sent


class Client:
    """The load process."""

    def __init__(self, process: child.Child) -> None:
        self._process = process

    def load(self, server: "ServerProcess", seconds: float, connections: int, pace: float | None) -> Loaded:
        """Put one round of load on a server. Raises RuntimeError when reports are refused."""
        order = Round(port=server.port, seconds=seconds, connections=connections, per_second=pace)
        before = server.cpu_seconds()
        child.tell(self._process, msgspec.json.encode(order).decode())
        outcome = msgspec.json.decode(child.line(self._process), type=Outcome)
        loaded = Loaded(outcome, server.cpu_seconds() - before)
        if outcome.refused or not outcome.sent:
            raise RuntimeError(f"{outcome.refused} of {outcome.sent} reports were refused")
        return loaded


class ServerProcess:
    """A server that listens."""

    def __init__(self, process: child.Child) -> None:
        self.port = int(child.line(process))
        self.pid = process.pid

    def cpu_seconds(self) -> float:
        """Return the processor time used so far."""
        return child.cpu_seconds(self.pid)


@contextlib.contextmanager
def manager_and_client(nodes: int) -> Iterator[tuple[ServerProcess, Client]]:
    """Run the manager's server and the load process."""
    with tempfile.TemporaryDirectory() as directory:
        names = str(Path(directory) / "names.json")
        with child.python(_SERVER, "real", directory, str(nodes)) as manager:
            server = ServerProcess(manager)
            with child.python(str(child.HERE / "report_load.py"), directory, names) as load:
                child.line(load)
                yield server, Client(load)


def measure(
    nodes: int = NODES,
    pairs: int = PAIRS,
    round_seconds: float = ROUND_SECONDS,
    pace: float = PACE,
    paced_seconds: float = PACED_SECONDS,
) -> list[Figure]:
    """Measure the ratio, then the latency at the pace of 10,000 sidecars."""
    with manager_and_client(nodes) as (manager, client), child.python(_SERVER, "bare") as process:
        bare = ServerProcess(process)
        rounds: dict[ServerProcess, list[Loaded]] = {manager: [], bare: []}
        for number in range(pairs):
            for server in (manager, bare) if number % 2 == 0 else (bare, manager):
                rounds[server].append(client.load(server, round_seconds, min(16, nodes), None))
        paced = client.load(manager, paced_seconds, nodes, pace)
    both = list(zip(rounds[manager], rounds[bare], strict=True))
    ratios = [theirs.seconds_per_report / ours.seconds_per_report for ours, theirs in both]
    rates = [ours.outcome.sent / theirs.outcome.sent for ours, theirs in both]
    spread = f"from {min(ratios):.2f} to {max(ratios):.2f} in {pairs} pairs"
    latencies = paced.outcome.latencies
    sent = paced.outcome.sent / paced.outcome.seconds
    return [
        Figure(what="bare handler, reports per second of its process", value=_rate(rounds[bare]), unit="1/s"),
        Figure(what="manager, reports per second of its process", value=_rate(rounds[manager]), unit="1/s"),
        Figure(
            what="ratio by processor time", value=median(ratios), unit="", at_least=BOUND_RATIO, note=spread
        ),
        Figure(
            what="ratio by reports answered", value=median(rates), unit="", note="disturbed by other work"
        ),
        Figure(what="paced: reports answered", value=sent, unit="1/s", at_least=0.98 * pace),
        Figure(what="paced: latency p50", value=percentile(latencies, 0.5), unit="ms"),
        Figure(
            what="paced: latency p99", value=percentile(latencies, 0.99), unit="ms", at_most=BOUND_LATENCY
        ),
        Figure(what="paced: the manager's share of a core", value=_share(paced), unit="core"),
        Figure(
            what="paced: the client's share of a core",
            value=paced.outcome.client_seconds / paced.outcome.seconds,
            unit="core",
        ),
    ]


def _rate(rounds: list[Loaded]) -> float:
    return 1 / median(each.seconds_per_report for each in rounds)


def _share(loaded: Loaded) -> float:
    return loaded.server_seconds / loaded.outcome.seconds


def smallest() -> list[Figure]:
    """Give every figure, of next to nothing."""
    return measure(nodes=10, pairs=1, round_seconds=0.2, pace=50.0, paced_seconds=0.5)


if __name__ == "__main__":
    figure.main(__doc__, measure, smallest)
