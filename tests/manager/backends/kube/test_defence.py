"""Room that is kept from equals while a move is under way: what is written for it, and in which order."""

import logging

import msgspec
import pytest

from fakekube.kinds import MIGRATIONS, NODES
from specon_manager.backends.base import NotLeadingError
from specon_manager.backends.kube.admission.gate import gate_arrival
from specon_manager.backends.kube.admission.injection import Injection
from specon_manager.backends.kube.backend import KubeSettings
from specon_manager.backends.kube.guards import Guard, guards_of
from specon_manager.backends.kube.objects.annotation_keys import PINNED, REPLICA
from specon_manager.backends.kube.objects.pod import slim_pod
from specon_manager.backends.kube.placeholder import placeholder_name
from specon_manager.backends.kube.rooms import RoomSettings
from specon_manager.backends.kube.transport.api import Api, ApiError
from specon_manager.model.events import JobObserved, NodeObserved, ReplicaGone, ReplicaStarted, RoomHeld
from specon_manager.model.transactions import Kind, Transaction, TransactionState
from support.kube.placing_stage import admitting_pods
from support.kube.stage import Keeper, Stage, make_job, make_pod, make_stateful_set

R, R1 = "default/train/worker/0", "default/train/worker/1"
GUARDED = KubeSettings(
    rooms=RoomSettings(patience=10.0, priority_class="rooms", guard_class="guards"),
    eviction_patience=0.5,
    unschedulable_seconds=5.0,
)
ONE_OF_EACH = [make_pod, make_job, make_stateful_set]


class Recording(Api):
    """Writes down each change that went through; `stop` is asked after each."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.writes: list[tuple[str, str]] = []
        self.forbidden: tuple[str, ...] = ()
        self.stop = lambda: None

    def _done(self, what: str, name: str) -> None:
        self.writes.append((what, name))
        self.stop()

    async def create(self, resource, body, namespace=None, **fields):
        if body.get("spec", {}).get("priorityClassName") in self.forbidden:
            raise ApiError(403, "Forbidden", "no PriorityClass with name guards was found")
        made = await super().create(resource, body, namespace, **fields)
        self._done("create", body["metadata"]["name"])
        return made

    async def patch(self, resource, name, namespace, body, *, form, subresource="", **fields):
        if subresource in self.forbidden:
            raise ApiError(403, "Forbidden", "cannot patch pods/status")
        made = await super().patch(
            resource, name, namespace, body, form=form, subresource=subresource, **fields
        )
        gate = "schedulingGates" in (body.get("spec") or {}) if isinstance(body, dict) else False
        self._done("nominate" if subresource == "status" else "ungate" if gate else "patch", name)
        return made

    async def delete(self, resource, name, namespace=None, **fields):
        await super().delete(resource, name, namespace, **fields)
        self._done("delete", name)

    async def evict(self, name, namespace, **fields):
        await super().evict(name, namespace, **fields)
        if not fields.get("dry_run"):
            self._done("evict", name)


@pytest.fixture
def nodes():
    return 2


@pytest.fixture
def settings():
    return GUARDED


@pytest.fixture
async def api(cluster):
    made = Recording(cluster.url)
    yield made
    await made.close()


def _webhook(cluster, pins):
    """Pin and gate the next pods of what moves, as our webhook does."""

    def held_back(pod):
        if "specon.io/sidecar" not in (pod["metadata"].get("labels") or {}) or not pins:
            return pod
        pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": pins[R]}
        pod["metadata"].setdefault("annotations", {}).update({REPLICA: R, PINNED: pins[R]})
        return gate_arrival(Injection(pod), pins).pod

    admitting_pods(cluster, held_back)


def _guard(node, replica=R):
    return Guard("m-1", replica, node).name


def _move(state, source, target, **fields):
    return Transaction(
        id="m-1",
        kind=Kind.MOVE,
        job="default/train",
        before={R: source},
        after={R: target},
        policy="test",
        reason="test",
        state=state,
        proposed_at=0.0,
        deadline=1e9,
        **fields,
    )


async def _held(stage, cluster, make):
    """Have a pod train, and room be held for it on the other node; return its start and that node."""
    await make(stage.api, "train")
    started = await stage.hear(ReplicaStarted)
    # A pod may be seen before its owner is: until then nothing could move it, and no room is held.
    await stage.until(lambda: any(not each.spec.immovable for each in stage.said(JobObserved)))
    target = next(event.node for event in stage.said(NodeObserved) if event.node != started.node)
    await stage.hold("m-1", R, target)
    await stage.until(lambda: stage.said(RoomHeld))
    return started, target


async def _recorded(cluster, keeper):
    """Have a Migration of the replica be open."""
    made = await cluster.machinery.create(
        MIGRATIONS, "default", {"metadata": {"name": "train-1"}, "spec": {"replica": R}}
    )
    keeper.references[R] = {
        "apiVersion": "specon.io/v1alpha1",
        "kind": "Migration",
        "name": "train-1",
        "uid": made["metadata"]["uid"],
    }


async def _come(stage, started, target):
    await stage.come(R, target)
    await stage.until(lambda: {e.node for e in stage.said(ReplicaStarted)} > {started.node})


async def _moved(stage, cluster, make):
    started, target = await _held(stage, cluster, make)
    pins = {R: target}
    _webhook(cluster, pins)
    await stage.leave(R, started.incarnation)
    await stage.hear(ReplicaGone, incarnation=started.incarnation)
    await _come(stage, started, target)
    return started.node, target


# -- what is written, and in which order ---------------------------------------------------------


@pytest.mark.parametrize("make", ONE_OF_EACH)
async def test_the_way_back_is_kept_until_the_move_is_over(cluster, stage, make):
    """By a pod of the class that nobody of the job's rank drives out; then nothing is left of it."""
    source, target = await _moved(stage, cluster, make)
    kept = cluster.pod(_guard(source))
    assert (kept["spec"]["nodeName"], kept["spec"]["priorityClassName"]) == (source, "guards")
    assert cluster.pod(_guard(target)) is None
    assert cluster.pod(placeholder_name("m-1", R)) is None
    await stage.over(R)
    await stage.until(lambda: cluster.pod(_guard(source)) is None)


