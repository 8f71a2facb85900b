"""Scenarios through `step` alone: a backend of a few lines, in which everything takes a second.

The jobs are placed by the manager, replica by replica, or by a model of an owner's controller, which carries
out `PlaceJob`, keeps the number of workers that its object asks for, and starts what is missing by itself.
"""

import dataclasses

import msgspec

from specon_manager.core.state import State
from specon_manager.core.step import step
from specon_manager.model import events as ev
from specon_manager.model.actions import Action, EvictReplica, PlaceJob, RequestCheckpoint, StartReplica
from specon_manager.model.cluster import JobSpec, job_of, role_of
from specon_manager.model.resources import Resources
from specon_sidecar.classify import Category
from specon_sidecar.wire import Acknowledgement, Checkpoint, Observation, Report
from support.scenarios.scenario import (
    OWNER,
    Arrival,
    Delete,
    Edit,
    Happening,
    Lose,
    Mute,
    Quotas,
    Scenario,
    Stall,
)

DIGEST = "0" * 64


@dataclasses.dataclass
class Live:
    """What runs of a replica."""

    incarnation: str
    node: str
    reports: int = 0


@dataclasses.dataclass
class Training:
    """A job as it really is."""

    arrival: Arrival
    spec: JobSpec
    done: int = 0
    """Seconds for which it trained; also its last step."""
    muted: bool = False
    placement: dict[str, str | None] | None = None
    """What its owner is to run; None: nothing yet, or not anything in particular."""
    released: bool = False
    """Whether its owner starts what is missing by itself."""


