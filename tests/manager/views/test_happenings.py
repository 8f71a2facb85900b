from __future__ import annotations

import typing

import msgspec
import pytest

from specon_manager.core.state import State
from specon_manager.core.step import step
from specon_manager.model import events as ev
from specon_manager.model.actions import Proposal, Refusal
from specon_manager.model.cluster import JobSpec, Phase
from specon_manager.model.progress import Progress
from specon_manager.model.resources import Resources
from specon_manager.model.transactions import TransactionState, Witness
from specon_manager.views.decisions import proposal_text
from specon_manager.views.happenings import happenings
from specon_sidecar.classify import Category
from support.decisions.changed_jobs import CHECKPOINT, change

DONE = TransactionState.SUCCEEDED


def told(before, after, *, at=20.0, verbose=False):
    """Return the lines for what changed, `at` seconds after the begin."""
    return happenings(before, after, began=1000.0, now=1000.0 + at, verbose=verbose)


def test_nothing_new_is_no_line(scene):
    """The same state twice, or an equal copy, tells nothing."""
    name = scene.job()
    scene.running(name)
    scene.decided(name, "Admit node-0", "round robin")
    scene.move(name, TransactionState.RESERVED)
    copy = msgspec.convert(msgspec.to_builtins(scene.state), State)
    assert told(scene.state, scene.state, verbose=True) == []
    assert told(scene.state, copy, verbose=True) == []


def test_why_nothing_is_known_of_a_training_is_told_once(scene):
    """A sidecar without a sample says what it sees instead; the same reason once more is no news."""
    name = scene.job()
    scene.running(name)
    replica = scene.state.replicas[name]

    def saying(reason, **known):
        progress = Progress(reason=reason, **known)
        changed = msgspec.structs.replace(replica, progress=progress)
        return msgspec.structs.replace(scene.state, replicas={**scene.state.replicas, replica.name: changed})

    silent, puzzled = saying(""), saying("no line is understood")
    assert told(silent, puzzled) == ["[   20.0s] mnist: no line is understood"]
    assert told(puzzled, saying("no line is understood")) == []
    assert told(silent, saying("too early", metric="loss", step=3)) == []


def test_of_a_gang_only_the_first_worker_has_to_say_something(scene):
    """The logs of the others name no steps in most trainers, and need not."""
    scene.job(replicas=2)
    lead, other = (scene.state.replicas[f"default/mnist/worker/{index}"] for index in range(2))

    def puzzled(replica):
        changed = msgspec.structs.replace(replica, progress=Progress(reason="no line is understood"))
        return msgspec.structs.replace(scene.state, replicas={**scene.state.replicas, replica.name: changed})

    assert told(scene.state, puzzled(lead)) == ["[   20.0s] mnist/worker/0: no line is understood"]
    assert told(scene.state, puzzled(other)) == []


def test_a_submission_is_told_at_its_time(scene):
    """A job is told when it was submitted, with the number of its replicas where there are several."""
    before = scene.state
    scene.job("default/mnist", at=3.21)
    scene.job("team-a/gan", replicas=3, at=4.0)
    assert told(before, scene.state) == [
        "[    3.2s] mnist submitted",
        "[    4.0s] team-a/gan submitted, 3 replicas",
    ]


def test_a_node_is_told_when_it_comes_and_when_it_is_lost(scene):
    """A node that appears has its size; one that stops being ready is named."""
    node = scene.state.nodes["node-0"]
    lost = msgspec.structs.replace(scene.state, nodes={"node-0": msgspec.structs.replace(node, ready=False)})
    alone = msgspec.structs.replace(scene.state, nodes={"node-0": node})
    assert told(State(), alone) == ["[   20.0s] node node-0: 2 CPUs"]
    assert told(alone, lost) == ["[   20.0s] node node-0: not ready"]
    assert told(lost, alone) == ["[   20.0s] node node-0: ready again"]


def test_a_start_is_told_once_for_each_incarnation(scene):
    """A replica that runs is told with its node; a later incarnation with its number."""
    name = scene.job()
    before = scene.state
    scene.running(name, "node-1", category=Category.UNKNOWN)
    first = scene.state
    scene.running(name, "node-0", category=Category.UNKNOWN)
    assert told(before, first) == ["[   20.0s] mnist started on node-1"]
    assert told(first, scene.state) == ["[   20.0s] mnist started on node-0, start 2"]


