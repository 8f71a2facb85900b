"""Eviction, removal and re-creation of pods."""

import contextlib

import pytest

from specon_manager.backends.kube.admission.webhook import WebhookSettings
from specon_manager.backends.kube.interception.eviction import Answer, answer_eviction, read_eviction
from specon_manager.backends.kube.interception.webhook import eviction_webhook
from support.kube.client import MERGE
from support.kube.manifests import pod
from support.kube.webhook import serving

PDBS = "policy/v1/poddisruptionbudgets"
BOUND = {"nodeName": "no-such-node"}
"""A pod on a node that nobody runs: it stays until its grace period is cut to nothing."""


async def _budget(kube) -> None:
    """Make a running pod and a budget that allows no disruption of it."""
    await kube.create("pods", pod(metadata={"labels": {"app": "trainer"}}, **BOUND))
    running = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    assert (await kube.patch("pods", "trainer", running, "status", form=MERGE)).status == 200
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "trainer"}}}
    made = await kube.create(PDBS, {"metadata": {"name": "keep"}, "spec": spec})
    assert made.status == 201
    known = {
        "observedGeneration": 1,
        "disruptionsAllowed": 0,
        "currentHealthy": 1,
        "desiredHealthy": 1,
        "expectedPods": 1,
    }
    assert (await kube.patch(PDBS, "keep", {"status": known}, "status", form=MERGE)).status == 200


async def test_budget_blocks_an_eviction(kube):
    """A budget that allows nothing answers 429, cause DisruptionBudget, no Retry-After, dry or not."""
    await _budget(kube)
    for options in ({}, {"dryRun": ["All"]}):
        answer = await kube.evict("trainer", **options)
        assert (answer.status, answer.body["reason"], answer.causes) == (
            429,
            "TooManyRequests",
            ["DisruptionBudget"],
        )
        assert "The disruption budget keep needs 1 healthy pods and has 1 currently" in str(
            answer.body["details"]
        )
        assert "retryAfterSeconds" not in answer.body["details"]


async def test_budget_unseen_by_its_controller(kube):
    """A budget that its controller has not looked at yet blocks, with a time after which to ask again."""
    await _budget(kube)
    await kube.patch(PDBS, "keep", {"status": {"observedGeneration": 0}}, "status", form=MERGE)
    answer = await kube.evict("trainer")
    if kube.endpoint.name in {"fake", "kube-apiserver"}:  # elsewhere the controller may have been quicker
        assert answer.body["details"].get("retryAfterSeconds") == 10
    assert (answer.status, answer.causes) == (429, ["DisruptionBudget"])


async def test_budget_does_not_block_a_delete(kube):
    """DELETE does not ask budgets."""
    await _budget(kube)
    answer = await kube.delete("pods", "trainer")
    assert (answer.status, "deletionTimestamp" in answer.body["metadata"]) == (200, True)


async def test_pending_pod_is_exempt(kube):
    """A pod that does not run yet is evicted whatever its budget says."""
    await kube.create("pods", pod(metadata={"labels": {"app": "trainer"}}))
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "trainer"}}}
    await kube.create(PDBS, {"metadata": {"name": "keep"}, "spec": spec})
    assert (await kube.evict("trainer")).status == 201


async def test_dry_eviction_leaves_the_pod(kube):
    """A dry run of an allowed eviction answers 201 and changes nothing."""
    made = await kube.create("pods", pod(**BOUND))
    assert (await kube.evict("trainer", dryRun=["All"])).status == 201
    found = await kube.get("pods", "trainer")
    assert (found.version, found.body["metadata"].get("deletionTimestamp")) == (made.version, None)


async def test_eviction_of_another_incarnation(kube):
    """An eviction with another uid is a conflict and leaves the pod alone."""
    await kube.create("pods", pod(**BOUND))
    answer = await kube.evict("trainer", preconditions={"uid": "11111111-1111-1111-1111-111111111111"})
    assert (answer.status, answer.body["reason"]) == (409, "Conflict"), answer.body
    assert "UID" in answer.message, answer.message
    assert "deletionTimestamp" not in (await kube.get("pods", "trainer")).body["metadata"]


