"""What befalls whole gangs that move: people ask for them, managers freeze, and all that comes may be in vain."""

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from specon_manager.model import events as ev
from specon_manager.model.actions import PlaceJob, StartReplica
from specon_manager.model.cluster import Phase
from specon_manager.model.resources import Resources
from specon_manager.model.transactions import UNTOUCHED_STATES, Kind, Transaction, TransactionState
from support.decisions.chaos import CPUS, NODES, Chaos, pick

_COMES = {TransactionState.COMING, TransactionState.VERIFYING}


class GangChaos(Chaos):
    """A cluster in which gangs move, as their policy or people want it."""

    @rule(number=pick, name=st.integers(0, 9), one=st.booleans(), wanted=st.lists(pick, max_size=2))
    @precondition(lambda self: self.cluster.live)
    def ask_for_a_move(self, *, number, name, one, wanted):
        """Each is begun, kept waiting or refused, once: whoever asks again changes nothing."""
        state = self.cluster.state
        asked = f"asked-{name}"
        known = {*state.transactions, *state.requests, *(each.id for each in state.history)}
        replicas = sorted(state.replicas.keys() & self.cluster.live.keys())
        if asked in known or not replicas:
            return
        replica = replicas[number % len(replicas)]
        targets = tuple(f"node-{each % (NODES + 1)}" for each in wanted)
        if one:
            event = ev.MoveRequested(id=asked, replica=replica, target=next(iter(targets), None))
        else:
            event = ev.MoveRequested(id=asked, job=state.replicas[replica].job, targets=targets)
        self.cluster.post(event)
        after = self.cluster.state
        begun = [each for each in after.transactions.values() if each.id == asked]
        refused = [each for each in after.history if each.id == asked]
        waits = [each for each in after.requests.values() if each.id == asked]
        assert len(begun) + len(refused) + len(waits) == 1
        assert all(each.note for each in refused)
        assert self.cluster.post(event) == []

    @rule(name=st.integers(0, 9))
    def withdraw(self, *, name):
        """Somebody wants a move no more; one that has begun goes on."""
        flying = self.cluster.state.transactions
        self.cluster.post(ev.RequestWithdrawn(id=f"asked-{name}"))
        assert f"asked-{name}" not in self.cluster.state.requests
        assert self.cluster.state.transactions == flying

    @rule(number=pick, count=st.integers(1, 12))
    @precondition(lambda self: _gangs_in_flight(self.cluster.state))
    def get_a_gang_on(self, *, number, count):
        """A gang that moves gets what it waits for."""
        chosen = _nth_gang(self.cluster.state, number)
        for _ in range(count):
            now = self.cluster.state.transactions.get(chosen.id)
            if now is not None:
                self._one_step_of(now)

    @rule(number=pick, done=st.integers(0, 2), passed=st.sampled_from([5.0, 15.0]))
    @precondition(lambda self: _gangs_in_flight(self.cluster.state))
    def freeze(self, *, number, done, passed):
        """Let the manager stand still amid what it ordered of a gang: what is left of that comes late."""
        chosen = _nth_gang(self.cluster.state, number)
        for _ in range(12):
            now = self.cluster.state.transactions.get(chosen.id)
            if now is not None and now.state in UNTOUCHED_STATES:
                self._one_step_of(now)
        for _ in range(done):
            self._carry_out_one_of(chosen)
        self.cluster.now += passed
        for _ in range(6):
            self._carry_out_one_of(chosen)

    def _carry_out_one_of(self, move: Transaction) -> None:
        order = next((o for o in self.cluster.orders if getattr(o, "transaction", "") == move.id), None)
        if order is not None:
            self.cluster.carry_out_one(order)

    @rule(number=pick, how=st.sampled_from(["node", "refused", "late", "dead"]), back=st.booleans())
    @precondition(lambda self: _gangs_that_come(self.cluster.state))
    def spoil(self, *, number, how, back):
        """What a gang goes for turns out to be impossible; `back`: so does the way back."""
        moves = _gangs_that_come(self.cluster.state)
        chosen = moves[number % len(moves)]
        self._spoil(chosen, number, how)
        for _ in range(8 if back else 0):
            now = self.cluster.state.transactions.get(chosen.id)
            if now is None:
                return
            if now.attempt > 1 and now.state in _COMES:
                self._spoil(now, number, how)
                return
            self._one_step_of(now)

    def _spoil(self, move: Transaction, number: int, how: str) -> None:
        if how == "node":
            nodes = sorted(set(move.wanted.values()) - {""})
            capacity = Resources(cpu=CPUS, memory=8e9)
            lost = ev.NodeObserved(
                node=nodes[number % len(nodes)], capacity=capacity, usage=Resources(), ready=False
            )
            self.cluster.post(lost)
        elif how == "late":
            self.cluster.tick(max(0.0, move.deadline - self.cluster.now))
        elif how == "dead":
            here = sorted(set(move.wanted) & self.cluster.live.keys())
            if here:
                self.cluster.die(here[number % len(here)], 1)
        else:
            self._refuse_to_start(move)

    def _refuse_to_start(self, move: Transaction) -> None:
        if self.cluster.state.jobs[move.job].owned:
            order = next((o for o in self.cluster.orders if isinstance(o, PlaceJob) and o.job == move.job), None)
            if order is not None:
                self.cluster.orders.remove(order)
                why = "the webhook denied it"
                self.cluster.post(ev.JobRefused(job=move.job, transaction=order.transaction, reason=why))
            return
        for order in self.cluster.orders:
            starts = isinstance(order, StartReplica) and order.replica in move.wanted
            if starts and order.replica not in self.cluster.live:
                self.cluster.orders.remove(order)
                why = "no such image"
                self.cluster.post(ev.StartRefused(replica=order.replica, start=order.start, reason=why))
                return


def _gangs_in_flight(state) -> list[Transaction]:
    moves = (each for each in state.transactions.values() if each.kind is Kind.MOVE and each.whole)
    return sorted(moves, key=lambda each: each.id)


def _gangs_that_come(state) -> list[Transaction]:
    return [each for each in _gangs_in_flight(state) if each.state in _COMES]


def _nth_gang(state, number: int) -> Transaction:
    moves = _gangs_in_flight(state)
    return moves[number % len(moves)]
