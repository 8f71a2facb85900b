"""A cluster in memory that carries out what `step` orders, with a virtual clock and invariants.

It keeps its own truth of what lives where, so a decision that would start a second copy of a replica, evict
one without a verified checkpoint, or overfill a node is found the moment it is ordered.
"""

import dataclasses
from collections.abc import Callable

from specon_manager.core.migration import TRANSITIONS
from specon_manager.core.state import State
from specon_manager.core.step import step
from specon_manager.model import events as ev
from specon_manager.model.actions import (
    Action,
    EvictReplica,
    HoldRoom,
    RequestCheckpoint,
    StartReplica,
)
from specon_manager.model.cluster import JobSpec, Phase
from specon_manager.model.moves import MoveState
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Budgets, Deadlines, Gate, Settings
from specon_sidecar.classify import Category
from specon_sidecar.wire import Acknowledgement, Checkpoint, Observation, Report

DIGEST = "0" * 64
SETTINGS = Settings(
    tick=1.0,
    budgets=Budgets(cooldown=0, retry_cooldown=1),
    gate=Gate(enabled=False),
    deadlines=Deadlines(start=10, hold=5, checkpoint=10, eviction_margin=5, verify=20, crash_backoff=1),
)


def replica_of(job: str) -> str:
    return f"default/{job}/worker/0"


@dataclasses.dataclass
class Live:
    """A process that really runs."""

    incarnation: str
    node: str
    session: str
    sequence: int = 0