async def test_eviction_marks_and_lengthens(kube):
    """An eviction may give more time than the pod asks for, and leaves the condition DisruptionTarget."""
    await kube.create("pods", pod(**BOUND))
    assert (await kube.evict("trainer", gracePeriodSeconds=120)).status == 201
    found = (await kube.get("pods", "trainer")).body
    assert found["metadata"]["deletionGracePeriodSeconds"] == 120
    marked = [entry for entry in found["status"]["conditions"] if entry["type"] == "DisruptionTarget"]
    assert [(entry["status"], entry["reason"]) for entry in marked] == [("True", "EvictionByEvictionAPI")]


async def test_second_eviction_of_an_ending_pod(kube):
    """An eviction of a pod that ends already is accepted."""
    await kube.create("pods", pod(**BOUND))
    await kube.evict("trainer", gracePeriodSeconds=120)
    assert (await kube.evict("trainer", gracePeriodSeconds=120)).status == 201


async def test_eviction_of_nobody(kube):
    """An eviction of a pod that is gone is 404."""
    assert (await kube.evict("trainer")).status == 404


async def test_grace_of_a_live_pod_is_immutable(kube):
    """The termination grace period cannot be changed on a live pod."""
    await kube.create("pods", pod())
    answer = await kube.patch("pods", "trainer", {"spec": {"terminationGracePeriodSeconds": 60}})
    assert answer.status == 422


async def test_grace_gets_shorter_only(kube):
    """A second DELETE can cut the time that is left, not add to it; with none left the object is gone."""
    await kube.create("pods", pod(**BOUND))
    await kube.delete("pods", "trainer", gracePeriodSeconds=60)
    await kube.delete("pods", "trainer", gracePeriodSeconds=90)
    found = await kube.get("pods", "trainer")
    assert found.body["metadata"]["deletionGracePeriodSeconds"] == 60
    await kube.delete("pods", "trainer", gracePeriodSeconds=30)
    found = await kube.get("pods", "trainer")
    assert found.body["metadata"]["deletionGracePeriodSeconds"] == 30
    await kube.delete("pods", "trainer", gracePeriodSeconds=0)
    assert (await kube.get("pods", "trainer")).status == 404


