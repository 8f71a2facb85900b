"""`specon changes`, `specon queue` and `specon explain` of a manager that has ended: its journal is read."""

import io
import json

import msgspec
import pytest
from rich.console import Console

from specon_manager.__main__ import main
from specon_manager.cli.job_table import job_table
from specon_manager.cli.remote.change_rows import awaited, change_label, change_row
from specon_manager.model.actions import Decision, Refusal
from specon_manager.model.changes import ChangeKind, ChangeState
from specon_manager.model.cluster import Leaving, Phase
from specon_manager.runtime.journal import NAME, Journal
from specon_manager.runtime.state_directory import Address
from specon_manager.runtime.tokens import write_private
from support.changed_jobs import NOW, change, changing, elastic, ended, nodes
from support.gangs import gang, on, server, with_gang, worker

USAGE = 2


@pytest.fixture
def typed(tmp_path, capsys):
    """Return what a command prints about a state; of one that fails, its error."""

    def run(state, *arguments, code=0):
        directory = tmp_path / "old.specon"
        directory.mkdir(exist_ok=True)
        address = Address(url="http://127.0.0.1:9", pid=1, port=9)  # where nobody listens
        (directory / "manager.json").write_bytes(msgspec.json.encode(address))
        write_private(directory / "token", "t")
        (directory / NAME).unlink(missing_ok=True)
        journal = Journal(directory / NAME, began_at=NOW, version="test")
        journal.begin(state)
        journal.close()
        assert main([*arguments, "--state", str(directory)]) == code
        printed = capsys.readouterr()
        return printed.err if code else printed.out

    return run


def in_json(typed, state, *arguments):
    return json.loads(typed(state, *arguments, "--output", "json"))


def history(state, *changes):
    return msgspec.structs.replace(state, change_history=changes)


def replica(state, name, **fields):
    return state.with_replica(msgspec.structs.replace(state.replicas[name], **fields))


def test_changes_are_listed_with_what_they_wait_for_and_how_they_ended(typed):
    """Workers before and after, downtime, reason and note; the older ones first."""
    failed = ended(2, ChangeKind.SCALE_IN, state=ChangeState.ROLLED_BACK, downtime=None, note="no checkpoint")
    out = typed(history(changing(), ended(3, proposed_at=NOW - 90), failed), "changes")
    lines = [line.split() for line in out.splitlines() if line.startswith("change-")]
    assert [line[:2] for line in lines] == [["change-3", "e"], ["change-1", "e"], ["change-2", "e"]]
    assert "scale-out 2 -> 3" in out
    assert "Checkpointing" in out
    assert "3.0s" in out
    assert "[no checkpoint]" in " ".join(out.split())


def test_changes_can_be_narrowed(typed):
    """To those in flight, to a job, to the latest so many."""
    state = history(changing(), ended(3), ended(4, job="w"))
    assert [row["id"] for row in in_json(typed, state, "changes", "--open")["changes"]] == ["change-1"]
    assert [row["id"] for row in in_json(typed, state, "changes", "--job", "w")["changes"]] == ["change-4"]
    found = in_json(typed, state, "changes", "--limit", "1")
    assert (len(found["changes"]), found["left_out"]) == (1, 2)
    assert typed(nodes(), "changes").endswith("\n")
    assert main(["changes", "--limit", "0"]) == USAGE


def test_queues_are_listed_with_use_and_who_waits(typed):
    """Quota, use, who waits in which position and for what."""
    out = " ".join(typed(changing(), "queue").split())
    assert "team 2 CPU, 0.9313 GiB" in out
    assert "3 CPU 1 CPU, may not" in out
    assert "queue team has no quota for" in out
    found = in_json(typed, changing(), "queue", "--queue", "team")
    (row,) = found["waiting"]
    assert (row["job"], row["position"], row["kind"]) == ("default/w", 1, "quota")
    (queue,) = found["queues"]
    assert (queue["running"], queue["waiting"], queue["used"]["cpu"]) == (1, 1, 3.0)


def test_a_queue_that_is_not_there_is_named(typed):
    """With those that are."""
    error = typed(changing(), "queue", "--queue", "tema", code=USAGE)
    assert error == "specon: --queue: there is no queue 'tema'; there are team\n"


