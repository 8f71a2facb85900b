"""How an API server calls a mutating webhook."""

import contextlib

import pytest

from support.kube.manifests import pod
from support.kube.webhook import serving

PATH = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
INJECT = "specon.io/inject"
CONDITION = (
    f"has(object.metadata.annotations) && '{INJECT}' in object.metadata.annotations"
    f" && object.metadata.annotations['{INJECT}'] == 'true'"
)


@contextlib.asynccontextmanager
async def registered(kube, webhook, **changes):
    """Register the webhook for this test's namespace alone, and wait until the server knows it."""
    name = f"{kube.namespace}.specon.io"
    hook = {
        "name": "inject.specon.io",
        "clientConfig": {"url": webhook.url, "caBundle": webhook.bundle},
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
        ],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": kube.namespace}},
        "matchConditions": [{"name": "annotated", "expression": CONDITION}],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 5,
        "reinvocationPolicy": "IfNeeded",
    }
    body = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
    body |= {"metadata": {"name": name}, "webhooks": [hook | changes]}
    answer = await kube.ask("POST", PATH, body)
    assert answer.status == 201, answer.body

    async def known() -> bool:
        await kube.create("pods", annotated("probe"), dryRun="All")
        return bool(webhook.seen)

    try:
        await kube.eventually(known)
        webhook.seen.clear()
        yield
    finally:
        await kube.ask("DELETE", f"{PATH}/{name}")


def annotated(name: str, **metadata):
    return pod(name, metadata={"annotations": {INJECT: "true"}, **metadata})


async def test_only_annotated_pods_are_shown(kube, tmp_path):
    """A match condition on an annotation keeps other pods away from the webhook; its patch is applied."""
    async with serving(tmp_path) as webhook, registered(kube, webhook):
        assert "labels" not in (await kube.create("pods", pod("plain"))).body["metadata"]
        made = await kube.create("pods", annotated("trainer"))
        assert made.body["metadata"]["labels"] == {"seen": "yes"}
        assert [request["name"] for request in webhook.seen] == ["trainer"]
        assert webhook.seen[0]["namespace"] == kube.namespace
        assert (webhook.seen[0]["operation"], webhook.seen[0]["resource"]["resource"]) == ("CREATE", "pods")


async def test_generated_name_is_not_told(kube, tmp_path):
    """The name of a pod that gets it from the server is not in the request, its generateName is."""
    body = annotated("")
    body["metadata"] |= {"generateName": "training-"}
    del body["metadata"]["name"]
    async with serving(tmp_path) as webhook, registered(kube, webhook):
        made = await kube.create("pods", body)
        assert made.name.startswith("training-")
        [request] = webhook.seen
        assert request.get("name", "") == ""
        assert request["object"]["metadata"]["generateName"] == "training-"


async def test_refusal_is_told(kube, tmp_path):
    """The creator of a pod gets the webhook's objection, with the webhook's code."""
    async with serving(tmp_path) as webhook, registered(kube, webhook):
        webhook.allowed = False
        answer = await kube.create("pods", annotated("trainer"))
        assert (answer.status, "7 is not below 1" in answer.message) == (422, True), answer.body
        assert "inject.specon.io" in answer.message


@pytest.mark.parametrize(("policy", "status"), [("Ignore", 201), ("Fail", 500)])
async def test_webhook_that_is_away(kube, tmp_path, policy, status):
    """With nobody there Ignore lets the pod through as it is, Fail refuses it."""
    async with serving(tmp_path) as webhook, registered(kube, webhook, failurePolicy=policy):
        name = f"{kube.namespace}.specon.io"
        found = await kube.ask("GET", f"{PATH}/{name}")
        found.body["webhooks"][0]["clientConfig"]["url"] = "https://127.0.0.1:1/mutate"
        assert (await kube.ask("PUT", f"{PATH}/{name}", found.body)).status == 200

        async def noticed() -> bool:
            webhook.seen.clear()
            await kube.create("pods", annotated("probe"), dryRun="All")
            return not webhook.seen

        await kube.eventually(noticed)
        answer = await kube.create("pods", annotated("trainer"))
        assert answer.status == status, answer.body
        if status == 201:
            assert "labels" not in answer.body["metadata"]
