"""What the manager gets to see of the world: the reports of sidecars, and how much of the nodes is used."""

import math
from typing import Final

import msgspec

from specon_lab.engine.sidecar import Sidecar
from specon_lab.engine.world import Incarnation, SimulatedJob, World
from specon_manager.model import events as ev
from specon_manager.model.cluster import role_of
from specon_manager.model.resources import Resources
from specon_manager.model.transactions import TransactionState
from specon_sidecar.classify import ClassifierSettings
from specon_sidecar.wire import Checkpoint, Report

_PAUSE: Final = 1e-3  # between two reports, seconds: a rounding must not let time stand still


class Observation:
    """Plans and sends reports: one sidecar judges the log of a job, each worker's reports what it says."""

    def __init__(self, world: World, *, oracle: bool, classifier: ClassifierSettings | None) -> None:
        self._world = world
        self._classifier = classifier
        self._oracle = oracle
        self._sidecars: dict[SimulatedJob, Sidecar] = {}
        self._planned: dict[SimulatedJob, float] = {}
        self._shares = any(submission.training.demand for submission in world.workload.jobs)
        self._measuring = False
        self._usage: dict[str, float] = {}

    def begin(self) -> None:
        """Go on measuring what the nodes use, where cores are shared and it matters how busy they are."""
        if self._shares and not self._measuring:
            self._measuring = True
            world = self._world
            world.agenda.at(world.now + world.workload.report_seconds, self._measure, passing=True)

    def report_changed(self, job: SimulatedJob) -> None:
        """Report of incarnations that begin to train; plan the next report at the new speed."""
        if any(self._speaks(i) and not i.reported for i in job.incarnations.values()):
            self._report(job)
        self._plan(job)

    def hasten(self, job: SimulatedJob) -> None:
        """Plan a report at the next step of a job whose change waits for the proof that it trains."""
        if job in self._sidecars:
            self._plan(job)

    def report_last_checkpoint(self, incarnation: Incarnation, checkpoint: Checkpoint) -> None:
        """Report the checkpoint that a replica has written when it was told to end."""
        job = incarnation.job
        report = self._say(job, incarnation, first=False)
        self._send(report, incarnation, checkpoint=checkpoint, ended=True)

    def forget(self, job: SimulatedJob) -> None:
        """Let go of a job that ended."""
        self._sidecars.pop(job, None)
        self._planned.pop(job, None)

    def _report(self, job: SimulatedJob) -> None:
        """Send the reports of all workers that run."""
        report: Report | None = None
        speakers = [incarnation for incarnation in job.incarnations.values() if self._speaks(incarnation)]
        first = any(not incarnation.reported for incarnation in speakers)
        for incarnation in speakers:
            if report is None:
                report = self._say(job, incarnation, first=first)
            incarnation.reported = True
            self._send(report, incarnation)

    def _speaks(self, incarnation: Incarnation) -> bool:
        return incarnation.up and incarnation.ending is None and role_of(incarnation.replica) != "ps"

    def _say(self, job: SimulatedJob, incarnation: Incarnation, *, first: bool) -> Report:
        now, total = self._world.now, job.trainer.total
        return self._sidecar(job).report(
            now,
            job.trainer.at(now) / total,
            job.trainer.rate / total,
            incarnation.name,
            first,
            replica=incarnation.replica,
        )

    def _send(
        self,
        report: Report,
        incarnation: Incarnation,
        *,
        checkpoint: Checkpoint | None = None,
        ended: bool = False,
    ) -> None:
        if report.replica != incarnation.replica or ended or incarnation.demand:
            report = msgspec.structs.replace(
                report,
                replica=incarnation.replica,
                incarnation=incarnation.name,
                checkpoint=checkpoint,
                ended=ended,
                cpu_seconds=incarnation.spend(self._world.now) if incarnation.demand else None,
            )
        self._world.emit(ev.ReportReceived(report))

    def _sidecar(self, job: SimulatedJob) -> Sidecar:
        known = self._sidecars.get(job)
        if known is None:
            workload = self._world.workload
            known = Sidecar(
                job.submission,
                seed=workload.seed,
                oracle=self._oracle,
                interval=workload.report_seconds,
                classifier=self._classifier,
            )
            self._sidecars[job] = known
        return known

    def _plan(self, job: SimulatedJob, *, pause: float = 0.0) -> None:
        """Plan the next report of a job that trains, unless an earlier one is planned."""
        now, total = self._world.now, job.trainer.total
        done, rate = job.trainer.at(now) / total, job.trainer.rate / total
        sidecar = self._sidecar(job)
        due = sidecar.next_due(now, done, rate)
        flying = self._world.state.transactions_of(job.name)
        if any(each.state is TransactionState.VERIFYING for each in flying):
            due = min(due, sidecar.next_step(now, done, rate))
        due = max(due, now + pause)
        planned = self._planned.get(job, math.inf)
        if due == math.inf or (now < planned <= due):
            return
        self._planned[job] = due
        self._world.agenda.at(due, self._fall_due, job, due, passing=True)

    def _fall_due(self, job: SimulatedJob, due: float) -> None:
        if self._planned.get(job) != due:
            return  # an earlier one took its place
        del self._planned[job]
        if job.training:
            self._report(job)
            self._plan(job, pause=_PAUSE)

    def _measure(self) -> None:
        """Tell how many cores of each node are used, where that changed; stop when nothing is under way."""
        world = self._world
        self._measuring = world.busy
        if not self._measuring:
            return
        world.agenda.at(world.now + world.workload.report_seconds, self._measure, passing=True)
        for node in world.workload.nodes:
            simulated = world.nodes[node.name]
            used = min(simulated.cores, math.fsum(_cores(i) for i in simulated.incarnations.values()))
            if simulated.failures:
                self._usage.pop(node.name, None)  # its loss was reported, and a use of 0 with it
                continue
            if used == self._usage.get(node.name, 0.0):
                continue
            self._usage[node.name] = used
            usage = Resources(cpu=used)
            world.emit(
                ev.NodeObserved(
                    node=node.name,
                    capacity=node.capacity,
                    usage=usage,
                    ready=node.ready,
                    labels=node.labels,
                )
            )


def _cores(incarnation: Incarnation) -> float:
    return max(incarnation.reserved, incarnation.demand) if incarnation.training else 0.0
