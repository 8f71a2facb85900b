"""Owners that hold jobs back until they are let run, and change how many workers run when they are told.

As Kubernetes does it: an object says how many workers there are and whether it is suspended; its controller
makes pods come and go after that, and what it makes is seen late.
"""

import msgspec

from specon_manager.model import events as ev
from specon_manager.model.actions import Action, PlaceJob
from specon_manager.model.cluster import JobSpec, role_of
from support.owned import OwnedCluster


class ElasticOwners(OwnedCluster):
    """The truth of such jobs."""

    prompt = True
    """Whether controllers start pods as soon as they are to run."""
    told_late = False
    """Whether what was written to an object is seen only with the next tick."""

    def __init__(self, *given, **settings) -> None:
        self.idle: set[str] = set()
        """Jobs that are suspended, by us or because they were never admitted."""
        self.placed: dict[str, dict[str, str | None]] = {}
        """What was ordered last of a job: node by replica."""
        self.unsaid: list[str] = []
        super().__init__(*given, **settings)

    # -- owners ----------------------------------------------------------------------------------

    def create(self, spec: JobSpec) -> list[Action]:
        """Let somebody create a job; one that is held is suspended until it is admitted."""
        spec = msgspec.structs.replace(spec, placed_by="owner")
        if spec.held:
            self.idle.add(spec.name)
        return self.observe(spec)

    def edit(self, job: str, workers: int) -> list[Action]:
        """Let somebody change the number of workers of a job."""
        spec = msgspec.structs.replace(self.specs[job], present=workers)
        self.placed.pop(job, None)
        actions = self.observe(spec)
        self.reconcile(job)
        return actions

    def remove(self, job: str) -> list[Action]:
        self.idle.discard(job)
        self.placed.pop(job, None)
        return super().remove(job)

    def wanted(self, job: str) -> dict[str, str | None]:
        """Return what a controller has running when it is done: node by replica."""
        spec = self.specs.get(job)
        if spec is None or job in self.idle:
            return {}
        placed = self.placed.get(job, {})
        if sum(role_of(name) != "ps" for name in placed) == spec.present:
            return placed
        names = (*spec.ps, *spec.worker_names[: spec.present])
        return {name: placed.get(name) for name in names}

    def missing(self) -> list[str]:
        names = (name for job in self.specs for name in self.wanted(job))
        return [name for name in names if name not in self.live and name not in self.suspended]

    def start_all(self, node: str = "node-0") -> None:
        for job in sorted(self.specs):
            self.reconcile(job)
            self._start_missing(job, node)

    def reconcile(self, job: str) -> None:
        """Let the controller of a job end what is not to run."""
        wanted = self.wanted(job)
        for name in sorted(self.live):
            if name.startswith(f"{job}/") and name not in wanted:
                self.die(name, self.exit_code, evicted=True)
        if self.prompt:
            self._start_missing(job)

    def _start_missing(self, job: str, node: str = "node-0") -> None:
        for name, where in sorted(self.wanted(job).items()):
            over = name in self.state.replicas and self.state.replicas[name].ended
            if name not in self.live and name not in self.suspended and not over:
                self.appears(name, self.scheduled or where or node)

    # -- the backend -----------------------------------------------------------------------------

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
        if isinstance(action, PlaceJob):
            self._place(action)
        else:
            super()._carry_out(action)

    def _place(self, action: PlaceJob) -> None:
        job = action.job
        if job not in self.specs:
            return
        if action.change and not action.placement:
            self.idle.add(job)
        else:
            self.idle.discard(job)
        if not action.change:
            self.placed.pop(job, None)
        elif action.placement:
            self.placed[job] = dict(action.placement)
            count = sum(role_of(name) != "ps" for name in action.placement)
            self.specs[job] = msgspec.structs.replace(self.specs[job], present=count)
        self.unsaid.append(job)
        if not self.told_late:
            self.see_objects()
        self.reconcile(job)
