"""The books of a simulation: each job's times, and where everything ran. Bounded, whatever is simulated."""

from dataclasses import dataclass, field
from typing import Final, Literal

from specon_lab.engine.outcome import JobOutcome, Stay
from specon_lab.engine.slowness import Slowing
from specon_lab.engine.utilisation import Utilisation
from specon_lab.workloads.workload import Submission, Workload
from specon_manager.model.resources import Resources

_STAYS: Final = 200_000  # more are not kept: no chart could show them
_INTERVALS: Final = 1000  # of one job: it is preempted no more often than its budget allows

End = Literal["completed", "failed", "unfinished", "cannot-run"]


@dataclass(slots=True, eq=False)
class Ledger:
    """The times of one job, seconds."""

    index: int
    since: float
    mode: Literal["waiting", "paused", "training"] = "waiting"
    started_at: float | None = None
    trained: float = 0.0
    paused: float = 0.0
    waited: float = 0.0
    lost: float = 0.0
    slowing: Slowing = field(default_factory=Slowing)
    moves: int = 0
    preemptions: int = 0
    scale_outs: int = 0
    scale_ins: int = 0
    demand: float = 0.0
    """What it would take with all that its owner asked for, of the resource that is accounted for."""
    contended: float = 0.0
    """`Utilisation.contended` when it arrived."""
    signals: list[float] = field(default_factory=list)
    """Preemptions after which it has not trained yet."""
    intervals: list[float] = field(default_factory=list)