def test_a_change_of_category_is_told_with_its_reason(scene):
    """The line has both categories, the step, and what the sidecar says about why."""
    name = scene.job()
    scene.running(name, category=Category.WATCHING)
    before = scene.state
    progress = msgspec.structs.replace(
        before.replicas[name].progress, category=Category.CONVERGED, step=800, reason="gain 0.1 % below 1 %"
    )
    scene.replica(name, progress=progress)
    assert told(before, scene.state) == [
        "[   20.0s] mnist watching -> converged at step 800: gain 0.1 % below 1 %"
    ]


def test_refusals_are_told_only_on_request(scene):
    """Accepted decisions are always told; refused ones, with their label, only when verbose."""
    name = scene.job()
    before = scene.state
    scene.decided(name, "Admit node-0", "round robin", at=5)
    scene.decided(name, "Migrate node-1", "gain too small", at=6, refusal=Refusal.NO_GAIN)
    accepted = "[    5.0s] mnist: start on node-0 accepted: round robin"
    refused = "[    6.0s] mnist: move to node-1 refused (no-gain): gain too small"
    assert told(before, scene.state) == [accepted]
    assert told(before, scene.state, verbose=True) == [accepted, refused]


@pytest.mark.parametrize("kind", typing.get_args(Proposal))
def test_every_kind_of_proposal_has_a_name_in_plain_english(kind):
    """With its node where it has one; the name of a class is no word of a user."""
    assert kind.__name__ not in proposal_text(kind.__name__)
    assert proposal_text(f"{kind.__name__} node-1").endswith(" node-1")
    assert proposal_text("Unheard of") == "Unheard of"


def test_only_new_decisions_are_told(scene):
    """The state keeps a window of decisions: those that slid out of it are not told again."""
    name = scene.job()
    for number in range(4):
        scene.decided(name, f"Admit node-{number}", "why", at=number)
    every = scene.state.decisions
    before = msgspec.structs.replace(scene.state, decisions=every[:3])
    after = msgspec.structs.replace(scene.state, decisions=every[2:])
    assert told(before, after) == ["[    3.0s] mnist: start on node-3 accepted: why"]
    gone = msgspec.structs.replace(scene.state, decisions=every[:1])
    assert len(told(gone, after)) == 2


def test_a_move_is_told_state_by_state(scene):
    """Each new state of a move is a line with its id, replica, source and target."""
    name = scene.job()
    before = scene.state
    scene.move(name, TransactionState.PROPOSED)
    proposed = scene.state
    scene.move(name, TransactionState.CHECKPOINTING)
    asking = scene.state
    scene.move(name, TransactionState.COMING, attempt=2, note="no room")
    assert told(before, proposed) == ["[   20.0s] move-1: mnist node-0 -> node-1 Proposed: converged"]
    assert told(proposed, asking) == ["[   20.0s] move-1: mnist node-0 -> node-1 Checkpointing"]
    assert told(asking, scene.state) == [
        "[   20.0s] move-1: mnist node-0 -> node-1 Coming, going back: no room"
    ]


@pytest.mark.parametrize(
    ("state", "fields", "words"),
    [
        (
            TransactionState.SUCCEEDED,
            {"downtime": 2.13, "steps_lost": 7},
            "Succeeded: downtime 2.1 s, 7 steps lost",
        ),
        (
            TransactionState.SUCCEEDED,
            {"downtime": 0.0, "steps_lost": 0},
            "Succeeded: downtime 0.0 s, 0 steps lost",
        ),
        (TransactionState.ROLLED_BACK, {"note": "no checkpoint"}, "RolledBack: no checkpoint"),
        (TransactionState.FAILED, {}, "Failed"),
    ],
)
def test_the_end_of_a_move_is_told_with_its_cost(scene, state, fields, words):
    """A move that ended is told once, at its end, with downtime, steps lost and note as far as known."""
    name = scene.job()
    scene.move(name, TransactionState.VERIFYING)
    before = scene.state
    scene.move(name, state, ended_at=1018.4, **fields)
    assert told(before, scene.state) == [f"[   18.4s] move-1: mnist node-0 -> node-1 {words}"]
    later = msgspec.structs.replace(scene.state, transaction_count=9)
    assert told(scene.state, later) == []


def test_a_change_is_told_state_by_state(scene):
    """First with its numbers and reason, then with the checkpoint, in the end with its note."""
    scene.job("default/e", replicas=3)
    states = [scene.state]
    saved = Witness(checkpoint=CHECKPOINT, answered=True)
    for each in (
        change(),
        change(state=TransactionState.LEAVING, witness=saved),
        change(state=TransactionState.ROLLED_BACK, note="no room", ended_at=1019.0),
    ):
        scene.transaction(each)
        states.append(scene.state)
    assert [told(before, after) for before, after in zip(states, [*states[1:], states[-1]], strict=True)] == [
        ["[   20.0s] change-1: e scale-out 2 -> 3 Checkpointing: room is idle"],
        ["[   20.0s] change-1: e scale-out 2 -> 3 Leaving: checkpoint of step 70"],
        ["[   19.0s] change-1: e scale-out 2 -> 3 RolledBack: no room"],
        [],
    ]


