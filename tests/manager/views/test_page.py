"""The picture of the status page: what it says, and that it is bounded and without secrets."""

import json
import math

import msgspec
import pytest

from specon_manager.core.state import State
from specon_manager.model import events as ev
from specon_manager.model.actions import Decision, Refusal
from specon_manager.model.expected_start import ExpectedStart
from specon_manager.model.progress import Progress
from specon_manager.model.transactions import Kind, Request, TransactionState
from specon_manager.runtime.page.curves import Curves
from specon_manager.views import activity
from specon_manager.views import page as page_view
from specon_manager.views.holding import Holding
from support.decisions.changed_jobs import NOW as CHANGED_AT
from support.decisions.changed_jobs import change, changing, ended, nodes
from support.decisions.crowds import crowd
from support.decisions.gangs import gang, with_gang
from support.watching.watched import WatchedCluster


def view(state, now, curves=None):
    return page_view.picture(state, now, (curves or Curves()).of)


def picture(cluster, curves=None):
    return view(cluster.state.flatten(), cluster.now, curves)


def test_a_running_job_is_shown_with_its_numbers():
    """Name, node, word, metric, step of total, gain and checkpoint."""
    cluster, curves = WatchedCluster(), Curves()
    cluster.observers.append(curves.observe)
    (a,) = cluster.run("a")
    cluster.learn(a)
    (row,) = picture(cluster, curves)["replicas"]
    assert (row["label"], row["node"], row["word"]) == ("a", "node-0", "converged")
    assert (row["metric"], row["value"], row["step"], row["total"]) == ("loss", 0.2, 390, 800)
    assert row["checkpoint"] == [390, False]
    assert row["reason"] == "gain below alpha"
    assert len(row["curve"]) == 40
    assert row["curve"][-1][1:] == [0.2, "converged"]


def test_a_node_counts_what_runs_on_it():
    """By word; its share of processors is there in numbers."""
    cluster = WatchedCluster()
    a, b, c = cluster.run("a", "b", "c")
    cluster.learn(a)
    cluster.tell(b, 1.0, step=1)
    cluster.tell(c, 1.0, step=1)
    nodes = {node["name"]: node for node in picture(cluster)["nodes"]}
    assert sum(sum(node["counts"].values()) for node in nodes.values()) == 3
    assert nodes["node-0"]["counts"] == {"converged": 1, "progressing": 1}
    assert nodes["node-0"]["cpu"] == [0.0, 4.0]


def test_a_move_is_followed_through_its_states():
    """In flight with its state, then among those that ended, with its cost and a mark on the curve."""
    cluster = WatchedCluster()
    (a,) = cluster.run("a")
    cluster.learn(a)
    cluster.move(a, "node-1")
    (move,) = picture(cluster)["transactions"]
    assert (move["label"], move["source"], move["target"]) == ("a", "node-0", "node-1")
    assert (move["what"], move["state"], move["word"]) == ("node-0 -> node-1", "Proposed", "holding room")
    cluster.carry_out()
    (move,) = picture(cluster)["transactions"]
    assert (move["state"], move["word"]) == ("Verifying", "proving")
    tracks = picture(cluster)["tracks"]
    assert [word for _, word in tracks["move"]][-4:] == ["saving", "stopping", "starting", "proving"]
    assert [state for state, _ in tracks["preempt"]] == ["Checkpointing", "Leaving"]
    assert [state for state, _ in tracks["back"]] == ["Leaving", "Coming", "Verifying"]
    cluster.tell(a, 0.2, step=400)
    shown = picture(cluster)
    assert shown["transactions"] == []
    assert (shown["ended"][0]["state"], shown["counts"]["moves"]["Succeeded"]) == ("Succeeded", 1)
    assert shown["ended"][0]["downtime_seconds"] == pytest.approx(1.0)
    (row,) = shown["replicas"]
    assert (row["node"], len(row["moved_at"])) == ("node-1", 1)


def test_the_ways_of_a_gang_that_moves_are_bounded():
    """Each of its first replicas has one while it is in flight, none afterwards."""
    spec = gang("g", 100, ps=0, resizing="none")
    known = with_gang(nodes(), spec, dict.fromkeys(spec.replicas, "node-0"))
    move = change(
        Kind.MOVE,
        job="g",
        before=dict.fromkeys(spec.replicas, "node-0"),
        after=dict.fromkeys(spec.replicas, "node-1"),
    )
    (row,) = view(known.with_transaction(move), CHANGED_AT)["transactions"]
    assert (row["replica"], row["what"]) == (None, "all 100 replicas: node-0 -> node-1")
    assert len(row["ways"]) == activity.WAYS
    assert row["ways"][0] == {"replica": "default/g/worker/0", "source": "node-0", "target": "node-1"}
    over = msgspec.structs.replace(move, state=TransactionState.SUCCEEDED, ended_at=CHANGED_AT)
    (row,) = view(msgspec.structs.replace(known, history=(over,)), CHANGED_AT)["ended"]
    assert row["ways"] == []


