"""The loop around `step` in real time: events in, memory, actions out."""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from specon_manager.backends.base import Backend, NotLeadingError, Order, is_stale
from specon_manager.core.state import State
from specon_manager.core.step import calls_for_tick, frees_what_waits, step
from specon_manager.model.actions import (
    Action,
    EvictReplica,
    HoldRoom,
    PlaceJob,
    ReleaseRoom,
    RequestCheckpoint,
    StartReplica,
    WithdrawRequest,
)
from specon_manager.model.cluster import job_of
from specon_manager.model.events import (
    Event,
    InstructionAcknowledged,
    JobRefused,
    ManagerStarted,
    NodeObserved,
    OrderExpired,
    RoomRefused,
    StartRefused,
    Tick,
)
from specon_manager.model.settings import Settings
from specon_manager.runtime.append_file import DiskFullError
from specon_manager.runtime.clock import Clock
from specon_manager.runtime.mailbox import Mailbox
from specon_manager.runtime.memory import Memory

_log = logging.getLogger(__name__)
_BATCH: Final = 500  # events between two commits: the loop serves HTTP in between
_TURN_SECONDS: Final = 0.05  # after which there is a commit with fewer; of thousands some are slow
_REST: Final = 4.0
"""After a Tick that an event called for the next one waits so many times as long as it took, so that a burst
of events is no burst of Ticks: they take a fifth of the time at most."""
_BRIEF: Final = 0.01
"""Seconds of the processor; after a Tick that took less there is no such wait."""
_ROOM_SECONDS: Final = 1.0  # between two looks whether there is room again
_RECORD_SECONDS: Final = 20.0  # that somebody who asks waits for an answer
_STANDSTILL: Final = 10.0
"""Seconds by which a wait for events may be too long, until nobody watched deadlines meanwhile."""


class Stepped(Struct, frozen=True, kw_only=True):
    """One step, for those who watch: metrics, the live view, the log."""

    before: State
    after: State
    event: Event
    actions: Sequence[Action]
    now: float
    seconds: float
    """How long `step` took."""


StepObserver = Callable[[Stepped], None]


class NotRecordedError(Exception):
    """An event handed in may not survive the manager; the text says why, and whether it is known at all."""


