"""What the owner of a job reads of transactions of the whole job."""

import itertools

import msgspec

from specon_manager.backends.kube.reporting.news import words_of
from specon_manager.backends.kube.reporting.transaction_news import words_of_transactions
from specon_manager.core.state import State
from specon_manager.model.transactions import Kind, Transaction, TransactionState, Witness
from specon_sidecar.wire import Checkpoint

JOB = "default/bert"
TWO = {f"{JOB}/ps/0": "node-0", f"{JOB}/worker/0": "node-0", f"{JOB}/worker/1": "node-1"}
THREE = {**TWO, f"{JOB}/worker/2": "node-1"}
SAVED = Checkpoint(step=40, path="/c", digest="0" * 64)


def change(kind, **more):
    fields = {
        "id": "change-7",
        "job": JOB,
        "kind": kind,
        "policy": "kod2",
        "reason": "weights 3 of 5",
        "state": TransactionState.CHECKPOINTING,
        "proposed_at": 0.0,
        "deadline": 10.0,
        "before": TWO,
        "after": THREE,
        "whole": True,
        "restart": True,
    }
    return Transaction(**{**fields, **more})


def course(*changes):
    """Return what is told while a change goes through these states; the last one is in the history."""
    states = [State(), *(State(transactions={each.id: each}) for each in changes[:-1])]
    states.append(State(history=(changes[-1],)))
    return [
        (note.reason, note.text, note.warning)
        for before, after in itertools.pairwise(states)
        for note in words_of(before, after)
    ]


def over(kind, state=TransactionState.SUCCEEDED, downtime=None, **more):
    witness = Witness(incarnation="0001", checkpoint=SAVED, downtime=downtime)
    return change(kind, state=state, witnesses={f"{JOB}/worker/0": witness}, **more)


def test_a_scale_out_is_told_with_its_numbers_and_where_it_went_on():
    """Once when it begins, once when it has ended; nothing in between."""
    begun = change(Kind.SCALE_OUT)
    coming = msgspec.structs.replace(begun, state=TransactionState.COMING)
    where = ", from the checkpoint of step 40 after 3.2 s of downtime"
    assert course(begun, coming, over(Kind.SCALE_OUT, downtime=3.25)) == [
        ("ScalingOut", "from 2 to 3 workers: weights 3 of 5", False),
        ("ScaledOut", f"from 2 to 3 workers, on node-0 (2), node-1 (2){where}", False),
    ]


def test_a_scale_in_is_told():
    """With both numbers."""
    given = {"before": THREE, "after": TWO}
    assert [
        reason for reason, _, _ in course(change(Kind.SCALE_IN, **given), over(Kind.SCALE_IN, **given))
    ] == [
        "ScalingIn",
        "ScaledIn",
    ]


def test_an_admission_names_its_nodes():
    """Those with most replicas first."""
    given = {"before": {}, "after": TWO}
    told = course(change(Kind.ADMIT, **given), over(Kind.ADMIT, **given))
    assert told == [
        ("Admitting", "starting on node-0 (2), node-1: weights 3 of 5", False),
        ("Admitted", "admitted: runs on node-0 (2), node-1", False),
    ]


def test_a_preemption_says_for_whom_and_from_what_it_goes_on():
    """Its owner did not ask for it."""
    given = {"after": {}, "beneficiary": "default/trial"}
    told = course(change(Kind.PREEMPT, **given), over(Kind.PREEMPT, **given))
    assert told == [
        ("Preempting", "to end, and to wait again for default/trial: weights 3 of 5", False),
        (
            "Preempted",
            "preempted for default/trial; it waits again, and resumes from the checkpoint of step 40",
            False,
        ),
    ]


def test_the_way_back_and_its_end_are_warnings_with_the_reason():
    """Rolled back, or failed."""
    begun = change(Kind.SCALE_OUT)
    back = msgspec.structs.replace(begun, attempt=2, note="no room on node-1")
    for state, reason in ((TransactionState.ROLLED_BACK, "rolled back"), (TransactionState.FAILED, "failed")):
        ended = over(Kind.SCALE_OUT, state, note="no room on node-1")
        assert course(begun, back, ended)[1:] == [
            ("ChangeTurnedBack", "scale-out: going back: no room on node-1", True),
            (
                "ChangeRolledBack" if state is TransactionState.ROLLED_BACK else "ChangeFailed",
                f"scale-out: {reason}: no room on node-1"
                if state is TransactionState.ROLLED_BACK
                else "scale-out failed: no room on node-1",
                True,
            ),
        ]


def test_the_move_of_a_gang_is_told_with_all_its_nodes():
    """From its begin to what it cost."""
    after = dict.fromkeys(TWO, "node-2")
    begun = change(Kind.MOVE, after=after)
    saved = {f"{JOB}/worker/0": Witness(incarnation="0001", checkpoint=SAVED)}
    leaving = msgspec.structs.replace(begun, state=TransactionState.LEAVING, witnesses=saved)
    proving = msgspec.structs.replace(leaving, state=TransactionState.VERIFYING)
    witness = Witness(incarnation="0001", checkpoint=SAVED, downtime=3.25, steps_lost=0, first_step=41)
    ended = msgspec.structs.replace(
        proving,
        state=TransactionState.SUCCEEDED,
        witnesses={f"{JOB}/worker/0": witness},
        killed=(f"{JOB}/worker/1",),
    )
    where, saved_text = "node-2 (3)", "checkpoint of step 40"
    assert course(begun, leaving, proving, ended) == [
        ("MoveOrdered", f"moving all 3 replicas from node-0 (2), node-1 to {where}: weights 3 of 5", False),
        ("CheckpointVerified", f"{saved_text} verified; leaving node-0 (2), node-1", False),
        ("Restored", f"restored on {where} from the {saved_text}; waiting for a later step", False),
        (
            "Resumed",
            f"resumed at step 41 on {where} after 3.2 s of downtime, no step lost, 1 had to be killed",
            False,
        ),
    ]
    back = msgspec.structs.replace(proving, attempt=2, note="node-2 is gone")
    failed = msgspec.structs.replace(back, state=TransactionState.FAILED)
    assert course(begun, back, failed)[1:] == [
        ("MovingBack", "going back to node-0 (2), node-1: node-2 is gone", True),
        (
            "Restored",
            "restored on node-0 (2), node-1 from the checkpoint of step 40; waiting for a later step",
            False,
        ),
        ("MoveFailed", f"the move to {where} failed: node-2 is gone", True),
    ]


def test_a_change_that_is_about_the_whole_job_says_so():
    """It is told on the owner, not on a pod."""
    (note,) = words_of_transactions(State(), State(transactions={"change-7": change(Kind.SCALE_OUT)}))
    assert (note.whole, note.replica, note.topic) == (True, JOB, "change-7")
