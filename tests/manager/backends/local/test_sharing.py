"""What the manager tells the pods of its nodes: turns by weights, again and again; some run on."""

import asyncio
import contextlib

import msgspec
import pytest

from specon_manager.backends.local.backend import LocalBackend, LocalSettings
from specon_manager.backends.local.jobs import LocalJob, job_spec
from specon_manager.backends.local.nodes import VirtualNode
from specon_manager.backends.local.sharing import Sharing, member
from specon_manager.model.resources import Resources
from specon_sidecar.slices.lease import Lease
from support.decisions import gpu_shares

LOW = 0.02


class Pod:
    """Keeps what it is told."""

    trainer_pid = None

    def __init__(self, replica, incarnation="0001"):
        self.replica, self.incarnation = replica, incarnation
        self.lease, self.news, self.told = None, 0, 0

    def share(self, lease, *, news):
        self.lease = lease
        self.told += 1
        self.news += news

    @property
    def turns(self):
        return None if self.lease is None else [tuple(turn) for turn in self.lease["on"]]


class Scene:
    def __init__(self, **nodes):
        self.sharing = Sharing(
            [VirtualNode(name=name, cpus=tuple(range(cpus))) for name, cpus in (nodes or {"a": 1}).items()]
        )

    def pod(self, name, node="a", weight=1.0, index=0, role="worker", **fields):
        pod = Pod(f"default/{name}/{role}/{index}")
        job = job_spec(LocalJob(name=name, command="true", **fields))
        self.sharing.join(member(pod, node, job), weight)
        return pod

    def told(self, *pods):
        self.sharing.renew()
        return [pod.turns is not None for pod in pods]


@pytest.fixture
def scene():
    return Scene()


def test_weights_are_turns_from_one_schedule(scene):
    """The first has nearly all of the period, the other the rest of it, and both leases are valid."""
    first, other = scene.pod("first"), scene.pod("other")
    assert scene.told(first, other) == [False, False]
    scene.sharing.weigh(other.replica, "0001", LOW)
    assert scene.told(first, other) == [True, True]
    assert first.lease["period"] == other.lease["period"]
    for pod in (first, other):
        Lease(pod.lease["period"], pod.turns, pod.lease["until"])
    assert sum(length for pod in (first, other) for _, length in pod.turns) == pytest.approx(
        first.lease["period"]
    )
    assert other.turns[0][1] / first.lease["period"] == pytest.approx(LOW / (1 + LOW))


def test_a_lease_is_renewed_and_only_news_wakes_the_supervisor(scene):
    """What is the same is written again without a signal; the end of turns is told once."""
    first, other = scene.pod("first"), scene.pod("other", weight=LOW)
    for _ in range(3):
        scene.sharing.renew()
    assert (first.told, first.news) == (3, 1)
    scene.sharing.leave(first)
    for _ in range(3):
        scene.sharing.renew()
    assert (other.turns, other.told, other.news) == (None, 4, 2)


def test_a_weight_of_an_earlier_incarnation_says_nothing(scene):
    """An order that comes late does not stop the next incarnation."""
    first, other = scene.pod("first"), scene.pod("other")
    scene.sharing.weigh(other.replica, "0000", LOW)
    scene.sharing.weigh("default/nobody/worker/0", "0001", LOW)
    assert scene.told(first, other) == [False, False]


def test_a_job_of_a_transaction_runs_on(scene):
    """All of its pods do, and the others share what they have among themselves."""
    first, moved, other = scene.pod("first"), scene.pod("moved", weight=LOW), scene.pod("other", weight=LOW)
    assert scene.told(first, moved, other) == [True, True, True]
    scene.sharing.spare({"default/moved"})
    assert scene.told(first, moved, other) == [True, False, True]
    assert other.turns[0][1] / first.lease["period"] == pytest.approx(LOW / (1 + LOW))
    scene.sharing.spare(())
    assert scene.told(first, moved, other) == [True, True, True]


