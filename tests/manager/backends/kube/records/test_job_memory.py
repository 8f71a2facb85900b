"""TrainingJobs as a manager writes them: changes before they are ordered, the rest soon and rarely."""

import asyncio
import contextlib

import msgspec
import pytest

from fakekube.cluster import FakeCluster
from fakekube.kinds import TRAINING_JOBS, TRAINING_PROGRESSES
from specon_manager.backends.base import NotLeadingError
from specon_manager.backends.kube.records.memory import ClusterMemory
from specon_manager.model import events as ev
from specon_manager.model.cluster import Phase
from specon_manager.model.expected_start import ExpectedStart
from specon_manager.model.transactions import Kind, TransactionState
from support.decisions.cluster import SETTINGS
from support.kube.changing import Changing, Recording, elastic
from support.kube.remembered import START, Memories

JOB = "default/bert"
KINDS = [Kind.ADMIT, Kind.SCALE_OUT, Kind.SCALE_IN, Kind.PREEMPT]
OWNER = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "namespace": "default",
    "name": "bert",
    "uid": "uid-of-bert",
}


@pytest.fixture
async def memories():
    async with contextlib.AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(FakeCluster(controllers=False, automatic=False))
        made = Memories(cluster, stack)
        stack.push_async_callback(made.api.close)
        yield made


async def managing(memories, identity="one", **changes):
    """Return a manager that has taken over, told of the nodes."""
    memory, state = await memories.loaded(identity, **changes)
    nodes = Changing().state.nodes
    return Recording(memory, START, msgspec.structs.replace(state, nodes={**state.nodes, **nodes}))


@pytest.fixture
async def manager(memories):
    """Return a manager with one job that waits, and nothing written yet."""
    manager = await managing(memories)
    manager.observe()
    return manager


def job_of(memories, name="bert"):
    return memories.cluster.store.get(TRAINING_JOBS, ("default", name))


async def trained(manager):
    manager.run_all()
    await manager.commit()
    return manager


async def test_a_change_is_on_record_before_commit_returns(memories, manager):
    """With the pins that the webhook obeys, and who wrote it."""
    change = manager.propose(Kind.ADMIT)
    assert await manager.commit() == {}
    status = job_of(memories)["status"]
    assert job_of(memories)["spec"] == {"job": JOB, "queue": "research", "minWorkers": 1, "maxWorkers": 4}
    assert (status["phase"], status["change"]["state"], status["manager"]) == ("Starting", "Coming", "one")
    assert {pin["replica"]: pin["hostname"] for pin in status["pins"]} == dict(change.after)


@pytest.mark.parametrize("kind", [Kind.SCALE_IN, Kind.PREEMPT])
async def test_every_state_of_a_change_is_on_record_and_its_end_too(memories, manager, kind):
    """Each before its orders can be carried out; in the end what came of it."""
    await trained(manager)
    change = manager.propose(kind)
    seen = []
    for act in (
        lambda: None,
        lambda: manager.acknowledges(change),
        lambda: [manager.ends(name) for name in sorted(change.before.keys() - change.after.keys())],
    ):
        act()
        await manager.commit()
        status = job_of(memories)["status"]
        seen.append(status.get("change", {}).get("state", status["lastChange"]["state"]))
    last = "Succeeded" if kind is Kind.PREEMPT else "Verifying"
    assert seen == ["Checkpointing", "Leaving", last]
    if kind is Kind.PREEMPT:
        assert (status["phase"], status["preemptions"], "pins" in status) == ("Waiting", 1, False)


async def test_a_change_that_cannot_be_recorded_is_not_begun(memories, manager):
    """A quota of its namespace, say: the job waits on, with the words of the server, and others go on."""
    manager.propose(Kind.ADMIT)
    memories.cluster.faults.answer(403, method="POST", path="trainingjobs", times=9)
    ((change, why),) = (await manager.commit()).items()
    assert (change, why.partition(":")[0]) == ("admit-1", "it cannot be recorded")
    manager.post(ev.JobRefused(job=JOB, transaction=change, reason=why))
    assert await manager.commit() == {}
    assert manager.flying() is None or manager.flying().attempt == 2


