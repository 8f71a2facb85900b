"""The loop of a simulation: what happens goes to `step` as an event, what `step` orders happens in the world.

The same `step` as in earnest, with virtual time: the events of one moment are taken in first, one after the
other, then the policy is asked, as the controller does it.
"""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from specon_lab.engine.account import Account
from specon_lab.engine.backend import SimulatedBackend
from specon_lab.engine.beginning import Beginning, take_up, train_on
from specon_lab.engine.feasibility import Feasibility
from specon_lab.engine.world import World
from specon_lab.workloads.workload import Workload
from specon_manager.core.state import State
from specon_manager.core.step import calls_for_tick, frees_what_waits, step
from specon_manager.model import events as ev
from specon_manager.model.actions import Action, Decision
from specon_manager.model.settings import Settings
from specon_manager.model.transactions import Kind, Transaction, TransactionState
from specon_sidecar.classify import ClassifierSettings

_TICKS_AT_ONCE: Final = 32  # within one moment: a policy that always finds something to do must not stop time
_QUIET_TICKS: Final = 20  # in which nothing changed, before the next ones are further and further apart
_SOON: Final = 61.0
"""After the start of a replica its pace is known, and policies may preempt it, seconds."""
_LOSSES: Final = (ev.ReplicaGone, ev.StartRefused)


class Moment(Struct, frozen=True, kw_only=True):
    """One step of a simulation, for those who check it."""

    now: float
    before: State
    after: State
    event: ev.Event
    actions: Sequence[Action]
    world: World
    """As it is after the step and before its actions are carried out."""


Check = Callable[[Moment], None]