async def test_nothing_waits_for_room_on_a_source_that_is_cordoned(cluster, api, stage):
    """Nobody else gets room there, and the job does not return to it: a guard would stay pending."""
    started, target = await _held(stage, cluster, make_job)
    _webhook(cluster, {R: target})
    await cluster.machinery.patch(NODES, ("", started.node), "merge", {"spec": {"unschedulable": True}})
    await stage.until(lambda: not stage.backend._watch.nodes.node(started.node).ready)
    await stage.leave(R, started.incarnation)
    await stage.hear(ReplicaGone, incarnation=started.incarnation)
    await _come(stage, started, target)
    names = {name for what, name in api.writes if what == "create"}
    assert _guard(target) in names
    assert _guard(started.node) not in names


@pytest.mark.parametrize("make", ONE_OF_EACH)
async def test_everything_is_kept_before_anything_is_told_to_end(cluster, api, stage, make):
    """Each guard is counted as one of its node before what it guards becomes free."""
    source, target = await _moved(stage, cluster, make)
    writes = api.writes
    ends = next(
        at for at, (what, name) in enumerate(writes) if what == "evict" or (what, name) == ("patch", "train")
    )
    for guard in (_guard(source), _guard(target)):
        assert writes.index(("create", guard)) < writes.index(("nominate", guard)) < ends
    assert (
        writes.index(("nominate", _guard(target)))
        < writes.index(("delete", placeholder_name("m-1", R)))
        < ends
    )


@pytest.mark.parametrize("make", ONE_OF_EACH)
async def test_room_is_handed_over_without_a_moment_between(cluster, api, stage, make):
    """The pod is nominated, then its guard goes, then its gate: an equal never sees the room free."""
    _, target = await _moved(stage, cluster, make)
    (pod,) = cluster.pods(app="training")
    name, writes = pod["metadata"]["name"], api.writes
    nominated, ungated = writes.index(("nominate", name)), writes.index(("ungate", name))
    assert nominated < writes.index(("delete", _guard(target))) < ungated
    assert pod["spec"]["nodeName"] == target


