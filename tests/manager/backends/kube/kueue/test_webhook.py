"""Who gets our gate: new Workloads of the queues that are named, while somebody leads who would open it."""

import base64
import json

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from specon_manager.backends.kube.kueue.decision import PreemptionGateSettings
from specon_manager.backends.kube.kueue.facts import GATE
from specon_manager.backends.kube.kueue.webhook import PATH, answer_workload, gate_routes, is_gated
from support.kube.kueue_api import DEFINITIONS

ALL = PreemptionGateSettings(enabled=True)
WORKLOADS = {"group": "kueue.x-k8s.io", "version": "v1beta2", "resource": "workloads"}


class Queues:
    """LocalQueue `local` of namespace `training` is that of ClusterQueue `team`."""

    def cluster_queue(self, namespace, name):
        return "team" if (namespace, name) == ("training", "local") else ""


def asked(spec=None, annotations=None, **changes):
    metadata = {"name": "job-a", "namespace": "training", "annotations": annotations or {}}
    workload = {"metadata": metadata, "spec": {"queueName": "local", **(spec or {})}}
    request = {"uid": "r", "resource": WORKLOADS, "operation": "CREATE", "namespace": "training"}
    return {**request, "object": workload, **changes}


def patched(request):
    """Return the Workload as the server keeps it."""
    response = answer_workload(request, gate=True)["response"]
    (operation,) = json.loads(base64.b64decode(response["patch"]))
    spec = request["object"]["spec"]
    if operation["path"].endswith("/-"):
        spec["preemptionGates"].append(operation["value"])
    else:
        spec["preemptionGates"] = operation["value"]
    kept, causes = DEFINITIONS["workloads"](None, request["object"])
    assert causes == []
    return kept


def test_a_new_workload_gets_our_gate_beside_those_that_it_has():
    """Kueue's definition takes it."""
    assert is_gated(asked(), ALL, Queues())
    assert patched(asked())["spec"]["preemptionGates"] == [{"name": GATE}]
    other = {"name": "kueue.x-k8s.io/multikueue"}
    assert patched(asked({"preemptionGates": [other]}))["spec"]["preemptionGates"] == [other, {"name": GATE}]


@pytest.mark.parametrize(
    "request_",
    [
        asked({"preemptionGates": [{"name": GATE}]}),
        asked({"preemptionGates": [{"name": f"g{index}"} for index in range(8)]}),
        asked({"queueName": ""}),
        asked({"queueName": 7}),
        asked(annotations={"kueue.x-k8s.io/workload-slice-replacement-for": "training/job-0"}),
        asked(operation="UPDATE"),
        asked(subResource="status"),
        asked(resource={**WORKLOADS, "resource": "clusterqueues"}),
        asked(resource={"resource": "workloads"}),
        asked(object=None),
        asked(object={"spec": 3}),
    ],
)
def test_anything_else_passes_as_it_is(request_):
    """What has it, has no room for it, waits in no queue, or grows a job in place of a slice of it."""
    assert not is_gated(request_, ALL, Queues())


def test_only_the_queues_that_are_named():
    """The LocalQueue says which ClusterQueue it is; one that is not known is none of those."""
    team = PreemptionGateSettings(enabled=True, cluster_queues=("team",))
    assert is_gated(asked(), team, Queues())
    assert not is_gated(asked({"queueName": "other"}), team, Queues())
    assert not is_gated(asked(namespace="elsewhere"), team, Queues())


@pytest.mark.parametrize(("leads", "outcome"), [(True, "gated"), (False, "allowed")])
async def test_while_nobody_leads_nobody_gets_a_gate(leads, outcome):
    """Nobody would open it."""
    outcomes = []
    app = web.Application()
    app.add_routes(gate_routes(ALL, Queues(), lambda: leads, lambda *one: outcomes.append(one)))
    async with TestClient(TestServer(app)) as client:
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked()}
        answer = await client.post(PATH, json=review)
        assert ("patch" in (await answer.json())["response"]) is leads
        assert (await client.post(PATH, data=b"{")).status == 400
    assert outcomes == [("preemption-gate", outcome), ("preemption-gate", "unreadable")]
