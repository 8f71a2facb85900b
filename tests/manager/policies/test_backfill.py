"""Starting what waits, in a given order."""

from hypothesis import given

from specon_manager.model.cluster import Phase
from specon_manager.model.resources import Resources
from specon_manager.policies.backfill import fill, gang_of
from specon_manager.policies.idle import Idle
from specon_manager.policies.preemption.queues import Queues
from support.decisions.gang_worlds import NOW, Layout, layouts, nodes_of, said, spec_of


def never(gang, workers):
    """Say of no gang that it had better wait."""
    return False


def filled(layout, order=None, tell=None, waits=never):
    """Return (what starts, who does not); `order` is of names, else that of submission."""
    snapshot = layout.snapshot
    waiting = list(Queues(snapshot).best_effort())
    if order is not None:
        waiting.sort(key=lambda each: order.index(each.job.name.removeprefix("default/")))
    told = []
    started, stranded = fill(
        waiting,
        snapshot,
        Idle(snapshot, choice="best-fit"),
        tell or (lambda job, placed: told.append((job.name, len(placed)))),
        waits=waits,
    )
    assert tell or [name for name, _ in told] == [job.name for job in stranded]
    return said(started), [job.name.removeprefix("default/") for job in stranded]


def test_jobs_start_in_the_given_order_and_who_fits_overtakes_who_does_not():
    """Three GPUs are free: two are the first's, four are too many, one is left."""
    layout = Layout(nodes_of(1)).add(spec_of("old"), "0")
    for name, workers in (("one", 1), ("two", 2), ("four", 4)):
        layout.add(spec_of(name, workers))
    started, stranded = filled(layout, ["two", "four", "one"])
    assert [job for _, job, _ in started] == ["two", "one"]
    assert stranded == ["four"]


def test_a_job_starts_with_what_its_owner_asked_for_or_less_where_there_is_less():
    """Three are wanted, two needed: with four free, two free, one free."""
    for taken, expected in ((0, 3), (2, 2), (3, None)):
        layout = Layout(nodes_of(1))
        if taken:
            layout.add(spec_of("old", taken), " ".join("0" * taken))
        layout.add(spec_of("j", 3, min_workers=2)).add(spec_of("never", 9))
        started, stranded = filled(layout)
        assert (len(started[0][2].split()) if started else None) == expected
        assert stranded == ([] if started else ["j"]) + ["never"]


def test_who_starts_takes_more_only_where_nobody_is_left_to_wait():
    """Beyond what its owner asked for."""
    layout = Layout(nodes_of(1)).add(spec_of("j", 1, most=3))
    assert len(filled(layout)[0][0][2].split()) == 3
    assert len(filled(layout.add(spec_of("waits", 4)))[0][0][2].split()) == 1


def test_workers_beyond_the_first_node_join_only_jobs_without_servers():
    """With servers they would wait for the network."""
    for ps, expected in ((0, 6), (1, 5)):
        layout = Layout(nodes_of(2)).add(spec_of("j", 6, ps=ps, min_workers=1))
        assert len(filled(layout)[0][0][2].split()) == expected


def test_a_gang_with_servers_goes_where_most_of_what_its_owner_asked_for_has_room():
    """Its smallest form would fill the first node; beside servers there it could never have three workers."""
    for free, where in ((4, "1"), (3, "1"), (2, "0")):
        layout = Layout(nodes_of(2)).add(spec_of("old", 2), "0 0")
        if free < 4:
            layout.add(spec_of("other", 4 - free), " ".join("1" * (4 - free)))
        layout.add(spec_of("j", 3, ps=1, min_workers=1))
        (_, _, places), *_ = filled(layout)[0]
        assert {place.partition("@")[2] for place in places.split()} == {where}


def test_a_gang_that_had_better_wait_is_stranded_and_takes_no_room():
    """Asked with how many workers it could start now; who starts in full or comes after it is not asked."""
    asked = []

    def waits(gang, workers):
        asked.append((gang.job.name, workers))
        return True

    layout = Layout(nodes_of(1)).add(spec_of("old"), "0").add(spec_of("j", 4, ps=1, min_workers=1))
    layout.add(spec_of("full", 3, ps=1, min_workers=1))
    started, stranded = filled(layout, waits=waits)
    assert ([job for _, job, _ in started], stranded) == (["full"], ["j"])
    assert asked == [("default/j", 3)]


def test_who_does_not_fit_is_told_of_at_once():
    """What is reserved then is not given to those behind: the last one here finds nothing."""
    layout = (
        Layout(nodes_of(1)).add(spec_of("old", 2), "0 0").add(spec_of("large", 4)).add(spec_of("small", 1))
    )
    snapshot = layout.snapshot
    idle = Idle(snapshot, choice="best-fit")
    started, stranded = fill(
        Queues(snapshot).best_effort(),
        snapshot,
        idle,
        lambda job, placed: (
            job.name == "default/large" and idle.reserve(job.name, "node-0", Resources(gpu=4.0))
        ),
    )
    assert not started
    assert [job.name for job in stranded] == ["default/large", "default/small"]


def test_room_with_a_claim_is_for_its_job_alone():
    """It starts there, or elsewhere; as long as it does not, the others keep off."""
    layout = Layout(nodes_of(1)).add(spec_of("old", 2), "0 0")
    layout.add(spec_of("large", 3)).add(spec_of("small", 1))
    claims = {f"default/large/worker/{k}": "node-0" for k in range(3)}
    assert filled(layout.claim("large", claims)) == ([], ["large", "small"])
    layout = Layout(nodes_of(2)).add(spec_of("large", 3)).claim("large", claims)
    assert [job for _, job, _ in filled(layout)[0]] == ["large"]


def test_a_job_does_not_need_workers_that_have_ended():
    """Two of three have succeeded before the rest had to wait again; a server never counts as a worker."""
    layout = Layout(nodes_of(1)).add(spec_of("j", 3, ps=1))
    for index in range(2):
        layout.change(f"j/worker/{index}", phase=Phase.SUCCEEDED, ended_at=NOW)
    snapshot = layout.snapshot
    assert gang_of(snapshot.jobs["default/j"], snapshot).least == 1
    layout.change("j/ps/0", phase=Phase.SUCCEEDED, ended_at=NOW)
    snapshot = layout.snapshot
    assert gang_of(snapshot.jobs["default/j"], snapshot).least == 1


@given(layouts())
def test_each_job_starts_or_is_stranded_and_the_planner_agrees(layout):
    """Nobody is forgotten, nobody is counted twice, everything that starts has room."""
    snapshot = layout.snapshot
    waiting = list(Queues(snapshot).best_effort())
    idle = Idle(snapshot, choice="best-fit")
    started, stranded = fill(waiting, snapshot, idle, lambda job, placed: None)
    names = [proposal.job for proposal in started] + [job.name for job in stranded]
    assert sorted(names) == sorted(each.job.name for each in waiting)
    assert layout.refused(started) == []