async def test_nobody_is_asked_for_a_checkpoint_that_cannot_be_recorded(memories, manager):
    """The change is rolled back at once."""
    await trained(manager)
    manager.propose(Kind.PREEMPT)
    memories.cluster.faults.answer(403, method="PUT", path="trainingjobs", times=9)
    ((change, why),) = (await manager.commit()).items()
    manager.post(ev.JobRefused(job=JOB, transaction=change, reason=why))
    assert manager.state.history[-1].state is TransactionState.ROLLED_BACK
    assert manager.state.jobs[JOB].admitted
    memories.cluster.faults.clear()
    assert await manager.commit() == {}
    assert job_of(memories)["status"]["lastChange"]["state"] == "RolledBack"


async def test_while_the_api_is_away_commit_waits(memories, manager):
    """Nothing may be ordered; when it is back the write is made."""
    manager.propose(Kind.ADMIT)
    await memories.cluster.server.go_away()
    writing = asyncio.ensure_future(manager.commit())
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.shield(writing), 0.3)
    assert not writing.done()
    await memories.cluster.server.open()
    async with asyncio.timeout(10):
        await writing
    assert job_of(memories)["status"]["change"]["state"] == "Coming"


@pytest.mark.parametrize(("method", "path"), [("POST", "trainingjobs"), ("PUT", "status")])
async def test_a_write_whose_answer_was_lost_is_made_once(memories, manager, method, path):
    """Nobody knows whether it was carried out: it is looked up."""
    manager.propose(Kind.ADMIT)
    memories.cluster.faults.drop(method=method, path=path, carried_out=True)
    await manager.commit()
    (item,) = memories.cluster.store.all(TRAINING_JOBS)
    assert item["status"]["change"]["id"] == "admit-1"


async def test_an_object_that_somebody_deleted_or_wrote_to_is_made_right(memories, manager):
    """The manager knows what it did; the next one needs to know it too."""
    await trained(manager)
    change = manager.propose(Kind.SCALE_IN)
    await manager.commit()
    item = job_of(memories)
    await memories.cluster.machinery.set_status(TRAINING_JOBS, item, **{**item["status"], "phase": "Ended"})
    manager.acknowledges(change)
    await manager.commit()
    assert job_of(memories)["status"]["change"]["state"] == "Leaving"
    await memories.cluster.machinery.delete(TRAINING_JOBS, ("default", "bert"))
    for name in change.before.keys() - change.after.keys():
        manager.ends(name)
    await manager.commit()
    assert job_of(memories)["status"]["change"]["state"] == "Verifying"


async def test_a_training_job_that_cannot_be_made_again_ends_no_manager(memories, manager):
    """A tenant deletes it in the middle of a change, under a quota of none; it is written once it can be."""
    await trained(manager)
    change = manager.propose(Kind.SCALE_IN)
    await manager.commit()
    await memories.cluster.machinery.delete(TRAINING_JOBS, ("default", "bert"))
    memories.cluster.faults.answer(403, method="POST", path="trainingjobs", times=99)
    manager.acknowledges(change)
    async with asyncio.timeout(5):
        assert await manager.commit() == {}  # it is not refused, for it has begun
    assert job_of(memories) is None
    memories.cluster.faults.clear()
    for name in change.before.keys() - change.after.keys():
        manager.ends(name)
    async with asyncio.timeout(5):
        await manager.commit()
    assert job_of(memories)["status"]["change"]["state"] == "Verifying"


async def test_a_new_manager_signs_every_open_change_and_the_old_one_ends(memories, manager):
    """An old leader that wakes up finds the other's name, and orders nothing."""
    await trained(manager)
    change = manager.propose(Kind.PREEMPT)
    await manager.commit()
    _, state = await memories.loaded("two")
    assert job_of(memories)["status"]["manager"] == "two"
    assert state.whole_transaction_of(JOB).id == change.id
    manager.acknowledges(change)
    with pytest.raises(NotLeadingError, match="two has written TrainingJob default/bert"):
        await manager.commit()
    assert job_of(memories)["status"]["change"]["state"] == "Checkpointing"


