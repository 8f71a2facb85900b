"""Owners that place their jobs: they hold them back, run so many workers as told, replace single pods.

As Kubernetes does it: an object says how many workers there are and whether it is suspended; its controller
makes pods come and go after that, and what it makes is seen late. Of a job whose replicas train by themselves
a single pod can be made to go; its controller creates the next one under the same name.
"""

from collections.abc import Iterable

import msgspec

from specon_manager.backends.base import is_stale
from specon_manager.model import events as ev
from specon_manager.model.actions import Action, EvictReplica, PlaceJob, StartReplica
from specon_manager.model.cluster import JobSpec, job_of, role_of
from specon_manager.model.settings import Settings
from support.decisions.cluster import SETTINGS, Cluster, Live


def described(job: str, replicas: int = 1, **changes: object) -> JobSpec:
    """Return a job as its owner describes it; several replicas train by themselves, unless it says not."""
    names = tuple(f"default/{job}/worker/{index}" for index in range(replicas))
    given = {"coupled": False, **changes}
    return JobSpec(name=f"default/{job}", replicas=names, placed_by="owner", **given)


def placed(actions: Iterable[Action]) -> list[tuple[str, dict[str, str | None]]]:
    """Return what owners are told: for which transaction, and node by replica."""
    return [(each.transaction, dict(each.placement)) for each in actions if isinstance(each, PlaceJob)]


