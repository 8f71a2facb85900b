"""What befalls gangs that move: people ask for them, managers freeze, and all that comes may be in vain."""

from collections.abc import Collection

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from specon_manager.model import events as ev
from specon_manager.model.actions import PlaceJob, StartReplica
from specon_manager.model.resources import Resources
from specon_manager.model.transactions import Kind, Transaction, TransactionState
from support.decisions.chaos import CPUS, NODES, Chaos, pick

troubles = st.sampled_from(["node", "refused", "late", "dead"])
_COMES = {TransactionState.COMING, TransactionState.VERIFYING}


class GangChaos(Chaos):
    """A cluster in which gangs move, as their policy or people want it."""

    @rule(number=pick, name=st.integers(0, 9), one=st.booleans(), wanted=st.lists(pick, max_size=2))
    @precondition(lambda self: self.cluster.live)
    def ask_for_a_move(self, *, number, name, one, wanted):
        """Each is begun, kept waiting or refused, once: a repeated request changes nothing."""
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
    @precondition(lambda self: self.cluster.live)
    def get_a_gang_on(self, *, number, count):
        """Give a gang that moves what it waits for."""
        chosen = self._gang_that_moves(number)
        self._get_on(chosen, until=(), times=count)

    @rule(number=pick, done=st.integers(0, 2), passed=st.sampled_from([15.0, 5.0]), slow=st.booleans())
    @precondition(lambda self: self.cluster.live)
    def freeze(self, *, number, done, passed, slow):
        """Let the manager stand still amid what it ordered of a gang: what is left of that comes late.

        `slow`: one that was told in time ends later than that.
        """
        chosen = self._gang_that_moves(number)
        self._get_on(chosen, until={TransactionState.LEAVING})
        for _ in range(done):
            self._carry_out_one_of(chosen)
        self.cluster.now += passed
        for _ in range(6):
            self._carry_out_one_of(chosen)
        told = () if chosen is None or not slow else sorted({*chosen.before} & self.cluster.live.keys())
        if told:
            self.cluster.die(told[number % len(told)], 143, evicted=True)

    @rule(number=pick, how=troubles, then=st.none() | troubles)
    @precondition(lambda self: self.cluster.live)
    def spoil(self, *, number, how, then):
        """Let what a gang goes for turn out to be impossible, and perhaps the way back as well."""
        chosen = self._gang_that_moves(number)
        now = self._get_on(chosen, until=_COMES)
        if now is None:
            return
        self._spoil(now, number, how)
        now = self._get_on(chosen, until=_COMES)
        if now is not None and now.attempt > 1 and then is not None:
            self._spoil(now, number, then)

    def _gang_that_moves(self, number: int) -> Transaction | None:
        """Return a move of a gang in flight; where there is none somebody asks for one."""
        if not _gangs_in_flight(self.cluster.state):
            state = self.cluster.state
            jobs = [job for job in state.jobs.values() if job.trains_since is not None and job.spec.coupled]
            jobs = [job for job in jobs if sum(map(self.cluster.live.__contains__, job.spec.replicas)) > 1]
            for job in jobs[number % len(jobs) :] if jobs else ():
                replica = next(name for name in job.spec.worker_names if name in self.cluster.live)
                event = ev.MoveRequested(id=f"moved-{len(self.cluster.history)}", replica=replica)
                self.cluster.post(event)
        moves = _gangs_in_flight(self.cluster.state)
        return moves[number % len(moves)] if moves else None

    def _get_on(
        self, move: Transaction | None, *, until: Collection[TransactionState], times: int = 20
    ) -> Transaction | None:
        """Give a move what it waits for until it stands so; None: it has ended, or never stood so."""
        for _ in range(times if move is not None else 0):
            now = self.cluster.state.transactions.get(move.id)
            if now is None or now.state in until:
                return now
            self._one_step_of(now)
        return None

    def _carry_out_one_of(self, move: Transaction | None) -> None:
        orders = () if move is None else self.cluster.orders
        order = next((each for each in orders if getattr(each, "transaction", "") == move.id), None)
        if order is not None:
            self.cluster.carry_out_one(order)

    def _spoil(self, move: Transaction, number: int, how: str) -> None:
        if how == "node":
            nodes = sorted(set(move.wanted.values()) - {""}) or ["node-0"]
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
            order = next(
                (o for o in self.cluster.orders if isinstance(o, PlaceJob) and o.job == move.job), None
            )
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