async def test_what_a_former_leader_wrote_late_is_overwritten(memories, manager):
    """As long as it had begun nothing."""
    await trained(manager)
    second = await managing(memories, "two")
    second.observe()
    manager.post(ev.JobObserved(elastic(most=3)))
    memories.in_background(manager.memory)
    await manager.commit()
    await memories.until(lambda: job_of(memories)["spec"]["maxWorkers"] == 3)
    second.pods = dict(manager.pods)
    second.propose(Kind.PREEMPT)
    await second.commit()
    assert job_of(memories)["status"]["manager"] == "two"
    assert job_of(memories)["spec"]["maxWorkers"] == 4


async def test_a_manager_that_does_not_hold_its_lease_writes_nothing(memories):
    """Not even where nobody else has written yet."""
    held = True
    manager = await managing(memories, holds=lambda: held)
    manager.observe()
    manager.propose(Kind.ADMIT)
    held = False
    with pytest.raises(NotLeadingError, match="one does not hold the lease"):
        await manager.commit()
    assert not memories.cluster.store.all(TRAINING_JOBS)


async def test_a_change_whose_object_changes_while_it_is_taken_over_is_read_again(memories, manager):
    """The last words of the old leader are not lost."""
    await trained(manager)
    change = manager.propose(Kind.PREEMPT)
    await manager.commit()
    written = len(memories.requests("PUT", "status"))
    memories.cluster.faults.delay(0.3, method="PUT", path="status")
    loading = asyncio.ensure_future(memories.loaded("two"))
    await memories.until(lambda: len(memories.requests("PUT", "status")) == written + 1)
    manager.acknowledges(change)
    await manager.commit()
    _, state = await loading
    assert state.whole_transaction_of(JOB).state is TransactionState.LEAVING


# -- killed between any two writes ---------------------------------------------------------------


class KilledError(Exception):
    """The manager was killed."""


class Mortal:
    """An API until so many writes were made: then the manager that makes the next is killed."""

    def __init__(self, api, writes, *, carried_out):
        self._api, self._left, self._carried_out = api, writes, carried_out

    def __getattr__(self, name):
        call = getattr(self._api, name)
        if name not in {"create", "replace", "patch", "delete"}:
            return call

        async def counted(*args, **more):
            if self._left <= 0:
                if self._carried_out:
                    await call(*args, **more)
                raise KilledError
            self._left -= 1
            return await call(*args, **more)

        return counted


@pytest.mark.parametrize("carried_out", [False, True])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_manager_killed_between_any_two_writes_is_followed_by_one_that_goes_on(
    memories, kind, carried_out
):
    """What the pods do is never more than what is on record permits; the next manager brings it to an end."""
    for writes in range(12):
        manager = await managing(memories, f"first-{writes}")
        manager.memory = mortal = ClusterMemory(
            Mortal(memories.api, writes, carried_out=carried_out),
            identity=f"first-{writes}",
            wall=lambda: START,
            sleep=lambda _: asyncio.sleep(0),
        )
        manager.state = msgspec.structs.replace(await mortal.load(SETTINGS), nodes=Changing().state.nodes)
        done = False
        with contextlib.suppress(KilledError):
            await live(manager, kind)
            done = True
        after = await managing(memories, f"second-{writes}")
        taken_over(after, manager.pods)
        await settle(after)
        assert not after.state.transactions
        assert "change" not in (job_of(memories) or {}).get("status", {})
        runs = {name for name, each in after.state.replicas.items() if each.phase is Phase.RUNNING}
        assert runs == set(after.pods)
        assert after.state.jobs[JOB].admitted == bool(after.pods)
        if done:
            return
        if job_of(memories) is not None:
            await memories.cluster.machinery.delete(TRAINING_JOBS, ("default", "bert"))
    raise AssertionError("the writes have no end")


async def live(manager, kind):
    """Let the job be admitted, then changed; pods do what is ordered, after it is on record."""
    manager.observe()
    manager.propose(Kind.ADMIT)
    await settle(manager)
    if kind is not Kind.ADMIT:
        manager.propose(kind)
        await settle(manager)


