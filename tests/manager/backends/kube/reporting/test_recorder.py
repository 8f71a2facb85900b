import asyncio
import itertools
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_manager.backends.kube.reporting.news import words_of
from specon_manager.backends.kube.reporting.note import Note
from specon_manager.backends.kube.reporting.recorder import (
    MAX_NOTE_BYTES,
    Recorder,
    cut_to_bytes,
    event_of,
    reference,
)
from specon_manager.backends.kube.transport.api import ApiError, ApiUnavailableError
from specon_manager.backends.kube.transport.rate import Rate
from specon_manager.backends.kube.transport.resources import JOBS, NODES
from specon_manager.core.state import State
from specon_manager.model.actions import Decision, Refusal
from specon_manager.model.cluster import Job, JobSpec, Phase, Replica
from specon_manager.model.events import Tick
from specon_manager.model.progress import Progress
from specon_manager.model.transactions import Kind, Transaction, TransactionState, Witness
from specon_sidecar.classify import Category
from specon_sidecar.wire import Checkpoint
from support.clocks.virtual_time import run_virtually, virtual_now

NAME = "ns/job/worker/0"
JOB = reference(JOBS, "ns", "job", "uid-1")
AT = datetime(2026, 11, 1, 12, 0, 0, 250000, tzinfo=UTC)


def note(text="moving", reason="MoveOrdered", **more):
    return Note(replica=NAME, reason=reason, action="Move", text=text, **more)


class Events:
    """Takes events, or fails as a test says."""

    def __init__(self, *failures):
        self.failures = list(failures)
        self.created = []

    async def create(self, _resource, body, namespace):
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure
        self.created.append((virtual_now(), namespace, body))


def recorded(script, *failures, seconds=3600.0, **options):
    """Return the events that were written, and the recorder, after `script(recorder)` ran beside it."""

    async def scenario():
        api = Events(*failures)
        recorder = Recorder(api, instance="manager-0", monotonic=virtual_now, wall=lambda: AT, **options)
        task = asyncio.create_task(recorder.run())
        found = script(recorder)
        if found is not None:
            await found
        await asyncio.sleep(seconds)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return api.created, recorder

    return run_virtually(scenario())


def test_an_event_names_its_object_and_says_who_what_and_why():
    found = event_of(JOB, note("moving to n1", warning=True), instance="manager-0", at=AT)
    assert found.pop("metadata")["namespace"] == "ns"
    assert found == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "eventTime": "2026-11-01T12:00:00.250000Z",
        "reportingController": "specon.io/manager",
        "reportingInstance": "manager-0",
        "action": "Move",
        "reason": "MoveOrdered",
        "regarding": {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "namespace": "ns",
            "name": "job",
            "uid": "uid-1",
        },
        "type": "Warning",
        "note": "moving to n1",
    }


def test_an_event_of_an_object_without_a_namespace_is_in_default():
    assert (
        event_of(reference(NODES, None, "n1"), note(), instance="m", at=AT)["metadata"]["namespace"]
        == "default"
    )


@given(text=st.text(max_size=2000))
def test_no_note_is_longer_than_the_api_takes(text):
    assert len(cut_to_bytes(text, MAX_NOTE_BYTES).encode()) <= MAX_NOTE_BYTES
    if len(text.encode()) <= MAX_NOTE_BYTES:
        assert cut_to_bytes(text, MAX_NOTE_BYTES) == text


def test_the_same_is_said_once_in_ten_minutes():
    async def script(recorder):
        for _ in range(5):
            recorder.record(JOB, note())
        recorder.record(JOB, note("another"))
        recorder.record(JOB, note("4 moves in flight", topic="budget"))
        recorder.record(JOB, note("5 moves in flight", topic="budget"))
        await asyncio.sleep(601)
        recorder.record(JOB, note())

    created, _ = recorded(script)
    assert [event["note"] for _, _, event in created] == ["moving", "another", "4 moves in flight", "moving"]


def test_a_flood_is_written_slowly_and_the_latest_of_it():
    def script(recorder):
        for number in range(100):
            recorder.record(JOB, note(str(number)))

    created, recorder = recorded(script, per_second=2.0, burst=5, queue=20)
    assert [event["note"] for _, _, event in created] == [str(number) for number in range(80, 100)]
    assert recorder.dropped == 80
    assert created[-1][0] == pytest.approx(7.5)


