"""The webhook that gives new Workloads our gate: atomically, before Kueue's scheduler sees them.

Kueue accepts foreign names: its webhook looks at no gate, and its schema asks for a name of at most 63
characters and for at most 8 gates.
"""

import asyncio
import base64
from collections.abc import Callable
from typing import Final

import msgspec
from aiohttp import web

from specon_manager.backends.kube.admission.bounded_route import bounded_route
from specon_manager.backends.kube.admission.review import read_request
from specon_manager.backends.kube.admission.reviews import decode_body
from specon_manager.backends.kube.admission.webhook import ReviewObserver, WebhookSettings, client_of
from specon_manager.backends.kube.kueue.decision import PreemptionGateSettings
from specon_manager.backends.kube.kueue.facts import GATE
from specon_manager.backends.kube.kueue.lookout import LocalQueues
from specon_manager.backends.kube.objects.fields import mapping, mappings
from specon_manager.backends.kube.transport.resources import Object

PATH: Final = "/v1/admission/preemption-gate"
ENTRY: Final = "preemption-gate"
MAX_BYTES: Final = 3 * 1024 * 1024
_MOST_GATES: Final = 8
_REPLACES: Final = "kueue.x-k8s.io/workload-slice-replacement-for"
"""On a slice of an elastic job: what it takes the place of is no victim."""


def gate_routes(
    settings: PreemptionGateSettings,
    local_queues: LocalQueues,
    led: Callable[[], bool],
    observer: ReviewObserver,
) -> list[web.RouteDef]:
    """Return the route. While nobody leads no gate is given: nobody would open it."""

    async def judge(body: bytes) -> tuple[Object, str]:
        # A Workload may have eight templates: decoding it must not keep a lease from being renewed.
        asked = read_request(await asyncio.get_running_loop().run_in_executor(None, decode_body, body))
        wanted = led() and is_gated(asked, settings, local_queues)
        return answer_workload(asked, gate=wanted), "gated" if wanted else "allowed"

    return [bounded_route(PATH, ENTRY, judge, observer, max_bytes=MAX_BYTES)]


def is_gated(asked: Object, settings: PreemptionGateSettings, local_queues: LocalQueues) -> bool:
    """Return whether the request is about a new Workload that is to get our gate."""
    resource, found = mapping(asked.get("resource")), mapping(asked.get("object"))
    if asked.get("operation") != "CREATE" or asked.get("subResource"):
        return False
    if (resource.get("group"), resource.get("resource")) != ("kueue.x-k8s.io", "workloads"):
        return False
    metadata, spec = mapping(found.get("metadata")), mapping(found.get("spec"))
    name = spec.get("queueName")
    if not isinstance(name, str) or not name or _REPLACES in mapping(metadata.get("annotations")):
        return False
    names = [each.get("name") for each in mappings(spec.get("preemptionGates"))]
    if GATE in names or len(names) >= _MOST_GATES:
        return False
    namespace = asked.get("namespace") or metadata.get("namespace") or ""
    return settings.covers(local_queues.cluster_queue(str(namespace), name))


def answer_workload(asked: Object, *, gate: bool) -> Object:
    """Return the review that lets the Workload pass, with our gate or as it is."""
    response: Object = {"uid": asked["uid"], "allowed": True}
    if gate:
        present = isinstance(mapping(asked["object"]["spec"]).get("preemptionGates"), list)
        path, value = "/spec/preemptionGates", {"name": GATE}
        add = {"op": "add", "path": f"{path}/-" if present else path, "value": value if present else [value]}
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(msgspec.json.encode([add])).decode("ascii")
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


def gate_webhook(settings: WebhookSettings, ca_bundle: str | None) -> Object:
    """Return the entry of the MutatingWebhookConfiguration."""
    return {
        "name": f"{ENTRY}.specon.io",
        "admissionReviewVersions": ["v1"],
        "clientConfig": client_of(settings, ca_bundle, PATH),
        "failurePolicy": "Ignore",
        "matchPolicy": "Equivalent",
        "reinvocationPolicy": "Never",
        "sideEffects": "None",
        "timeoutSeconds": 5,
        "rules": [
            {
                "apiGroups": ["kueue.x-k8s.io"],
                "apiVersions": ["v1beta2"],
                "operations": ["CREATE"],
                "resources": ["workloads"],
                "scope": "Namespaced",
            }
        ],
    }
