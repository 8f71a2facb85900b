"""Moves of only replicas of jobs: a large cluster has tens of thousands of converged ones that ask."""

from specon_manager.core import gate, move_budgets
from specon_manager.core.move_objections import objection_to_move
from specon_manager.core.state import State
from specon_manager.model.actions import Migrate, Objection
from specon_manager.model.cluster import Replica
from specon_manager.model.snapshot import Snapshot
from specon_manager.model.standing import may_move


class PlainMoves:
    """Judges them on one snapshot, with what all of them have in common looked up once."""

    def __init__(self, snapshot: Snapshot, state: State) -> None:
        """Take what `objection_to_move` goes by."""
        budgets = snapshot.settings.budgets
        self.snapshot, self._state = snapshot, state
        self._now, self._nodes, self._replicas = snapshot.now, snapshot.nodes, snapshot.replicas
        self._particular = snapshot.particular
        self._spent = move_budgets.cluster_objection(snapshot)
        # Where room is kept, or weights are lowered before moves, more is to be looked at.
        self._weighed = state.settings.gate.enabled and not snapshot.claims and not snapshot.reweight
        self._most = budgets.moves_per_replica
        self._full = {n for n, moves in snapshot.busy.items() if moves >= budgets.moves_at_once_per_node}

    def objection(self, move: Migrate) -> Objection | None:
        """Return the objection to the move of a job's only replica; None: none, or it is no such move.

        No quota and no gang is looked for.
        """
        replica, snapshot = self._replicas.get(move.replica), self.snapshot
        if replica is None:
            return None
        if replica.job in self._particular and len(snapshot.jobs[replica.job].spec.replicas) > 1:
            return None
        if self._spent is not None:
            return self._spent
        if self._weighed and self._is_plain(replica, move):
            worse = gate.worse_loaded(replica, move.target, snapshot)
            if worse is not None:
                return worse
        return objection_to_move(move, snapshot, self._state)

    def _is_plain(self, replica: Replica, move: Migrate) -> bool:
        """Whether nothing but the loads of its nodes can be against the move of an ordinary job.

        Most are refused for these: this comes to what `objection_to_move` tells, without a look for words.
        """
        from_, to = replica.node or "", move.target
        target = self._nodes.get(to)
        return (
            target is not None
            and target.ready
            and not target.taints
            and from_ != to
            and from_ in self._nodes
            and from_ not in self._full
            and to not in self._full
            and not replica.unproven
            and replica.disrupted < self._most
            and replica.cooldown_until <= self._now
            and move.purpose not in gate.UNWEIGHED
            and may_move(replica, self.snapshot)
            and replica.requests.fits(self.snapshot.room(to))
        )
