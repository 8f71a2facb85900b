"""Small clusters with gangs for tests of policies, and a world that carries out orders at once."""

from collections.abc import Callable, Iterable, Mapping

import msgspec
from hypothesis import strategies as st

from specon_manager.core.orders import order
from specon_manager.core.plan import plan
from specon_manager.core.state import State
from specon_manager.core.step import step
from specon_manager.model import events as ev
from specon_manager.model.actions import EvictReplica, Proposal, StartReplica
from specon_manager.model.cluster import Claimed, Job, JobSpec, Leaving, Node, Phase, Replica
from specon_manager.model.resources import NOTHING, Resources
from specon_manager.model.settings import Budgets, Settings
from specon_manager.model.snapshot import Snapshot

NOW = 1000.0
GPU = Resources(gpu=1.0)


def nodes_of(count: int = 2, **capacity: float) -> dict[str, Node]:
    """Return nodes `node-0`, `node-1`, ..., each with four GPUs unless told otherwise."""
    each = Resources(**(capacity or {"gpu": 4.0}))
    return {f"node-{number}": Node(name=f"node-{number}", capacity=each) for number in range(count)}


def spec_of(
    name: str, workers: int = 1, *, most: int | None = None, ps: int = 0, **changes: object
) -> JobSpec:
    """Return a job `default/<name>` of so many workers; what it has beyond them is absent at first."""
    full = f"default/{name}"
    replicas = [f"{full}/ps/{index}" for index in range(ps)]
    replicas += [f"{full}/worker/{index}" for index in range(most or workers)]
    known = {"requests": GPU, "ps_requests": NOTHING, **changes}
    return JobSpec(name=full, replicas=tuple(replicas), workers=workers, **known)


class Layout:
    """A cluster that is put together job by job; the later a job is added, the later it was submitted."""

    def __init__(self, nodes: Mapping[str, Node] | None = None, *, changed_at: float = NOW) -> None:
        self.state = State(
            settings=Settings(budgets=Budgets(preemptions_per_job=10**6)),
            nodes=nodes_of() if nodes is None else nodes,
            changed_at=changed_at,
        )

    def add(self, spec: JobSpec, places: str = "", **changes: object) -> "Layout":
        """Add a job whose replicas run on these nodes, servers first; none: it waits, since NOW - 10."""
        on = [f"node-{number}" for number in places.split()]
        job = Job(spec=spec, order=len(self.state.jobs), submitted_at=0.0, queued_at=NOW - 10.0)
        wanted = set(spec.ps) | set(spec.worker_names[: spec.wanted_workers])
        replicas = {}
        for index, name in enumerate(spec.replicas):
            role, _, number = name.rpartition("/")
            phase, node = Phase.PENDING if name in wanted and not on else Phase.ABSENT, None
            if index < len(on):
                phase, node = Phase.RUNNING, on[index]
            replicas[name] = Replica(
                name=name,
                job=spec.name,
                role=role.rpartition("/")[2],
                index=int(number),
                requests=spec.requests_of(name),
                phase=phase,
                node=node,
                incarnation="1" if node else None,
                starts=1 if node else 0,
            )
        if on:
            job = msgspec.structs.replace(job, queued_at=0.0, admitted_at=100.0, trains_since=100.0)
        job = msgspec.structs.replace(job, **changes)
        state = self.state
        self.state = msgspec.structs.replace(
            state, jobs={**state.jobs, spec.name: job}, replicas={**state.replicas, **replicas}
        )
        return self

    def change(self, replica: str, **changes: object) -> "Layout":
        """Change the record of a replica, named without its namespace."""
        record = self.state.replicas[f"default/{replica}"]
        self.state = self.state.with_replica(msgspec.structs.replace(record, **changes))
        return self

    def leave(self, replica: str, purpose: str = "scale-in") -> "Layout":
        """Tell a replica to end."""
        told = Leaving(purpose=purpose, since=NOW - 1, deadline=NOW + 30, reason="")
        return self.change(replica, leaving=told)

    def claim(self, job: str, placement: Mapping[str, str]) -> "Layout":
        """Give a waiting job a claim."""
        kept = Claimed(placement=tuple(placement.items()), until=NOW + 100, reason="")
        self.state = msgspec.structs.replace(self.state, claims={**self.state.claims, f"default/{job}": kept})
        return self

    @property
    def snapshot(self) -> Snapshot:
        return self.state.snapshot(NOW)

    def refused(self, proposals: Iterable[Proposal]) -> list[str]:
        """Return what the core says to the proposals that it refuses."""
        verdicts = plan(self.state, proposals, NOW, self.snapshot)
        return [f"{v.proposal}: {v.objection.text}" for v in verdicts if v.objection is not None]


def said(proposals: Iterable[Proposal]) -> list[tuple[object, ...]]:
    """Return proposals in short, in their order: kind, job or replica, and where."""
    short = []
    for proposal in proposals:
        subject = getattr(proposal, "job", None) or proposal.replica
        where = getattr(proposal, "placement", None)
        if where is not None:
            place = " ".join(f"{'/'.join(n.split('/')[2:])}@{w[-1]}" for n, w in where.items())
        else:
            place = getattr(proposal, "node", "")[-1:]
            place += " ".join("/".join(name.split("/")[2:]) for name in getattr(proposal, "replicas", ()))
        short.append((type(proposal).__name__, subject.removeprefix("default/"), place))
    return short


