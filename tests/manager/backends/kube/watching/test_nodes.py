from hypothesis import given
from hypothesis import strategies as st

from specon_manager.backends.kube.objects.pod import NodeInfo, PodInfo, slim_pod
from specon_manager.backends.kube.watching.nodes import NodeBook
from specon_manager.model.events import NodeGone, NodeObserved
from specon_manager.model.resources import Resources
from support.kube.stage import template


def _node(name="n", cpu=16.0, *, ready=True):
    room = Resources(cpu=cpu, memory=64e9)
    return NodeInfo(uid=name, name=name, allocatable=room, labels={}, taints=(), ready=ready)


def _other(uid="p", cpu=1.0, node="n", phase="Running"):
    return PodInfo(uid=uid, namespace="a", name=uid, node=node, phase=phase, requests=Resources(cpu=cpu))


def _ours(uid="r", *, running=True):
    pod = template(nodeName="n")
    pod["metadata"] |= {"name": uid, "namespace": "a", "uid": uid}
    if running:
        trainer = pod["spec"]["containers"][0]["name"]
        pod["status"] = {"containerStatuses": [{"name": trainer, "state": {"running": {}}}]}
    return slim_pod(pod)


def test_capacity_is_what_other_peoples_pods_leave():
    """Replicas are counted by the plan, and are no loss of capacity; usage counts them all."""
    book = NodeBook()
    book.node_changed(None, _node())
    book.pod_changed(None, _other(cpu=4))
    book.pod_changed(None, _ours())
    [seen] = book.events()
    assert isinstance(seen, NodeObserved)
    assert (seen.capacity.cpu, seen.usage.cpu) == (12.0, 5.0)


def test_a_replica_that_is_bound_and_does_not_run_yet_has_taken_its_room():
    """The plan counts it from its start on; until then nobody else must be given its room."""
    book = NodeBook()
    book.node_changed(None, _node())
    book.pod_changed(None, _ours(running=False))
    assert [event.capacity.cpu for event in book.events()] == [15.0]
    book.pod_changed(_ours(running=False), _ours())
    assert [event.capacity.cpu for event in book.events()] == [16.0]


def test_a_pod_that_ended_gives_its_room_back():
    """Though its object is still there."""
    book = NodeBook()
    book.node_changed(None, _node())
    book.pod_changed(None, _other(cpu=4))
    book.events()
    book.pod_changed(_other(cpu=4), _other(cpu=4, phase="Succeeded"))
    assert [event.capacity.cpu for event in book.events()] == [16.0]


def test_only_what_changed_noticeably_is_told():
    """A usage within 5 % of the capacity of what was told is no news; any change of the capacity is."""
    book = NodeBook()
    book.node_changed(None, _node())
    book.events()
    book.note_usage({"n": Resources(cpu=0.7)})
    assert book.events() == []
    book.note_usage({"n": Resources(cpu=0.9)})
    assert [event.usage.cpu for event in book.events()] == [0.9]
    book.node_changed(_node(), _node(ready=False))
    assert [event.ready for event in book.events()] == [False]
    book.node_changed(_node(ready=False), _node(ready=False))
    assert book.events() == []


def test_a_node_that_an_earlier_manager_knew_and_is_not_there_is_gone():
    """Once."""
    book = NodeBook()
    book.note_known(["lost"])
    assert book.events() == [NodeGone(node="lost")]
    assert book.events() == []


def test_a_pod_with_a_sidecar_that_is_no_replica_counts_as_foreign():
    """Else its room would be given away."""
    book = NodeBook()
    book.node_changed(None, _node())
    book.pod_changed(None, _ours())
    book.count_as_foreign(_ours())
    assert [event.capacity.cpu for event in book.events()] == [15.0]


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["n", "m", ""]), st.booleans()), max_size=40))
def test_capacity_follows_from_the_pods_that_are_there_in_whatever_order_they_came(changes):
    """The account after any course of changes is that of a fresh one."""
    book, there = NodeBook(), {}
    for name in ("n", "m"):
        book.node_changed(None, _node(name))
    for number, node, gone in changes:
        before = there.pop(number, None)
        after = (
            None
            if gone
            else _other(uid=str(number), cpu=1 + number, node=before.node if before and before.node else node)
        )
        if after is not None:
            there[number] = after
        if before is not None or after is not None:
            book.pod_changed(before, after)
    told = {event.node: event.capacity.cpu for event in book.events()}
    for name in ("n", "m"):
        taken = sum(1 + number for number, pod in there.items() if pod.node == name)
        assert told[name] == max(0.0, 16.0 - taken)
