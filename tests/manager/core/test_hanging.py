"""What hangs is restarted where it is from what it saved last, if its owner wants that, and not for ever."""

import msgspec
import pytest

from specon_manager.core.hanging import objection
from specon_manager.core.pause import objection_while_paused
from specon_manager.model import events as ev
from specon_manager.model.actions import EvictReplica, PlaceJob, RequestCheckpoint, StartReplica
from specon_manager.model.cluster import Phase
from specon_manager.model.hanging import hangs, hung_replicas
from specon_manager.model.transactions import Kind, TransactionState
from specon_sidecar.wire import Checkpoint, Hang
from support.decisions.changed_worlds import W0, W1, change_of, owned, runs, stands, trains_on
from support.decisions.cluster import DIGEST, Cluster
from support.decisions.owners import Owners, described

HANG = Hang(age=1.0, silent=60.0, usual=1.0, processes="2 processes (2 S)", lines=("step 100",))
SAVED = Checkpoint(step=150, path="/c", digest=DIGEST)
CURED = {"on_hang": "restart"}


def hang(cluster, *names, saved=SAVED):
    """Let them train ten steps beyond what they saved, and then a minute pass without a step."""
    for name in names:
        cluster.report(name, step=160 if saved is None else saved.step + 10)
    cluster.now += 60
    for name in names:
        cluster.report(name, step=None, hang=HANG, checkpoint=saved)


def comes_back(cluster, first=151):
    """Carry out what is ordered, and let the workers train on from their checkpoint."""
    cluster.carry_out()
    for step in (first, first + 1):
        trains_on(cluster, step)
    cluster.tick()


def test_a_gang_that_hangs_starts_anew_where_it_was():
    """From its last verified checkpoint, without a word to trainers that cannot answer."""
    with runs("restart", **CURED) as cluster:
        hang(cluster, W0, W1)
        actions = cluster.tick()
        assert not any(isinstance(action, RequestCheckpoint) for action in actions)
        ends = [action for action in actions if isinstance(action, EvictReplica)]
        assert [(end.replica, end.grace_seconds) for end in ends] == [(W0, 2.0), (W1, 2.0)]
        assert "no step for 61 s, usually 1 s" in ends[0].reason
        comes_back(cluster)
        change = change_of(cluster)
        assert (change.kind, change.state) == (Kind.RESTART, TransactionState.SUCCEEDED)
        assert change.before == change.after == {W0: "node-0", W1: "node-0"}
        assert (change.steps_lost, cluster.state.jobs["default/g"].hang_restarts) == (10, 1)
        assert hung_replicas(cluster.state.snapshot(cluster.now)) == ()


def test_it_is_only_reported_by_default():
    """A restart needs its owner's word."""
    with runs("restart") as cluster:
        hang(cluster, W0, W1)
        assert cluster.tick() == []
        replica = cluster.state.replicas[W0]
        assert hangs(replica, cluster.state.snapshot(cluster.now))
        assert objection(replica, cluster.state.snapshot(cluster.now)) == "its owner wants it reported only"


@pytest.mark.parametrize(
    ("saved", "why"),
    [
        (None, f"{W0} has no verified checkpoint to resume from"),
        (Checkpoint(step=150, path="/c"), f"{W0} has no verified checkpoint to resume from"),
    ],
)
def test_nothing_is_ended_without_a_verified_checkpoint(saved, why):
    """What it has trained would be lost."""
    with runs("restart", **CURED) as cluster:
        hang(cluster, W0, W1, saved=saved)
        assert cluster.tick() == []
        assert objection(cluster.state.replicas[W0], cluster.state.snapshot(cluster.now)) == why


def test_parts_of_different_steps_permit_no_end():
    """Where every worker saves its part they have to be of one step."""
    with runs("restart", savers="all", **CURED) as cluster:
        hang(cluster, W0)
        hang(cluster, W1, saved=msgspec.structs.replace(SAVED, step=140))
        assert cluster.tick() == []
        hang(cluster, W1, saved=SAVED)
        assert len(cluster.tick()) == 2


def test_after_its_budget_it_is_only_reported():
    """A trainer that hangs at the same step each time is not restarted for ever."""
    with runs("restart", **CURED) as cluster:
        for step in (150, 250, 350):
            hang(cluster, W0, W1, saved=msgspec.structs.replace(SAVED, step=step))
            assert cluster.tick() != []
            comes_back(cluster, step + 1)
            assert change_of(cluster).state is TransactionState.SUCCEEDED
        hang(cluster, W0, W1)
        assert cluster.tick() == []
        assert "3 times" in (objection(cluster.state.replicas[W0], cluster.state.snapshot(cluster.now)) or "")


def test_a_gang_of_which_one_trains_on_does_not_hang():
    """A log that ended is no hang of the others."""
    with runs("restart", **CURED) as cluster:
        hang(cluster, W1)
        cluster.report(W0, step=170)
        assert not hangs(cluster.state.replicas[W1], cluster.state.snapshot(cluster.now))
        assert cluster.tick() == []


