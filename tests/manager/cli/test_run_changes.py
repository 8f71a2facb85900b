"""What a run says of its transactions: results, table, courses, and whether a scenario was shown."""

import io

import msgspec
import pytest
from rich.console import Console

from specon_manager.cli.run import scenarios
from specon_manager.cli.run.change_table import describe_course, print_changes
from specon_manager.cli.run.comparison import to_json
from specon_manager.cli.run.live_view import render
from specon_manager.cli.run.result import summarize
from specon_manager.cli.run.transaction_results import TransactionLog, TransactionResult
from specon_manager.model.cluster import Phase
from specon_manager.model.events import ReportReceived, Tick
from specon_manager.model.transactions import Kind, Transaction, TransactionState, Witness
from specon_manager.runtime.controller import Stepped
from specon_sidecar.classify import Category
from specon_sidecar.wire import Checkpoint, Observation, Report

JOB = "default/a"
LEAD = f"{JOB}/worker/0"


def a_change(kind=Kind.SCALE_OUT, state=TransactionState.CHECKPOINTING, *, witness=None, **fields):
    """Return a change from one worker to two, begun 5 seconds after the begin of the run."""
    workers = [f"{JOB}/worker/{index}" for index in range(2)]
    return Transaction(
        **{
            "id": "change-1",
            "job": JOB,
            "kind": kind,
            "whole": True,
            "policy": "kod2",
            "reason": "idle room",
            "state": state,
            "proposed_at": 1005.0,
            "deadline": 1100.0,
            "before": {workers[0]: "node-0"},
            "after": dict.fromkeys(workers, "node-0"),
            "witnesses": {LEAD: Witness(**{"incarnation": "0001", **(witness or {})})},
            **fields,
        }
    )


def in_flight(scene, change):
    return msgspec.structs.replace(scene.state, transactions={change.id: change})


def over(scene, change):
    return msgspec.structs.replace(scene.state, transactions={}, history=(change,))


def stepped(before, after, event=Tick(), now=1000.0):  # noqa: B008  (it has no state)
    return Stepped(before=before, after=after, event=event, actions=(), now=now, seconds=0.0)


def report(incarnation, step, age=0.0):
    return ReportReceived(
        Report(
            schema=1,
            replica=LEAD,
            incarnation=incarnation,
            session="s",
            sequence=1,
            category=Category.UNKNOWN,
            first=Observation(name="loss", value=1.0, step=step, age=age),
            last=Observation(name="loss", value=1.0, step=step + 5, age=0.0),
        )
    )


@pytest.fixture
def two(scene):
    scene.job(JOB, replicas=2)
    scene.running(LEAD, category=Category.UNKNOWN)
    return scene


def logged(*steps):
    log = TransactionLog()
    for each in steps:
        log.observe(each)
    return log


def test_what_a_restart_cost_is_what_its_witness_says(two):
    """Steps lost are those trained again; the downtime lasts from the last step before to the first after."""
    saved = Checkpoint(path="x", step=28, digest="0" * 64)
    cost = {"checkpoint": saved, "last_step": 30, "first_step": 29, "downtime": 3.5, "steps_lost": 2}
    state = TransactionState.SUCCEEDED
    change = a_change(state=state, restart=True, changing_at=1006.0, ended_at=1012.0, witness=cost)
    ended = over(two, change)
    (result,) = logged(stepped(two.state, ended, now=1012.0)).changes(ended, 1000.0)
    assert (result.workers_before, result.workers_after, result.started_at, result.ended_at) == (
        1,
        2,
        5.0,
        12.0,
    )
    assert (result.checkpoint_step, result.first_step_after, result.steps_lost) == (28, 29, 2)
    assert (result.last_step_before, result.downtime) == (30, 3.5)


def test_the_first_step_after_a_preemption_comes_when_it_is_admitted_again(two):
    """Long after the change is over."""
    change = a_change(
        Kind.PREEMPT,
        TransactionState.SUCCEEDED,
        after={},
        changing_at=1006.0,
        ended_at=1008.0,
        witness={"last_step": 30, "last_step_at": 1006.0},
    )
    ended = over(two, change)
    log = logged(
        stepped(two.state, ended),
        stepped(ended, ended, report("0001", 1), 1007.0),  # of the incarnation that was about to end
        stepped(ended, ended, report("0002", 31), 1060.0),
    )
    (result,) = log.changes(ended, 1000.0)
    assert (result.workers_after, result.first_step_after, result.steps_lost) == (0, 31, 0)
    assert result.downtime == pytest.approx(54.0)


def test_a_live_change_stops_nobody(two):
    """Its downtime is nothing, and nothing is trained again."""
    state, seen = TransactionState.SUCCEEDED, {"first_step": 33}
    ended = over(two, a_change(state=state, changing_at=1006.0, ended_at=1008.0, witness=seen))
    (result,) = logged(stepped(two.state, ended)).changes(ended, 1000.0)
    assert (result.first_step_after, result.downtime, result.steps_lost) == (33, 0.0, 0)


def test_the_course_of_workers_leaves_out_what_a_change_passes_through(two):
    """It is told when a change has ended, and what ended well is still counted."""
    one = two.state
    flying = in_flight(two, a_change())
    two.running(f"{JOB}/worker/1", category=Category.UNKNOWN)
    both = over(two, a_change(state=TransactionState.SUCCEEDED, ended_at=1012.0))
    two.replica(LEAD, phase=Phase.SUCCEEDED)
    later = msgspec.structs.replace(two.state, history=both.history)
    log = logged(
        stepped(msgspec.structs.replace(one, replicas={}), one, now=1001.0),
        stepped(one, flying, now=1005.0),
        stepped(flying, both, now=1012.0),
        stepped(both, later, now=1013.0),
    )
    course = log.courses(1000.0)[JOB]
    assert [(each.at, each.workers) for each in course] == [(1.0, 1), (12.0, 2)]
    assert describe_course(JOB, course) == "workers of a: 1 at 1.0 s, 2 at 12.0 s"