class Engine:
    """Drives one simulation from the first job to the last."""

    def __init__(
        self,
        workload: Workload,
        settings: Settings,
        account: Account,
        *,
        oracle: bool,
        classifier: ClassifierSettings | None,
        ticks_only: bool,
        limit: float,
        beginning: Beginning | None = None,
        on_progress: Callable[[float], None] | None = None,
        check: Check | None = None,
    ) -> None:
        """`limit` is when it ends at the latest; for the other arguments see `simulate`."""
        self._workload = workload
        self._settings = settings
        self._account = account
        self._oracle = oracle
        self._ticks_only = ticks_only
        self._limit = limit
        self._beginning = beginning
        self._on_progress = on_progress
        self._check = check
        self._events: deque[ev.Event] = deque()
        queues = {queue.name: queue for queue in settings.queues}
        state = State(settings=settings, queues=queues)
        self._world = World(workload, state, account, self._events.append)
        self._backend = SimulatedBackend(self._world, oracle=oracle, classifier=classifier)
        self._feasibility = Feasibility(workload.nodes)
        self._arrivals = sorted(range(len(workload.jobs)), key=lambda index: workload.jobs[index].at)
        self._arrived = 0
        self._tick_number = 0  # the next regular Tick, in units of the settings' tick
        self._ticked = -1  # the last one
        self._tick_wanted = False
        self._ticks_now = 0
        self._changed_at = 0.0
        self._quiet_ticks = 0
        self._told = -1
        self._last_move: Transaction | None = None
        self._last_decision: Decision | None = None
        self.ticks = 0
        """How often the policy was asked."""
        self.refusals: Counter[str] = Counter()

    def run(self) -> None:
        """Simulate until every job has ended, or until nothing will happen any more."""
        agenda = self._world.agenda
        self._backend.begin()
        if self._beginning is not None:
            self._let_happen()
            take_up(self._world, self._backend, self._beginning)
            self._let_happen()
            for since in train_on(self._world, self._beginning):
                self._look_again(since)
        while True:
            self._let_happen()
            self._tell_progress()
            if self._account.closed == len(self._arrivals):
                return
            if self._tick_is_due():
                self._tick()
                continue
            time = self._next_time()
            if time is None or time > self._limit:
                self._give_up(time)
                return
            if time > agenda.now:
                self._account.use.pass_time(time)
                agenda.now = time
                self._ticks_now = 0
                if not self._world.jobs:
                    self._align()

    @property
    def now(self) -> float:
        """Seconds since the simulation began."""
        return self._world.now

    # -- a moment --------------------------------------------------------------------------------

    def _let_happen(self) -> None:
        """Let everything happen that is due now, and what follows from it at once."""
        world, agenda, pace = self._world, self._world.agenda, self._backend.pace
        while True:
            self._take_events()
            if self._arrive() or agenda.run_next():
                continue
            if not (world.regrouped or world.resettled):
                return
            pace.settle()

    def _arrive(self) -> bool:
        """Let the next job arrive that is due now; False where there is none."""
        if self._arrived == len(self._arrivals):
            return False
        index = self._arrivals[self._arrived]
        submission = self._workload.jobs[index]
        if submission.at > self._world.now:
            return False
        self._arrived += 1
        objection = self._feasibility.objection(submission.spec)
        if objection is not None:
            self._account.note_refusal(index, objection)
            return True
        spec = submission.spec
        if self._oracle:
            spec = msgspec.structs.replace(spec, declared_seconds=submission.training.seconds)
        self._backend.submit(index, submission, ev.JobSubmitted(spec))
        return True

    def _take_events(self) -> None:
        events = self._events
        while events:
            event = events.popleft()
            self._step(event)
            if not self._ticks_only and calls_for_tick(event):
                self._tick_wanted = True
            if not isinstance(event, ev.ReportReceived):
                self._note_change()
            if isinstance(event, ev.ReplicaStarted):
                self._look_again(self._world.now)
            if isinstance(event, _LOSSES):
                self._backend.notice_end(event)

    def _step(self, event: ev.Event) -> Sequence[Action]:
        world = self._world
        before, now = world.state, world.agenda.now
        world.state, actions = step(before, event, now)
        if not self._ticks_only and frees_what_waits(before, world.state):
            self._tick_wanted = True
        if self._check is not None:
            self._check(
                Moment(now=now, before=before, after=world.state, event=event, actions=actions, world=world)
            )
        if world.state.history is not before.history:
            self._count_moves()
        for action in actions:
            self._backend.carry_out(action)
        if world.state.transactions and world.state.transactions is not before.transactions:
            for name, each in world.state.transactions.items():
                if each.state is TransactionState.VERIFYING and each is not before.transactions.get(name):
                    self._backend.prove(each.job)
        return actions

    # -- ticks -----------------------------------------------------------------------------------

    def _tick_is_due(self) -> bool:
        now = self._world.now
        if self._tick_number * self._settings.tick <= now:
            return bool(self._world.jobs)
        return self._tick_wanted and self._ticks_now < _TICKS_AT_ONCE and bool(self._world.jobs)

    def _look_again(self, since: float) -> None:
        """Plan a Tick for when a job that trains since then may be preempted, where that is wanted."""
        if self._beginning is not None and self._beginning.looks_again:
            self._world.agenda.at(since + _SOON, self._want_tick, passing=True)

    def _want_tick(self) -> None:
        self._tick_wanted = True

    def _tick(self) -> None:
        """Ask the policy, and plan the next regular Tick."""
        self._tick_wanted = False
        self._ticks_now += 1
        self.ticks += 1
        before = self._world.state
        if self._step(ev.Tick()):
            self._note_change()
        if self._world.state.decisions is not before.decisions:
            self._count_refusals()
        if self._tick_number * self._settings.tick <= self._world.now:
            self._ticked = self._tick_number
            self._quiet_ticks += not self._world.busy
            self._tick_number += 2 ** max(0, min(40, self._quiet_ticks - _QUIET_TICKS))

    def _note_change(self) -> None:
        """Take note that something is not as it was: policies may have something new to say soon."""
        self._changed_at = self._world.now
        if self._quiet_ticks:
            self._quiet_ticks = 0
            self._align()

    def _align(self) -> None:
        """Let the next regular Tick be the first one from now on that has not been yet."""
        interval, now = self._settings.tick, self._world.now
        number = int(now // interval)
        number += number * interval < now
        self._tick_number = max(self._ticked + 1, number)

    def _next_time(self) -> float | None:
        """Return when something is next to happen; None where nothing ever will."""
        world = self._world
        times = []
        if self._arrived < len(self._arrivals):
            times.append(self._workload.jobs[self._arrivals[self._arrived]].at)
        upcoming = world.agenda.upcoming
        if upcoming is not None:
            times.append(upcoming)
        if world.jobs and (world.busy or world.now < self._changed_at + self._patience):
            times.append(self._tick_number * self._settings.tick)
        return max(world.now, min(times)) if times else None

    @property
    def _patience(self) -> float:
        """How long policies may do nothing while nothing changes, before no more is expected of them."""
        deadlines = self._settings.deadlines
        return 2 * max(deadlines.claim, 2.0**9 * deadlines.crash_backoff) + 100 * self._settings.tick

    def _give_up(self, time: float | None) -> None:
        """Close the books on what has not ended."""
        world, account = self._world, self._account
        if time is None:
            reason = f"nothing changes any more since {self._changed_at:g} s"
        else:
            reason = f"the simulation was ended after {self._limit:g} s"
        for job in list(world.jobs.values()):
            job.trainer.advance(world.now)
            why = f"{_explain_standing(job.ledger.mode)}: {reason}"
            account.note_ended(job.ledger, "unfinished", world.now, why, job.trainer.converged_at)
        account.close_books(reason)

    # -- counts ----------------------------------------------------------------------------------

    def _count_moves(self) -> None:
        """Count the moves that ended since the last time."""
        history, account = self._world.state.history, self._account
        latest = self._last_move
        self._last_move = history[-1] if history else None
        for move in reversed(history):
            if move is latest:
                return
            if move.kind is not Kind.MOVE:
                continue
            if move.state is not TransactionState.SUCCEEDED:
                account.moves_failed += 1
            elif (job := self._world.owners.get(move.replica)) is not None:
                job.ledger.moves += 1

    def _count_refusals(self) -> None:
        decisions = self._world.state.decisions
        latest = self._last_decision
        self._last_decision = decisions[-1] if decisions else None
        for decision in reversed(decisions):
            if decision is latest:
                return
            if decision.refusal is not None:
                self.refusals[str(decision.refusal)] += 1

    def _tell_progress(self) -> None:
        """Tell how large a part of the jobs has ended, a few hundred times in all."""
        if self._on_progress is None or not self._arrivals:
            return
        part = 500 * self._account.closed // len(self._arrivals)
        if part != self._told:
            self._told = part
            self._on_progress(self._account.closed / len(self._arrivals))


def _explain_standing(mode: str) -> str:
    return {"waiting": "it waits", "paused": "it is placed and does not train"}.get(mode, "it trains")
