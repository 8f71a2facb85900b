"""`specon migrate`, `drain` and `explain` of a job whose replicas train as one: it moves as a whole."""

import dataclasses
import json

import msgspec
import pytest

from specon_manager.cli.act import drain, following, migrate
from specon_manager.cli.act.drain_plan import judge_moves
from specon_manager.cli.command_parser import make_parser
from specon_manager.cli.look import explain
from specon_manager.cli.remote.names import find_wanted
from specon_manager.model.transactions import TransactionState
from specon_manager.usage import UsageError
from specon_manager.views.jobs import job_row
from specon_manager.views.latest import latest
from specon_manager.views.replicas import top_of
from specon_manager.views.transactions import rows_of
from specon_sidecar.wire import Checkpoint
from support.decisions.changed_worlds import W0, W1, G, runs
from support.runtime.remote_cluster import RemoteCluster

MOVED = f"{W0} trains as one with the rest of g: the whole job moves"


@pytest.fixture
def remote(monkeypatch):
    """Let a gang of two train on node-0 of four; commands do not sleep."""
    monkeypatch.setattr(following, "_LOOK_SECONDS", 0)
    with runs(resizing="none", workers=2, most=2, fewest=None) as cluster:
        cluster.sidecars_answer = True
        yield RemoteCluster(cluster)


def nodes(remote):
    return [remote.cluster.state.replicas[name].node for name in (W0, W1)]


def apart(remote):
    """Put the second worker on a node of its own."""
    state = remote.cluster.state
    remote.cluster.live[W1] = dataclasses.replace(remote.cluster.live[W1], node="node-1")
    remote.cluster.state = state.with_replica(msgspec.structs.replace(state.replicas[W1], node="node-1"))


async def run(command, remote, *words):
    name = command.__name__.rpartition(".")[2]
    arguments = make_parser(chosen=name).parse_args([name, *words])
    if command is migrate:
        work = migrate._ask_only if arguments.dry_run else migrate._move
        work = migrate._cancel if arguments.cancel else work
        return await work(remote, arguments)
    return await (drain._main if command is drain else explain._explain)(remote, arguments)


