"""The webhook over HTTP, and the configuration by which the API server finds it."""

import asyncio
import io
import json

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from specon_manager.backends.kube.admission.injection import InjectionSettings
from specon_manager.backends.kube.admission.reviews import MAX_REVIEW_BYTES
from specon_manager.backends.kube.admission.webhook import (
    WebhookSettings,
    webhook_configuration,
    webhook_routes,
)
from support.kube.pods import annotated, patched, pod, review_of

SETTINGS = InjectionSettings(image="specon/sidecar:0.2.0", manager="https://specon:443")


@pytest.fixture
async def webhook():
    """Yield a client, the pins that are in force, and what was counted."""
    pins, counted = {}, []
    routes = webhook_routes(lambda: SETTINGS, lambda: pins, lambda *what: counted.append(what))
    application = web.Application(client_max_size=1024)
    application.add_routes(routes)
    async with TestClient(TestServer(application)) as client:
        yield client, pins, counted


async def post(client, body, path="/v1/admission/inject"):
    data = io.BytesIO(body if isinstance(body, bytes) else json.dumps(body).encode())
    async with client.post(path, data=data) as answer:
        return answer.status, await answer.json()


async def test_a_pod_is_reviewed_with_the_pins_of_the_moment(webhook):
    """Pins change while the server runs."""
    client, pins, counted = webhook
    status, said = await post(client, review_of(pod("mnist")))
    assert status == 200
    assert "nodeSelector" not in patched(pod("mnist"), said)["spec"]
    pins["ml/mnist/worker/0"] = "node-3"
    _, said = await post(client, review_of(pod("mnist")))
    assert patched(pod("mnist"), said)["spec"]["nodeSelector"] == {"kubernetes.io/hostname": "node-3"}
    assert counted == [("inject", "patched")] * 2


async def test_a_review_waits_until_the_pins_are_known():
    """A manager that has just been started would let a pod that moves go anywhere."""
    pins, known = {}, asyncio.Event()
    routes = webhook_routes(lambda: SETTINGS, lambda: pins, known=known.wait)
    application = web.Application()
    application.add_routes(routes)
    async with TestClient(TestServer(application)) as client:
        asked = asyncio.create_task(post(client, review_of(pod("mnist"))))
        await asyncio.sleep(0.1)
        pins["ml/mnist/worker/0"] = "node-3"
        known.set()
        _, said = await asked
    assert patched(pod("mnist"), said)["spec"]["nodeSelector"] == {"kubernetes.io/hostname": "node-3"}


async def test_what_a_move_awaits_is_gated_at_either_entry():
    """Also where it is in no queue; the second entry changes nothing."""
    replica = "ml/mnist/worker/0"
    routes = webhook_routes(lambda: SETTINGS, lambda: {replica: "node-3"}, arriving=lambda: [replica])
    application = web.Application()
    application.add_routes(routes)
    async with TestClient(TestServer(application)) as client:
        _, said = await post(client, review_of(pod("mnist")))
        first = patched(pod("mnist"), said)
        assert first["spec"]["schedulingGates"] == [{"name": "specon.io/admission"}]
        _, said = await post(client, review_of(first), "/v1/admission/gate")
        assert patched(first, said) == first


async def test_both_entries_are_served(webhook):
    """What is denied is 200 too: the answer says it."""
    client, _, counted = webhook
    status, said = await post(client, review_of(pod(annotations=annotated(goal="x"))), "/v1/admission/gate")
    assert (status, said["response"]["allowed"]) == (200, False)
    await post(client, review_of(pod(annotations={})))
    assert counted == [("gate", "denied"), ("inject", "allowed")]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b"{}", b"[" * 100_000])
async def test_what_is_no_review_is_a_bad_request(webhook, body):
    """400, whatever it is."""
    client, _, counted = webhook
    status, said = await post(client, body)
    assert (status, set(said)) == (400, {"error"})
    assert counted == [("inject", "unreadable")]


async def test_a_body_without_end_is_not_read(webhook):
    """413 beyond what an object may have; the bound of other messages does not count here."""
    client, _, _ = webhook
    manifest = pod("mnist")
    manifest["metadata"]["annotations"]["other"] = "x" * 200_000
    assert (await post(client, review_of(manifest)))[0] == 200
    assert (await post(client, b" " * (MAX_REVIEW_BYTES + 1)))[0] == 413


def test_the_configuration_is_what_the_chart_installs():
    """As a whole, for a comparison with what the chart renders."""
    settings = WebhookSettings(name="specon", namespace="specon-system", service="specon-webhook")
    common = {
        "admissionReviewVersions": ["v1"],
        "matchPolicy": "Equivalent",
        "reinvocationPolicy": "IfNeeded",
        "sideEffects": "None",
        "timeoutSeconds": 5,
        "namespaceSelector": {
            "matchExpressions": [
                {
                    "key": "kubernetes.io/metadata.name",
                    "operator": "NotIn",
                    "values": ["kube-system", "specon-system"],
                }
            ]
        },
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["pods"],
                "scope": "Namespaced",
            }
        ],
    }
    service = {"namespace": "specon-system", "name": "specon-webhook", "port": 443}
    asked = (
        "has(object.metadata.annotations) && 'specon.io/inject' in object.metadata.annotations && "
        "object.metadata.annotations['specon.io/inject'] != 'false'"
    )
    assert webhook_configuration(settings, None) == {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "specon"},
        "webhooks": [
            {
                **common,
                "name": "inject.specon.io",
                "clientConfig": {"service": {**service, "path": "/v1/admission/inject"}},
                "failurePolicy": "Ignore",
                "matchConditions": [{"name": "annotated", "expression": asked}],
            },
            {
                **common,
                "name": "gate.specon.io",
                "clientConfig": {"service": {**service, "path": "/v1/admission/gate"}},
                "failurePolicy": "Fail",
                "matchConditions": [
                    {
                        "name": "annotated",
                        "expression": f"{asked} && 'specon.io/queue' in object.metadata.annotations",
                    }
                ],
            },
        ],
    }


def test_a_manager_outside_the_cluster_is_called_by_its_url():
    """With the authorities that it is to be trusted by."""
    settings = WebhookSettings(name="s", namespace="n", service="", url="https://10.0.0.1:8443/")
    webhooks = webhook_configuration(settings, "UEVN")["webhooks"]
    assert webhooks[0]["clientConfig"] == {
        "url": "https://10.0.0.1:8443/v1/admission/inject",
        "caBundle": "UEVN",
    }
