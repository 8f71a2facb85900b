"""What policies for elastic gangs share: the books of one call, and making room."""

import msgspec

from specon_manager.model.cluster import Phase
from specon_manager.policies.elastic import Books, make_room, more_workers, never_fits
from specon_manager.policies.gang_placement import place_on_fewest_nodes
from support.decisions.gang_layouts import NOW, Gang, layout, snapshot_of, state_of
from support.decisions.snapshots import move_of


def place(spec, idle):
    return place_on_fewest_nodes(spec, idle, most=spec.fewest_workers, least=spec.fewest_workers)


def books_of(nodes, *gangs):
    return Books(snapshot_of(nodes, *gangs))


def job_of(books, name):
    return books.snapshot.jobs[f"default/{name}"]


def indices(workers):
    return "".join(str(worker.index) for worker in workers)


def test_a_job_loses_workers_away_from_its_parameter_server_first_and_keeps_worker_0():
    """By node, there by falling index; where worker 0 is counts for nothing."""
    books = books_of({"a": 9, "b": 9}, Gang("j", ps=1, workers=5, least=1, on={"a": "p14", "b": "023"}))
    assert indices(books.surplus(job_of(books, "j"))) == "3241"


def test_without_a_parameter_server_the_node_of_worker_0_goes_last():
    """The others exchange their gradients with it as with anybody, but it stays."""
    books = books_of({"a": 9, "b": 9}, Gang("j", workers=4, least=2, on={"a": "01", "b": "23"}))
    assert indices(books.surplus(job_of(books, "j"))) == "32"


def test_a_worker_that_was_told_to_go_in_this_call_is_not_counted_again():
    """Neither as one that may go, nor as one that stays."""
    books = books_of({"a": 9}, Gang("j", workers=4, least=2, on={"a": "0123"}))
    job = job_of(books, "j")
    (proposal,) = books.scale_in(books.surplus(job)[:1], "makes room")
    assert proposal.replicas == ("default/j/worker/3",)
    assert "3 workers stay, at least 2" in proposal.reason
    assert indices(books.surplus(job)) == "2"
    assert books.absent(job) == []


def test_a_job_of_which_a_worker_moves_loses_none():
    """The plan refuses any scaling of it until the move has ended, so none is thought of."""
    state = state_of({"a": 9, "b": 9}, [Gang("j", workers=3, least=1, on={"a": "012"})])
    books = Books(state.snapshot(NOW))
    assert indices(books.surplus(job_of(books, "j"))) == "21"
    moving = state.with_transaction(move_of("default/j/worker/2", "a", "b"))
    books = Books(moving.snapshot(NOW))
    assert indices(books.surplus(job_of(books, "j"))) == ""


def test_soon_counts_what_leaves_and_the_room_itself_stays():
    """What was told to end holds its room until it is gone."""
    books = books_of({"a": 4}, Gang("j", workers=4, least=1, on={"a": "0123"}, leaving="23"))
    assert (books.idle.open("a").cpu, books.idle_soon().open("a").cpu) == (0, 2)
    list(books.scale_in(books.surplus(job_of(books, "j")), "makes room"))
    assert (books.idle.open("a").cpu, books.idle_soon().open("a").cpu) == (0, 3)


def test_room_is_made_with_no_worker_more_than_needed():
    """The first candidate's worker stays where the second's alone makes the room."""
    small = Gang("small", workers=2, least=1, on={"a": "01"})
    large = Gang("large", workers=2, least=1, cpu=3, on={"b": "01"})
    head = Gang("head", cpu=3)
    books = books_of({"a": 2, "b": 6}, small, large, head)
    found = make_room(head.spec(), [job_of(books, "small"), job_of(books, "large")], books, place)
    assert found is not None
    assert [worker.name for worker in found[0]] == ["default/large/worker/1"]
    assert layout(found[1]) == {"b": "0"}


def test_a_job_that_waits_with_some_of_it_ended_is_described_by_the_rest():
    """A worker that has succeeded is not started again, and counts as one of the fewest."""
    state = state_of({"a": 9}, [Gang("j", ps=1, workers=3)])
    done = msgspec.structs.replace(state.replicas["default/j/worker/1"], phase=Phase.SUCCEEDED)
    (job,) = Books(state.with_replica(done).snapshot(NOW)).waiting
    assert job.spec.replicas == ("default/j/ps/0", "default/j/worker/0", "default/j/worker/2")
    assert (job.spec.wanted_workers, job.spec.fewest_workers) == (2, 2)


def test_a_job_grows_only_while_all_of_it_trains_and_only_where_it_asks_for_room():
    """Nothing is idle that workers could be given that request nothing."""
    gang = Gang("j", workers=1, most=3, on={"a": "0"})
    books = books_of({"a": 9}, gang, Gang("free", workers=1, most=3, cpu=0, on={"a": "0"}))
    assert layout(more_workers(job_of(books, "j"), books)) == {"a": "12"}
    assert more_workers(job_of(books, "free"), books) == {}
    state = state_of({"a": 9}, [gang])
    state = state.with_job(msgspec.structs.replace(state.jobs["default/j"], trains_since=None))
    books = Books(state.snapshot(NOW))
    assert more_workers(job_of(books, "j"), books) == {}


def test_a_job_grows_no_further_than_others_let_it_who_keep_quotas():
    """However many nodes are idle."""
    gang = Gang("j", workers=1, most=5, on={"a": "0"})
    state = state_of({"a": 9}, [gang])
    for headroom, grown in ((None, "1234"), (2, "12"), (0, None)):
        spec = msgspec.structs.replace(state.jobs["default/j"].spec, headroom=headroom)
        told = state.with_job(msgspec.structs.replace(state.jobs["default/j"], spec=spec))
        books = Books(told.snapshot(NOW))
        assert layout(more_workers(job_of(books, "j"), books)) == ({"a": grown} if grown else {})


def test_a_job_never_fits_when_the_empty_cluster_is_too_small():
    """What runs and what is claimed now does not matter for that."""
    busy = Gang("busy", workers=4, on={"a": "0123"})
    snapshot = snapshot_of({"a": 4}, busy, Gang("claims", workers=2, claim={"a": "01"}))
    assert not never_fits(Gang("j", workers=4).spec(), snapshot, place)
    assert never_fits(Gang("j", workers=5).spec(), snapshot, place)
