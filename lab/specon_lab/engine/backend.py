"""The simulated backend: carries orders out in the world, and tells the manager what became of them.

As the contract of backends wants it, an order may come twice. Nothing takes time on the way: what an order
begins, it begins at the moment at which it is given.
"""

from specon_lab.engine.account import End, amount_of
from specon_lab.engine.checkpoints import Checkpoints
from specon_lab.engine.observation import Observation
from specon_lab.engine.outages import Outages
from specon_lab.engine.progress import Pace
from specon_lab.engine.trainer import Trainer
from specon_lab.engine.world import Ending, Incarnation, SimulatedJob, World
from specon_lab.workloads.workload import Submission
from specon_manager.model import events as ev
from specon_manager.model.actions import (
    Action,
    EvictReplica,
    HoldRoom,
    RequestCheckpoint,
    SetWeight,
    StartReplica,
    WithdrawRequest,
)
from specon_manager.model.transactions import Kind
from specon_sidecar.classify import ClassifierSettings

_TERMINATED = 143  # what a trainer exits with that was told to end: 128 + SIGTERM
_PURPOSES: dict[str, Ending] = {"preempt": "preempt", "scale-in": "scale-in"}


class SimulatedBackend:
    """Where replicas run in a simulation."""

    def __init__(self, world: World, *, oracle: bool, classifier: ClassifierSettings | None) -> None:
        """Set up for a world in which nothing happened yet; with `oracle` the reports tell the truth."""
        self._world = world
        self._observation = Observation(world, oracle=oracle, classifier=classifier)
        self.pace = Pace(world, finished=self._complete, changed=self._observation.report_changed)
        self._checkpoints = Checkpoints(world, self._observation)
        self._outages = Outages(world, self.pace, lost=self._lose)

    def begin(self) -> None:
        """Report the nodes, and plan their failures."""
        self._outages.begin()

    def submit(self, index: int, submission: Submission, event: ev.JobSubmitted) -> None:
        """Let the workload's job number `index` arrive; `event` is what the manager is told of it."""
        world, spec = self._world, submission.spec
        world.arrive(
            SimulatedJob(
                submission=submission,
                trainer=Trainer(submission.training, saves=spec.checkpointing != "none"),
                ledger=world.account.open_ledger(index, world.now),
            )
        )
        world.emit(event)

    def carry_out(self, action: Action) -> None:
        """Carry one order out."""
        if isinstance(action, StartReplica):
            self._start(action)
        elif isinstance(action, EvictReplica):
            self._evict(action)
        elif isinstance(action, HoldRoom):
            self._hold(action)
        elif isinstance(action, RequestCheckpoint):
            self._checkpoints.ask(action)
        elif isinstance(action, WithdrawRequest):
            self._checkpoints.withdraw(action)
        elif isinstance(action, SetWeight):
            self._weigh(action)
        # ReleaseRoom: nobody but this manager fills the nodes, and its plan counts what it holds.

    # -- starts ----------------------------------------------------------------------------------

    def take_over(self, order: StartReplica) -> None:
        """Let what runs already when the simulation begins be up where it is."""
        self._start(order, runs=True)

    def _start(self, order: StartReplica, *, runs: bool = False) -> None:
        world, job = self._world, self._world.owners.get(order.replica)
        if job is None:
            self._refuse(order, "its job has ended")
            return
        name = f"{order.replica}.{order.start}"
        lives = job.incarnations.get(order.replica)
        if lives is not None:
            if lives.name != name:
                self._refuse(order, f"{lives.name} lives")
            elif lives.up:
                self._tell_of_start(lives)
            return
        if order.start <= job.gone.get(order.replica, 0):
            self._refuse(order, f"{name} was started before, and is gone")
            return
        if order.node is None or not self._outages.ready(order.node):
            self._refuse(order, f"node {order.node} is not ready")
            return
        training, spec = job.submission.training, job.submission.spec
        joins = job.whole and order.replica not in job.members
        live = joins and spec.resizing != "at-once"
        requests = spec.requests_of(order.replica)
        record = world.state.replicas.get(order.replica)
        incarnation = Incarnation(
            name=name,
            replica=order.replica,
            start=order.start,
            job=job,
            node=world.nodes[order.node],
            began=world.now,
            amount=amount_of(world.account, job.submission, requests),
            reserved=0.0 if training.demand else requests.cpu,
            demand=training.demand,
            weight=1.0 if record is None else record.weight,
            joins=live,
        )
        if joins and not live:
            self._resize(job, training.resize_seconds)
        world.place(incarnation)
        self._observation.begin()
        delay = 0.0 if runs else self._delay(incarnation, joins=joins)
        if delay > 0:
            world.agenda.at(world.now + delay, self._come_up, incarnation)
        else:
            self._come_up(incarnation)

    def _delay(self, incarnation: Incarnation, *, joins: bool) -> float:
        """Return how long it takes until the ordered replicas are up, seconds."""
        training = incarnation.job.submission.training
        transaction = self._world.state.transaction_of(incarnation.replica)
        moves = transaction is not None and transaction.kind is Kind.MOVE
        if moves and training.move_seconds is not None:
            return training.move_seconds
        resumes = not joins and incarnation.job.trainer.done > 0
        return training.start_seconds + (training.restore_seconds if resumes else 0.0)

    def _come_up(self, incarnation: Incarnation) -> None:
        """Let an ordered incarnation train, unless it ended meanwhile."""
        if incarnation.node.incarnations.get(incarnation.replica) is not incarnation:
            return
        incarnation.up = True
        if incarnation.joins:
            self._resize(incarnation.job, incarnation.job.submission.training.resize_seconds)
        self._world.regrouped[incarnation.job] = None
        self._tell_of_start(incarnation)

    def _tell_of_start(self, incarnation: Incarnation) -> None:
        self._world.emit(
            ev.ReplicaStarted(
                replica=incarnation.replica,
                incarnation=incarnation.name,
                node=incarnation.node.name,
                start=incarnation.start,
            )
        )

    def _refuse(self, order: StartReplica, reason: str) -> None:
        self._world.emit(ev.StartRefused(replica=order.replica, start=order.start, reason=reason))

    def _resize(self, job: SimulatedJob, seconds: float, *, fewer: bool = False) -> None:
        """Let the job pause since the number of its workers changes, once for all that change at a moment."""
        world = self._world
        if job.resized_at != world.now:
            job.resized_at = world.now
            if fewer:
                job.ledger.scale_ins += 1
            else:
                job.ledger.scale_outs += 1
        self.pace.pause(job, seconds)

    # -- ends ------------------------------------------------------------------------------------

    def _evict(self, order: EvictReplica) -> None:
        """Tell an incarnation to end; what it did until now is kept."""
        world, incarnation = self._world, self._world.incarnation_of(order.replica)
        if incarnation is None or order.incarnation not in {None, incarnation.name}:
            world.emit(
                ev.ReplicaGone(
                    replica=order.replica, incarnation=order.incarnation, evicted=True, reason="not there"
                )
            )
            return
        job = incarnation.job
        training = job.submission.training
        stops = training.stop_seconds
        seconds = order.grace_seconds if stops is None else min(stops, order.grace_seconds)
        if not incarnation.up:
            seconds = 0.0  # nothing trains in it yet that would have to be saved
        if incarnation.ending is None:
            self._tell_to_end(job, incarnation)
        elif incarnation.ends_at <= world.now + seconds:
            return
        incarnation.ends_at = world.now + seconds
        if seconds > 0:
            world.agenda.at(incarnation.ends_at, self._come_down, incarnation)
        else:
            self._come_down(incarnation)

    def _tell_to_end(self, job: SimulatedJob, incarnation: Incarnation) -> None:
        world, training = self._world, job.submission.training
        record = world.state.replicas.get(incarnation.replica)
        purpose = "" if record is None or record.leaving is None else record.leaving.purpose
        transaction = world.state.transaction_of(incarnation.replica)
        incarnation.ending = _PURPOSES.get(purpose, "other")
        if incarnation.ending == "scale-in":
            job.members.discard(incarnation.replica)
            seconds = training.scale_in_seconds
            self._resize(job, training.resize_seconds if seconds is None else seconds, fewer=True)
            return
        if transaction is not None and transaction.restart and transaction.attempt == 1:
            self._resize(job, 0.0, fewer=transaction.kind is Kind.SCALE_IN)
        if incarnation.ending == "preempt":
            world.account.note_preemption(job.ledger, world.now)
        self.pace.stop(job)
        job.trainer.keep()
        job.ledger.lost += job.trainer.fall_back()  # nothing is lost by one that saves

    def _come_down(self, incarnation: Incarnation) -> None:
        """Let an incarnation that was told to end be gone; it may be already, or have got a later end."""
        world = self._world
        if incarnation.node.incarnations.get(incarnation.replica) is not incarnation:
            return
        if world.now < incarnation.ends_at:
            return
        self._checkpoints.leave(incarnation)
        self._note_gone(incarnation, exit_code=_TERMINATED if incarnation.up else None, evicted=True)

    def _complete(self, job: SimulatedJob) -> None:
        """Let a job end by itself: its training is complete."""
        self.pace.stop(job)
        job.trainer.done = job.trainer.total
        job.complete, job.untold = True, len(job.incarnations)
        for incarnation in list(job.incarnations.values()):
            self._note_gone(incarnation, exit_code=0, evicted=False)

    def _note_gone(
        self, incarnation: Incarnation, *, exit_code: int | None, evicted: bool, reason: str = ""
    ) -> None:
        self._world.remove(incarnation)
        self._world.emit(
            ev.ReplicaGone(
                replica=incarnation.replica,
                incarnation=incarnation.name,
                exit_code=exit_code,
                evicted=evicted,
                reason=reason,
            )
        )

    def _lose(self, incarnation: Incarnation, reason: str) -> None:
        """Let an incarnation be gone that nobody told to; one that had not come up was never seen."""
        told = incarnation.ending is not None
        if incarnation.up or told:
            self._note_gone(incarnation, exit_code=None, evicted=told, reason=reason)
            return
        self._world.remove(incarnation)
        self._world.emit(ev.StartRefused(replica=incarnation.replica, start=incarnation.start, reason=reason))

    def notice_end(self, event: ev.ReplicaGone | ev.StartRefused) -> None:
        """Close the job of a replica that is gone, where the manager has been told of all its ends."""
        world, job = self._world, self._world.owners.get(event.replica)
        if job is None or job.incarnations:
            return
        if job.complete:
            job.untold -= 1
            if not job.untold:
                self._close(job, "completed")
            return
        record = world.state.jobs.get(job.name)
        if record is None or record.ended_at is not None:
            self._close(job, "failed", _last_words(job, world))

    def _close(self, job: SimulatedJob, state: End, reason: str = "") -> None:
        self._observation.forget(job)
        self._world.leave(job)
        self._world.account.note_ended(job.ledger, state, self._world.now, reason, job.trainer.converged_at)

    def prove(self, name: str) -> None:
        """Let the sidecars of a job report its next step, which a change of it waits for."""
        if (job := self._world.jobs.get(name)) is not None:
            self._observation.hasten(job)

    # -- room and weights ------------------------------------------------------------------------

    def _hold(self, order: HoldRoom) -> None:
        """Say that the room is held: nobody but this manager fills the node, and its plan counts moves."""
        held: ev.Event = ev.RoomHeld(transaction=order.transaction, replica=order.replica)
        if not self._outages.ready(order.node):
            why = f"node {order.node} is not ready"
            held = ev.RoomRefused(transaction=order.transaction, replica=order.replica, reason=why)
        self._world.emit(held)

    def _weigh(self, order: SetWeight) -> None:
        incarnation = self._world.incarnation_of(order.replica)
        if incarnation is None or incarnation.name != order.incarnation:
            return
        if incarnation.weight != order.weight:
            incarnation.weight = order.weight
            self._world.resettled[incarnation.node] = None


def _last_words(job: SimulatedJob, world: World) -> str:
    """Return why the manager gave a job up, as its record of a replica says."""
    records = (world.state.replicas.get(name) for name in job.submission.spec.replicas)
    notes = [record.note for record in records if record is not None and record.note]
    crashes = [note for note in notes if note.startswith("crash")]
    return next(iter(crashes or notes), "given up by the manager")