async def test_what_is_turned_back_gives_its_target_away_and_gets_its_source(cluster, api, stage):
    """At once: somebody else may need the target."""
    started, target = await _held(stage, cluster, make_job)
    pins = {R: target}
    _webhook(cluster, pins)
    await stage.leave(R, started.incarnation)
    await stage.hear(ReplicaGone, incarnation=started.incarnation)
    await stage.release("m-1", R, target)
    assert cluster.pod(_guard(target)) is None
    pins[R] = started.node
    await stage.come(R, started.node)
    await stage.until(lambda: len({e.incarnation for e in stage.said(ReplicaStarted)}) == 2)
    assert stage.said(ReplicaStarted)[-1].node == started.node
    assert cluster.pod(_guard(started.node)) is None


async def test_a_successor_that_waits_for_the_wrong_node_is_sent_away(cluster, stage):
    """It came early, for the target; the move was turned back before it was let go."""
    started, target = await _held(stage, cluster, make_stateful_set)
    pins = {R: target}
    _webhook(cluster, pins)
    await stage.leave(R, started.incarnation)
    await stage.hear(ReplicaGone, incarnation=started.incarnation)
    await stage.until(lambda: [p for p in cluster.pods(app="training") if p["spec"].get("schedulingGates")])
    pins[R] = started.node
    await stage.release("m-1", R, target)
    await stage.come(R, started.node)
    await stage.until(lambda: len({e.incarnation for e in stage.said(ReplicaStarted)}) == 2)
    assert stage.said(ReplicaStarted)[-1].node == started.node


async def test_what_is_gone_is_handed_nothing(cluster, stage):
    """Its guard stays for the next one."""
    started, target = await _held(stage, cluster, make_job)
    _webhook(cluster, {R: target})
    await stage.leave(R, started.incarnation)
    await stage.hear(ReplicaGone, incarnation=started.incarnation)
    guard = cluster.pod(_guard(target))
    labels = {**guard["metadata"]["labels"], "specon.io/sidecar": "injected"}
    metadata = {**guard["metadata"], "name": "nobody", "labels": labels, "annotations": {PINNED: target}}
    await stage.backend._rooms.hand_over(R, slim_pod({**guard, "metadata": metadata}))
    assert cluster.pod(_guard(target)) is not None


async def test_a_move_right_after_another_inherits_no_guard(cluster, stage):
    """What the first one kept is given back though the second is on record already."""
    source, _ = await _moved(stage, cluster, make_job)
    assert cluster.pod(_guard(source)) is not None
    await _recorded(cluster, stage.keeper)
    await stage.over(R)
    await stage.hold("m-2", R, source)
    await stage.until(lambda: cluster.pod(_guard(source)) is None)


async def test_what_is_no_move_keeps_nothing(cluster, api, stage):
    """Who is scaled or preempted leaves its room to others."""
    await make_job(api, "train")
    started = await stage.hear(ReplicaStarted)
    await stage.leave(R, started.incarnation, move="scale-in-1")
    await stage.hear(ReplicaGone)
    assert not [name for what, name in api.writes if what == "create" and name.startswith("specon-room-")]


# -- without class or permission -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("forbidden", "said"),
    [
        ("guards", "no PriorityClass"),
        ("status", "cannot patch pods/status"),
        ("", "--guard-priority-class"),
    ],
)
async def test_without_class_or_permission_a_move_goes_on_as_before_and_it_is_said_once(
    cluster, api, caplog, forbidden, said
):
    """Its target is held by the placeholder, which gives way."""
    api.forbidden = (forbidden,) if forbidden else ()
    rooms = msgspec.structs.replace(GUARDED.rooms, guard_class="guards" if forbidden else "")
    with caplog.at_level(logging.WARNING):
        async with Stage(api, settings=msgspec.structs.replace(GUARDED, rooms=rooms)) as stage:
            _, target = await _moved(stage, cluster, make_job)
            assert stage.said(ReplicaStarted)[-1].node == target
            left = [pod for pod in cluster.pods() if pod["metadata"]["name"].startswith("specon-room-")]
            assert left == []
    assert len([record for record in caplog.records if said in record.getMessage()]) == 1


# -- a manager that is killed --------------------------------------------------------------------


