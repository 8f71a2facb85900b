"""The loop around `step` in real time: events in, memory, actions out."""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from specon_manager.backends.base import Backend, NotLeadingError, Order, is_stale
from specon_manager.core.state import State
from specon_manager.core.step import calls_for_tick, step
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
    JobRefused,
    ManagerStarted,
    OrderExpired,
    RoomRefused,
    StartRefused,
    Tick,
)
from specon_manager.model.settings import Settings
from specon_manager.runtime.clock import Clock
from specon_manager.runtime.mailbox import Mailbox
from specon_manager.runtime.memory import Memory

_log = logging.getLogger(__name__)
_BATCH: Final = 500  # events between two commits: the loop serves HTTP in between
_TURN_SECONDS: Final = 0.05  # after which there is a commit with fewer; of thousands some are slow


class Stepped(Struct, frozen=True, kw_only=True):
    """One step, for those who watch: metrics, the live view, the log."""

    before: State
    after: State
    event: Event
    actions: Sequence[Action]
    now: float
    seconds: float
    """How long `step` took."""


Observer = Callable[[Stepped], None]


class Controller:
    """Feeds events to `step` one at a time and has its actions carried out.

    An action is carried out only after its memory has the event that led to it. Actions on one replica are
    carried out in the order in which they were given, those on different replicas at the same time.
    """

    def __init__(self, *, state: State, memory: Memory, backend: Backend, clock: Clock) -> None:
        self.state = state
        self.mailbox = Mailbox()
        self.clock = clock
        self._memory = memory
        self._backend = backend
        self._events: deque[Event] = deque()
        self._woken = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._last: dict[str, asyncio.Task[None]] = {}
        self.observers: list[Observer] = []
        self.ready = False
        self._ticked = float("-inf")
        self._taken_over = False
        """Until then the state is that of an earlier manager: nothing is overdue, and no policy is asked."""
        self._deposed: NotLeadingError | None = None

    def post(self, event: Event) -> None:
        """Hand in an event; it is looked at soon, in the order of arrival."""
        self._events.append(event)
        self._woken.set()

    async def run(self, name: str, settings: Settings) -> None:
        """Take over the state as the manager called `name`, and go on until cancelled.

        Raises NotLeadingError once another manager leads; nothing is ordered after that.
        """
        try:
            await self._backend.begin(self.state, self.post)
            self.post(ManagerStarted(name, settings))
            while True:
                await self._turn()
                self.ready = True
        finally:
            self.ready = False
            for task in self._tasks:
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._backend.end()

    async def _turn(self) -> None:
        """Wait for events, or for the next Tick, and let them all happen."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.state.settings.tick):
                await self._woken.wait()
        self._woken.clear()
        if self._deposed is not None:
            raise self._deposed
        actions: list[Action] = []
        tick_due = not self._events
        ends = time.perf_counter() + _TURN_SECONDS
        for _ in range(min(len(self._events), _BATCH)):
            if time.perf_counter() > ends:
                break
            event = self._events.popleft()
            tick_due = tick_due or calls_for_tick(event)
            actions += self._step(event)
        overdue = self.clock.now() - self._ticked >= self.state.settings.tick
        if self._taken_over and (tick_due or overdue):
            self._ticked = self.clock.now()
            actions += self._step(Tick())
        if self._events:
            self._woken.set()
            # A commit that has nothing to wait for lets nobody else have a turn.
            await asyncio.sleep(0)
        refused = await self._memory.commit(self.state, acting=bool(actions))
        for action in actions:
            if (why := refused.get(_recorded_as(action))) is None:
                self._dispatch(action)
            else:
                self._failed(action, why)

    def _step(self, event: Event) -> list[Action]:
        now, before = self.clock.now(), self.state
        began = time.perf_counter()
        self.state, actions = step(before, event, now)
        seconds = time.perf_counter() - began
        self._taken_over = self._taken_over or isinstance(event, ManagerStarted)
        self._memory.note(now, event, actions)
        stepped = Stepped(
            before=before, after=self.state, event=event, actions=actions, now=now, seconds=seconds
        )
        for observer in self.observers:
            observer(stepped)
        for action in actions:
            # Not the whole action: what starts a replica has its environment in it, and that has secrets.
            subject = getattr(action, "replica", None) or getattr(action, "job", "")
            _log.info("%s %s: %s", type(action).__name__, subject, action.reason)
        return actions

    def _dispatch(self, action: Action) -> None:
        if isinstance(action, RequestCheckpoint | WithdrawRequest):
            self.mailbox.put(action)
            return
        key = _key(action)
        before = self._last.get(key)
        task = asyncio.create_task(self._carry_out(action, before))
        self._last[key] = task
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._done(key, done))

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
            self._failed(order, f"{type(error).__name__}: {error}")

    def _failed(self, order: Action, reason: str) -> None:
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

    def _done(self, key: str, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._last.get(key) is task:
            del self._last[key]


def _recorded_as(action: Action) -> str:
    """Return the id of the transaction that must be on record before the action; empty for none."""
    return action.transaction if isinstance(action, HoldRoom | PlaceJob | RequestCheckpoint) else ""


def _key(order: Order) -> str:
    """Return what the order is about: one after the other is done for it."""
    if isinstance(order, HoldRoom | ReleaseRoom):
        return f"{order.transaction} {order.replica}"
    return order.job if isinstance(order, PlaceJob) else order.replica
