"""What is true of every simulation after every step: hand `Invariants()` to `simulate` as its `check`."""

from collections import defaultdict

from specon_lab.engine.engine import Moment
from specon_manager.model.actions import EvictReplica, StartReplica
from specon_manager.model.cluster import Phase, role_of
from specon_manager.model.transactions import Kind, TransactionState
from support.decisions.transaction_invariants import check_permitted


class Invariants:
    """Checks the manager's records, what it orders, and the world that it is about."""

    def __init__(self) -> None:
        self.steps = 0
        self.moves: set[str] = set()
        """Moves that succeeded."""
        self._done: dict[str, float] = {}
        self._lost: dict[str, float] = {}
        self._reported: dict[str, float] = {}

    def __call__(self, moment: Moment) -> None:
        self.steps += 1
        assert moment.now >= self._reported.get("now", 0.0), "time went back"
        self._reported["now"] = moment.now
        self._orders(moment)
        self._moves(moment)
        self._capacity(moment)
        self._world(moment)
        self._work(moment)

    def _orders(self, moment: Moment) -> None:
        """See that no second incarnation lives, and nothing is ended without a verified checkpoint."""
        ending = {action.replica for action in moment.actions if isinstance(action, EvictReplica)}
        for action in moment.actions:
            if isinstance(action, StartReplica):
                lives = moment.world.incarnation_of(action.replica)
                assert lives is None or action.replica in ending, (
                    f"{action.replica} is started beside {lives}"
                )
            elif isinstance(action, EvictReplica):
                transaction = moment.after.transaction_of(action.replica)
                if transaction is not None:
                    check_permitted(moment.after, transaction)

    def _moves(self, moment: Moment) -> None:
        for move in moment.after.history:
            succeeded = move.kind is Kind.MOVE and move.state is TransactionState.SUCCEEDED
            if succeeded and move.id not in self.moves:
                self.moves.add(move.id)
                assert move.checkpoint is not None, f"{move.id} succeeded without a checkpoint"
                assert move.checkpoint.verified, f"{move.id} succeeded without a verified checkpoint"

    def _capacity(self, moment: Moment) -> None:
        """See that what is on a node, or promised to it, fits."""
        held = defaultdict(lambda: [0.0, 0.0, 0.0])
        state = moment.after
        for replica in state.replicas.values():
            places = {replica.node} if replica.occupies else set()
            if (transaction := state.transaction_of(replica.name)) is not None:
                places.add(transaction.wanted.get(replica.name))
                if transaction.keeps_way_back:
                    places.add(transaction.before.get(replica.name))
            for place in places - {None, ""}:
                amounts = replica.requests
                for index, amount in enumerate((amounts.cpu, amounts.memory, amounts.gpu)):
                    held[place][index] += amount
        for name, (cpu, memory, gpu) in held.items():
            capacity = state.nodes[name].capacity
            assert cpu <= capacity.cpu + 1e-9, f"{name} holds {cpu} cores"
            assert memory <= capacity.memory + 1, f"{name} holds {memory} bytes"
            assert gpu <= capacity.gpu + 1e-9, f"{name} holds {gpu} GPUs"

    def _world(self, moment: Moment) -> None:
        """See that only whole gangs train, on nodes that live, with their servers and workers enough."""
        for job in moment.world.jobs.values():
            spec = job.submission.spec
            for replica, incarnation in job.incarnations.items():
                assert incarnation.node.incarnations[replica] is incarnation
                assert not incarnation.node.failures, f"{incarnation.name} is on a node that is lost"
            if not job.training or moment.actions or moment.world.regrouped or moment.world.resettled:
                continue  # what was ordered, or befell it, has not had its effect yet
            up = [i for i in job.incarnations.values() if i.up and i.ending is None]
            assert all(incarnation.training for incarnation in up)
            assert {i.replica for i in up if role_of(i.replica) == "ps"} == set(spec.ps)
            assert len(up) - len(spec.ps) >= spec.fewest_workers, f"{spec.name} trains with {len(up)}"
            if moment.after.whole_transaction_of(spec.name) is not None:
                continue  # some of it trains on while others come and go
            known = moment.after.jobs.get(spec.name)
            # While a worker leaves in a scaling the others train; the manager counts that from its end on.
            leaves = any(incarnation.ending == "scale-in" for incarnation in job.incarnations.values())
            believed = known is None or leaves or known.trains_since is not None
            assert believed, f"{spec.name} trains unknown to the manager"
            names = {incarnation.replica for incarnation in up}
            for name in spec.replicas:
                record = moment.after.replicas[name]
                absent = record.phase is Phase.ABSENT or record.leaving is not None
                assert absent == (name not in names), f"{name} is {record.phase}"

    def _work(self, moment: Moment) -> None:
        """See that progress never goes back but by what is booked as lost."""
        for job in moment.world.jobs.values():
            done, lost = job.trainer.at(moment.now), job.ledger.lost
            before = self._done.get(job.name, 0.0)
            assert done >= before - (lost - self._lost.get(job.name, 0.0)) - 1e-6, f"{job.name} lost work"
            assert done <= job.trainer.total + 1e-9
            assert job.trainer.saved <= done + 1e-6, f"{job.name} has saved more than it did"
            self._done[job.name], self._lost[job.name] = done, lost
