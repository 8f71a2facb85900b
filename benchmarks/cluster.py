"""The whole manager of a cluster: 10,000 training pods and as many of other people, on 1,000 nodes.

`python benchmarks/cluster.py [--quick] [--json FILE]`. Four processes: the API server of the tests, without
controllers (plain HTTP); the manager as `specon serve` runs it, with a pulse in its event loop; a client that
is its sidecars, over TLS; and a bare client of the API server, the baseline of what reading costs. The
manager takes over what an earlier one wrote; then every sidecar waits for instructions and reports; then half
as many pods again are created at once.
"""

import contextlib
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

import child
import figure
from cluster_messages import Answer, Noticed, Order, Poll, Polled, Read
from figure import Figure, percentile
from report_load import Outcome, Round

JOBS, NODES = 10_000, 1_000
QUICK = 10
HEARTBEAT = 5.0
PACED_SECONDS = 15.0
WRITE_SECONDS = 8.0
BOUND_MEMORY = 300.0
BOUND_BLOCK = 100.0
BOUND_LATENCY = 100.0
BOUND_EVENT = 500.0
BOUND_KNOWN = 5.0
BOUND_WRITES = 21.0  # 20, and how exactly the time is taken
_LONGEST = 240.0
_STILL = 1.0
_WRITES = ("POST trainingprogresses", "PATCH trainingprogresses/status")


@dataclass(frozen=True)
class Stage:
    """The processes."""

    api: child.Child
    manager: child.Child
    load: child.Child
    reader: child.Child
    port: int
    began_at: float
    pod_bytes: int
    read: Read

    def order(self, create: int = 0) -> Answer:
        """Have the API server create pods, or count requests."""
        child.tell(self.api, msgspec.json.encode(Order(create=create)).decode())
        return msgspec.json.decode(child.line(self.api), type=Answer)

    def noticed(self) -> Noticed:
        """Ask the manager's pulse."""
        child.tell(self.manager, "")
        return msgspec.json.decode(child.line(self.manager), type=Noticed)

    def until(self, holds: Callable[[Noticed], bool], *, still: bool = True) -> Noticed:
        """Wait until something holds, and (`still`) nothing new was told for a while.

        The blocks in the returned value are the longest meanwhile. Raises TimeoutError.
        """
        ends = time.monotonic() + _LONGEST
        longest = cpu = collection = 0.0
        while time.monotonic() < ends:
            seen = self.noticed()
            longest, cpu = max(longest, seen.longest_block), max(cpu, seen.longest_block_cpu)
            collection = max(collection, seen.longest_collection)
            if holds(seen) and (not still or time.monotonic() - seen.news_at > _STILL):
                return msgspec.structs.replace(
                    seen, longest_block=longest, longest_block_cpu=cpu, longest_collection=collection
                )
            time.sleep(0.1)
        raise TimeoutError(f"not within {_LONGEST:g} s: {seen}")

    def send(self, seconds: float, connections: int, pace: float | None) -> Outcome:
        """Have sidecars report. Raises RuntimeError where reports are refused."""
        order = Round(port=self.port, seconds=seconds, connections=connections, per_second=pace)
        child.tell(self.load, msgspec.json.encode(order).decode())
        outcome = msgspec.json.decode(child.line(self.load), type=Outcome)
        if outcome.refused or not outcome.sent:
            raise RuntimeError(f"{outcome.refused} of {outcome.sent} reports were refused")
        return outcome

    def poll(self, count: int) -> Polled:
        """Have so many sidecars wait for instructions."""
        child.tell(self.load, msgspec.json.encode(Poll(poll=count, port=self.port)).decode())
        return msgspec.json.decode(child.line(self.load), type=Polled)

    def watched(self) -> Read:
        """Return what the bare client has read of the watch."""
        child.tell(self.reader, "")
        return msgspec.json.decode(child.line(self.reader), type=Read)

    def used(self) -> float:
        """Return the manager's processor time."""
        return child.cpu_seconds(self.manager.pid)