def taken_over(manager, pods):
    """Tell what there is, as a backend begins."""
    for name in [name for name in pods if name not in manager.state.replicas]:
        manager.observe()
        assert name in manager.state.replicas
    manager.observe()
    manager.pods = dict(pods)
    manager.count = 1000
    for name, known in list(manager.state.replicas.items()):
        if known.incarnation is not None and pods.get(name) != known.incarnation:
            manager.post(ev.ReplicaGone(replica=name, incarnation=known.incarnation, reason="not there"))
    for name, uid in pods.items():
        if manager.state.replicas[name].incarnation != uid:
            node = manager.state.replicas[name].node or "node-0"
            manager.post(ev.ReplicaStarted(replica=name, incarnation=uid, node=node))
    manager.post(ev.ManagerStarted("again", SETTINGS))


async def settle(manager):
    """Record, then carry out what the change in flight asks for, until there is none."""
    for _ in range(20):
        await manager.commit()
        change = manager.flying()
        if change is None:
            return
        if change.state is TransactionState.CHECKPOINTING:
            manager.acknowledges(change)
        elif change.state is TransactionState.LEAVING:
            for name in [n for n in manager.pods if manager.state.replicas[n].leaving is not None]:
                manager.ends(name)
        elif change.state is TransactionState.COMING:
            for name in [n for n in sorted(change.wanted) if n not in manager.pods]:
                manager.starts(name, change.wanted[name])
        else:
            for name in sorted(manager.pods):
                manager.reports(name, 200)
    raise AssertionError(f"{manager.state.transactions} does not end")


# -- in the background ---------------------------------------------------------------------------


async def test_what_a_job_waits_for_is_written_soon(memories, manager):
    """Its place, why in words, and since when."""
    memories.in_background(manager.memory)
    manager.observe(elastic("other"))
    await manager.commit()
    await memories.until(lambda: "status" in (job_of(memories, "other") or {}))
    await memories.until(lambda: "status" in (job_of(memories) or {}))
    status = job_of(memories, "other")["status"]
    assert (status["phase"], status["position"]) == ("Waiting", 2)
    assert status["waitingFor"]
    assert "change" not in status


async def test_when_a_job_starts_is_written_and_again_when_that_is_news(memories):
    """Not while it comes nearer as it was expected to; a job that runs has no such thing."""
    expected = {JOB: ExpectedStart(in_seconds=600.0, earliest_seconds=300.0, latest_seconds=900.0)}
    manager = await managing(
        memories, start_of=lambda job, now: expected[job].after(now - START), progress_seconds=1e-3
    )
    memories.in_background(manager.memory)
    manager.observe()
    await manager.commit()
    await memories.until(lambda: "status" in (job_of(memories) or {}))
    first = job_of(memories)
    assert first["status"]["expectedStart"].keys() == {"at", "earliest", "latest"}
    manager.memory.note(manager.now + 60, ev.Tick(), [])
    await manager.commit()
    await asyncio.sleep(0.1)
    assert job_of(memories)["status"]["expectedStart"] == first["status"]["expectedStart"]
    expected[JOB] = ExpectedStart(why="nothing is known")
    manager.memory.note(manager.now + 120, ev.Tick(), [])
    await manager.commit()
    await memories.until(
        lambda: job_of(memories)["status"].get("expectedStart") == {"reason": "nothing is known"}
    )


async def test_a_job_that_is_neither_held_nor_scaled_and_trains_by_itself_has_no_training_job(
    memories, manager
):
    """There would be nothing in it; of one whose pods train as one it says that they do."""
    memories.in_background(manager.memory)
    for name, as_one in (("plain", False), ("gang", True)):
        manager.observe(elastic(name, held=False, resizing="none", queue="", coupled=as_one))
    await manager.commit()
    await memories.until(lambda: all("status" in (job_of(memories, name) or {}) for name in ("bert", "gang")))
    names = [item["metadata"]["name"] for item in memories.cluster.store.all(TRAINING_JOBS)]
    assert sorted(names) == ["bert", "gang"]