def test_an_event_that_is_not_taken_is_dropped_and_the_next_one_is_written():
    def script(recorder):
        for number in range(3):
            recorder.record(JOB, note(str(number)))

    failures = [ApiError(403, "Forbidden", "namespace is terminating"), ApiUnavailableError("away")]
    created, recorder = recorded(script, *failures)
    assert [event["note"] for _, _, event in created] == ["2"]
    assert (recorder.written, recorder.dropped) == (1, 2)


def test_what_cannot_be_an_event_raises_nothing():
    def script(recorder):
        recorder.record({"kind": "Pod"}, note())
        recorder.record(JOB, note("\ud800"))

    created, recorder = recorded(script)
    assert ([event["note"] for _, _, event in created], recorder.dropped) == (["?"], 1)


@pytest.mark.parametrize(("per_second", "burst"), [(0.0, 1), (1.0, 0)])
def test_a_rate_that_lets_nothing_pass_is_refused(per_second, burst):
    with pytest.raises(ValueError, match="let nothing pass"):
        Rate(per_second, burst)


def state(category=Category.PROGRESSING, **more):
    progress = Progress(category=category, step=1200, reason="gain 0.4 % < 1 %")
    replica = Replica(name=NAME, job="ns/job", phase=Phase.RUNNING, progress=progress)
    return State(replicas={NAME: replica}, **more)


def move(**more):
    facts = {field: more.pop(field) for field in Witness.__struct_fields__ if field in more}
    fields = {
        "id": "m1",
        "kind": Kind.MOVE,
        "job": "ns/job",
        "before": {NAME: "n1"},
        "after": {NAME: "n2"},
        "policy": "specon",
        "purpose": "migrate",
        "reason": "converged",
        "state": TransactionState.PROPOSED,
        "proposed_at": 0.0,
        "deadline": 10.0,
        "witnesses": {NAME: Witness(incarnation="i1", **facts)},
    }
    return Transaction(**{**fields, **more})


def told(before, after, event=None):
    return [(found.reason, found.text, found.warning) for found in words_of(before, after, event)]


def test_a_change_of_category_is_told_with_its_step_and_reason():
    changed = told(state(), state(Category.CONVERGED))
    assert changed == [("Converged", "converged at step 1200: gain 0.4 % < 1 %", False)]
    assert told(state(Category.CONVERGED), state(Category.CONVERGED)) == []


def unheard(seconds, reason="", **more):
    progress = Progress(category_since=100.0, reported_at=100.0 + seconds, reason=reason, **more)
    replica = Replica(name=NAME, job="ns/job", phase=Phase.RUNNING, progress=progress)
    return State(replicas={NAME: replica})


def test_a_log_that_is_not_understood_is_told_after_half_a_minute_and_once():
    """With what the sidecar saw and what to set; an older one gives no reason, so that we give one."""
    before, seen = unheard(29), "3 lines, none with a loss; set specon.io/format"
    assert told(unheard(10), before) == []
    ((reason, text, warning),) = told(before, unheard(30, seen))
    assert (reason, warning) == ("NotUnderstood", True)
    assert text == f"its log is not understood: {seen}"
    assert told(unheard(30, seen), unheard(40, "4 lines, none with a loss")) == []
    ((_, text, _),) = told(before, unheard(31))
    assert "no sample of its training was found in its log for 30 s" in text
    assert "specon.io/log-path, specon.io/format or specon.io/pattern" in text


@pytest.mark.parametrize(("coupled", "warnings"), [(True, 1), (False, 2)])
def test_of_a_gang_only_the_log_of_the_first_worker_has_to_be_understood(coupled, warnings):
    """The other ranks of most trainers name no steps: a warning for each of their pods would be wrong."""
    names = tuple(f"ns/job/worker/{index}" for index in range(2))
    job = Job(spec=JobSpec(name="ns/job", replicas=names, coupled=coupled), order=0, submitted_at=0.0)

    def silent_for(seconds):
        progress = Progress(category_since=100.0, reported_at=100.0 + seconds, reason="no steps")
        replicas = {
            name: Replica(name=name, job="ns/job", phase=Phase.RUNNING, progress=progress) for name in names
        }
        return State(jobs={"ns/job": job}, replicas=replicas)

    assert len(told(silent_for(29), silent_for(30))) == warnings


def test_a_log_with_a_sample_is_understood():
    """However little it says of the training yet."""
    assert told(unheard(29), unheard(30, "only 1 point yet", value=2.5)) == []


def test_trouble_is_a_warning():
    (found,) = words_of(state(), state(Category.DIVERGING))
    assert found.warning