class Steps:
    """Drives one scenario, second by second."""

    def __init__(self, scenario: Scenario, placed_by: str) -> None:
        self.scenario, self.placed_by = scenario, placed_by
        self.state = State(settings=scenario.manager())
        self.now = 0.0
        self.jobs: dict[str, Training] = {}
        self.live: dict[str, Live] = {}
        self.lost: dict[str, float] = {}
        self.stalled: set[str] = set()
        self.starts = 0
        self.orders: list[Action] = []
        """To be carried out with the next second."""

    def run(self) -> State:
        """Return the state at the end of the scenario."""
        for node in self.scenario.nodes:
            self._observe(node)
        arrivals = sorted(self.scenario.jobs, key=lambda arrival: arrival.at)
        course = sorted(self.scenario.course, key=lambda happening: happening.at)
        while self.now <= self.scenario.ends:
            while arrivals and arrivals[0].at <= self.now:
                self._arrive(arrivals.pop(0))
            while course and course[0].at <= self.now:
                self._happen(course.pop(0))
            self._second()
            self.now += 1
        return self.state

    def _second(self) -> None:
        for node in [node for node, until in self.lost.items() if until <= self.now]:
            del self.lost[node]
            self._observe(node)
        orders, self.orders = self.orders, []
        for order in orders:
            self._carry_out(order)
        if self.placed_by == OWNER:
            self._reconcile()
        for job in list(self.jobs.values()):
            self._train(job)
        self._post(ev.Tick())

    def _post(self, event: ev.Event) -> None:
        self.state, actions = step(self.state, event, self.now)
        self.orders += actions

    # -- what happens ----------------------------------------------------------------------------

    def _arrive(self, arrival: Arrival) -> None:
        spec = arrival.described(self.placed_by)
        self.jobs[spec.name] = Training(arrival, spec)
        self._post(ev.JobObserved(spec) if self.placed_by == OWNER else ev.JobSubmitted(spec))

    def _happen(self, happening: Happening) -> None:
        match happening:
            case Lose(node=node, seconds=seconds):
                self.lost[node] = self.now + seconds
                self._observe(node)
                for replica in sorted(name for name, live in self.live.items() if live.node == node):
                    self._end(replica, evicted=False)
            case Delete(job=name):
                gone = self.jobs.pop(f"default/{name}")
                for replica in gone.spec.replicas:
                    self.live.pop(replica, None)
                self._post(ev.JobGone(job=gone.spec.name, reason="its user deleted it"))
            case Edit(job=name, workers=workers):
                job = self.jobs[f"default/{name}"]
                job.placement, job.released = None, True
                self._described(job, workers)
            case Quotas(queues=queues):
                self._post(ev.QueuesObserved(queues=queues))
            case Stall(replica=replica):
                self.stalled.add(f"default/{replica}")
            case Mute(job=name):
                self.jobs[f"default/{name}"].muted = True

    def _observe(self, node: str) -> None:
        capacity = Resources(cpu=self.scenario.nodes[node], memory=64e9)
        ready = node not in self.lost
        self._post(ev.NodeObserved(node=node, capacity=capacity, usage=Resources(), ready=ready))

    # -- what is ordered -------------------------------------------------------------------------

    def _carry_out(self, order: Action) -> None:
        if isinstance(order, StartReplica):
            if job_of(order.replica) in self.jobs and order.node is not None:
                self._start(order.replica, order.node, f"{order.replica}.{order.start}", order.start)
        elif isinstance(order, EvictReplica):
            live = self.live.get(order.replica)
            if live is not None and order.incarnation in {None, live.incarnation}:
                self._end(order.replica, evicted=True)
            else:
                gone = ev.ReplicaGone(replica=order.replica, incarnation=order.incarnation, evicted=True)
                self._post(gone)
        elif isinstance(order, RequestCheckpoint):
            self._save(order)
        elif isinstance(order, PlaceJob):
            self._place(order)

    def _start(self, replica: str, node: str, incarnation: str, start: int | None = None) -> None:
        if replica in self.live or replica in self.stalled or node in self.lost:
            return
        self.live[replica] = Live(incarnation, node)
        self._post(ev.ReplicaStarted(replica=replica, incarnation=incarnation, node=node, start=start))

    def _end(self, replica: str, *, evicted: bool, exit_code: int | None = None) -> None:
        live = self.live.pop(replica)
        gone = ev.ReplicaGone(
            replica=replica, incarnation=live.incarnation, exit_code=exit_code, evicted=evicted
        )
        self._post(gone)

    def _save(self, order: RequestCheckpoint) -> None:
        job = self.jobs.get(job_of(order.replica))
        live = self.live.get(order.replica)
        if job is None or job.muted or live is None or live.incarnation != order.incarnation:
            return
        answer = Acknowledgement(
            schema=1,
            replica=order.replica,
            incarnation=live.incarnation,
            id=order.id,
            done=True,
            checkpoint=Checkpoint(step=job.done, path="/checkpoints/last", digest=DIGEST),
        )
        self._post(ev.InstructionAcknowledged(answer))

    # -- a model of an owner's controller --------------------------------------------------------

    def _place(self, order: PlaceJob) -> None:
        job = self.jobs.get(order.job)
        if job is None:
            return
        job.released = not order.transaction
        job.placement = dict(order.placement)
        workers = sum(role_of(name) != "ps" for name in order.placement)
        if order.transaction and workers and workers != job.spec.present:
            self._described(job, workers)

    def _described(self, job: Training, workers: int) -> None:
        """Let the object of the job ask for so many workers, and the manager see it."""
        job.spec = msgspec.structs.replace(job.spec, present=workers)
        self._post(ev.JobObserved(job.spec))

    def _reconcile(self) -> None:
        for job in list(self.jobs.values()):
            if job.placement is None and not job.released:
                continue  # held
            count = job.spec.present or 0
            wanted: dict[str, str | None] = dict.fromkeys((*job.spec.ps, *job.spec.worker_names[:count]))
            if job.placement is not None and not job.released:
                wanted = dict(job.placement)
            elif job.placement:
                wanted |= {name: node for name, node in job.placement.items() if name in wanted}
            for name in job.spec.replicas:
                if name in self.live and name not in wanted:
                    self._end(name, evicted=True)
            for name, node in wanted.items():
                if name in self.live:
                    continue
                self.starts += 1
                if (place := node or self._any_node(job)) is not None:
                    self._start(name, place, f"uid-{self.starts}")

    def _any_node(self, job: Training) -> str | None:
        """Return the first node that has room, as a cluster's scheduler would."""
        for node, cpus in self.scenario.nodes.items():
            used = sum(
                self.state.replicas[name].requests.cpu
                for name, live in self.live.items()
                if live.node == node and name in self.state.replicas
            )
            if node not in self.lost and used + job.spec.requests.cpu <= cpus:
                return node
        return None

    # -- training --------------------------------------------------------------------------------

    def _train(self, job: Training) -> None:
        """Let a job that has its servers and its fewest workers train, and its sidecars report."""
        names = [name for name in job.spec.replicas if name in self.live]
        workers = [name for name in names if role_of(name) != "ps"]
        first = job.spec.worker_names[0]
        if len(workers) < job.spec.fewest_workers or first not in self.live:
            return
        if len(names) - len(workers) < len(job.spec.ps):
            return
        job.done += 1
        if job.done >= job.arrival.seconds:
            for name in names:
                self._end(name, evicted=False, exit_code=0)
            return
        for name in workers:
            live = self.live[name]
            live.reports += 1
            said = Observation(name="loss", value=1.0 / job.done, age=0.0, step=job.done)
            report = Report(
                schema=1,
                replica=name,
                incarnation=live.incarnation,
                session=live.incarnation[-8:].replace("/", "-"),
                sequence=live.reports,
                category=Category.PROGRESSING,
                first=said,
                last=said,
            )
            self._post(ev.ReportReceived(report))