def test_who_reserves_has_what_was_reserved():
    """It is never stopped, and the others share the rest of the node."""
    scene = Scene(a=2)
    first, other = scene.pod("first"), scene.pod("other", weight=LOW)
    assert scene.told(first, other) == [False, False]
    reserving = scene.pod("reserving", requests=Resources(cpu=1.0))
    assert scene.told(first, other, reserving) == [True, True, False]


def test_ranks_of_a_gang_have_the_same_turns():
    """On all of its nodes, by the least weight that one of them has; parameter servers too."""
    scene = Scene(a=1, b=1)
    ranks = [scene.pod("gang", node, index=index, workers=2, ps=1) for index, node in enumerate("ab")]
    ranks.append(scene.pod("gang", "a", role="ps", workers=2, ps=1))
    others = [scene.pod("here", "a"), scene.pod("there", "b")]
    scene.sharing.weigh(ranks[1].replica, "0001", LOW)
    assert scene.told(*ranks, *others) == [True] * 5
    assert ranks[0].turns == ranks[1].turns == ranks[2].turns
    gang, here = (sum(length for _, length in pod.turns) for pod in (ranks[0], others[0]))
    assert gang / here == pytest.approx(LOW)


def test_independent_replicas_take_turns_by_themselves(scene):
    """Each trains for itself: one runs while the other is stopped."""
    first, other = (scene.pod("seeds", index=index, workers=2, replicas="independent") for index in (0, 1))
    scene.sharing.weigh(other.replica, "0001", LOW)
    assert scene.told(first, other) == [True, True]
    assert first.turns != other.turns


def test_a_gpu_is_for_one_at_a_time():
    """However many processors its node has."""
    sharing = Sharing([VirtualNode(name="gpu", cpus=(0, 1, 2, 3), gpu="0")])
    pods = [Pod(f"default/{name}/worker/0") for name in ("first", "other")]
    for pod, weight in zip(pods, (1.0, LOW), strict=True):
        sharing.join(
            member(pod, "gpu", job_spec(LocalJob(name=pod.replica.split("/")[1], command="true"))), weight
        )
    sharing.renew()
    assert all(pod.turns for pod in pods)


def test_the_end_lets_everything_run_on(scene):
    """A manager that ends in order leaves no turns behind."""
    first, other = scene.pod("first"), scene.pod("other", weight=LOW)
    assert scene.told(first, other) == [True, True]
    scene.sharing.end()
    assert (first.turns, other.turns) == (None, None)


def test_a_full_disk_stops_nobody_and_breaks_nothing(scene, caplog):
    """A lease that cannot be written lapses; it is tried again at the next renewal."""
    first, other = scene.pod("first"), scene.pod("other", weight=LOW)

    def full(lease, *, news):
        raise OSError(28, "No space left on device")

    first.share = full
    assert scene.told(other) == [True]
    assert "it runs on" in caplog.text


async def test_news_is_told_at_once(scene):
    """A changed weight does not wait for the next renewal."""
    first, other = scene.pod("first"), scene.pod("other")
    keeping = asyncio.ensure_future(scene.sharing.keep())
    await asyncio.sleep(0)
    scene.sharing.weigh(other.replica, "0001", LOW)
    for _ in range(5):
        await asyncio.sleep(0)
    assert first.turns is not None
    keeping.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await keeping


@pytest.mark.parametrize(("gpu", "spared"), [("0", {"default/new"}), (None, set())])
def test_on_a_gpu_who_begins_is_not_stopped(tmp_path, monkeypatch, gpu, spared):
    """It hardly uses the GPU; where processors are shared, to load is work like any other."""
    told = []
    monkeypatch.setattr(Sharing, "spare", lambda _, jobs: told.append(set(jobs)))
    settings = LocalSettings(
        directory=tmp_path,
        nodes=(VirtualNode("node-1", (0,), gpu),),
        working_directory=tmp_path,
        environment={},
        samples=tmp_path,
    )
    backend = LocalBackend(settings, manager_url=str, token=lambda *_: "")
    new, replicas = gpu_shares.job("new")
    new = msgspec.structs.replace(new, trains_since=gpu_shares.NOW - 5)
    backend.observe(gpu_shares.state(gpu_shares.job("old"), (new, replicas)), gpu_shares.NOW)
    assert told == [spared]
