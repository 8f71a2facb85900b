"""Small workloads for tests of the simulator."""

from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from specon_lab.workloads.workload import LossCurve, Sharing, Submission, Training, Workload
from specon_manager.model.actions import AdmitGang, Proposal
from specon_manager.model.cluster import JobSpec, Node
from specon_manager.model.resources import Resources
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies import table
from specon_manager.policies.table import Policy

CORE = Resources(cpu=1.0)


def nodes(count: int = 2, *, cpu: float = 8.0, gpu: float = 0.0) -> tuple[Node, ...]:
    """Return nodes of one size, `node-0` and so on."""
    capacity = Resources(cpu=cpu, memory=64e9, gpu=gpu)
    return tuple(Node(name=f"node-{index}", capacity=capacity) for index in range(count))


def job(
    number: int,
    *,
    at: float = 0.0,
    seconds: float = 100.0,
    workers: int = 1,
    ps: int = 0,
    most: int | None = None,
    requests: Resources = CORE,
    spec: dict[str, object] | None = None,
    **training: object,
) -> Submission:
    """Return `default/job-NUMBER` with so many workers; `most` names further ones that may join."""
    name = f"default/job-{number}"
    replicas = [f"{name}/ps/{index}" for index in range(ps)]
    replicas += [f"{name}/worker/{index}" for index in range(most or workers)]
    described = JobSpec(
        name=name, replicas=tuple(replicas), requests=requests, workers=workers, **(spec or {})
    )
    return Submission(at=at, spec=described, training=Training(seconds=seconds, **training))


def sharing_job(number: int, *, cores: float = 8.0, **changes: object) -> Submission:
    """Return a job that reserves nothing and uses a whole node when it can, as SpeCon's did."""
    return job(number, requests=Resources(), demand=cores, **changes)


VAE = LossCurve(rate=5.2, noise=0.002)


def workload(
    *jobs: Submission, on: tuple[Node, ...] | None = None, contention: float = 0.0, **changes: object
) -> Workload:
    """Return a workload of these jobs, on two nodes unless said otherwise."""
    return Workload(
        name="test",
        nodes=nodes() if on is None else on,
        jobs=jobs,
        sharing=Sharing(contention=contention),
        **changes,
    )


class NoSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A policy of a test has none."""


def scripted(monkeypatch, propose: Callable[[Snapshot], Iterable[Proposal]]) -> str:
    """Make the function known as a policy, and return its name."""
    policy = Policy(
        name="scripted",
        summary="what a test says",
        settings=NoSettings,
        propose=lambda snapshot, settings: propose(snapshot),
    )
    monkeypatch.setattr(table, "POLICIES", {**table.POLICIES, policy.name: policy})
    return policy.name


def admit_all(snapshot: Snapshot, node: str = "node-0") -> Iterator[AdmitGang]:
    """Start every waiting job with all the workers that it asked for, on one node."""
    for waiting in snapshot.waiting:
        spec = waiting.spec
        names = (*spec.ps, *spec.worker_names[: spec.wanted_workers])
        yield AdmitGang(job=spec.name, placement=dict.fromkeys(names, node), reason="it waits")