class Cluster:
    """The truth outside the manager."""

    def __init__(self, nodes: int = 2, cpus: float = 1.0, settings: Settings = SETTINGS) -> None:
        self.state = State(settings=settings)
        self.now = 1000.0
        self.live: dict[str, Live] = {}
        self.history: list[tuple[float, ev.Event, list[Action]]] = []
        self.orders: list[Action] = []
        self.may_carry_out: Callable[[Action], bool] = lambda action: True
        for index in range(nodes):
            capacity = Resources(cpu=cpus, memory=8e9)
            self.post(ev.NodeObserved(node=f"node-{index}", capacity=capacity, usage=Resources()))

    # -- driving ---------------------------------------------------------------------------------

    def post(self, event: ev.Event) -> list[Action]:
        """Let one event happen; check every invariant; keep what was ordered."""
        before = self.state
        self.state, actions = step(before, event, self.now)
        self.history.append((self.now, event, actions))
        self.orders += actions
        self._check(before, actions)
        return actions

    def tick(self, seconds: float = 1.0) -> list[Action]:
        self.now += seconds
        return self.post(ev.Tick())

    def restart_manager(self) -> list[Action]:
        """Kill the manager: what it ordered and nobody carried out is forgotten, its state is not."""
        self.orders.clear()
        return self.post(ev.ManagerStarted("again", self.state.settings))

    def carry_out(self) -> None:
        """Carry out what was ordered and may be, as a faultless backend would, until nothing is left."""
        for _ in range(100):
            ready = [action for action in self.orders if self.may_carry_out(action)]
            if not ready:
                return
            self.orders = [action for action in self.orders if not self.may_carry_out(action)]
            for action in ready:
                self._carry_out(action)
        raise AssertionError("orders without end")

    def settle(self, rounds: int = 3) -> None:
        for _ in range(rounds):
            self.carry_out()
            self.tick()
        self.carry_out()

    # -- what may happen -------------------------------------------------------------------------

    def submit(self, job: str, **changes: object) -> str:
        replica = replica_of(job)
        self.post(ev.JobSubmitted(JobSpec(name=f"default/{job}", replicas=(replica,), **changes)))
        return replica

    def run(self, *jobs: str) -> list[str]:
        """Submit jobs and have them started."""
        replicas = [self.submit(job) for job in jobs]
        self.tick()
        self.carry_out()
        return replicas

    def report(
        self,
        replica: str,
        category: Category = Category.PROGRESSING,
        step: int | None = 100,
        **changes: object,
    ) -> list[Action]:
        live = self.live[replica]
        live.sequence += 1
        report = Report(
            schema=1,
            replica=replica,
            incarnation=live.incarnation,
            session=live.session,
            sequence=live.sequence,
            category=category,
            first=None if step is None else Observation(name="loss", value=1.0, age=0.0, step=step),
            last=None if step is None else Observation(name="loss", value=1.0, age=0.0, step=step),
            **changes,
        )
        return self.post(ev.ReportReceived(report))

    def acknowledge(
        self, replica: str, *, done: bool = True, checkpoint: Checkpoint | None = None, reason: str = ""
    ) -> list[Action]:
        move = self.state.moves[replica]
        answer = Acknowledgement(
            schema=1,
            replica=replica,
            incarnation=self.live[replica].incarnation,
            id=move.id,
            done=done,
            checkpoint=checkpoint,
            reason=reason,
        )
        return self.post(ev.InstructionAcknowledged(answer))

    def die(self, replica: str, exit_code: int | None = None, *, evicted: bool = False) -> list[Action]:
        live = self.live.pop(replica)
        return self.post(
            ev.ReplicaGone(
                replica=replica, incarnation=live.incarnation, exit_code=exit_code, evicted=evicted
            )
        )

    # -- a faultless backend ---------------------------------------------------------------------

    def _carry_out(self, action: Action) -> None:
        if isinstance(action, StartReplica):
            incarnation = f"{action.replica}#{action.start}"
            known = self.live.get(action.replica)
            if known is not None and known.incarnation != incarnation:
                self.post(
                    ev.StartRefused(replica=action.replica, start=action.start, reason="another one lives")
                )
                return
            if known is None:
                self.live[action.replica] = Live(incarnation, action.node, f"session-{incarnation}")
            self.post(
                ev.ReplicaStarted(
                    replica=action.replica,
                    incarnation=incarnation,
                    node=self.live[action.replica].node,
                )
            )
        elif isinstance(action, EvictReplica):
            known = self.live.get(action.replica)
            if known is None or action.incarnation not in {None, known.incarnation}:
                self.post(ev.ReplicaGone(replica=action.replica, incarnation=action.incarnation))
            else:
                self.die(action.replica, 143, evicted=True)
        elif isinstance(action, HoldRoom):
            self.post(ev.RoomHeld(move=action.move))
        elif isinstance(action, RequestCheckpoint):
            live = self.live.get(action.replica)
            move = self.state.moves.get(action.replica)
            if live is None or move is None or live.incarnation != action.incarnation:
                return
            self.post(
                ev.InstructionDelivered(
                    id=action.id, replica=action.replica, incarnation=action.incarnation
                )
            )
            saved = self.state.replicas[action.replica].progress.step or 0
            if action.replica in self.state.moves:
                self.acknowledge(
                    action.replica, checkpoint=Checkpoint(step=saved, path="/c", digest=DIGEST)
                )

    # -- invariants ------------------------------------------------------------------------------

    def _check(self, before: State, actions: list[Action]) -> None:
        state = self.state
        for action in actions:
            if isinstance(action, StartReplica) and action.replica in self.live:
                again = f"{action.replica}#{action.start}" == self.live[action.replica].incarnation
                assert again, f"two live copies: {action} while {self.live[action.replica]}"
            if isinstance(action, EvictReplica):
                self._check_eviction(action)
        self._check_moves(before)
        for node in state.nodes.values():
            used = [r.requests for r in state.replicas.values() if r.active and r.node == node.name]
            held = [
                state.replicas[m.replica].requests
                for m in state.moves.values()
                if m.destination == node.name and m.destination != state.replicas[m.replica].node
            ]
            for what in ("cpu", "memory", "gpu"):
                total = sum(getattr(amount, what) for amount in used + held)
                assert total <= getattr(node.capacity, what) + 1e-9, f"{node.name} holds {total} {what}"
        budgets = state.settings.budgets
        assert len(state.moves) <= budgets.moves_at_once
        for replica in state.replicas.values():
            assert not (replica.ended and replica.name in state.moves)
            assert (replica.incarnation is None) or replica.phase is Phase.RUNNING

    def _check_eviction(self, action: EvictReplica) -> None:
        move = self.state.moves.get(action.replica)
        if move is None or move.attempt > 1 or move.state is not MoveState.EVICTING:
            return
        spec = self.state.jobs[self.state.replicas[action.replica].job].spec
        verified = move.checkpoint is not None and move.checkpoint.verified
        assert verified or spec.checkpointing == "on-termination", f"{move.id} evicts without a checkpoint"

    def _check_moves(self, before: State) -> None:
        ended = {move.id: move for move in self.state.history}
        for replica, move in before.moves.items():
            after = self.state.moves.get(replica)
            after = after if after is not None and after.id == move.id else ended.get(move.id)
            assert after is not None, f"{move.id} vanished"
            if after.state is not move.state:
                allowed = {to for (origin, _), to in TRANSITIONS.items() if origin is move.state}
                allowed |= {MoveState.ROLLED_BACK, MoveState.FAILED} if move.attempt > 1 else set()
                assert after.state in allowed, f"{move.id}: {move.state} -> {after.state}"
            if after.state is MoveState.SUCCEEDED:
                finished = self.state.replicas[replica].phase is Phase.SUCCEEDED
                step_now = self.state.replicas[replica].progress.step
                assert after.checkpoint is not None
                assert finished or (step_now is not None and step_now > after.checkpoint.step)
