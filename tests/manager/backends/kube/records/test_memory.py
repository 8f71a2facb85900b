"""The memory in custom resources: written before orders, taken over by the next manager, few writes."""

import asyncio
import contextlib
import json

import msgspec
import pytest

from fakekube.cluster import FakeCluster
from fakekube.kinds import MIGRATIONS, NAMESPACES, TRAINING_PROGRESSES
from specon_manager.backends.base import NotLeadingError
from specon_manager.backends.kube.objects.names import migration_name, other_name
from specon_manager.backends.kube.records.external import move_state
from specon_manager.backends.kube.records.migration_status import MOVE_LABEL
from specon_manager.model import events as ev
from specon_manager.model.cluster import Phase
from specon_manager.model.transactions import TransactionState
from specon_sidecar.classify import Category
from specon_sidecar.wire import Checkpoint
from support.decisions.cluster import DIGEST, SETTINGS
from support.kube.remembered import Memories, R


@pytest.fixture
async def memories():
    async with contextlib.AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(FakeCluster(controllers=False, automatic=False))
        made = Memories(cluster, stack)
        stack.push_async_callback(made.api.close)
        yield made


@pytest.fixture
async def manager(memories):
    """Return a manager with one job that trains, and nothing written yet."""
    manager = await memories.manager()
    manager.run_job()
    return manager


def order_move(manager):
    """Let a policy's move begin, as a Tick would."""
    manager.request()
    (move,) = manager.state.transactions.values()
    renamed = msgspec.structs.replace(move, id="move-1", policy="specon")
    manager.state = msgspec.structs.replace(
        manager.state, transactions={"move-1": renamed}, transaction_count=1
    )
    manager.orders = [msgspec.structs.replace(order, transaction="move-1") for order in manager.orders]


def moving(state):
    """Return the move of the replica that is in flight, or None."""
    return state.transaction_of(R)


def told(state):
    """Return how the Migration says where the move stands: the one in flight, or the last that ended."""
    return move_state((moving(state) or state.history[-1]).state).value


async def test_a_move_is_on_record_before_commit_returns(memories, manager):
    """What is ordered after it is known to a later manager."""
    order_move(manager)
    assert await manager.commit() == {}
    item = memories.migration("mnist-worker-0-1")
    assert item["spec"] == {"replica": R, "target": "node-1", "reason": "test"}
    assert item["metadata"]["labels"] == {MOVE_LABEL: "move-1"}
    status = item["status"]
    assert (status["state"], status["id"], status["manager"]) == ("Proposed", "move-1", "one")
    assert (status["source"], status["target"], status["destinationHostname"]) == (
        "node-0",
        "node-1",
        "node-1",
    )


async def test_every_state_of_a_move_is_on_record_and_its_end_too(memories, manager):
    """From the room to the proof; in the end with its costs."""
    manager.request()
    await memories.cluster.machinery.create(
        MIGRATIONS, "default", {"metadata": {"name": "by-hand"}, "spec": {"replica": R}}
    )
    seen = []
    for _ in range(20):
        await manager.commit()
        status = memories.migration()["status"]
        seen.append(status["state"])
        assert status["state"] == told(manager.state)
        if not manager.orders:
            break
        manager.carry_out_one(manager.orders[0])
    manager.tick()
    manager.report(R, Category.PROGRESSING, 101)
    await manager.commit()
    states = ["Proposed", "Reserved", "Evicting", "Restoring", "Verifying"]
    assert list(dict.fromkeys(seen)) == states
    status = memories.migration()["status"]
    assert status["state"] == "Succeeded"
    assert status["averages"]["moves"] == 1
    assert status["record"]["moves"] == 1


async def test_nothing_that_did_not_change_is_written_again(memories, manager):
    """A report that tells of a step writes no Migration."""
    order_move(manager)
    await manager.commit()
    before = len(memories.cluster.server.requests)
    manager.report(R, Category.PROGRESSING, 105)
    await manager.commit()
    assert len(memories.cluster.server.requests) == before


