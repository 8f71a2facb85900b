"""From which checkpoint an incarnation may go on."""

import msgspec

from specon_manager.core.resumable import resumable
from specon_manager.core.state import State
from specon_manager.model.cluster import Job, JobSpec, Replica
from specon_manager.model.progress import Progress
from specon_manager.model.transactions import Kind, Transaction, TransactionState, Witness
from specon_sidecar.wire import Checkpoint

FIRST, SECOND = "a/b/worker/0", "a/b/worker/1"
OLD, NEW = (Checkpoint(step=step, path=f"/{step}", digest="0" * 64) for step in (5, 9))


def state(*, former="gone", coupled=False, transactions=(), checkpoint=NEW):
    spec = JobSpec(name="a/b", replicas=(FIRST, SECOND), coupled=coupled)
    progress = Progress(checkpoint=checkpoint)
    replicas = {
        name: Replica(name=name, job="a/b", former=former, progress=progress) for name in (FIRST, SECOND)
    }
    return msgspec.structs.replace(
        State(),
        jobs={"a/b": Job(spec=spec, order=0, submitted_at=0.0)},
        replicas=replicas,
        transactions={each.id: each for each in transactions},
    )


def moving(names=(FIRST,)):
    return Transaction(
        id="m",
        kind=Kind.MOVE,
        job="a/b",
        before=dict.fromkeys(names, "n1"),
        after=dict.fromkeys(names, "n2"),
        policy="progress",
        reason="",
        state=TransactionState.COMING,
        proposed_at=0.0,
        deadline=9.0,
        witnesses={FIRST: Witness(checkpoint=OLD)},
    )


def test_the_first_incarnation_begins_anew():
    """Whatever is known of its name."""
    assert resumable(state(former=None), FIRST) is None
    assert resumable(State(), FIRST) is None


def test_the_move_in_flight_counts_from_its_own_checkpoint():
    """Not from one that was written after it; without a move the newest is taken."""
    assert resumable(state(transactions=[moving()]), FIRST) == OLD
    assert resumable(state(), FIRST) == NEW
    assert resumable(state(checkpoint=None), FIRST) is None


def test_who_saves_for_others_speaks_for_them():
    """Where the replicas train as one; each by itself has its own."""
    moves = [moving((FIRST, SECOND))]
    assert resumable(state(coupled=True, transactions=moves), SECOND) == OLD
    assert resumable(state(transactions=moves), SECOND) == NEW
