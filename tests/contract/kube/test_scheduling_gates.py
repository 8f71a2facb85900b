"""What may be done to a pod with scheduling gates, and to one without."""

import pytest

from support.kube.client import JSON, STRATEGIC
from support.kube.manifests import affinity, expression, gated, pod

A, B = expression("zone", "a"), expression("disk", "fast")
PREFERRED = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "preference": {"matchExpressions": [B]}}
        ]
    }
}
AWAY = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}
CHANGES = {
    "add a gate": ({}, {"schedulingGates": [{"name": "other.io/gate"}]}, 422, "only deletion is allowed"),
    "add a nodeSelector key": ({}, {"nodeSelector": {"zone": "a"}}, 200, ""),
    "change a nodeSelector value": (
        {"nodeSelector": {"zone": "a"}},
        {"nodeSelector": {"zone": "b"}},
        422,
        "only additions to spec.nodeSelector are allowed",
    ),
    "remove a nodeSelector key": (
        {"nodeSelector": {"zone": "a"}},
        {"nodeSelector": {"zone": None}},
        422,
        "only additions to spec.nodeSelector are allowed",
    ),
    "set a required affinity": ({}, {"affinity": affinity([A])}, 200, ""),
    "append an expression": ({"affinity": affinity([A])}, {"affinity": affinity([A, B])}, 200, ""),
    "add a second term": (
        {"affinity": affinity([A])},
        {"affinity": affinity([A], [B])},
        422,
        "no additions/deletions to non-empty NodeSelectorTerms list are allowed",
    ),
    "change an expression": (
        {"affinity": affinity([A])},
        {"affinity": affinity([expression("zone", "a", "b")])},
        422,
        "only additions are allowed",
    ),
    "set a preference": ({}, {"affinity": PREFERRED}, 200, ""),
    "add a toleration": (
        {},
        {"tolerations": [{"key": "gpu", "operator": "Exists"}]},
        200,
        "",
    ),
    "set an anti-affinity": ({}, {"affinity": AWAY}, 422, "pod updates may not change fields other than"),
    "change requests": (
        {},
        {"containers": [{"name": "main", "resources": {"requests": {"cpu": "20m"}}}]},
        422,
        "pod updates may not change fields other than",
    ),
    "add an environment variable": (
        {},
        {"containers": [{"name": "main", "env": [{"name": "A", "value": "b"}]}]},
        422,
        "pod updates may not change fields other than",
    ),
    "set a priority class": (
        {},
        {"priorityClassName": "system-node-critical"},
        422,
        "pod updates may not change fields other than",
    ),
}


async def test_gated_pod_says_that_it_is_gated(kube):
    """The server itself writes PodScheduled=False with reason SchedulingGated."""
    made = await kube.create("pods", gated())
    assert made.status == 201
    conditions = made.body["status"]["conditions"]
    assert [(entry["type"], entry["status"], entry["reason"]) for entry in conditions] == [
        ("PodScheduled", "False", "SchedulingGated")
    ]


@pytest.mark.parametrize("rule", CHANGES)
async def test_change_of_gated_pod(kube, rule):
    """While gated, where a pod may go can be narrowed, and nothing else can be changed."""
    spec, change, status, message = CHANGES[rule]
    await kube.create("pods", gated(**spec))
    if "tolerations" in change:
        kept = (await kube.get("pods", "trainer")).body["spec"].get("tolerations", [])
        change = {"tolerations": [*kept, *change["tolerations"]]}
    answer = await kube.patch("pods", "trainer", {"spec": change}, form=STRATEGIC)
    assert (answer.status, message in answer.message) == (status, True), answer.body


async def test_gated_pod_is_not_bound(kube):
    """A Binding of a gated pod is a conflict."""
    await kube.create("pods", gated())
    body = {"metadata": {"name": "trainer"}, "target": {"kind": "Node", "name": "node-0"}}
    answer = await kube.create("pods", body, "trainer", "binding")
    assert (answer.status, "non-empty .spec.schedulingGates" in answer.message) == (409, True)