async def test_while_the_api_is_away_commit_waits(memories, manager):
    """Nothing may be ordered; when it is back the write is made."""
    order_move(manager)
    await memories.cluster.server.go_away()
    writing = asyncio.ensure_future(manager.commit())
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.shield(writing), 0.5)
    assert not writing.done()
    await memories.cluster.server.open()
    async with asyncio.timeout(10):
        await writing
    assert memories.migration("mnist-worker-0-1")["status"]["state"] == "Proposed"


async def test_a_commit_that_waits_can_be_cancelled(memories, manager):
    """A manager that is told to end does not hang."""
    order_move(manager)
    await memories.cluster.server.go_away()
    writing = asyncio.ensure_future(manager.commit())
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.shield(writing), 0.2)
    writing.cancel()
    async with asyncio.timeout(5):
        with pytest.raises(asyncio.CancelledError):
            await writing


@pytest.mark.parametrize("what", ["create", "status"])
async def test_a_write_whose_answer_was_lost_is_made_once(memories, manager, what):
    """Nobody knows whether it was carried out: it is looked up, and not made twice."""
    order_move(manager)
    method, path = ("POST", "migrations") if what == "create" else ("PUT", "status")
    memories.cluster.faults.drop(method=method, path=path, carried_out=True)
    await manager.commit()
    (item,) = memories.cluster.store.all(MIGRATIONS)
    assert item["status"]["state"] == "Proposed"


async def test_a_new_manager_signs_every_open_migration_and_the_old_one_ends(memories, manager):
    """An old leader that wakes up finds the other's name, and orders nothing."""
    order_move(manager)
    await manager.commit()
    _, state = await memories.loaded("two")
    assert memories.migration("mnist-worker-0-1")["status"]["manager"] == "two"
    assert moving(state).id == "move-1"
    manager.carry_out_one(manager.orders[0])
    with pytest.raises(NotLeadingError, match="two has written"):
        await manager.commit()
    assert memories.migration("mnist-worker-0-1")["status"]["state"] == "Proposed"


async def test_a_new_manager_knows_how_many_pods_came_without_a_sidecar(memories, manager):
    """The count is in the record of the move; one that was written without it counts from 0."""
    order_move(manager)
    await manager.commit()
    assert "missing_sidecars" not in memories.migration("mnist-worker-0-1")["status"]["transaction"]
    _, state = await memories.loaded("two")
    assert moving(state).missing_sidecars == {}
    manager = await memories.manager("three")
    manager.post(ev.SidecarMissing(transaction="move-1", replica=R, count=2))
    await manager.commit()
    _, state = await memories.loaded("four")
    assert moving(state).missing_sidecars == {R: 2}


async def test_a_manager_that_does_not_hold_its_lease_writes_nothing(memories):
    """Not even where nobody else has written yet."""
    held = True
    manager = await memories.manager(holds=lambda: held)
    manager.run_job()
    order_move(manager)
    held = False
    with pytest.raises(NotLeadingError, match="one does not hold the lease"):
        await manager.commit()
    assert not memories.cluster.store.all(MIGRATIONS)


async def test_what_a_person_wrote_into_a_status_is_overwritten(memories, manager):
    """The manager knows what it did; only another manager is believed."""
    order_move(manager)
    await manager.commit()
    item = memories.migration("mnist-worker-0-1")
    await memories.cluster.machinery.set_status(MIGRATIONS, item, **{**item["status"], "state": "Succeeded"})
    manager.carry_out_one(manager.orders[0])
    await manager.commit()
    assert memories.migration("mnist-worker-0-1")["status"]["state"] == told(manager.state)


async def test_an_open_migration_that_somebody_deleted_is_made_again(memories, manager):
    """The next manager needs it; one whose move is over is not missed."""
    order_move(manager)
    await manager.commit()
    await memories.cluster.machinery.delete(MIGRATIONS, ("default", "mnist-worker-0-1"))
    manager.carry_out_one(manager.orders[0])
    await manager.commit()
    assert memories.migration("mnist-worker-0-1")["status"]["state"] == told(manager.state)
    await memories.cluster.machinery.delete(MIGRATIONS, ("default", "mnist-worker-0-1"))
    manager.die(R, 1)
    assert not manager.state.transactions
    await manager.commit()
    assert not memories.cluster.store.all(MIGRATIONS)