class Controller:
    """Feeds events to `step` one at a time and has its actions carried out.

    An action is carried out only after its memory has the event that led to it. Actions on one replica are
    carried out in the order in which they were given, those on different replicas at the same time. While the
    memory has no room nothing happens: what runs goes on, what comes in waits.
    """

    def __init__(self, *, state: State, memory: Memory, backend: Backend, clock: Clock) -> None:
        self.state = state
        self.mailbox = Mailbox()
        self.clock = clock
        self._memory = memory
        self._backend = backend
        self._events: deque[Event] = deque()
        self._posted = self._looked_at = 0
        self._asked: deque[tuple[int, asyncio.Future[State]]] = deque()
        """Those that wait for the commit of an event, by the number of its arrival."""
        self.stalled = ""
        """Why nothing can be recorded at present; empty where it can."""
        self._woken = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._last: dict[str, asyncio.Task[None]] = {}
        self.observers: list[StepObserver] = []
        self.ready = False
        self._ticked = float("-inf")
        self._tick_due = False
        self._rests_until = 0.0
        self._name = ""
        self._taken_over = False
        """Until then the state is that of an earlier manager: nothing is overdue, and no policy is asked."""
        self._deposed: NotLeadingError | None = None

    def post(self, event: Event) -> None:
        """Hand in an event; it is looked at soon, in the order of arrival."""
        if self.stalled and isinstance(event, NodeObserved) and self._replaces(event):
            return
        self._events.append(event)
        self._posted += 1
        self._woken.set()

    async def record(self, event: Event, seconds: float = _RECORD_SECONDS) -> State:
        """Hand in an event; return the state that it led to once that would survive this process.

        Raises NotRecordedError where that cannot be said, after so many seconds at the latest.
        """
        if self.stalled:
            raise NotRecordedError(f"nothing was done: {self.stalled}")
        recorded: asyncio.Future[State] = asyncio.get_running_loop().create_future()
        self.post(event)
        self._asked.append((self._posted, recorded))
        try:
            async with asyncio.timeout(seconds):
                return await recorded
        except TimeoutError:
            raise NotRecordedError(f"it is not on record after {seconds:g} s; look at its result") from None

    async def run(self, name: str, settings: Settings) -> None:
        """Take over the state as the manager called `name`, and go on until cancelled.

        Raises NotLeadingError once another manager leads; nothing is ordered after that.
        """
        try:
            await self._backend.begin(self.state, self.post)
            self._name = name
            self.post(ManagerStarted(name, settings))
            while True:
                await self._turn()
                self.ready = True
        finally:
            self.ready = False
            self._disappoint(len(self._asked), "the manager ends, and it may not be on record")
            for task in self._tasks:
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._backend.end()

    async def _turn(self) -> None:
        """Wait for events, or for the next Tick, and let them all happen."""
        longest = self.state.settings.tick
        if self._tick_due:
            longest = min(longest, max(0.0, self._rests_until - time.perf_counter()))
        waits_since = self.clock.now()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(longest):
                await self._woken.wait()
        stood_still = self.clock.now() - waits_since > longest + _STANDSTILL
        self._woken.clear()
        if self._deposed is not None:
            raise self._deposed
        actions = self._begin_again() if stood_still and self._taken_over else []
        self._tick_due = self._tick_due or not self._events
        ends = time.perf_counter() + _TURN_SECONDS
        for _ in range(min(len(self._events), _BATCH)):
            if time.perf_counter() > ends:
                break
            event = self._events.popleft()
            self._looked_at += 1
            self._tick_due = self._tick_due or calls_for_tick(event)
            actions += self._step(event)
        overdue = self.clock.now() - self._ticked >= self.state.settings.tick
        rested = time.perf_counter() >= self._rests_until
        if self._taken_over and (overdue or (self._tick_due and rested)):
            self._ticked, self._tick_due = self.clock.now(), False
            began = time.thread_time()
            actions += self._step(Tick())
            took = time.thread_time() - began
            rest = min(_REST * took, self.state.settings.tick) if took > _BRIEF else 0.0
            self._rests_until = time.perf_counter() + rest
        if self._events:
            self._woken.set()
            # A commit that has nothing to wait for lets nobody else have a turn.
            await asyncio.sleep(0)
        refused = await self._commit(actions)
        for action in actions:
            if (why := refused.get(_find_record(action))) is None:
                self._dispatch(action)
            else:
                self._note_failure(action, why)

    def _begin_again(self) -> list[Action]:
        """Set deadlines again as a new manager does, and repeat its orders; their answers wait unread."""
        _log.warning("the manager stood still: deadlines that passed meanwhile begin again")
        # Without queues: those that were observed since the begin stay.
        settings = msgspec.structs.replace(self.state.settings, queues=())
        return self._step(ManagerStarted(self._name, settings))

    async def _commit(self, actions: Sequence[Action]) -> Mapping[str, str]:
        """Return once the handled events are on record; tell those who wait for it."""
        due = sum(number <= self._looked_at for number, _ in self._asked)
        while True:
            state = self.state
            try:
                refused = await self._memory.commit(state, acting=bool(actions) or due > 0)
            except DiskFullError as error:
                if not self.stalled:
                    self.stalled = f"{error}: nothing is ordered until there is room; running jobs train on"
                    _log.critical("%s", self.stalled)
                    self._disappoint(
                        due, f"it is taken up when there is room, unless the manager ends: {error}"
                    )
                    due = 0
                await asyncio.sleep(_ROOM_SECONDS)
                continue
            if self.stalled:
                self.stalled = ""
                _log.critical("there is room again: everything is on record, and the manager continues")
            for _ in range(due):
                _, recorded = self._asked.popleft()
                if not recorded.done():
                    recorded.set_result(state)
            return refused

    def _disappoint(self, count: int, why: str) -> None:
        for _ in range(count):
            _, recorded = self._asked.popleft()
            if not recorded.done():
                recorded.set_exception(NotRecordedError(why))

    def _replaces(self, news: NodeObserved) -> bool:
        """Whether the event took the place of an older one on the same node: a long wait fills no memory."""
        for index, event in enumerate(self._events):
            if isinstance(event, NodeObserved) and event.node == news.node:
                self._events[index] = news
                return True
        return False

    def _step(self, event: Event) -> list[Action]:
        now, before = self.clock.now(), self.state
        began = time.perf_counter()
        self.state, actions = step(before, event, now)
        seconds = time.perf_counter() - began
        self._taken_over = self._taken_over or isinstance(event, ManagerStarted)
        self._tick_due = self._tick_due or frees_what_waits(before, self.state)
        if isinstance(event, InstructionAcknowledged):
            self.mailbox.heard(event.acknowledgement)
        self._memory.note(now, event, actions)
        stepped = Stepped(
            before=before, after=self.state, event=event, actions=actions, now=now, seconds=seconds
        )
        for observer in self.observers:
            observer(stepped)
        return actions

    def _dispatch(self, action: Action) -> None:
        # After the commit: a manager that was frozen finds there that another one leads, and orders nothing.
        # Not the whole action: what starts a replica has its environment in it, and that has secrets.
        subject = getattr(action, "replica", None) or getattr(action, "job", "")
        _log.info("%s %s: %s", type(action).__name__, subject, action.reason)
        if isinstance(action, RequestCheckpoint | WithdrawRequest):
            self.mailbox.put(action)
            return
        key = _key(action)
        before = self._last.get(key)
        task = asyncio.create_task(self._carry_out(action, before))
        self._last[key] = task
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._note_done(key, done))

    async def _carry_out(self, order: Order, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait([before])
        if isinstance(order, EvictReplica | PlaceJob) and is_stale(order, self.clock.now()):
            self.post(OrderExpired(transaction=order.transaction))
            return
        try:
            await self._backend.carry_out(order)
        except NotLeadingError as error:
            self._deposed = error
            self._woken.set()
        except Exception as error:  # noqa: BLE001  (the rim: whatever a backend runs into becomes an event)
            _log.exception("%s failed: %s", type(order).__name__, order.reason)
            self._note_failure(order, f"{type(error).__name__}: {error}")

    def _note_failure(self, order: Action, reason: str) -> None:
        """Tell `step` of a failed order; a failed eviction is ordered again when it is overdue."""
        if isinstance(order, StartReplica):
            self.post(StartRefused(replica=order.replica, start=order.start, reason=reason))
        elif isinstance(order, HoldRoom):
            refused = RoomRefused(transaction=order.transaction, replica=order.replica, reason=reason)
            self.post(refused)
        elif isinstance(order, PlaceJob):
            self.post(JobRefused(job=order.job, transaction=order.transaction, reason=reason))
        elif isinstance(order, RequestCheckpoint):
            job = job_of(order.replica)
            self.post(JobRefused(job=job, transaction=order.transaction, reason=reason))

    def _note_done(self, key: str, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._last.get(key) is task:
            del self._last[key]


def _find_record(action: Action) -> str:
    """Return the id of the transaction that must be on record before the action; empty for none."""
    return action.transaction if isinstance(action, HoldRoom | PlaceJob | RequestCheckpoint) else ""


def _key(order: Order) -> str:
    """Return what the order is about: one after the other is done for it."""
    if isinstance(order, HoldRoom | ReleaseRoom):
        return f"{order.transaction} {order.replica}"
    return order.job if isinstance(order, PlaceJob) else order.replica
