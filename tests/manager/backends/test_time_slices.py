"""When those run who take turns on GPUs, by the weights that they have."""

import msgspec
import pytest

from specon_manager.backends.time_slices import turns_by_replica
from specon_manager.model.cluster import Leaving
from specon_manager.model.transactions import Kind, Transaction, TransactionState
from specon_sidecar.classify.curve import Estimate
from support.decisions.gpu_shares import NOW, job, node, state

A, B = "default/a/worker/0", "default/b/worker/0"
LOW = 0.02
PAIR = (job("a", "G"), job("b", "G", weight=LOW))


def run_of(schedule, replica):
    return sum(length for _, length in schedule.turns[replica]) / schedule.period


def test_two_on_a_gpu_alternate_by_their_weights():
    """In one period, one after the other: who is on has the GPU alone."""
    found = turns_by_replica(state(*PAIR), NOW)
    assert found[A].period == found[B].period
    assert run_of(found[A], A) == pytest.approx(1 / 1.02)
    assert run_of(found[B], B) == pytest.approx(LOW / 1.02)
    [(begin, length)], [(other, _)] = found[A].turns[A], found[B].turns[B]
    assert other == pytest.approx((begin + length) % found[A].period) or begin > other


@pytest.mark.parametrize(
    "jobs",
    [
        (job("a", "G"), job("b", "G")),
        (job("a", "G"), job("b", "H", weight=LOW)),
        (job("a", "G"), job("b", "G", weight=LOW, why="started again")),
    ],
)
def test_nobody_is_stopped_for_nothing(jobs):
    """Equal weights, different GPUs, a sidecar that cannot: all run at the same time."""
    assert turns_by_replica(state(*jobs), NOW) == {}


@pytest.mark.parametrize(
    ("began", "heard", "total", "left", "stopped"),
    [
        (NOW - 5, None, None, None, False),
        (NOW - 5, NOW - 9, 100, 9.0, False),
        (NOW - 5, NOW - 1, 100, None, False),
        (NOW - 5, NOW - 1, 100, 9.0, True),
        (NOW - 5, NOW - 1, None, None, True),
        (NOW - 121, None, None, None, True),
    ],
    ids=["it loads", "it loads again", "few steps", "its rest is known", "its log names no total", "silent"],
)
def test_who_begins_is_not_stopped_and_takes_no_turns_from_others(began, heard, total, left, stopped):
    """Its start needs no GPU and waits for no turn; then it trains until what it has left is known."""
    job_b, [replica] = PAIR[1]
    progress = msgspec.structs.replace(
        replica.progress,
        step_at=heard,
        total_steps=total,
        remaining_seconds=None if left is None else Estimate(value=left, uncertainty=0.0),
    )
    late = (
        msgspec.structs.replace(job_b, trains_since=began),
        [msgspec.structs.replace(replica, progress=progress)],
    )
    assert set(turns_by_replica(state(PAIR[0], late), NOW)) == ({A, B} if stopped else set())


def test_ranks_on_several_nodes_run_at_the_same_time():
    """Each of them has the turns of its job."""
    wide = job("wide", "G", weight=LOW, on=("node-1", "node-2"))
    found = turns_by_replica(state(job("a", "G"), wide, nodes=(node("node-1"), node("node-2"))), NOW)
    first, second = (f"default/wide/worker/{index}" for index in (0, 1))
    assert found[first].turns[first] == found[second].turns[second]


def test_who_is_in_a_transaction_or_ends_is_not_stopped():
    """A checkpoint, an end and the proof of a resume wait for no turn; the other has nobody to wait for."""
    move = Transaction(
        id="m-1",
        kind=Kind.MOVE,
        job="default/b",
        state=TransactionState.CHECKPOINTING,
        before={B: "node-1"},
        after={B: "node-2"},
        policy="progress",
        reason="test",
        proposed_at=0.0,
        deadline=2 * NOW,
    )
    assert turns_by_replica(state(*PAIR), NOW, lambda name: name == B) == {}
    assert turns_by_replica(state(*PAIR, transactions=(move,)), NOW) == {}
    job_b, [replica] = PAIR[1]
    told = Leaving(purpose="preempt", since=0.0, deadline=9.0, reason="test")
    leaving = msgspec.structs.replace(replica, leaving=told)
    assert turns_by_replica(state(PAIR[0], (job_b, [leaving])), NOW) == {}