@pytest.mark.parametrize("fault", [False, True], ids=["names taken", "quota"])
async def test_a_migration_that_cannot_be_made_again_ends_no_manager(memories, manager, fault):
    """A tenant deletes the Migration of its move, and takes both names of it or has a quota of none."""
    order_move(manager)
    await manager.commit()
    (move,) = manager.state.transactions.values()
    name = migration_name(move)
    await memories.cluster.machinery.delete(MIGRATIONS, (name.namespace, name.name))
    if fault:
        memories.cluster.faults.answer(403, method="POST", path="migrations", times=99)
    else:
        for each in (name, other_name(name, move)):
            theirs = {"metadata": {"name": each.name}, "spec": {"pod": "x"}}
            await memories.cluster.machinery.create(MIGRATIONS, each.namespace, theirs)
    manager.memory.note_deleted(name)
    async with asyncio.timeout(5):
        assert await manager.commit() == {}  # it is not refused, for it has begun
        with pytest.raises(LookupError, match="no move of"):
            await manager.memory.keep_manifest(R, POD)
        memories.cluster.faults.clear()
        for each in memories.cluster.store.all(MIGRATIONS):
            key = (each["metadata"]["namespace"], each["metadata"]["name"])
            await memories.cluster.machinery.delete(MIGRATIONS, key)
        manager.carry_out_one(manager.orders[0])
        await manager.commit()
    assert memories.migration(name.name)["status"]["state"] == told(manager.state)


async def test_a_manifest_is_not_kept_by_a_record_that_somebody_deleted_and_that_cannot_be_made_again(
    memories, manager
):
    """Its bare pod is not to be deleted: the next leader could not create it again."""
    order_move(manager)
    await manager.commit()
    await memories.cluster.machinery.delete(MIGRATIONS, ("default", "mnist-worker-0-1"))
    memories.cluster.faults.answer(403, method="POST", path="migrations", times=99)
    async with asyncio.timeout(5):
        with pytest.raises(LookupError, match="on record no more: it cannot be recorded"):
            await manager.memory.keep_manifest(R, POD)


async def test_an_object_of_somebody_else_with_that_name_is_left_alone(memories, manager):
    """The move gets another name."""
    theirs = {"metadata": {"name": "mnist-worker-0-1"}, "spec": {"pod": "x"}}
    await memories.cluster.machinery.create(MIGRATIONS, "default", theirs)
    order_move(manager)
    await manager.commit()
    assert "status" not in memories.migration("mnist-worker-0-1")
    (ours,) = [i for i in memories.cluster.store.all(MIGRATIONS) if i["metadata"].get("labels")]
    assert ours["metadata"]["name"].startswith("mnist-worker-0-1-")
    assert ours["status"]["state"] == "Proposed"
    reference = manager.memory.reference(R)
    assert (reference["name"], reference["uid"]) == (ours["metadata"]["name"], ours["metadata"]["uid"])


async def test_a_move_that_cannot_be_recorded_is_given_up(memories, manager):
    """A quota of its namespace, say: the move is refused with the words of the server, and others go on."""
    order_move(manager)
    memories.cluster.faults.answer(403, method="POST", path="migrations", times=9)
    (refused,) = (await manager.commit()).items()
    assert refused[0] == "move-1"
    assert refused[1].startswith("it cannot be recorded: ")
    assert manager.memory.reference(R) is None
    manager.post(ev.RoomRefused(transaction="move-1", replica=R, reason=refused[1]))
    assert await manager.commit() == {}
    assert manager.state.history[-1].state is TransactionState.ROLLED_BACK


async def test_a_namespace_that_goes_away_holds_nobody_up(memories, manager):
    """Nothing can be recorded there, nothing is left there to be moved, and nothing is ordered."""
    memories.cluster.faults.answer(404, method="POST", path="migrations", times=9)
    order_move(manager)
    async with asyncio.timeout(5):
        assert list(await manager.commit()) == ["move-1"]


