"""How moves changed the speed of the replicas that they touch: measured, not predicted.

Before a move is begun the steps per second of its replica, and of those on its source and target, are known
from their reports; after it has succeeded they are measured again. Whatever else changed meanwhile is in the
comparison too, and a replica that two moves touch at once is compared for neither.
"""

from collections.abc import Iterable
from typing import Final, Literal

from msgspec import Struct
from prometheus_client import CollectorRegistry, Counter

from specon_manager.core.state import State
from specon_manager.model.cluster import Phase, Replica
from specon_manager.model.transactions import Kind, Transaction, TransactionState

TICKS: Final = 12
"""A speed is measured over the time of so many Ticks, and no fewer than `STEPS` steps."""
STEPS: Final = 5
CHANGE: Final = 0.1
"""A speed that differs by less, relative to the one before, is unchanged."""
_PATIENCE: Final = 30  # times the length of a measurement: then it is given up
MovedPart = Literal["moved", "source", "target"]


class _Pace(Struct):
    """The measurement that goes on for a replica, and what the last one said."""

    incarnation: str | None
    began_at: float
    began_step: int
    speed: float | None = None
    """Steps per second."""


class _Expected(Struct, frozen=True):
    """A comparison whose second half is still to come."""

    part: MovedPart
    move: str
    before: float
    incarnation: str | None
    since: float


class SpeedMetrics:
    """Counts helped and hurt replicas."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._effects = Counter(
            "specon_move_effects_total",
            "Replicas that moved, or ran on source or target of a successful move. They are helped or hurt "
            f"if their steps per second differ by {CHANGE:.0%} after it, and unknown if not measured.",
            ["part", "effect"],
            registry=registry,
        )
        for part in ("moved", "source", "target"):
            for effect in ("helped", "hurt", "unchanged", "unknown"):
                self._effects.labels(part, effect)
        self._paces: dict[str, _Pace] = {}
        self._before: dict[str, dict[str, tuple[MovedPart, float | None]]] = {}
        """By move in flight: the parts and speeds of the replicas that it touches."""
        self._expected: dict[str, _Expected] = {}

    def forget(self) -> None:
        """Drop the measurements: another manager goes on."""
        self._paces.clear()
        self._before.clear()
        self._expected.clear()

    def report(self, name: str, state: State) -> None:
        """Take in the step that a replica reported."""
        replica = state.replicas.get(name)
        if replica is None:
            return
        step, at = replica.progress.step, replica.progress.step_at
        if step is None or at is None:
            return
        pace = self._paces.get(name)
        if pace is None or pace.incarnation != replica.incarnation or step < pace.began_step:
            self._paces[name] = _Pace(replica.incarnation, at, step)
            return
        seconds, steps = at - pace.began_at, step - pace.began_step
        if seconds < _length(state) or steps < STEPS:
            return
        pace.speed = steps / seconds
        pace.began_at, pace.began_step = at, step
        self._compare(replica, pace.speed)

    def moves(self, before: State, after: State, ended: Iterable[Transaction]) -> None:
        """Take in moves that began, and those that ended."""
        if after.transactions is not before.transactions:
            for name, each in after.transactions.items():
                if each.kind is Kind.MOVE and name not in before.transactions:
                    self._before[name] = self._touch(each, after)
        for each in ended:
            self._note_end(each, after)

    def tick(self, state: State, now: float) -> None:
        """Give up what can be measured no more, and forget replicas that are gone."""
        for name, expected in list(self._expected.items()):
            replica = state.replicas.get(name)
            over = replica is None or replica.ended or replica.incarnation != expected.incarnation
            if over or now - expected.since > _PATIENCE * _length(state):
                self._give_up(name)
        flying = state.transactions
        self._before = {move: touched for move, touched in self._before.items() if move in flying}
        if len(self._paces) > len(state.replicas):
            self._paces = {name: pace for name, pace in self._paces.items() if name in state.replicas}

    def _touch(self, move: Transaction, state: State) -> dict[str, tuple[MovedPart, float | None]]:
        touched: dict[str, tuple[MovedPart, float | None]] = {}
        before, after = move.before, move.after
        left = {node for name, node in before.items() if after.get(name) != node}
        joined = {node for name, node in after.items() if before.get(name) != node}
        for replica in state.replicas.values():
            concerned = replica.name in before or replica.node in left | joined
            if replica.phase is not Phase.RUNNING or not concerned:
                continue
            part: MovedPart = "source" if replica.node in left else "target"
            pace = self._paces.get(replica.name)
            known = pace is not None and pace.incarnation == replica.incarnation
            speed = pace.speed if pace is not None and known else None
            touched[replica.name] = ("moved" if replica.name in before else part, speed)
        return touched

    def _note_end(self, move: Transaction, state: State) -> None:
        touched = self._before.pop(move.id, {})
        if move.state is not TransactionState.SUCCEEDED or move.ended_at is None:
            return
        for name, (part, speed) in touched.items():
            replica = state.replicas.get(name)
            contested = name in self._expected
            if contested:
                self._give_up(name)
            if contested or not speed or replica is None or replica.phase is not Phase.RUNNING:
                self._effects.labels(part, "unknown").inc()
                continue
            self._paces.pop(name, None)  # measured from here on
            self._expected[name] = _Expected(part, move.id, speed, replica.incarnation, move.ended_at)

    def _compare(self, replica: Replica, speed: float) -> None:
        expected = self._expected.pop(replica.name, None)
        if expected is None:
            return
        change = speed / expected.before - 1
        effect = "unchanged" if abs(change) < CHANGE else "helped" if change > 0 else "hurt"
        self._effects.labels(expected.part, effect).inc()

    def _give_up(self, name: str) -> None:
        self._effects.labels(self._expected.pop(name).part, "unknown").inc()


def _length(state: State) -> float:
    """Return over how many seconds a speed is measured."""
    return TICKS * state.settings.tick