async def test_a_job_is_moved_as_a_whole(remote, capsys):
    """One move, which says of each replica where it goes, and what it cost."""
    assert await run(migrate, remote, "g", "--to", "node-1,node-2", "--wait", "-o", "json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["job"], told["replica"], told["source"]) == (G, None, "node-0")
    row = told["move"]
    assert (row["state"], row["replica"], row["steps_lost"]) == ("Succeeded", None, 0)
    assert row["what"] == "all 2 replicas: node-0 -> node-1"
    assert row["ways"] == [{"replica": name, "source": "node-0", "target": "node-1"} for name in (W0, W1)]
    assert nodes(remote) == ["node-1", "node-1"]


async def test_one_replica_takes_all_along_and_the_answer_says_so(remote, capsys):
    """It alone changes its node."""
    assert await run(migrate, remote, W0, "--to", "node-2", "--wait") == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == MOVED
    assert "g: all 2 replicas: node-0 -> node-2, node-0" in said[1]
    assert "no step lost" in said[-1]
    assert nodes(remote) == ["node-2", "node-0"]


async def test_a_dry_run_names_the_node_of_each_replica(remote, capsys):
    """Or says why not; it touches nothing."""
    assert await run(migrate, remote, "g", "--to", "node-3", "--dry-run") == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{G} would be moved as a whole: nothing prevents it",
        "  worker/0, worker/1: node-0 -> node-3",
        "but: no checkpoint of it has been seen yet: if none comes in time, the move is rolled back",
    ]
    assert await run(migrate, remote, W0, "--to", "node-3", "--dry-run", "-o", "json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["replica"], told["placement"]) == (None, {W0: "node-3", W1: "node-0"})
    assert await run(migrate, remote, "g", "--to", "node-9", "--dry-run") == 1
    assert capsys.readouterr().out.startswith(f"{G} would not be moved: no room for all 2 replicas on node-9")
    assert remote.asked == []


async def test_a_dry_run_of_a_job_that_saves_has_no_doubt(remote, capsys):
    """Once one checkpoint has been seen the next one is likely."""
    state = remote.cluster.state
    saved = msgspec.structs.replace(state.replicas[W0].progress, checkpoint=Checkpoint(step=3, path="/c/3"))
    remote.cluster.state = state.with_replica(msgspec.structs.replace(state.replicas[W0], progress=saved))
    assert await run(migrate, remote, "g", "--to", "node-3", "--dry-run") == 0
    assert "no checkpoint" not in capsys.readouterr().out


async def test_a_queued_one_is_told_as_a_whole(remote, capsys):
    """A second request, of one replica, waits for the first."""
    assert await run(migrate, remote, "g") == 0
    assert await run(migrate, remote, W0) == 0
    assert "request-1 g: all 2 replicas: node-0 -> ?, Queued" in capsys.readouterr().out


async def test_a_drain_moves_a_gang_once_and_no_more_of_it_than_must(remote, capsys):
    """What is on other nodes stays on them."""
    apart(remote)
    assert await run(drain, remote, "node-0", "--dry-run") == 0
    said = capsys.readouterr().out
    assert f"{G} as a whole would be moved to node-1" in said
    assert "node-0: 1 would leave, 0 replicas stay" in said
    assert await run(drain, remote, "node-0", "--wait", "-o", "json") == 0
    drained = json.loads(capsys.readouterr().out)
    assert [row["what"] for row in drained["moves"]] == ["all 2 replicas: node-0, node-1 -> node-1"]
    assert remote.asked == [W0]
    assert nodes(remote) == ["node-1", "node-1"]


async def test_a_drain_to_some_nodes_asks_once_though_all_are_there(remote):
    """The job is asked for, as what is on other nodes may stay there."""
    assert await run(drain, remote, "node-0", "--to", "node-2", "--wait") == 0
    assert remote.asked == [G]
    assert nodes(remote) == ["node-2", "node-2"]


def test_a_gang_that_cannot_leave_stays_with_the_reason(remote):
    """Its owner forbids moves, which is said of all of it."""
    state = remote.cluster.state
    job = state.jobs[G]
    spec = msgspec.structs.replace(job.spec, migratable=False)
    state = state.with_job(msgspec.structs.replace(job, spec=spec))
    plan = judge_moves(state, "node-0", (), remote.cluster.now)
    assert plan.leavers == ()
    assert set(plan.stay.values()) == {f"all of {G} would have to move: its owner forbids moves"}


async def test_explain_says_whether_a_gang_could_be_moved_now(remote, capsys):
    """Off the nodes that it is on, or why not; `--no-forecast` leaves it out."""
    assert await run(explain, remote, "g") == 0
    assert "g could be moved as a whole now: all 2 replicas: node-0 -> node-1" in capsys.readouterr().out
    assert await run(migrate, remote, "g") == 0
    assert await run(explain, remote, "g") == 0
    assert "g could not be moved as a whole now: " in capsys.readouterr().out
    assert await run(explain, remote, "g", "--no-forecast", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["movable"] is None


async def test_explain_says_why_a_job_gets_no_more_workers(remote, capsys):
    """In the words of who keeps the quota."""
    state = remote.cluster.state
    spec = msgspec.structs.replace(state.jobs[G].spec, headroom=0, no_headroom="ClusterQueue team is stopped")
    remote.cluster.state = state.with_job(msgspec.structs.replace(state.jobs[G], spec=spec))
    assert await run(explain, remote, "g", "--no-forecast") == 0
    assert "g gets no more workers: ClusterQueue team is stopped\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "to", "problem"),
    [
        ("g", "node-1,,node-2", "is no list of nodes"),
        (W0, "node-1,node-2", "one replica goes to one node, not to 2"),
        ("h", None, "there is no job"),
        ("default/h/worker/0", None, "there is no replica"),
    ],
)
def test_what_is_asked_for_is_one_replica_or_one_job(remote, text, to, problem):
    """Anything else is mended where it was typed."""
    with pytest.raises(UsageError, match=problem):
        find_wanted(remote.cluster.state, text, to, None)


def test_replicas_that_train_by_themselves_are_named_one_by_one(remote):
    """There is no move of such a job as a whole."""
    state = remote.cluster.state
    job = state.jobs[G]
    alone = msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, coupled=False))
    with pytest.raises(UsageError, match="has 2 replicas that train by themselves: name one of"):
        find_wanted(state.with_job(alone), "g", None, None)


async def test_explain_says_where_it_may_not_look(remote, monkeypatch, capsys):
    """What is not known is no reason against a move."""

    async def forbidden(concerned):
        raise UsageError("you may not list pods")

    monkeypatch.setattr(remote, "whole", forbidden)
    remote.cluster.state = msgspec.structs.replace(remote.cluster.state, nodes={})
    assert await run(explain, remote, "g") == 0
    said = capsys.readouterr().out
    assert "whether g could be moved as a whole is not known: you may not list pods" in said


async def test_each_replica_is_shown_on_its_own_way(remote):
    """In top where it goes itself, there and back; in the live view the job with all its nodes."""
    assert await run(migrate, remote, W0, "--to", "node-2") == 0
    view = await remote.view()
    rows = {row.replica: row for row in top_of(view, where="here").replicas}
    assert {name: row.move_to for name, row in rows.items()} == {W0: "node-2", W1: "node-0"}
    state = view.state
    assert job_row(state, state.jobs[G]).doing == " -> node-2, node-0 Proposed"
    (move,) = state.transactions.values()
    back = msgspec.structs.replace(view, transactions=rows_of(state.with_transaction(turned(move))))
    assert {row.move_to for row in top_of(back, where="here").replicas} == {"node-0"}
    assert latest(state) == latest(msgspec.structs.replace(state, transactions={})), (
        "it is told there already"
    )


def turned(move):
    return msgspec.structs.replace(move, attempt=2, state=TransactionState.LEAVING)


async def test_a_queued_gang_can_be_withdrawn(remote, capsys):
    """Then all of it stays."""
    assert await run(migrate, remote, "g") == 0
    assert await run(migrate, remote, "g", "--to", "node-3") == 0
    assert await run(migrate, remote, "--cancel", "request-1") == 0
    assert "request-1 is withdrawn: g stays where it is" in capsys.readouterr().out
    over = remote.cluster.state.history[-1]
    assert (over.state, over.whole) == ("Refused", True)