async def test_a_namespace_that_is_gone_with_what_goes_on_in_it_ends_no_manager(memories, manager):
    """Its objects are gone with it, and cannot be made again: others are still to be recorded."""
    order_move(manager)
    await manager.commit()
    store = memories.cluster.store
    for item in store.all(MIGRATIONS):
        store.remove(MIGRATIONS, ("default", item["metadata"]["name"]))
    store.remove(NAMESPACES, ("", "default"))
    manager.carry_out_one(manager.orders[0])
    assert manager.state.transactions["move-1"].state is not TransactionState.PROPOSED
    async with asyncio.timeout(5):
        await manager.commit()
    assert not store.all(MIGRATIONS)


async def test_a_manager_killed_between_the_two_writes_leaves_a_harmless_object(memories, manager):
    """It had ordered nothing; the next one closes what was never begun."""
    order_move(manager)
    memories.cluster.faults.answer(503, method="PUT", path="status", times=1000)
    writing = asyncio.ensure_future(manager.commit())
    await memories.until(lambda: memories.migration("mnist-worker-0-1") is not None)
    writing.cancel()
    await asyncio.wait([writing])
    memories.cluster.faults.clear()
    memory, state = await memories.loaded("two")
    assert not state.transactions
    status = memories.migration("mnist-worker-0-1")["status"]
    assert (status["state"], status["manager"]) == ("RolledBack", "two")
    assert "it was not begun" in status["message"]
    assert [str(problem).split(":")[0] for problem in memory.problems] == [
        "Migration default/mnist-worker-0-1"
    ]


async def test_objects_of_namespaces_that_another_manager_looks_after_are_not_taken_over(memories, manager):
    """Its open moves go on under its name, and its replicas are none of ours."""
    order_move(manager)
    await manager.commit()
    _, state = await memories.loaded("two", namespaces=("elsewhere",))
    assert (dict(state.transactions), dict(state.replicas)) == ({}, {})
    assert memories.migration("mnist-worker-0-1")["status"]["manager"] == "one"
    _, state = await memories.loaded("two", namespaces=("default",))
    assert list(state.transactions) == ["move-1"]
    assert memories.migration("mnist-worker-0-1")["status"]["manager"] == "two"


async def test_load_waits_until_the_api_is_there(memories):
    """And then says what it says."""
    memories.cluster.faults.answer(503, times=12)
    async with asyncio.timeout(20):
        _, state = await memories.loaded()
    assert not state.replicas


async def test_a_migration_that_changes_while_it_is_taken_over_is_read_again(memories, manager):
    """The last words of the old leader are not lost."""
    order_move(manager)
    await manager.commit()
    memories.cluster.faults.delay(0.3, method="PUT", path="status")
    loading = asyncio.ensure_future(memories.loaded("two"))
    await memories.until(lambda: len(memories.requests("PUT", "status")) == 2)
    item = memories.migration("mnist-worker-0-1")
    await memories.cluster.machinery.set_status(MIGRATIONS, item, **{**item["status"], "state": "Reserved"})
    _, state = await loading
    assert moving(state).state is TransactionState.RESERVED


# -- manifests of bare pods ----------------------------------------------------------------------

POD = {"kind": "Pod", "metadata": {"name": "mnist"}, "spec": {"containers": [{"name": "main"}]}}


async def test_a_manifest_is_on_record_before_the_pod_may_be_deleted(memories, manager):
    """The next manager has it too."""
    order_move(manager)
    await manager.commit()
    await manager.memory.keep_manifest(R, POD)
    assert json.loads(memories.migration("mnist-worker-0-1")["status"]["manifest"]) == POD
    manager.carry_out_one(manager.orders[0])
    await manager.commit()
    assert manager.memory.read_manifest(R) == POD
    memory, _ = await memories.loaded("two")
    assert memory.read_manifest(R) == POD