async def test_gate_and_node_exclude_each_other(kube):
    """A pod with a gate cannot name its node when it is made."""
    answer = await kube.create("pods", gated(nodeName="node-0"))
    assert (answer.status, "cannot be set until all schedulingGates" in answer.message) == (422, True)


async def test_pending_pod_without_gates_cannot_be_pinned(kube):
    """Without a gate a nodeSelector is refused."""
    await kube.create("pods", pod())
    answer = await kube.patch("pods", "trainer", {"spec": {"nodeSelector": {"zone": "a"}}})
    assert (answer.status, "pod updates may not change fields" in answer.message) == (422, True)


async def test_gate_is_removed_by_json_patch(kube):
    """A gate is tested by its name and removed by its index."""
    await kube.create("pods", gated())
    operations = [
        {"op": "test", "path": "/spec/schedulingGates/0/name", "value": "specon.io/gate"},
        {"op": "remove", "path": "/spec/schedulingGates/0"},
    ]
    answer = await kube.patch("pods", "trainer", operations, form=JSON)
    assert answer.status == 200
    assert "schedulingGates" not in answer.body["spec"]
    assert (await kube.patch("pods", "trainer", operations, form=JSON)).status == 422


async def test_pin_and_release_in_one_patch(kube):
    """One strategic patch sets the nodeSelector and takes the gate away."""
    await kube.create("pods", gated())
    change = {
        "nodeSelector": {"kubernetes.io/hostname": "node-0"},
        "schedulingGates": [{"$patch": "delete", "name": "specon.io/gate"}],
    }
    answer = await kube.patch("pods", "trainer", {"spec": change})
    assert answer.status == 200
    assert answer.body["spec"]["nodeSelector"] == {"kubernetes.io/hostname": "node-0"}
    assert "schedulingGates" not in answer.body["spec"]


async def test_stale_release_is_a_conflict(kube):
    """The resource version in a patch is an optimistic lock."""
    made = await kube.create("pods", gated())
    await kube.patch("pods", "trainer", {"metadata": {"labels": {"a": "b"}}})
    change = {"metadata": {"resourceVersion": made.version}, "spec": {"nodeSelector": {"zone": "a"}}}
    answer = await kube.patch("pods", "trainer", change)
    assert (answer.status, answer.body["reason"]) == (409, "Conflict")


async def test_binding_ignores_the_selector(kube):
    """A direct Binding puts a pod where its nodeSelector forbids."""
    await kube.create("pods", pod(nodeSelector={"zone": "nowhere"}))
    body = {"metadata": {"name": "trainer"}, "target": {"kind": "Node", "name": "no-such-node"}}
    assert (await kube.create("pods", body, "trainer", "binding")).status == 201
    assert (await kube.get("pods", "trainer")).body["spec"]["nodeName"] == "no-such-node"


async def test_gated_pod_can_be_evicted(kube):
    """An eviction of a gated pod removes it at once."""
    await kube.create("pods", gated())
    assert (await kube.evict("trainer")).status == 201
    assert (await kube.get("pods", "trainer")).status == 404


async def test_released_pod_goes_where_it_was_pinned(controlled):
    """The scheduler takes a pod when its gate is gone, and only to the node of the same patch."""
    nodes = await controlled.ask("GET", "/api/v1/nodes")
    target = nodes.body["items"][-1]["metadata"]["labels"]["kubernetes.io/hostname"]
    await controlled.create("pods", gated(schedulerName="default-scheduler"))
    change = {
        "nodeSelector": {"kubernetes.io/hostname": target},
        "schedulingGates": [{"$patch": "delete", "name": "specon.io/gate"}],
    }
    await controlled.patch("pods", "trainer", {"spec": change})

    async def node() -> str:
        return (await controlled.get("pods", "trainer")).body["spec"].get("nodeName", "")

    assert await controlled.eventually(node) == nodes.body["items"][-1]["metadata"]["name"]