def test_explain_says_position_reason_and_when_it_may_start(typed):
    """By simulation, with what is taken for granted."""
    state = with_gang(nodes(count=1, cpu=2.0), gang("r", 1, ps=0, cpu=2.0, declared_seconds=300.0), {})
    running = state.replicas[worker("r")]
    state = state.with_replica(
        msgspec.structs.replace(running, phase=Phase.RUNNING, node="node-0", incarnation="r.1", starts=1)
    )
    job = msgspec.structs.replace(state.jobs["default/r"], trains_since=NOW - 100)
    state = with_gang(state.with_job(job), gang("w", 1, ps=0, cpu=2.0), {}, queued_at=NOW - 60)
    out = typed(state, "explain", "w")
    assert "w waits at position 1 of the jobs that name no queue, 1 of all, since " in out
    assert "(1m00s)" in out
    assert (
        "for room: it needs 2 CPU on one node; the most that is free on any node it may use is 0 CPU" in out
    )
    assert "it may start in about 3m2" in out  # the 200 s that are left, and what starting takes
    assert "nothing else arrives" in out
    start = in_json(typed, state, "explain", "w")["start"]
    assert 200 <= start["in_seconds"] < 230
    assert in_json(typed, state, "explain", "w", "--no-forecast")["start"] is None
    assert in_json(typed, state, "explain", "r")["waiting"] is None


def test_explain_tells_of_changes_and_of_a_dry_run(typed):
    """What is awaited until when, how earlier ones ended, and what would be done."""
    decision = Decision(
        at=NOW,
        replica="default/e",
        policy="kod2",
        proposal="ScaleIn",
        reason="would be ordered: scale in default/e",
        refusal=Refusal.DRY_RUN,
    )
    state = msgspec.structs.replace(history(changing(), ended(3)), decisions=(decision,))
    out = typed(state, "explain", "e")
    assert "change-1 scale-out 2 -> 3, Checkpointing, waits for a verified checkpoint of" in out
    assert "change-3 scale-out 2 -> 3, Succeeded (3.0 s of downtime, checkpoint of step 70)" in out
    assert "kod2 proposed ScaleIn: dry run: would be ordered: scale in default/e" in out
    found = in_json(typed, state, "explain", "e")
    assert [row["state"] for row in found["changes"]] == ["Checkpointing", "Succeeded"]


def test_the_live_view_says_how_a_job_is_being_changed():
    """Behind its moves, while the change is in flight."""
    state = changing()
    console = Console(file=io.StringIO(), width=160)
    console.print(job_table(state, list(state.jobs.values()), room=9, width=150))
    assert "scale-out 2 -> 3 Checkpointing" in console.file.getvalue()


def test_what_a_change_waits_for():
    """In each of its states, in words."""
    state = with_gang(nodes(), elastic(), on("node-0", server("e"), worker("e", 0), worker("e", 1)))
    name, coming = worker("e", 1), worker("e", 2)
    told = Leaving(purpose="scale-in", since=NOW, deadline=NOW, reason="less")
    assert awaited(change(), state) == f"a verified checkpoint of {worker('e')}"
    leaving = replica(state, name, leaving=told)
    assert awaited(change(state=ChangeState.LEAVING), leaving) == f"the end of {name}"
    assert awaited(change(state=ChangeState.COMING), state) == f"the start of {coming}"
    verifying = change(state=ChangeState.VERIFYING, running_at=NOW)
    text = awaited(verifying, replica(state, coming, phase=Phase.RUNNING))
    assert text.startswith(f"a step of {worker('e')} that shows that it trains, and a report of ")
    proven = msgspec.structs.replace(verifying, proven=True, running_at=None)
    assert awaited(proven, state) == "the next look"


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (ChangeKind.ADMIT, "admit 3"),
        (ChangeKind.SCALE_OUT, "scale-out 2 -> 3"),
        (ChangeKind.PREEMPT, "preempt"),
    ],
)
def test_what_a_change_does(kind, text):
    """The workers before and after, where their number is what changes; parameter servers are none."""
    row = change_row(change(kind), nodes())
    assert change_label(row.kind, row.workers_before, row.workers_after) == text