@contextlib.contextmanager
def stage(jobs: int, nodes: int) -> Iterator[Stage]:
    """Run the processes; what the manager logs is shown where the block is left by an error."""
    tests = child.HERE.parent / "tests"
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        arguments = [directory, str(nodes), str(jobs), str(jobs)]
        api = stack.enter_context(child.python(_script("api"), *arguments, path=tests))
        told = json.loads(child.line(api))
        reader = stack.enter_context(child.python(_script("reader"), told["url"]))
        read = msgspec.json.decode(child.line(reader), type=Read)
        load = stack.enter_context(child.python(_script("load"), str(Path(directory) / "speakers.json")))
        child.line(load)
        config = Path(directory) / "kubeconfig"
        config.write_text(json.dumps(_kubeconfig(told["url"])))
        port, webhook, probes = child.free_port(), child.free_port(), child.free_port()
        began_at = time.monotonic()
        manager = stack.enter_context(
            child.python(
                _script("process"),
                f"--kubeconfig={config}",
                "--namespace=specon",
                f"--listen=127.0.0.1:{webhook}",
                f"--reports-listen=127.0.0.1:{port}",
                f"--metrics-listen=127.0.0.1:{probes}",
                "--page-listen=",
                log=Path(directory) / "manager.log",
            )
        )
        try:
            yield Stage(api, manager, load, reader, port, began_at, told["pod_bytes"], read)
        except BaseException:
            print((Path(directory) / "manager.log").read_text()[-4000:])
            raise