@pytest.mark.parametrize(("manifest", "error"), [(POD, LookupError), ({"x": "y" * 300_000}, ValueError)])
async def test_a_manifest_that_cannot_be_kept_is_refused(memories, manager, manifest, error):
    """Without a move on record, or too long: the pod must not be deleted."""
    if error is ValueError:
        order_move(manager)
        await manager.commit()
    with pytest.raises(error, match=R):
        await manager.memory.keep_manifest(R, manifest)
    assert manager.memory.read_manifest(R) is None


async def test_after_a_failed_move_the_manifest_is_kept_until_the_pod_is_back(memories, manager):
    """Also over a change of managers; then it is taken out of the object."""
    order_move(manager)
    manager.sidecars_answer = False
    await manager.commit()
    manager.carry_out_one(manager.orders[0])
    await manager.commit()
    manager.acknowledge(R, checkpoint=Checkpoint(step=100, path="/c", digest=DIGEST))
    await manager.commit()
    await manager.memory.keep_manifest(R, POD)
    manager.die(R, 0, evicted=True)
    manager.post(ev.JobRefused(job="default/mnist", transaction="move-1", reason="no room"))
    manager.post(ev.ReplicaGone(replica=R, incarnation=None, evicted=True))
    await manager.commit()
    assert memories.migration("mnist-worker-0-1")["status"]["attempt"] == 2
    manager.tick(SETTINGS.deadlines.start)
    await manager.commit()
    assert manager.state.history[-1].state is TransactionState.FAILED
    memory, state = await memories.loaded("two")
    assert memory.read_manifest(R) == POD
    assert state.replicas[R].phase is Phase.AWAITED
    manager.memory, manager.state = memory, state
    manager.observe(manager.specs["default/mnist"])
    await manager.commit()
    assert memory.read_manifest(R) == POD
    memories.in_background(memory)
    manager.appears(R, "node-1")
    await manager.commit()
    assert memory.read_manifest(R) is None
    await memories.until(lambda: "manifest" not in memories.migration("mnist-worker-0-1")["status"])


# -- what is known of replicas -------------------------------------------------------------------


async def test_what_is_known_of_a_replica_is_written_soon_and_survives(memories, manager):
    """A new manager knows the category, the step and the checkpoint."""
    manager.report(R, Category.CONVERGED, 200, checkpoint=Checkpoint(step=190, path="/c/190"))
    await manager.commit()
    memories.in_background(manager.memory)
    await memories.until(lambda: (memories.progress() or {}).get("status", {}).get("step") == 200)
    status = memories.progress()["status"]
    assert (status["category"], status["node"], status["phase"]) == ("converged", "node-0", "Running")
    assert status["checkpoint"]["time"].startswith("2026-")
    _, state = await memories.loaded("two")
    assert state.replicas[R].progress.category is Category.CONVERGED
    assert state.replicas[R].incarnation == manager.live[R].incarnation


async def test_a_new_manager_writes_only_what_is_new(memories, manager):
    """What an object says already is not written again, so that news need not wait for ten thousand of it."""
    manager.report(R, Category.PROGRESSING, 200)
    await manager.commit()
    memories.in_background(manager.memory)
    await memories.until(lambda: (memories.progress() or {}).get("status", {}).get("step") == 200)
    written = len(memories.requests("PATCH", "trainingprogresses"))
    memory, state = await memories.loaded("two", progress_seconds=1000.0)
    await memory.commit(state, acting=False)
    assert memory._progress.due.next(asyncio.get_running_loop().time()) is None
    assert len(memories.requests("PATCH", "trainingprogresses")) == written


async def test_steps_and_losses_alone_are_written_now_and_then(memories):
    """Fifty reports make one write; a change of category makes one at once."""
    manager = await memories.manager(progress_seconds=1000.0)
    manager.run_job()
    memories.in_background(manager.memory)
    await manager.commit()
    await memories.until(lambda: "status" in (memories.progress() or {}))
    before = len(memories.requests("PATCH", "trainingprogresses"))
    for number in range(50):
        manager.report(R, Category.PROGRESSING, 101 + number)
        await manager.commit()
    manager.report(R, Category.CONVERGED, 151)
    await manager.commit()
    await memories.until(lambda: memories.progress()["status"]["category"] == "converged")
    assert len(memories.requests("PATCH", "trainingprogresses")) == before + 1
    assert memories.progress()["status"]["step"] == 151