async def test_an_object_refers_to_the_owner_of_its_job_and_goes_with_the_job(memories):
    """So that it is collected with the owner; where it is not, it is removed."""
    manager = await managing(memories, owner_of=lambda job: OWNER if job == JOB else None)
    memories.in_background(manager.memory)
    manager.observe()
    await manager.commit()
    await memories.until(lambda: "status" in (job_of(memories) or {}))
    (reference,) = job_of(memories)["metadata"]["ownerReferences"]
    assert (reference["kind"], reference["uid"], reference["controller"]) == ("Job", "uid-of-bert", False)
    manager.post(ev.JobGone(job=JOB, reason="deleted"))
    await manager.commit()
    await memories.until(lambda: job_of(memories) is None)


async def test_the_object_of_a_job_that_is_gone_when_a_manager_takes_over_is_removed(memories, manager):
    """The backend reports that it has no pod."""
    await trained(manager)
    second = await managing(memories, "two")
    assert JOB in second.state.jobs
    memories.in_background(second.memory)
    second.post(ev.JobGone(job=JOB, reason="its owner is gone"))
    await second.commit()
    await memories.until(lambda: job_of(memories) is None)


async def test_a_new_manager_writes_only_what_is_new(memories, manager):
    """What an object says already is not written again."""
    memories.in_background(manager.memory)
    await manager.commit()
    await memories.until(lambda: "status" in (job_of(memories) or {}))
    second = await managing(memories, "two")
    second.observe()
    written = len(memories.requests("PUT", "trainingjobs"))
    await second.commit()
    memories.in_background(second.memory)
    await asyncio.sleep(0.1)
    assert len(memories.requests("PUT", "trainingjobs")) == written


async def test_a_write_in_the_background_that_fails_is_made_later(memories, manager):
    """Whatever came of it, and though another job cannot be recorded at all."""
    memories.cluster.faults.answer(500, method="POST", path="trainingjobs")
    memories.cluster.faults.drop(method="PUT", path="status", carried_out=False)
    memories.in_background(manager.memory)
    await manager.commit()
    await memories.until(lambda: "status" in (job_of(memories) or {}))


async def test_a_cluster_without_the_custom_resource_is_managed_without_it(memories):
    """A newer manager beside an older chart: changes are refused in words, everything else goes on."""
    async with FakeCluster(controllers=False, automatic=False, without=(TRAINING_JOBS,)) as cluster:
        other = Memories(cluster, contextlib.AsyncExitStack())
        manager = await managing(other)
        manager.observe()
        manager.propose(Kind.ADMIT)
        assert list(await manager.commit()) == ["admit-1"]
        await other.api.close()


async def test_a_thousand_jobs_that_wait_cost_few_writes(memories):
    """Each is written once, in the order of submission; when places change, those in front come first."""
    slept = []

    async def sleep(seconds):
        slept.append(seconds)
        await asyncio.sleep(0)

    manager = await managing(memories, writes_per_second=20.0, burst=100, sleep=sleep)
    for number in range(1000):
        manager.observe(elastic(f"job-{number}"))
        manager.now += 0.001
    await manager.commit()
    began = asyncio.get_running_loop().time()
    memories.in_background(manager.memory)

    def written():
        return memories.requests("PUT", "trainingjobs")

    async with asyncio.timeout(60):
        while len(written()) < 1000:  # noqa: ASYNC110  (a server's store has no event to wait for)
            await asyncio.sleep(0.05)
    assert [path.split("/")[-2] for path in written()] == [f"job-{number}" for number in range(1000)]
    assert not memories.cluster.store.all(TRAINING_PROGRESSES)
    assert len(slept) >= 1900
    manager.propose(Kind.ADMIT, "default/job-0")
    manager.ticks(10.0)
    for _ in range(20):
        manager.ticks(1.0)
        await manager.commit()
    await asyncio.sleep(0.2)
    # Ten are admitted, so that all places have changed.
    # What is said of one may be the older, the later it comes.
    seconds = asyncio.get_running_loop().time() - began
    due = int(seconds / 1.2) if seconds >= 6.0 else 0
    assert len(written()) <= 1010 + due
    assert {int(path.split("/")[-2].removeprefix("job-")) for path in written()[1000:]} <= {*range(10 + due)}