def test_who_waits_is_in_the_queue():
    """A job that does not run is there with the time it waits since; one that runs or has ended is not."""
    cluster = WatchedCluster()
    cluster.run("a")
    cluster.now += 10
    cluster.submit("b", job_class="trial", queue="team")
    shown = picture(cluster)
    (job,) = shown["queue"]
    assert (job["label"], job["class"], job["queue"], job["since"]) == ("b", "trial", "team", cluster.now)
    assert shown["counts"]["waiting"] == 1
    assert job["starts"] is None


def test_the_queue_says_when_a_job_starts():
    """In seconds, as it is expected, at the earliest and at the latest; nothing where nobody knows."""
    soon = ExpectedStart(in_seconds=90.0, earliest_seconds=60.0, latest_seconds=120.0, worlds=19)
    starts = {"default/w": soon}.get
    (job,) = page_view.picture(changing(), CHANGED_AT, Curves().of, starts=starts)["queue"]
    assert job["starts"] == [90.0, 60.0, 120.0]
    far = {"default/w": ExpectedStart(earliest_seconds=60.0, why="beyond what was simulated")}.get
    (job,) = page_view.picture(changing(), CHANGED_AT, Curves().of, starts=far)["queue"]
    assert job["starts"] == [60.0], "not before"
    unknown = {"default/w": ExpectedStart(why="nothing is known of its kind")}.get
    (job,) = page_view.picture(changing(), CHANGED_AT, Curves().of, starts=unknown)["queue"]
    assert job["starts"] is None


def test_the_headline_is_that_of_what_was_summed_up():
    """A page that begins now has summed up nothing; one that watched has."""
    cluster = WatchedCluster()
    holding = Holding(cluster.now)
    cluster.observers.append(lambda each: holding.observe(each.before, each.after, each.now))
    (a,) = cluster.run("a")
    cluster.learn(a, steps=100)
    shown = page_view.picture(cluster.state, cluster.now, Curves().of, holding=holding)["headline"]
    assert (shown["running"], shown["converged"], shown["saved"]) == (1, 1, None)
    assert (shown["cores"], shown["gpus"]) == ((4.0, 8.0), (0, 0))
    assert shown["held"][0] > 0
    assert picture(cluster)["headline"]["held"] == (0.0, 0.0)


def test_refusals_do_not_crowd_out_what_was_done():
    """After one order and a thousand refusals, the page has the order and the newest refusals."""
    made = Decision(at=1.0, replica="default/a/worker/0", policy="p", proposal="Migrate n", reason="why")
    refused = [
        msgspec.structs.replace(made, at=2.0 + number, refusal=Refusal.NO_ROOM) for number in range(1000)
    ]
    state = State(decisions=(made, *refused))
    shown = view(state, 2000.0)
    assert len(shown["decisions"]) == activity.DECISIONS + 1
    assert shown["decisions"][0]["at"] == "1970-01-01T00:16:41.000Z"
    assert shown["decisions"][-1]["refusal"] is None
    assert shown["left_out"]["decisions"] == 1000 - activity.DECISIONS


def test_a_large_cluster_gives_a_bounded_picture():
    """The most interesting of 10,000 replicas have rows; all are counted, and the rest is a number."""
    shown = view(crowd(10_000), 100.0)
    assert len(shown["replicas"]) == page_view.REPLICAS
    assert shown["left_out"] == {
        "nodes": 100,
        "replicas": 9500,
        "queue": 0,
        "transactions": 0,
        "requests": 0,
        "ended": 0,
        "decisions": 0,
    }
    assert shown["counts"]["words"] == {"progressing": 9804, "converged": 196}
    assert sum(row["word"] == "converged" for row in shown["replicas"]) == 196
    assert len(msgspec.json.encode(shown)) < 400_000