def test_what_waits_for_a_member_that_crashed_does_not_hang():
    """It is put back as a torn gang, by another rule."""
    with runs("restart", **CURED) as cluster:
        cluster.die(W1, 1)
        hang(cluster, W0)
        assert not hangs(cluster.state.replicas[W0], cluster.state.snapshot(cluster.now))


@pytest.mark.parametrize("paused", [True, False])
def test_nothing_is_restarted_in_a_pause_or_a_dry_run(paused):
    """Then nothing new is ordered at all."""
    with runs("restart", **CURED) as cluster:
        if paused:
            cluster.post(ev.Paused(reason="an upgrade"))
            assert objection_while_paused(cluster.state) is not None
        else:
            settings = msgspec.structs.replace(cluster.state.settings, dry_run=True)
            cluster.post(ev.ManagerStarted("dry", settings))
        hang(cluster, W0, W1)
        assert cluster.tick() == []


def test_one_of_several_that_train_by_themselves_is_restarted_alone():
    """The others train on."""
    with runs("live", coupled=False, **CURED) as cluster:
        hang(cluster, W1)
        ends = [action for action in cluster.tick() if isinstance(action, EvictReplica)]
        assert [end.replica for end in ends] == [W1]
        starts = cluster.state.replicas[W0].starts
        comes_back(cluster, 201)
        assert stands(cluster) == ("Succeeded", 1)
        assert cluster.state.replicas[W0].starts == starts


def test_what_cannot_come_back_waits_for_its_next_start():
    """Both ways were tried: it goes on from its checkpoint once there is room."""
    with runs("restart", **CURED) as cluster:
        hang(cluster, W0, W1)
        cluster.tick()
        for _ in range(2):
            cluster.may_carry_out = lambda action: not isinstance(action, StartReplica)
            cluster.carry_out()
            cluster.tick(40)
        cluster.may_carry_out = lambda _: True
        cluster.settle()
        assert change_of(cluster).state is TransactionState.FAILED


def test_its_owner_restarts_it():
    """Its owner is to run no replica for a moment, then all of them where they were."""
    with owned("restart", **CURED) as cluster:
        hang(cluster, W0, W1)
        orders = [action for action in cluster.tick() if isinstance(action, PlaceJob)]
        assert [(order.placement, order.gang, order.grace_seconds) for order in orders] == [({}, True, 2.0)]
        comes_back(cluster)
        assert stands(cluster) == ("Succeeded", 1)


def test_a_manager_that_was_away_goes_on_with_it():
    """What was ordered is ordered again, and no second restart is counted."""
    with runs("restart", **CURED) as cluster:
        hang(cluster, W0, W1)
        cluster.tick()
        cluster.restart_manager()
        comes_back(cluster)
        assert stands(cluster) == ("Succeeded", 1)
        assert cluster.state.jobs["default/g"].hang_restarts == 1


def test_a_new_incarnation_begins_without_the_word_of_the_former():
    """Until its own sidecar says so."""
    cluster = Cluster()
    (name,) = cluster.run("a")
    hang(cluster, name)
    assert cluster.state.replicas[name].progress.hung_since == cluster.now - 1.0
    cluster.die(name, 1)
    cluster.settle(5)
    assert cluster.state.replicas[name].progress.hang is None


@pytest.mark.parametrize("savers", ["lead", "all"])
@pytest.mark.parametrize("saved", [None, SAVED])
def test_a_gang_that_its_owner_scaled_to_nothing_is_left_alone(savers, saved):
    """Its last worker hangs and leaves: the manager looks at it at each Tick, and orders nothing."""
    cluster = Owners()
    asked = {**CURED, "coupled": True, "savers": savers}
    cluster.observe(described("g", 1, **asked))
    cluster.start_all()
    cluster.report(W0, step=160)
    cluster.now += 60
    cluster.report(W0, step=None, hang=HANG, checkpoint=saved)
    cluster.observe(described("g", 0, **asked))
    assert cluster.tick() == []


@pytest.mark.parametrize("savers", ["lead", "all"])
def test_what_is_left_of_a_gang_that_is_done_is_not_started_anew(savers):
    """Its first worker has succeeded: one worker alone could not train on from any checkpoint."""
    with runs("restart", savers=savers, **CURED) as cluster:
        cluster.report(W0, step=150, checkpoint=SAVED)
        cluster.report(W1, step=150, checkpoint=SAVED)
        cluster.die(W0, 0)
        assert cluster.state.replicas[W0].phase is Phase.SUCCEEDED
        cluster.now += 60
        cluster.report(W1, step=None, hang=HANG, checkpoint=SAVED)
        assert not any(isinstance(action, EvictReplica) for action in cluster.tick())


def test_the_word_of_a_hang_grows_old():
    """After an hour in which nothing was heard it may train by now: nothing is ended on that evidence."""
    with runs("restart", **CURED) as cluster:
        cluster.post(ev.Paused(reason="an upgrade"))
        hang(cluster, W0, W1)
        cluster.now += 3600
        cluster.post(ev.Paused(reason=None))
        assert cluster.tick() == []
        assert "nothing was heard" in objection(
            cluster.state.replicas[W0], cluster.state.snapshot(cluster.now)
        )