class Account:
    """What the outcome of a simulation is made of."""

    def __init__(self, workload: Workload, *, stays: bool) -> None:
        """Account for GPUs where jobs ask for any that there are, else for CPU cores."""
        gpus = any(node.capacity.gpu for node in workload.nodes)
        self.gpu = gpus and any(submission.spec.requests.gpu for submission in workload.jobs)
        self.use = Utilisation(sum(self.amount(node.capacity) for node in workload.nodes))
        self.stays: list[Stay] = []
        self.moves_failed = 0
        self._submissions = workload.jobs
        self._outcomes: list[JobOutcome | None] = [None] * len(workload.jobs)
        self._keep_stays = stays
        self.first_at = min((submission.at for submission in workload.jobs), default=0.0)
        self.last_at = self.first_at
        """When the last job ended so far."""
        self.closed = 0
        """How many jobs have an outcome."""

    def amount(self, resources: Resources) -> float:
        """Return the part of the resources that is accounted for."""
        return resources.gpu if self.gpu else resources.cpu

    def open_ledger(self, index: int, now: float) -> Ledger:
        """Open the ledger of the job that is the workload's number `index`."""
        self.use.waiting += 1
        submission = self._submissions[index]
        spec = submission.spec
        wanted = (*spec.ps, *spec.worker_names[: spec.wanted_workers])
        demand = sum(amount_of(self, submission, spec.requests_of(replica)) for replica in wanted)
        self.use.demanded += demand
        return Ledger(index=index, since=now, demand=demand, contended=self.use.contended)

    def note_placed(self, ledger: Ledger, now: float) -> None:
        """Take note that something of the job is on a node."""
        if ledger.mode == "waiting":
            self._turn(ledger, "paused", now)
            self.use.waiting -= 1
            self.use.running += 1

    def note_removal(self, ledger: Ledger, now: float) -> None:
        """Take note that nothing of the job is on any node."""
        if ledger.mode != "waiting":
            self._turn(ledger, "waiting", now)
            self.use.running -= 1
            self.use.waiting += 1

    def trains(self, ledger: Ledger, now: float) -> None:
        """Take note that the job trains from now on."""
        self._turn(ledger, "training", now)
        if ledger.started_at is None:
            ledger.started_at = now
        if ledger.signals:
            ledger.intervals += [now - signal for signal in ledger.signals][
                : _INTERVALS - len(ledger.intervals)
            ]
            ledger.signals.clear()

    def pauses(self, ledger: Ledger, now: float) -> None:
        """Take note that the job stands still where it is."""
        if ledger.mode == "training":
            self._turn(ledger, "paused", now)

    def note_preemption(self, ledger: Ledger, now: float) -> None:
        """Take note of the signal that ends the job for another one; its replicas are told one by one."""
        if ledger.signals and ledger.signals[-1] == now:
            return
        ledger.preemptions += 1
        if len(ledger.signals) < _INTERVALS:
            ledger.signals.append(now)

    def note_stay(self, replica: str, node: str, start: float, end: float) -> None:
        """Take note of where an incarnation was."""
        if self._keep_stays and len(self.stays) < _STAYS:
            self.stays.append(Stay(replica=replica, node=node, start=start, end=end))

    def note_ended(
        self, ledger: Ledger, state: End, now: float, reason: str = "", converged_at: float | None = None
    ) -> None:
        """Close the ledger of a job; `converged_at` is when it had made nearly all of its gain."""
        self._turn(ledger, ledger.mode, now)
        if ledger.mode == "waiting":
            self.use.waiting -= 1
        else:
            self.use.running -= 1
        # Sums of floats do not come back to nothing by themselves.
        left = self.use.waiting + self.use.running
        self.use.demanded = self.use.demanded - ledger.demand if left else 0.0
        if state in {"completed", "failed"}:
            self.last_at = max(self.last_at, now)
        self._record(ledger, state, now if state in {"completed", "failed"} else None, reason, converged_at)

    def note_refusal(self, index: int, reason: str) -> None:
        """Take note of a job that the cluster can never run."""
        self._record(Ledger(index=index, since=self._submissions[index].at), "cannot-run", None, reason)

    def close_books(self, reason: str) -> None:
        """Close the books on the jobs that never came, since the simulation ended before."""
        for index, outcome in enumerate(self._outcomes):
            if outcome is None:
                self._record(
                    Ledger(index=index, since=self._submissions[index].at), "unfinished", None, reason
                )

    def outcomes(self) -> tuple[JobOutcome, ...]:
        """Return what became of the jobs, in the order of submission."""
        return tuple(outcome for outcome in self._outcomes if outcome is not None)

    def _turn(self, ledger: Ledger, mode: Literal["waiting", "paused", "training"], now: float) -> None:
        seconds = now - ledger.since
        if ledger.mode == "training":
            ledger.trained += seconds
        elif ledger.mode == "paused":
            ledger.paused += seconds
        else:
            ledger.waited += seconds
        ledger.mode, ledger.since = mode, now

    def _contention(self, ledger: Ledger, ended_at: float | None) -> float:
        seconds = 0.0 if ended_at is None else ended_at - self._submissions[ledger.index].at
        return (self.use.contended - ledger.contended) / seconds if seconds > 0 else 1.0

    def _record(
        self,
        ledger: Ledger,
        state: End,
        ended_at: float | None,
        reason: str,
        converged_at: float | None = None,
    ) -> None:
        submission = self._submissions[ledger.index]
        spec = submission.spec
        self.closed += 1
        self._outcomes[ledger.index] = JobOutcome(
            name=spec.name,
            job_class=spec.job_class,
            kind=spec.kind,
            state=state,
            reason=reason,
            submitted_at=submission.at,
            started_at=ledger.started_at,
            converged_at=converged_at,
            ended_at=ended_at,
            ideal_seconds=submission.training.seconds,
            contention=self._contention(ledger, ended_at),
            trained_seconds=ledger.trained,
            paused_seconds=ledger.paused,
            waited_seconds=ledger.waited,
            lost_seconds=ledger.lost,
            slowness=ledger.slowing.total,
            moves=ledger.moves,
            preemptions=ledger.preemptions,
            scale_outs=ledger.scale_outs,
            scale_ins=ledger.scale_ins,
            intervals=tuple(ledger.intervals),
        )


def amount_of(account: Account, submission: Submission, requests: Resources) -> float:
    """Return what one replica takes of the resource that is accounted for.

    CPU that it uses beyond what it reserves is taken from the others, so it counts as well.
    """
    reserved = account.amount(requests)
    return reserved if account.gpu else max(reserved, submission.training.demand)