def test_a_step_that_was_no_report_is_not_searched_for_categories():
    assert told(state(), state(Category.CONVERGED), Tick()) == []


def test_each_state_of_a_move_that_matters_is_told_once():
    saved = Checkpoint(step=40, path="/c", digest="0" * 64)
    course = [
        None,
        move(),
        move(state=TransactionState.RESERVED),
        move(state=TransactionState.CHECKPOINTING),
        move(state=TransactionState.LEAVING, checkpoint=saved),
        move(state=TransactionState.COMING, checkpoint=saved),
        move(state=TransactionState.VERIFYING, checkpoint=saved),
    ]
    states = [state(transactions={each.id: each} if each else {}) for each in course]
    ended = move(state=TransactionState.SUCCEEDED, first_step=41, downtime=3.25, steps_lost=2)
    states.append(state(history=(ended,)))
    found = [words for before, after in itertools.pairwise(states) for words in told(before, after)]
    assert found == [
        ("MoveOrdered", "moving from n1 to n2: converged", False),
        ("CheckpointVerified", "checkpoint of step 40 verified; leaving n1", False),
        ("Restored", "restored on n2 from the checkpoint of step 40; waiting for a later step", False),
        ("Resumed", "resumed at step 41 on n2 after 3.2 s of downtime, 2 steps trained again", False),
    ]


def test_the_way_back_and_the_end_of_a_move_that_failed_are_told_with_their_reasons():
    before = state(transactions={"m1": move(state=TransactionState.COMING)})
    back = state(transactions={"m1": move(state=TransactionState.COMING, attempt=2, note="no room")})
    assert told(before, back) == [("MovingBack", "going back to n1: no room", True)]
    failed = state(history=(move(state=TransactionState.FAILED, note="no start"),))
    assert told(before, failed) == [("MoveFailed", "the move to n2 failed: no start", True)]
    rolled = state(history=(move(state=TransactionState.ROLLED_BACK, note="no checkpoint"),))
    assert told(before, rolled) == [("MoveRolledBack", "rolled back: no checkpoint", False)]


def refused(refusal, reason, before=()):
    decision = Decision(
        at=1.0, replica=NAME, policy="specon", proposal="Migrate to n2", reason=reason, refusal=refusal
    )
    return {"decisions": (*before, decision), "verdicts": {NAME: decision}}


def test_why_a_converged_replica_stays_is_told_once_for_each_kind_of_reason():
    first = state(Category.CONVERGED)
    second = state(Category.CONVERGED, **refused(Refusal.NO_ROOM, "3 of 4 CPUs"))
    third = state(Category.CONVERGED, **refused(Refusal.NO_ROOM, "2 of 4 CPUs", second.decisions))
    fourth = state(Category.CONVERGED, **refused(Refusal.COOLDOWN, "for 9 s", third.decisions))
    assert told(first, second) == [("NotMoved", "Migrate to n2: not ordered (no-room): 3 of 4 CPUs", False)]
    assert told(second, third) == []
    assert told(third, fourth) == [("NotMoved", "Migrate to n2: not ordered (cooldown): for 9 s", False)]


def test_why_a_converged_gang_stays_is_told_on_its_job():
    """Its first worker says whether it has converged; refusals of other changes are not told so."""
    job = Job(spec=JobSpec(name="ns/job", replicas=(NAME, "ns/job/worker/1")), order=0, submitted_at=0.0)
    for proposal, count in (("MigrateGang", 1), ("Preempt", 0)):
        decision = Decision(
            at=1.0,
            replica="ns/job",
            policy="progress",
            proposal=proposal,
            reason="full",
            refusal=Refusal.NO_ROOM,
        )
        jobs = {"jobs": {"ns/job": job}}
        after = state(Category.CONVERGED, **jobs, decisions=(decision,), verdicts={"ns/job": decision})
        notes = words_of(state(Category.CONVERGED, **jobs), after)
        assert [(note.whole, note.replica, note.reason) for note in notes] == [
            (True, "ns/job", "NotMoved")
        ] * count
        assert words_of(state(**jobs), msgspec.structs.replace(after, replicas=state().replicas)) == []


def test_why_a_growing_replica_stays_is_told_to_nobody():
    assert told(state(), state(**refused(Refusal.NO_ROOM, "full"))) == []


def test_nothing_changed_nothing_told():
    same = state(Category.CONVERGED, transactions={"m1": move()})
    assert words_of(same, msgspec.structs.replace(same, transaction_count=9)) == []