def test_what_waits_and_what_is_stuck_is_told(scene):
    """A request when it begins to wait; that something cannot end once, when that is known."""
    name = scene.job()
    scene.running(name)
    scene.move(name, TransactionState.LEAVING)
    before = scene.state
    scene.request(name)
    asked = scene.state
    scene.move(name, TransactionState.LEAVING, stuck="it does not end")
    assert told(before, asked) == [
        "[   20.0s] request-1: mnist node-0 -> node-1 Queued: 4 moves are in flight"
    ]
    assert told(asked, scene.state) == [
        "[   20.0s] move-1: mnist node-0 -> node-1 Leaving: stuck: it does not end"
    ]
    assert told(scene.state, scene.state) == []


def test_a_crash_is_told_with_what_follows(scene):
    """A crash has its reason and the pause before the next start; the last one ends the job instead."""
    name = scene.job(at=2.0)
    scene.running(name)
    before = scene.state
    note = "crash 1: exit code 1"
    scene.replica(name, phase=Phase.PENDING, incarnation=None, crashes=1, note=note, not_before=1022.0)
    crashed = scene.state
    scene.replica(name, crashes=2, note="crash 2: exit code 1", not_before=0.0)
    scene.end(name, at=19.0, phase=Phase.FAILED)
    assert told(before, crashed) == [
        "[   20.0s] mnist crashed: crash 1: exit code 1; it may start again in 2.0 s"
    ]
    assert told(crashed, scene.state) == [
        "[   19.0s] mnist failed, 17.0 s after its submission",
        "[   20.0s] mnist crashed: crash 2: exit code 1",
    ]


def test_a_finished_job_has_its_completion_time(scene):
    """The completion time counts from the submission; a job of one replica has one line."""
    name = scene.job(at=2.5)
    before = scene.state
    scene.end(name, at=12.5)
    assert told(before, scene.state) == ["[   12.5s] mnist finished, 10.0 s after its submission"]


def test_replicas_of_a_larger_job_end_one_by_one(scene):
    """Where a job has several replicas, each has its line before the job has its own."""
    first = scene.job(replicas=2)
    before = scene.state
    scene.replica(first, phase=Phase.SUCCEEDED, ended_at=1005.0)
    half = scene.state
    scene.end(first.replace("/0", "/1"), at=7.0, phase=Phase.FAILED)
    assert told(before, half) == ["[    5.0s] mnist/worker/0 finished"]
    assert told(half, scene.state) == [
        "[    7.0s] mnist/worker/1 failed",
        "[    7.0s] mnist failed, 7.0 s after its submission",
    ]


def test_nothing_in_a_reason_breaks_the_line(scene):
    """Line breaks and control characters of a reason become blanks; other scripts stay."""
    name = scene.job("default/模型")
    before = scene.state
    scene.decided(name, "Admit node-0", "one\ntwo\x1b[31m\tthree\ud800")
    assert told(before, scene.state) == ["[    1.0s] 模型: start on node-0 accepted: one two [31m three"]


def test_the_life_of_a_job_through_the_real_step():
    """Fed with every state that `step` passes through, the lines tell the story once and in order."""
    name = "default/mnist/worker/0"
    state, told_so_far = State(), []
    story = [
        ev.NodeObserved(node="node-0", capacity=Resources(cpu=1.0), usage=Resources()),
        ev.JobSubmitted(JobSpec(name="default/mnist", replicas=(name,))),
        ev.Tick(),
        ev.ReplicaStarted(replica=name, incarnation="a", node="node-0"),
        ev.ReplicaGone(replica=name, incarnation="a", exit_code=0),
        ev.Tick(),
    ]
    for second, event in enumerate(story):
        after, _ = step(state, event, 1000.0 + second)
        told_so_far += told(state, after, at=second)
        state = after
    assert [line[:10] for line in told_so_far] == [f"[{second:7.1f}s]" for second in range(5)]
    assert [line[11:].split(":")[0] for line in told_so_far] == [
        "node node-0",
        "mnist submitted",
        "mnist",
        "mnist started on node-0",
        "mnist finished, 3.0 s after its submission",
    ]