class InstantWorld:
    """Carries out every order at once and lets jobs train one second in each second."""

    def __init__(self, nodes: Mapping[str, Node], propose: Callable[[Snapshot], Iterable[Proposal]]) -> None:
        self.state = Layout(nodes, changed_at=0.0).state
        self._propose, self._seconds, self._starts = propose, dict[str, float](), 0
        self.ended: dict[str, float] = {}
        self.refused: list[str] = []
        self.proposed: list[Proposal] = []

    def submit(self, spec: JobSpec, seconds: float, now: float) -> None:
        self._seconds[spec.name] = seconds
        self.state, _ = step(self.state, ev.JobSubmitted(spec), now)

    def tick(self, now: float) -> None:
        """Let what is done end, then ask the policy until it has nothing more to order."""
        for job in list(self.state.jobs.values()):
            if job.ended_at is None and job.attained(now) >= self._seconds[job.name] - 1e-6:
                for name in job.spec.worker_names:
                    self._gone(self.state.replicas[name], now, exit_code=0)
                self.ended[job.name] = now
        for _ in range(50):
            snapshot = self.state.snapshot(now)
            proposals = list(self._propose(snapshot))
            verdicts = plan(self.state, proposals, now, snapshot)
            self.refused += [f"{v.proposal}: {v.objection.text}" for v in verdicts if v.objection]
            accepted = [verdict.proposal for verdict in verdicts if verdict.objection is None]
            self.proposed += accepted
            self.state, actions = order(self.state, accepted, now)
            self._carry_out(actions, now)
            self._check()
            if not accepted:
                return
        raise AssertionError(f"the policy never comes to rest: {proposals}")

    def _carry_out(self, actions: Iterable[object], now: float) -> None:
        for action in actions:
            if isinstance(action, StartReplica):
                self._starts += 1
                started = ev.ReplicaStarted(
                    replica=action.replica, incarnation=f"i{self._starts}", node=action.node
                )
                self.state, more = step(self.state, started, now)
            else:
                assert isinstance(action, EvictReplica)
                self._gone(self.state.replicas[action.replica], now, exit_code=None)
                more = []
            self._carry_out(more, now)

    def _gone(self, replica: Replica, now: float, *, exit_code: int | None) -> None:
        if not replica.active:
            return
        gone = ev.ReplicaGone(
            replica=replica.name,
            incarnation=replica.incarnation,
            exit_code=exit_code,
            evicted=exit_code is None,
        )
        self.state, actions = step(self.state, gone, now)
        self._carry_out(actions, now)

    def _check(self) -> None:
        """Capacity is never exceeded, and no running gang is smaller than it may be."""
        for node in self.state.nodes.values():
            held = [r.requests for r in self.state.replicas.values() if r.active and r.node == node.name]
            assert sum(held, NOTHING).fits(node.capacity), f"{node.name} is overfull"


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Draw a cluster with running jobs wherever they fit, leaving workers, and a queue of elastic gangs."""
    nodes = nodes_of(draw(st.integers(1, 3)), gpu=4.0, cpu=8.0)
    running = draw(st.integers(0, 5))
    layout = Layout(nodes, changed_at=NOW - draw(st.sampled_from([0.0, 61.0])))
    free = {name: [4, 8] for name in nodes}
    for number in range(draw(st.integers(0, 5)) + running):
        most = draw(st.sampled_from([4, 4, 2, 1]))
        workers = draw(st.sampled_from([most, most, (most + 1) // 2]))
        ps, cpu = draw(st.integers(0, 1)), draw(st.integers(1, 2))
        spec = spec_of(
            f"job-{number}",
            workers,
            most=most,
            ps=ps,
            min_workers=draw(st.sampled_from([1, 1, workers])),
            requests=Resources(gpu=1.0, cpu=float(cpu)),
            ps_requests=Resources(cpu=1.0),
            queue=draw(st.sampled_from(["", "a", "b"])),
            declared_seconds=float(draw(st.integers(1, 2000))),
            checkpointing=draw(st.sampled_from(["asked", "asked", "asked", "none"])),
        )
        places = []
        for index in range(
            ps + draw(st.sampled_from([most, spec.fewest_workers])) if number < running else 0
        ):
            need = (0, 1) if index < ps else (1, cpu)
            node = next((n for n, f in free.items() if f[0] >= need[0] and f[1] >= need[1]), None)
            if node is None:
                break
            free[node][0] -= need[0]
            free[node][1] -= need[1]
            places.append(node[-1])
        if len(places) < ps + spec.fewest_workers:
            for index, node in enumerate(places):  # not even the fewest had room: it waits
                free[f"node-{node}"][0] += index >= ps
                free[f"node-{node}"][1] += 1 if index < ps else cpu
            layout.add(spec, queued_at=NOW - draw(st.sampled_from([10.0, 200.0])))
            if draw(st.sampled_from([False, False, True])):
                names = (*spec.ps, *spec.worker_names[: spec.fewest_workers])
                layout.claim(f"job-{number}", {n: draw(st.sampled_from(sorted(nodes))) for n in names})
            continue
        layout.add(spec, " ".join(places), trains_since=NOW - draw(st.sampled_from([900.0, 5.0])))
        if len(places) > ps + spec.fewest_workers and draw(st.sampled_from([False, True, False])):
            layout.leave(f"job-{number}/worker/{len(places) - ps - 1}")
            layout.state = layout.state.with_job(
                msgspec.structs.replace(layout.state.jobs[spec.name], trains_since=None)
            )
    return layout