class Owners(Cluster):
    """The truth where owners start pods: one after the other of each replica."""

    prompt = False
    """Whether controllers start pods as soon as they are to run."""
    told_late = False
    """Whether what was written to an object is seen only with the next tick."""

    def __init__(self, nodes: int = 2, cpus: float = 4.0, settings: Settings = SETTINGS) -> None:
        self.specs: dict[str, JobSpec] = {}
        self.scheduled: str | None = None
        """Where the scheduler puts what is started next, whatever was asked for."""
        self.count = 0
        self.idle: set[str] = set()
        """Jobs that are suspended, by us or because they were never admitted."""
        self.placed: dict[str, dict[str, str | None]] = {}
        """What was ordered last of a job: node by replica."""
        self.withheld: set[str] = set()
        """Replicas that were made to go alone: their controller starts none until it is told to."""
        self.unsaid: list[str] = []
        super().__init__(nodes, cpus, settings)

    # -- owners ----------------------------------------------------------------------------------

    def create(self, spec: JobSpec) -> list[Action]:
        """Let somebody create a job; one that is held is suspended until it is admitted."""
        spec = msgspec.structs.replace(spec, placed_by="owner")
        if spec.held:
            self.idle.add(spec.name)
        return self.observe(spec)

    def observe(self, spec: JobSpec) -> list[Action]:
        """Let an owner describe a job; what it names no more goes on until it ends."""
        self.specs[spec.name] = spec
        return self.post(ev.JobObserved(spec))

    def edit(self, job: str, workers: int) -> list[Action]:
        """Let somebody change the number of workers of a job."""
        spec = msgspec.structs.replace(self.specs[job], present=workers)
        self.placed.pop(job, None)
        actions = self.observe(spec)
        self.reconcile(job)
        return actions

    def remove(self, job: str) -> list[Action]:
        """Delete a job with all that runs of it; what was ordered of it is of no other under its name."""
        self.specs.pop(job, None)
        self.orders = [each for each in self.orders if not (isinstance(each, PlaceJob) and each.job == job)]
        self.idle.discard(job)
        self.placed.pop(job, None)
        for name in [name for name in self.live if name.startswith(f"{job}/")]:
            del self.live[name]
        self.withheld = {name for name in self.withheld if not name.startswith(f"{job}/")}
        return self.post(ev.JobGone(job=job, reason="deleted"))

    def wanted(self, job: str) -> dict[str, str | None]:
        """Return what a controller has running when it is done: node by replica."""
        spec = self.specs.get(job)
        if spec is None or job in self.idle:
            return {}
        placed = self.placed.get(job, {})
        if spec.present is None:
            return {name: placed.get(name) for name in spec.replicas}
        if sum(role_of(name) != "ps" for name in placed) == spec.present:
            return placed
        names = (*spec.ps, *spec.worker_names[: spec.present])
        return {name: placed.get(name) for name in names}

    def missing(self) -> list[str]:
        """Return what owners would start now."""
        names = (name for job in self.specs for name in self.wanted(job))
        return [name for name in names if name not in self.live and name not in self.withheld]

    def appears(self, replica: str, node: str) -> str:
        """Let an owner start a replica and the manager see it; return the incarnation."""
        live = self._run(replica, node)
        self.post(self._started(replica))
        return live.incarnation

    def start_all(self, node: str = "node-0") -> None:
        """Let owners start everything that is missing."""
        for job in sorted(self.specs):
            self.reconcile(job)
            self._start_missing(job, node)

    def reconcile(self, job: str) -> None:
        """Let the controller of a job end what is not to run."""
        wanted = self.wanted(job)
        for name in sorted(self.live):
            if name.startswith(f"{job}/") and name not in wanted:
                spec = self.specs.get(job)
                if spec is not None and name not in spec.replicas:
                    continue  # its description names it no more, and lets it run out
                self.die(name, self.exit_code, evicted=True)
        if self.prompt:
            self._start_missing(job)

    def _start_missing(self, job: str, node: str = "node-0") -> None:
        for name, where in sorted(self.wanted(job).items()):
            over = name in self.state.replicas and self.state.replicas[name].ended
            if name not in self.live and name not in self.withheld and not over:
                self.appears(name, self.scheduled or where or node)

    def _run(self, replica: str, node: str) -> Live:
        assert replica not in self.live, f"two live copies of {replica}"
        self.count += 1
        uid = f"uid-{self.count}"
        self.live[replica] = live = Live(uid, node, f"session-{uid}")
        return live

    def _started(self, replica: str) -> ev.ReplicaStarted:
        live = self.live[replica]
        return ev.ReplicaStarted(replica=replica, incarnation=live.incarnation, node=live.node)

    # -- the backend -----------------------------------------------------------------------------

    def post(self, event: ev.Event) -> list[Action]:
        """Let one event happen; owners fill nodes as they like, so none must hold what fits."""
        self.crowded = {*self.crowded, *self.state.nodes}
        if isinstance(event, ev.NodeObserved):
            self.crowded.add(event.node)
        before = self.state
        actions = super().post(event)
        assert not [each for each in actions if isinstance(each, StartReplica | EvictReplica)]
        if isinstance(event, ev.JobGone) and event.job in before.jobs and before.jobs[event.job].owned:
            self._check_nothing_left(event.job)
        return actions

    def tick(self, seconds: float = 1.0) -> list[Action]:
        self.see_objects()
        return super().tick(seconds)

    def see_objects(self) -> None:
        """Let the manager see the objects as they are by now."""
        unsaid, self.unsaid = self.unsaid, []
        for job in unsaid:
            if job in self.specs:
                self.post(ev.JobObserved(self.specs[job]))

    def carry_out(self) -> None:
        super().carry_out()
        if self.prompt:
            for job in sorted(self.specs):
                self.reconcile(job)
            super().carry_out()

    def _carry_out(self, action: Action) -> None:
        if isinstance(action, PlaceJob) and not is_stale(action, self.now):
            self._place(action)
        else:
            super()._carry_out(action)

    def _place(self, action: PlaceJob) -> None:
        """Do as a backend does: suspend and resume a job as a whole, or make single pods go and come."""
        spec = self.specs.get(action.job)
        if spec is None:
            return
        if not spec.coupled and len(spec.replicas) > 1 and spec.present is None:
            self._replace_pods(action)
            return
        if action.transaction and not action.placement:
            self.idle.add(action.job)
        else:
            self.idle.discard(action.job)
        self.withheld -= action.placement.keys()  # from when it was described as of another kind
        more: list[str] = []
        if not action.transaction:
            self._give_back(action.job)
        elif action.placement:
            self.placed[action.job] = dict(action.placement)
            if spec.present is not None:
                count = sum(role_of(name) != "ps" for name in action.placement)
                # A description names as many as there are, though somebody has just wanted fewer at most; and
                # no pod is told of before it.
                more = [name for name in action.placement if name not in spec.replicas]
                self.specs[action.job] = msgspec.structs.replace(
                    spec, present=count, replicas=(*spec.replicas, *more)
                )
                self.unsaid.append(action.job)
        if more or not self.told_late:
            self.see_objects()
        self.reconcile(action.job)
        if action.placement:
            self._come(action)

    def _replace_pods(self, action: PlaceJob) -> None:
        for name, incarnation in action.ending.items():
            live = self.live.get(name)
            self.withheld.add(name)
            if live is not None and incarnation in {"", live.incarnation}:
                self.die(name, self.exit_code, evicted=True)
        self.withheld -= action.placement.keys()
        if not action.transaction:
            self._give_back(action.job)
        else:
            self.placed[action.job] = dict(action.placement)
        self._come(action)

    def _give_back(self, job: str) -> None:
        """Let the owner run its job as it likes; it may have been described as of another kind before."""
        self.withheld = {name for name in self.withheld if job_of(name) != job}
        self.placed.pop(job, None)

    def _come(self, action: PlaceJob) -> None:
        """Start what was ordered and is not there, where it was ordered to."""
        for name, node in action.placement.items():
            known = self.state.replicas.get(name)
            over = known is not None and known.ended
            if name not in self.live and not over and name in self.wanted(action.job):
                self.appears(name, self.scheduled or node or "node-0")

    def restart_manager(self) -> list[Action]:
        """Kill the manager; the next one is told what there is before it orders again what is in flight."""
        self._keep_needed_room()
        self.orders.clear()
        for known in list(self.state.replicas.values()):
            live = self.live.get(known.name)
            if known.incarnation is not None and (live is None or live.incarnation != known.incarnation):
                gone = ev.ReplicaGone(replica=known.name, incarnation=known.incarnation)
                self.post(self.dead.get(known.incarnation) or gone)
            if live is not None and live.incarnation != known.incarnation:
                self.post(self._started(known.name))
        return self.post(ev.ManagerStarted("again", self.state.settings))

    def _check_nothing_left(self, job: str) -> None:
        """See that a job which is gone leaves nothing but history."""
        state = self.state
        assert job not in state.jobs
        assert job not in state.claims
        assert job not in state.verdicts
        assert not state.transactions_of(job)
        for names in (state.replicas, state.verdicts):
            assert not [name for name in names if name.startswith(f"{job}/")]