def test_all_curves_together_are_bounded():
    """With the most rows each curve has a few points only."""
    state, curves = crowd(page_view.REPLICAS), Curves()
    cluster = WatchedCluster()
    (a,) = cluster.run("a")
    cluster.observers.append(curves.observe)
    cluster.learn(a, steps=200)
    row = {**state.replicas, a: cluster.state.replicas[a]}
    rows = dict(list(row.items())[-page_view.REPLICAS :])
    shown = view(msgspec.structs.replace(state, replicas=rows), 100.0, curves)
    (curve,) = [row["curve"] for row in shown["replicas"] if row["name"] == a]
    assert 2 <= len(curve) <= 12


def test_nothing_of_how_a_job_is_started_is_shown():
    """Templates have environments, and those have passwords."""
    cluster = WatchedCluster()
    cluster.submit("a", template={"environment": {"PASSWORD": "hunter2"}})
    cluster.tick()
    cluster.carry_out()
    assert "hunter2" not in json.dumps(picture(cluster))


def test_numbers_that_json_does_not_know_come_in_words():
    """NaN and infinity do not become null, and the picture is JSON to everybody."""
    state = crowd(2)
    values = zip(state.replicas.values(), (math.nan, -math.inf), strict=True)
    odd = {
        replica.name: msgspec.structs.replace(replica, progress=Progress(value=value))
        for replica, value in values
    }
    shown = view(msgspec.structs.replace(state, replicas=odd), 100.0)
    rows = json.loads(msgspec.json.encode(shown))["replicas"]
    assert [row["value"] for row in rows] == ["nan", "-inf"]


def test_what_others_wrote_is_cut_and_on_one_line():
    """A reason of a megabyte, with characters that turn text around, stays a short line."""
    cluster = WatchedCluster()
    (a,) = cluster.run("a")
    cluster.tell(a, 1.0, step=1, reason="x\n\u202e\u200b" + 900 * "y")
    (row,) = picture(cluster)["replicas"]
    assert len(row["reason"]) == 400
    assert row["reason"].isprintable()


def test_a_pause_is_shown_with_its_reason():
    """Since when nothing new is ordered, and in whose words."""
    cluster = WatchedCluster()
    assert picture(cluster)["paused"] is None
    cluster.post(ev.Paused(reason="maintenance"))
    assert picture(cluster)["paused"] == {"since": cluster.now, "reason": "maintenance"}


def test_the_same_state_gives_the_same_picture():
    """The view is a function of what it is given."""
    state = crowd(700)
    assert view(state, 5.0) == view(state, 5.0)


def test_changes_of_jobs_are_shown():
    """In flight and ended, with the workers before and after; who waits has a position and a reason."""
    state = msgspec.structs.replace(changing(), history=(ended(2), ended(3)))
    shown = view(state, CHANGED_AT)
    (change,) = shown["transactions"]
    assert (change["label"], change["kind"], change["what"]) == ("e", "scale-out", "scale-out 2 -> 3")
    assert (change["workers_before"], change["workers_after"]) == (2, 3)
    assert [row["id"] for row in shown["ended"]] == ["change-3", "change-2"]
    assert shown["ended"][0]["downtime_seconds"] == 3.0
    assert shown["counts"]["changes_in_flight"] == 1
    assert shown["counts"]["changes"]["Succeeded"] == 2
    (waits,) = shown["queue"]
    assert (waits["position"], waits["kind"]) == (1, "quota")
    assert "queue team has no quota" in waits["text"]
    row = next(row for row in shown["replicas"] if row["name"] == "default/e/worker/0")
    assert row["workers"] == [2, 1, 3]


def test_what_was_asked_for_and_waits_is_shown():
    """With what it waits for; and a transaction that cannot come to an end says why."""
    request = Request(id="r-1", replica="default/e/worker/0", at=1.0, waits_for="4 moves are in flight")
    (flying,) = changing().transactions.values()
    stuck = msgspec.structs.replace(flying, stuck="nobody ends it")
    state = msgspec.structs.replace(changing().with_transaction(stuck), requests={"r-1": request})
    shown = view(state, CHANGED_AT)
    (row,) = shown["requests"]
    assert (row["state"], row["word"], row["awaited"]) == ("Queued", "queued", "4 moves are in flight")
    assert (shown["transactions"][0]["stuck"], shown["counts"]["stuck"]) == ("nobody ends it", 1)
    assert shown["counts"]["requests"] == 1


def test_what_somebody_wrote_of_a_move_is_cut():
    """A reason of a megabyte does not make the picture larger."""
    (flying,) = changing().transactions.values()
    long = msgspec.structs.replace(flying, reason=10**6 * "y", note="a\nb")
    (row,) = view(changing().with_transaction(long), CHANGED_AT)["transactions"]
    assert (len(row["reason"]), row["note"]) == (400, "a b")