async def test_mere_steps_are_written_when_their_time_comes(memories):
    """Though nothing else happens."""
    manager = await memories.manager(progress_seconds=0.05)
    manager.run_job()
    memories.in_background(manager.memory)
    await manager.commit()
    manager.report(R, Category.PROGRESSING, 777)
    await manager.commit()
    await memories.until(lambda: (memories.progress() or {}).get("status", {}).get("step") == 777)


async def test_a_write_that_fails_is_made_later(memories, manager):
    """Whatever came of it: the object ends up as the replica is."""
    memories.cluster.faults.answer(500, method="POST", path="trainingprogresses")
    memories.cluster.faults.drop(method="PATCH", path="trainingprogresses", carried_out=False)
    await manager.commit()
    memories.in_background(manager.memory)
    await memories.until(lambda: (memories.progress() or {}).get("status", {}).get("step") == 100)


async def test_an_object_that_somebody_deleted_is_made_again(memories, manager):
    """With the next news."""
    memories.in_background(manager.memory)
    await manager.commit()
    await memories.until(lambda: "status" in (memories.progress() or {}))
    await memories.cluster.machinery.delete(TRAINING_PROGRESSES, ("default", "mnist-worker-0"))
    manager.report(R, Category.CONVERGED, 300)
    await manager.commit()
    await memories.until(lambda: (memories.progress() or {}).get("status", {}).get("category") == "converged")


async def test_what_is_known_of_a_job_that_is_gone_is_removed(memories, manager):
    """By the manager that knew it, and by one that finds it gone when it takes over."""
    task = memories.in_background(manager.memory)
    await manager.commit()
    await memories.until(lambda: "status" in (memories.progress() or {}))
    task.cancel()
    memory, state = await memories.loaded("two")
    manager.memory, manager.state = memory, state
    memories.in_background(memory)
    manager.remove("default/mnist")
    await manager.commit()
    await memories.until(lambda: memories.progress() is None)


async def test_writes_are_bounded_per_second(memories):
    """A burst, and then so many a second, however many replicas there are."""
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    manager = await memories.manager(writes_per_second=10.0, burst=5, sleep=sleep)
    for number in range(20):
        manager.run_job(f"job-{number}")
    await manager.commit()
    memories.in_background(manager.memory)
    await memories.until(lambda: len(memories.requests("PATCH", "trainingprogresses")) == 20)
    assert len(slept) >= 15
    assert max(slept) > 1.0


async def test_a_training_progress_is_never_ahead_of_the_migration(memories, manager):
    """An old leader that finds out has told nothing of what it wanted to do."""
    memories.in_background(manager.memory)
    order_move(manager)
    await manager.commit()
    await memories.until(lambda: "status" in (memories.progress() or {}))
    await memories.loaded("two")
    manager.die(R, 1)
    with pytest.raises(NotLeadingError):
        await manager.commit()
    await asyncio.sleep(0.05)
    assert memories.progress()["status"]["phase"] == "Running"


async def test_old_migrations_are_removed(memories, manager):
    """The latest ten of a replica stay, those that an earlier manager left among them."""
    for term in ("one", "two"):
        if term == "two":
            manager.memory, manager.state = await memories.loaded("two")
        for number in range(8):
            name = f"{term}-{number}"
            body = {"metadata": {"name": name}, "spec": {"replica": "default/unknown/worker/0"}}
            await memories.cluster.machinery.create(MIGRATIONS, "default", body)
            manager.now += 1
            manager.request(f"default/{name}", replica="default/unknown/worker/0")
            await manager.commit()
    memories.in_background(manager.memory)

    def left():
        return {item["metadata"]["name"] for item in memories.cluster.store.all(MIGRATIONS)}

    expected = {f"two-{number}" for number in range(8)} | {"one-6", "one-7"}
    await memories.until(lambda: left() == expected)