def measure(
    jobs: int = JOBS,
    nodes: int = NODES,
    paced_seconds: float = PACED_SECONDS,
    write_seconds: float = WRITE_SECONDS,
) -> list[Figure]:
    """Measure a takeover, reports, and a burst of pods."""
    with stage(jobs, nodes) as running:
        figures = [_baseline(running), *_takeover(running, jobs)]
        empty = child.resident_mib(running.manager.pid)
        figures += _reports(running, jobs, paced_seconds)
        figures += _burst(running, jobs // 2, write_seconds)
        peak = child.peak_resident_mib(running.manager.pid)
        figures += [
            Figure(what="resident memory, taken over", value=empty, unit="MiB", at_most=BOUND_MEMORY),
            Figure(
                what=f"resident memory at its peak, {jobs:,} sidecars connected",
                value=peak,
                unit="MiB",
                at_most=BOUND_MEMORY,
            ),
        ]
    return figures


def _baseline(running: Stage) -> Figure:
    return Figure(
        what="bare client: processor time per pod listed",
        value=1e6 * running.read.cpu_seconds / running.read.count,
        unit="us",
        note=f"{running.read.count:,} pods, those with a sidecar of {running.pod_bytes / 1000:.1f} kB",
    )


def _takeover(running: Stage, jobs: int) -> list[Figure]:
    seen = running.until(lambda seen: seen.ready and seen.events.get("JobObserved", 0) >= jobs)
    used = running.used() - seen.idle_cpu
    assert seen.leads_at is not None
    bare = running.read.cpu_seconds
    return [
        Figure(what="takeover: until it leads", value=seen.leads_at - running.began_at, unit="s"),
        Figure(what="takeover: until it knows all", value=seen.news_at - running.began_at, unit="s"),
        Figure(what="takeover: processor time", value=used, unit="s", note="without imports"),
        Figure(
            what="takeover: processor time of the bare list in it",
            value=bare / used,
            unit="",
            note="Jobs, records and decisions included",
        ),
        *_blocks("takeover", seen),
    ]


def _reports(running: Stage, jobs: int, seconds: float) -> list[Figure]:
    running.noticed()
    before = child.resident_mib(running.manager.pid)
    polled = running.poll(jobs)
    first = running.until(lambda _: True, still=False)
    each = (child.resident_mib(running.manager.pid) - before) * 1024 / jobs
    asked = running.order().requests
    writes = _written(asked)
    began = time.monotonic()
    used = running.used()
    connections = min(1000, jobs // 10)
    paced = running.send(seconds, connections, jobs / HEARTBEAT)
    used = running.used() - used
    seen = running.until(lambda _: True, still=False)
    rate = (_written(running.order().requests) - writes) / (time.monotonic() - began)
    latencies = paced.latencies
    sent = paced.sent / paced.seconds
    return [
        Figure(
            what=f"{jobs:,} sidecars connect over TLS and wait",
            value=polled.seconds,
            unit="s",
            note=f"{asked.get('POST tokenreviews', 0):,} tokens reviewed, {polled.lost} tried again",
        ),
        Figure(what="memory of a connection", value=each, unit="KiB", note="its token's review included"),
        *_blocks("connecting", first),
        Figure(what="reports answered", value=sent, unit="1/s", at_least=0.98 * jobs / HEARTBEAT),
        Figure(what="reports: latency p50", value=percentile(latencies, 0.5), unit="ms"),
        Figure(
            what="reports: latency p99", value=percentile(latencies, 0.99), unit="ms", at_most=BOUND_LATENCY
        ),
        Figure(what="reports: the manager's share of a core", value=used / paced.seconds, unit="core"),
        Figure(
            what="reports: TrainingProgress writes meanwhile", value=rate, unit="1/s", at_most=BOUND_WRITES
        ),
        *_blocks("reports", seen),
    ]


def _burst(running: Stage, pods: int, write_seconds: float) -> list[Figure]:
    before, used = running.noticed().events.get("ReplicaStarted", 0), running.used()
    bare = running.watched()
    made = running.order(create=pods)
    seen = running.until(lambda seen: seen.events.get("ReplicaStarted", 0) >= before + pods)
    used = running.used() - used
    read = running.watched()
    writes, began = _written(running.order().requests), time.monotonic()
    time.sleep(write_seconds)
    rate = (_written(running.order().requests) - writes) / (time.monotonic() - began)
    count, cpu = read.count - bare.count, read.cpu_seconds - bare.cpu_seconds
    return [
        Figure(
            what=f"{pods:,} pods at once: from the last change until all are known",
            value=seen.news_at - made.done_at,
            unit="s",
            at_most=BOUND_KNOWN,
            note=f"created within {made.done_at - made.began_at:.1f} s",
        ),
        Figure(
            what="burst: processor time per event of a pod",
            value=1e6 * used / count,
            unit="us",
            at_most=BOUND_EVENT,
            note=f"{count:,} events; Jobs, decisions and writes included",
        ),
        Figure(what="bare client: processor time per event", value=1e6 * cpu / count, unit="us"),
        Figure(what="burst: processor time of the bare client in it", value=cpu / used, unit=""),
        *_blocks("burst", seen),
        Figure(
            what="burst: TrainingProgress writes after it",
            value=rate,
            unit="1/s",
            at_most=BOUND_WRITES,
            note="requests, a new one takes two; a hundred at once are in it",
        ),
    ]


def _blocks(when: str, seen: Noticed) -> list[Figure]:
    return [
        Figure(
            what=f"{when}: longest block of the loop",
            value=1e3 * seen.longest_block,
            unit="ms",
            at_most=BOUND_BLOCK,
            note=f"{1e3 * seen.longest_block_cpu:.0f} ms by its processor time, "
            f"{1e3 * seen.longest_collection:.0f} ms the longest garbage collection",
        )
    ]


def _written(requests: dict[str, int]) -> int:
    return sum(requests.get(name, 0) for name in _WRITES)


def _script(name: str) -> str:
    return str(child.HERE / f"cluster_{name}.py")


def _kubeconfig(url: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "large", "cluster": {"server": url}}],
        "users": [{"name": "large", "user": {"token": "benchmark"}}],
        "contexts": [{"name": "large", "context": {"cluster": "large", "user": "large"}}],
        "current-context": "large",
    }


def quick() -> Sequence[Figure]:
    """Measure a tenth of it."""
    return measure(JOBS // QUICK, NODES // QUICK, PACED_SECONDS / 3)


def smallest() -> list[Figure]:
    """Give every figure, of next to nothing."""
    return measure(jobs=20, nodes=5, paced_seconds=1.0, write_seconds=0.5)


if __name__ == "__main__":
    figure.main(__doc__, measure, smallest, quick=quick)
