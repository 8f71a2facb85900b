"""`specon changes`, `specon queue` and `specon explain` of a manager that has ended: its journal is read."""

import io
import json

import msgspec
import pytest
from rich.console import Console

from specon_manager.__main__ import main
from specon_manager.cli.look.explain import waiting_lines
from specon_manager.cli.look.queue import choose_queues, print_queues
from specon_manager.cli.run.job_table import job_table
from specon_manager.model.actions import Decision, Refusal
from specon_manager.model.cluster import Phase
from specon_manager.model.expected_start import ExpectedStart
from specon_manager.model.transactions import Kind, Request, TransactionState
from specon_manager.runtime.journal import NAME, Journal
from specon_manager.runtime.state_directory import Address
from specon_manager.runtime.tokens import write_private
from specon_manager.views.queues import queue_rows, waiting_rows
from specon_manager.views.view import View
from support.decisions.changed_jobs import NOW, changing, ended, nodes
from support.decisions.gangs import gang, with_gang, worker

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
    return msgspec.structs.replace(state, history=changes)


def test_changes_are_listed_with_what_they_wait_for_and_how_they_ended(typed):
    """Workers before and after, downtime, reason and note; the older ones first."""
    failed = ended(2, Kind.SCALE_IN, state=TransactionState.ROLLED_BACK, downtime=None, note="no checkpoint")
    out = typed(history(changing(), ended(3, proposed_at=NOW - 90), failed), "changes")
    lines = [line.split() for line in out.splitlines() if line.startswith("change-")]
    assert [line[:2] for line in lines] == [["change-3", "e"], ["change-1", "e"], ["change-2", "e"]]
    assert "waits for a verified checkpoint of default/e/worker/0" in " ".join(out.split())
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
    """Quota, use with who is about to come, who waits in which position and for what."""
    out = " ".join(typed(changing(), "queue").split())
    assert "team 2 CPU, 0.9313 GiB" in out
    assert "4 CPU 2 CPU, may not" in out
    assert "queue team has no quota for" in out
    found = in_json(typed, changing(), "queue", "--queue", "team")
    (row,) = found["waiting"]
    assert (row["job"], row["position"], row["kind"]) == ("default/w", 1, "quota")
    (queue,) = found["queues"]
    assert (queue["running"], queue["waiting"], queue["used"]["cpu"]) == (1, 1, 4.0)


def test_the_queue_says_when_jobs_start_as_their_manager_expects():
    """With the interval, or only not before when; a dash where it has said nothing, or why it cannot."""
    soon = ExpectedStart(in_seconds=600.0, earliest_seconds=300.0, latest_seconds=3900.0, worlds=19)
    far = ExpectedStart(earliest_seconds=3900.0, why="far", worlds=19)
    for start, shown in (
        (soon, "10m00s (5m00s to 1h05m)"),
        (far, " after 1h05m"),
        (None, " - "),
        (ExpectedStart(why="no"), " - "),
    ):
        starts = {} if start is None else {"default/w": start}
        state = changing()
        view = View(
            state=state,
            now=NOW,
            transactions=(),
            waiting=waiting_rows(state, NOW, starts),
            queues=queue_rows(state),
        )
        console = Console(file=io.StringIO(), width=160)
        print_queues(choose_queues(view, "here", None, None, 9), console, NOW)
        assert shown in console.file.getvalue()


def test_explain_says_not_before_when_where_no_more_is_known():
    """With the reason why there is no interval."""
    far = ExpectedStart(earliest_seconds=3900.0, why="too far", worlds=19)
    state = changing()
    (row,) = (each for each in waiting_rows(state, NOW, {}) if each.job == "default/w")
    lines = waiting_lines(row, far, NOW)
    assert "  when it may start is not known: too far" in lines
    assert "  in 95 of 100 cases not before 1h05m from now" in lines


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
    assert "it may start in about 3m" in out  # the 200 s that are left, and what starting takes
    assert "in 90 of 100 cases between " in out
    assert "those to come do not matter" in out
    start = in_json(typed, state, "explain", "w")["start"]
    assert 100 < start["earliest_seconds"] < start["in_seconds"] < start["latest_seconds"] < 400
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
    assert (
        "change-3 scale-out 2 -> 3, Succeeded: room is idle (3.0 s of downtime, checkpoint of step 70)" in out
    )
    assert "kod2 proposed fewer workers: dry run: would be ordered: scale in default/e" in out
    found = in_json(typed, state, "explain", "e")
    assert [row["state"] for row in found["changes"]] == ["Checkpointing", "Succeeded"]


def test_the_live_view_says_how_a_job_is_being_changed():
    """Behind its moves, while the change is in flight."""
    state = changing()
    console = Console(file=io.StringIO(), width=160)
    console.print(job_table(state, list(state.jobs.values()), room=9, width=150))
    assert "scale-out 2 -> 3 Checkpointing" in console.file.getvalue()


def test_moves_that_wait_are_listed_as_queued(typed):
    """With what they wait for: `moves` has them, and `changes` has not."""
    request = Request(id="r-1", replica=worker("e"), target="node-1", at=NOW - 5, waits_for="others move")
    state = msgspec.structs.replace(changing(), requests={"r-1": request})
    (row,) = in_json(typed, state, "moves")["moves"]
    assert (row["id"], row["state"], row["what"], row["awaited"]) == (
        "r-1",
        "Queued",
        "all 3 replicas: node-0 -> node-1",
        "others move",
    )
    assert "waits: others move" in " ".join(typed(state, "moves").split())
    assert [row["id"] for row in in_json(typed, state, "changes")["changes"]] == ["change-1"]
    assert "1 queued; 1 job waits" in typed(state, "top")


def test_a_change_of_which_nothing_comes_is_said_to_be_stuck(typed):
    """In lists and in explain, with why."""
    (flying,) = changing().transactions.values()
    state = changing().with_transaction(msgspec.structs.replace(flying, stuck="worker 2 does not end"))
    out = " ".join(typed(state, "changes").split())
    assert "stuck: worker 2 does not end" in out
    assert "Checkpointing, stuck: worker 2 does not end, waits for" in typed(state, "explain", "e")
    assert "STUCK: 1 cannot come to an end" in typed(state, "top")
    (row,) = in_json(typed, state, "changes")["changes"]
    assert row["stuck"] == "worker 2 does not end"