def a_result(scene, *found, workers=None):
    """Return the result of a run with these changes."""
    result = summarize(scene.state, began=1000.0)
    return msgspec.structs.replace(result, changes=found, workers=workers or {})


def a_row(kind, state=TransactionState.SUCCEEDED, **fields):
    return TransactionResult(
        **{
            "id": "change-1",
            "job": JOB,
            "replica": None,
            "source": "",
            "target": "",
            "purpose": "",
            "kind": kind,
            "state": state,
            "policy": "p",
            "reason": "why it is",
            "note": "",
            "beneficiary": "",
            "workers_before": 3,
            "workers_after": 2,
            "restart": True,
            "started_at": 5.0,
            "ended_at": 9.0,
            "checkpoint_step": 40,
            "last_step_before": 41,
            "first_step_after": 41,
            "downtime": 2.25,
            "steps_lost": 1,
            **fields,
        }
    )


def printed(result):
    console = Console(width=140, record=True, file=io.StringIO())
    print_changes(result, console)
    return console.export_text()


def test_the_table_has_before_and_after_of_each_change(two):
    """The numbers of workers and of steps, the downtime, the reason; a change that failed says so."""
    rows = (
        a_row(Kind.SCALE_IN),
        a_row(Kind.SCALE_OUT, TransactionState.ROLLED_BACK, note="it crashed", downtime=None),
    )
    text = printed(a_result(two, *rows))
    first, second = (
        next(line for line in text.splitlines() if word in line) for word in ("scale-in", "scale-out")
    )
    assert first.split() == [
        "5.0",
        "a",
        "scale-in",
        "3",
        "->",
        "2",
        "40",
        "41",
        "2.2",
        "1",
        "why",
        "it",
        "is",
    ]
    assert "scale-out, RolledBack" in second
    assert "it crashed; wanted: why it is" in second


def test_a_first_admission_is_no_row_and_nothing_is_no_table(two):
    """The one after a preemption is."""
    admitted = a_row(Kind.ADMIT, workers_before=0)
    assert printed(a_result(two, admitted)).count("admit") == 0
    assert printed(a_result(two, admitted, admitted)).count("admit") == 1
    assert printed(a_result(two)) == ""


def test_the_file_of_results_has_changes_and_courses(two):
    """All fields of a change, by their names."""
    log = logged(stepped(msgspec.structs.replace(two.state, replicas={}), two.state, now=1001.0))
    result = a_result(two, a_row(Kind.SCALE_IN), workers=log.courses(1000.0))
    (run,) = msgspec.json.decode(to_json([result]))["runs"]
    assert run["changes"][0]["kind"] == "scale-in"
    assert run["changes"][0]["checkpoint_step"] == 40
    assert run["workers"] == {JOB: [{"at": 1.0, "workers": 1}]}


def test_the_view_shows_changes(two):
    """One that is in flight with its reason, and how many there are."""
    console = Console(width=100, height=30, record=True, file=io.StringIO())
    console.print(render(in_flight(two, a_change()), 1010.0, title="t", began=1000.0))
    text = console.export_text()
    assert "1 in flight" in text
    assert "scale-out 1 -> 2 Checkpointing: idle room" in text


def test_a_scenario_is_shown_only_by_what_came_about(two):
    """Scaling in for another job, and going on from the checkpoint both ways."""
    inwards, outwards = a_row(Kind.SCALE_IN), a_row(Kind.SCALE_OUT, started_at=20.0)
    other = a_row(Kind.ADMIT, job="default/b", started_at=10.0)

    def met(*rows):
        return [kept for _, kept in scenarios.check_promises("kod2", a_result(two, *rows))]

    assert met(inwards, other, outwards) == [True, True, True]
    assert met(inwards, outwards) == [False, True, True]
    assert met(inwards, other, a_row(Kind.SCALE_OUT, TransactionState.ROLLED_BACK)) == [True, True, False]
    assert met(a_row(Kind.SCALE_IN, first_step_after=40), other, outwards) == [True, False, True]


def test_a_preemption_is_shown_when_both_jobs_succeed(two):
    """The victim from its checkpoint, and the trial for which it went."""
    two.job("default/b")
    row = a_row(Kind.PREEMPT, beneficiary="default/b", workers_after=0)

    def met():
        return [kept for _, kept in scenarios.check_promises("fitgpp", a_result(two, row))]

    assert met() == [False]
    two.replica(f"{JOB}/worker/1", phase=Phase.ABSENT)
    two.end(LEAD, at=50.0)
    two.end("default/b/worker/0", at=40.0)
    assert met() == [True]


def test_nodes_of_a_scenario_hold_one_processor_each():
    """On any machine: what the jobs reserve fills them."""
    nodes = scenarios.nodes("gang")
    assert [(node.name, node.capacity, len(node.cpus)) for node in nodes] == [
        ("node-0", 1.0, 1),
        ("node-1", 1.0, 1),
    ]


@pytest.mark.parametrize(("cpus", "each"), [({3}, [(3,), (3,)]), ({0, 1, 2, 5}, [(0, 1), (2, 5)])])
def test_scripts_of_frameworks_share_all_processors(monkeypatch, cpus, each):
    """They reserve nothing; a machine with one processor has two nodes all the same."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: cpus)
    assert [node.cpus for node in scenarios.nodes("frameworks")] == each
