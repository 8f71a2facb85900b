"""Small clusters of gangs written as text: for each node, `p` for a parameter server, digits for workers."""

import dataclasses
from collections.abc import Iterable, Mapping

from specon_manager.core.plan import Ruling, plan
from specon_manager.core.state import State
from specon_manager.model.actions import AdmitGang, Claim, Proposal, ScaleIn, ScaleOut
from specon_manager.model.cluster import Claimed, Job, JobSpec, Leaving, Node, Phase, Replica
from specon_manager.model.resources import Resources
from specon_manager.model.snapshot import Snapshot

NOW = 1000.0
GIB = 2.0**30


@dataclasses.dataclass(frozen=True)
class Gang:
    """A job, and where it runs."""

    name: str
    ps: int = 0
    workers: int = 1
    least: int | None = None
    """None: as many as `workers`."""
    most: int | None = None
    """None: as many as `workers`."""
    cpu: float = 1.0
    memory: float = 0.0
    gpu: float = 0.0
    ps_cpu: float | None = None
    """None: as a worker."""
    utility: float = 0.0
    at: float = NOW
    """When it was submitted, and waits since."""
    on: Mapping[str, str] = dataclasses.field(default_factory=dict)
    leaving: str = ""
    """Of what is in `on`, what was told to end by scaling in."""
    claim: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Where it has a claim, written as `on`."""
    checkpointing: str = "asked"

    @property
    def full(self) -> str:
        return f"default/{self.name}"

    def spec(self) -> JobSpec:
        names = [f"{self.full}/ps/{i}" for i in range(self.ps)]
        names += [f"{self.full}/worker/{i}" for i in range(self.most or self.workers)]
        return JobSpec(
            name=self.full,
            replicas=tuple(names),
            requests=Resources(cpu=self.cpu, memory=self.memory, gpu=self.gpu),
            ps_requests=None if self.ps_cpu is None else Resources(cpu=self.ps_cpu),
            workers=self.workers,
            min_workers=self.least or self.workers,
            utility=self.utility,
            checkpointing=self.checkpointing,
        )

    def places(self, layout: Mapping[str, str]) -> dict[str, str]:
        """Return node by replica."""
        servers = iter(range(self.ps))
        return {
            f"{self.full}/ps/{next(servers)}" if letter == "p" else f"{self.full}/worker/{letter}": node
            for node, letters in layout.items()
            for letter in letters
        }


def state_of(
    nodes: Mapping[str, float | Resources], gangs: Iterable[Gang], *, changed_at: float = 0.0
) -> State:
    """Return the state; nodes are given by their cores, or by all that they have."""
    jobs, replicas, claims = {}, {}, {}
    for order, gang in enumerate(gangs):
        spec, places = gang.spec(), gang.places(gang.on)
        jobs[spec.name] = Job(
            spec=spec,
            order=order,
            submitted_at=gang.at,
            queued_at=gang.at,
            trains_since=gang.at if places and not gang.leaving else None,
        )
        if gang.claim:
            claims[spec.name] = Claimed(
                placement=tuple(gang.places(gang.claim).items()), until=NOW + 100, reason="room was made"
            )
        wanted = {*spec.ps, *spec.worker_names[: spec.wanted_workers]}
        for name in spec.replicas:
            role, index = name.split("/")[2:]
            waits = Phase.PENDING if name in wanted and not places else Phase.ABSENT
            letter = "p" if role == "ps" else index
            told = Leaving(purpose="scale-in", since=NOW, deadline=NOW + 30, reason="makes room")
            replicas[name] = Replica(
                name=name,
                job=spec.name,
                role=role,
                index=int(index),
                requests=spec.requests_of(name),
                phase=Phase.RUNNING if name in places else waits,
                node=places.get(name),
                leaving=told if name in places and letter in gang.leaving else None,
            )
    capacities = {
        name: has if isinstance(has, Resources) else Resources(cpu=has, memory=64 * GIB, gpu=8)
        for name, has in nodes.items()
    }
    return State(
        nodes={name: Node(name=name, capacity=capacity) for name, capacity in capacities.items()},
        jobs=jobs,
        replicas=replicas,
        claims=claims,
        changed_at=changed_at,
    )


def snapshot_of(nodes: Mapping[str, float | Resources], *gangs: Gang, changed_at: float = 0.0) -> Snapshot:
    return state_of(nodes, gangs, changed_at=changed_at).snapshot(NOW)


def layout(placement: Mapping[str, str]) -> dict[str, str]:
    """Return a placement as it is written in a `Gang`."""
    found: dict[str, str] = {}
    for name, node in placement.items():
        role, index = name.split("/")[2:]
        found[node] = found.get(node, "") + ("p" if role == "ps" else index)
    return {node: "".join(sorted(letters, key="p0123456789".index)) for node, letters in found.items()}


def written(proposals: Iterable[Proposal]) -> list[tuple[object, ...]]:
    """Return proposals about jobs in short: what, the name of the job, where or who."""
    lines: list[tuple[object, ...]] = []
    for proposal in proposals:
        assert isinstance(proposal, AdmitGang | ScaleOut | ScaleIn | Claim), proposal
        assert proposal.reason
        job = proposal.job.rpartition("/")[2]
        if isinstance(proposal, ScaleIn):
            lines.append(("in", job, "".join(sorted(name.rpartition("/")[2] for name in proposal.replicas))))
        else:
            verb = {AdmitGang: "start", ScaleOut: "out", Claim: "claim"}[type(proposal)]
            lines.append((verb, job, layout(proposal.placement)))
    return lines


def refused(state: State, proposals: Iterable[Proposal]) -> list[Ruling]:
    """Return what the planner does not let through, each judged with those before it carried out."""
    return [verdict for verdict in plan(state, proposals, NOW) if verdict.objection is not None]