async def test_same_name_waits_for_the_old_object(kube):
    """While the old object ends its name is taken; then the cleaned manifest of it is accepted."""
    made = await kube.create("pods", pod(**BOUND))
    await kube.delete("pods", "trainer")
    again = _cleaned(made.body)
    answer = await kube.create("pods", again)
    assert (answer.status, answer.body["reason"]) == (409, "AlreadyExists")
    await kube.delete("pods", "trainer", gracePeriodSeconds=0)
    again["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "node-1"}
    answer = await kube.create("pods", again)
    assert answer.status == 201
    assert answer.uid != made.uid


async def test_delete_of_another_incarnation(kube):
    """DELETE with another uid, or an old resource version, is a conflict."""
    made = await kube.create("pods", pod(**BOUND))
    await kube.patch("pods", "trainer", {"metadata": {"labels": {"a": "b"}}})
    for wanted in ({"uid": "11111111-1111-1111-1111-111111111111"}, {"resourceVersion": made.version}):
        answer = await kube.delete("pods", "trainer", preconditions=wanted)
        assert (answer.status, answer.body["reason"]) == (409, "Conflict")


async def test_finalizer_keeps_the_object(kube):
    """A pod without a node but with a finalizer stays, marked as ending, until the finalizer is gone."""
    await kube.create("pods", pod(metadata={"finalizers": ["specon.io/test"]}))
    await kube.delete("pods", "trainer")
    found = await kube.get("pods", "trainer")
    assert "deletionTimestamp" in found.body["metadata"]
    answer = await kube.patch("pods", "trainer", {"metadata": {"finalizers": None}}, form=MERGE)
    assert answer.status == 200
    assert (await kube.get("pods", "trainer")).status == 404


async def test_resize_is_not_for_devices(kube):
    """The sub-resource resize takes cpu and memory, nothing else."""
    await kube.create("pods", pod())
    for requests, status in (({"cpu": "20m"}, 200), ({"nvidia.com/gpu": "1"}, 422)):
        resources = {"requests": requests, **({"limits": requests} if status == 422 else {})}
        change = {"spec": {"containers": [{"name": "main", "resources": resources}]}}
        answer = await kube.patch("pods", "trainer", change, "resize")
        assert answer.status == status, answer.body


def _cleaned(value):
    metadata = value["metadata"]
    spec = {
        field: part
        for field, part in value["spec"].items()
        if field not in {"nodeName", "ephemeralContainers"}
    }
    kept = {field: metadata[field] for field in ("name", "labels", "annotations") if field in metadata}
    return {"metadata": kept, "spec": spec}


WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


@contextlib.asynccontextmanager
async def reviewed(kube, webhook):
    """Have evictions in this test's namespace reviewed as ours are, and wait until the server knows it."""
    webhook.patches = False
    name = f"{kube.namespace}.specon.io"
    settings = WebhookSettings(name=name, namespace="specon", service="specon")
    body = eviction_webhook(settings, webhook.bundle, user="the-manager")
    (hook,) = body["webhooks"]
    hook["clientConfig"] = {"url": webhook.url, "caBundle": webhook.bundle}
    hook["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": kube.namespace}}
    assert (await kube.ask("POST", WEBHOOKS, body)).status == 201

    async def known() -> bool:
        await kube.evict("trainer", dryRun=["All"])
        return bool(webhook.seen)

    try:
        await kube.eventually(known)
        webhook.seen.clear()
        yield
    finally:
        await kube.ask("DELETE", f"{WEBHOOKS}/{name}")


@pytest.mark.parametrize(
    ("verdict", "status", "reason"), [("wait", 429, "TooManyRequests"), ("gone", 404, "NotFound")]
)
async def test_a_webhook_may_answer_an_eviction(kube, tmp_path, verdict, status, reason):
    """Its code and reason are passed on, before any budget is asked, and no Retry-After is made up."""
    await _budget(kube)
    async with serving(tmp_path) as webhook, reviewed(kube, webhook):
        webhook.allowed = False
        told = Answer(verdict=verdict, words="Eviction triggered evacuation: later")
        webhook.status = answer_eviction("", told)["response"]["status"]
        answer = await kube.evict("trainer")
        assert (answer.status, answer.body["reason"]) == (status, reason)
        assert "Eviction triggered evacuation" in answer.message
        assert "retryAfterSeconds" not in (answer.body.get("details") or {})
        (seen,) = webhook.seen
        found = read_eviction(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": seen}
        )
        assert found is not None
        assert (found.namespace, found.name, found.dry_run) == (kube.namespace, "trainer", False)


async def test_the_review_tells_of_a_dry_run_in_the_address_alone(kube, tmp_path):
    """One that only the Eviction asks for stands in the object under review, with the uid that is meant."""
    await kube.create("pods", pod(**BOUND))
    async with serving(tmp_path) as webhook, reviewed(kube, webhook):
        await kube.evict("trainer", dryRun=["All"], preconditions={"uid": "another"})
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "trainer"}}
        await kube.create("pods", body, "trainer", "eviction", dryRun="All")
        in_object, in_address = webhook.seen
        assert (in_object["dryRun"], in_address["dryRun"]) == (False, True)
        reviews = [
            read_eviction(
                {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
            )
            for request in webhook.seen
        ]
        assert [(each.dry_run, each.uid) for each in reviews] == [(True, "another"), (True, "")]