@pytest.mark.parametrize("make", [make_job, make_stateful_set])
@pytest.mark.parametrize("after", range(13))
async def test_the_next_manager_goes_on_wherever_the_first_one_was_killed(cluster, api, make, after):
    """After each single write. The new pod gets its room by a handover, and nothing is left behind."""
    keeper = Keeper()
    async with Stage(api, settings=GUARDED, keeper=keeper) as first:
        started, target = await _held(first, cluster, make)
        await _recorded(cluster, keeper)
        pins = {R: target}
        _webhook(cluster, pins)
        api.writes.clear()

        def killed():
            first.leads = len(api.writes) < after

        api.stop = killed
        first.leads = after > 0
        await _orders(first, started, target)
        known = first.known()
    api.stop = lambda: None
    was_gone = bool(first.said(ReplicaGone))
    state = TransactionState.COMING if was_gone else TransactionState.LEAVING
    move = _move(state, started.node, target)
    second = Stage(api, settings=GUARDED, keeper=keeper, state=known.with_transaction(move))
    async with second:
        if not was_gone:
            await second.leave(R, started.incarnation)
            await second.hear(ReplicaGone, incarnation=started.incarnation)
        await second.come(R, target)
        await second.until(lambda: _runs(cluster, started))
        (pod,) = cluster.pods(app="training")
        assert pod["spec"]["nodeName"] == target
        name = pod["metadata"]["name"]
        await second.until(lambda: ("ungate", name) in api.writes)
        assert cluster.pod(_guard(started.node))["spec"]["nodeName"] == started.node
        assert api.writes.index(("nominate", name)) < api.writes.index(("ungate", name))
        keeper.references.clear()
        await second.over(R)
        await second.until(lambda: not [p for p in cluster.pods() if "room" in p["metadata"]["name"]])


async def _orders(stage, started, target):
    """Give the orders of a move until it is done, or until this manager was killed."""
    try:
        await stage.leave(R, started.incarnation)
        await stage.until(lambda: stage.said(ReplicaGone) or not stage.leads)
        if stage.leads:
            await stage.come(R, target)
            await stage.until(lambda: len(stage.said(ReplicaStarted)) > 1 or not stage.leads)
    except NotLeadingError:
        pass


def _runs(cluster, started):
    found = [pod for pod in cluster.pods(app="training") if pod["metadata"]["uid"] != started.incarnation]
    return any(pod["status"].get("phase") == "Running" for pod in found)


async def test_a_new_manager_keeps_the_way_back_of_what_has_to_prove_itself(cluster, api):
    """And nothing else."""
    keeper = Keeper()
    async with Stage(api, settings=GUARDED, keeper=keeper) as first:
        source, target = await _moved(first, cluster, make_job)
        known = first.known()
    move = _move(TransactionState.VERIFYING, source, target)
    async with Stage(api, settings=GUARDED, state=known.with_transaction(move), keeper=keeper):
        assert cluster.pod(_guard(source)) is not None
    async with Stage(api, settings=GUARDED, state=known, keeper=keeper) as third:
        await third.until(lambda: cluster.pod(_guard(source)) is None)


# -- what is needed ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "attempt", "expected"),
    [
        (TransactionState.CHECKPOINTING, 1, set()),
        (TransactionState.LEAVING, 1, {(R, "a"), (R, "b"), (R1, "c")}),
        (TransactionState.COMING, 1, {(R, "a"), (R, "b"), (R1, "c")}),
        (TransactionState.VERIFYING, 1, {(R, "a")}),
        (TransactionState.LEAVING, 2, {(R, "a"), (R1, "c")}),
        (TransactionState.COMING, 2, {(R, "a"), (R1, "c")}),
        (TransactionState.VERIFYING, 2, set()),
    ],
)
def test_what_a_gang_needs_in_each_state(state, attempt, expected):
    """Both ways of who moves and the place of who stays, until what is wanted runs; then the way back."""
    move = msgspec.structs.replace(
        _move(state, "a", "b", attempt=attempt), before={R: "a", R1: "c"}, after={R: "b", R1: "c"}, whole=True
    )
    assert {(guard.replica, guard.node) for guard in guards_of(move)} == expected
    assert guards_of(msgspec.structs.replace(move, kind=Kind.SCALE_OUT)) == []
