"""What may be changed in a Job, and what becomes of it when its pods are moved."""

import datetime as dt

import pytest

from support.kube.client import MERGE, STRATEGIC
from support.kube.manifests import IGNORE_DISRUPTIONS, job

JOBS = "batch/v1/jobs"
NEW = [
    ({"podFailurePolicy": IGNORE_DISRUPTIONS}, {"restartPolicy": "OnFailure"}, 422),
    ({"podFailurePolicy": IGNORE_DISRUPTIONS}, {}, 201),
    ({}, {"restartPolicy": "Always"}, 422),
    ({"completionMode": "Indexed"}, {}, 201),
    ({"completionMode": "Indexed", "parallelism": 2}, {}, 422),
]
SUSPENDED = {
    "nodeSelector": ({"nodeSelector": {"a": "b"}}, 200),
    "tolerations": ({"tolerations": [{"key": "gpu", "operator": "Exists"}]}, 200),
    "schedulingGates": ({"schedulingGates": [{"name": "a.io/b"}]}, 200),
    "resources": ({"containers": [{"name": "main", "resources": {"requests": {"cpu": "20m"}}}]}, 200),
    "env": ({"containers": [{"name": "main", "env": [{"name": "A", "value": "b"}]}]}, 422),
    "priorityClassName": ({"priorityClassName": "system-node-critical"}, 422),
    "image": ({"containers": [{"name": "main", "image": "other:1"}]}, 422),
}
INDEXED = {"completionMode": "Indexed", "completions": 2, "parallelism": 2}
SCALES = [
    (INDEXED, {"parallelism": 3, "completions": 3}, 200),
    (INDEXED, {"completions": 3}, 422),
    (INDEXED, {"parallelism": 1}, 200),
    ({"completions": 2}, {"completions": 3}, 422),
    ({"completions": 2}, {"parallelism": 2}, 200),
    ({}, {"podFailurePolicy": IGNORE_DISRUPTIONS}, 422),
    ({}, {"backoffLimit": 3}, 200),
    ({}, {"selector": {"matchLabels": {"a": "b"}}}, 422),
]


@pytest.mark.parametrize(("spec", "template", "status"), NEW)
async def test_new_job(kube, spec, template, status):
    """A pod failure policy needs restartPolicy Never, an Indexed Job completions, no Job Always."""
    if not spec.get("completions") and spec.get("completionMode") == "Indexed" and status == 201:
        spec = {**spec, "completions": 1}
    assert (await kube.create(JOBS, job(template=template, **spec))).status == status


@pytest.mark.parametrize("field", SUSPENDED)
async def test_template_of_suspended_job(kube, field):
    """The template of a suspended Job that has no pods takes scheduling directives and resources."""
    change, status = SUSPENDED[field]
    await kube.create(JOBS, job(suspend=True))
    await kube.patch(JOBS, "training", _suspended("True"), "status", form=MERGE)
    answer = await kube.patch(JOBS, "training", {"spec": {"template": {"spec": change}}}, form=STRATEGIC)
    assert answer.status == status, answer.body


async def test_labels_and_annotations_of_suspended_template(kube):
    """Labels and annotations of a suspended Job's template can be changed."""
    await kube.create(JOBS, job(suspend=True))
    words = {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}}
    answer = await kube.patch(JOBS, "training", {"spec": {"template": words}}, form=MERGE)
    assert answer.status == 200
    assert answer.body["spec"]["template"]["metadata"]["annotations"] == {"c": "d"}


async def test_template_of_running_job_is_immutable(kube):
    """While a Job is not suspended its template cannot be changed."""
    await kube.create(JOBS, job())
    change = {"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}}
    answer = await kube.patch(JOBS, "training", change, form=MERGE)
    assert (answer.status, "field is immutable" in answer.message) == (422, True)


async def test_template_waits_until_the_pods_are_gone(kube):
    """Right after the suspension, with pods still active, the template cannot be changed yet."""
    await kube.create(JOBS, job())
    started = {"status": {"startTime": "2026-01-01T00:00:00Z", "active": 1}}
    await kube.patch(JOBS, "training", started, "status", form=MERGE)
    await kube.patch(JOBS, "training", {"spec": {"suspend": True}}, form=MERGE)
    change = {"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}}
    answer = await kube.patch(JOBS, "training", change, form=MERGE)
    if kube.endpoint.name in {"fake", "kube-apiserver"}:  # elsewhere a controller may have been quicker
        assert (answer.status, "field is immutable" in answer.message) == (422, True)
    now = {"status": {"active": None, **_suspended("True")["status"]}}
    await kube.patch(JOBS, "training", now, "status", form=MERGE)
    assert (await kube.patch(JOBS, "training", change, form=MERGE)).status == 200


@pytest.mark.parametrize(("spec", "change", "status"), SCALES)
async def test_change_of_size(kube, spec, change, status):
    """Only an Indexed Job changes its completions, together with its parallelism."""
    await kube.create(JOBS, job(**spec))
    answer = await kube.patch(JOBS, "training", {"spec": change}, form=MERGE)
    assert answer.status == status, answer.body


def _suspended(status):
    entry = {"type": "Suspended", "status": status, "lastTransitionTime": "2026-01-01T00:00:01Z"}
    return {"status": {"conditions": [entry]}}


# -- with controllers ----------------------------------------------------------------------------


async def test_suspend_pin_resume(controlled):
    """A Job with no retries is moved by suspending it, pinning its template and resuming it."""
    await controlled.create(JOBS, job(backoffLimit=0))
    first = await _running(controlled)
    await controlled.patch(JOBS, "training", {"spec": {"suspend": True}}, form=MERGE)
    await controlled.eventually(lambda: _none(controlled))
    nodes = (await controlled.ask("GET", "/api/v1/nodes")).body["items"]
    target = next(n["metadata"]["name"] for n in nodes if n["metadata"]["name"] != first["spec"]["nodeName"])
    change = {"spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/hostname": target}}}}}

    async def changed() -> bool:
        return (await controlled.patch(JOBS, "training", change, form=MERGE)).status == 200

    await controlled.eventually(changed)
    await controlled.patch(JOBS, "training", {"spec": {"suspend": False}}, form=MERGE)
    second = await _running(controlled)
    assert second["spec"]["nodeName"] == target
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    assert (await controlled.get(JOBS, "training")).body["status"].get("failed", 0) == 0


@pytest.mark.parametrize("evict", [False, True])
async def test_lost_pod_fails_a_job_without_retries(controlled, evict):
    """Without a pod failure policy both DELETE and an eviction use up a retry."""
    await controlled.create(JOBS, job(backoffLimit=0))
    pod = await _running(controlled)
    await _end(controlled, pod, evict=evict)
    assert await controlled.eventually(lambda: _failed(controlled), seconds=60) == "BackoffLimitExceeded"


async def test_delete_is_no_disruption(controlled):
    """A policy that ignores disruptions does not help against a DELETE."""
    await controlled.create(JOBS, job(backoffLimit=0, podFailurePolicy=IGNORE_DISRUPTIONS))
    await _end(controlled, await _running(controlled), evict=False)
    assert await controlled.eventually(lambda: _failed(controlled), seconds=60) == "BackoffLimitExceeded"


async def test_ignored_eviction_is_replaced(controlled):
    """With that policy an evicted pod is made again under the same index and nothing is counted."""
    spec = {**INDEXED, "backoffLimit": 0, "podFailurePolicy": IGNORE_DISRUPTIONS}
    await controlled.create(JOBS, job(**spec))
    pod = await _running(controlled, count=2)
    await _end(controlled, pod, evict=True)
    index = pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]

    async def replaced():
        found = (await controlled.get("pods")).body["items"]
        return [
            other
            for other in found
            if other["metadata"]["uid"] != pod["metadata"]["uid"]
            and other["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] == index
        ]

    assert len(await controlled.eventually(replaced, seconds=60)) == 1
    status = (await controlled.get(JOBS, "training")).body["status"]
    assert (status.get("failed", 0), status.get("conditions")) == (0, None)


async def test_marked_delete_is_replaced(controlled):
    """A pod that we mark with DisruptionTarget and a time is replaced after a DELETE too."""
    await controlled.create(JOBS, job(backoffLimit=0, podFailurePolicy=IGNORE_DISRUPTIONS))
    pod = await _running(controlled)
    entry = {"type": "DisruptionTarget", "status": "True", "reason": "Moved", "lastTransitionTime": _now()}
    name = pod["metadata"]["name"]
    await controlled.patch("pods", name, {"status": {"conditions": [entry]}}, "status")
    await _end(controlled, pod, evict=False)

    async def replaced():
        found = (await controlled.get("pods")).body["items"]
        return [other for other in found if other["metadata"]["uid"] != pod["metadata"]["uid"]]

    await controlled.eventually(replaced, seconds=60)
    assert await _failed(controlled) == ""


async def test_stateful_set_keeps_the_name(controlled):
    """An evicted pod of a StatefulSet comes back under its name with another uid."""
    template = {
        "metadata": {"labels": {"app": "s"}},
        "spec": job(template={"restartPolicy": "Always"})["spec"]["template"]["spec"],
    }
    spec = {
        "serviceName": "s",
        "replicas": 1,
        "selector": {"matchLabels": {"app": "s"}},
        "template": template,
    }
    await controlled.create("apps/v1/statefulsets", {"metadata": {"name": "s"}, "spec": spec})
    first = await _running(controlled)
    assert (await controlled.evict("s-0", preconditions={"uid": first["metadata"]["uid"]})).status == 201

    async def other():
        found = await controlled.get("pods", "s-0")
        return found.status == 200 and found.uid != first["metadata"]["uid"]

    await controlled.eventually(other)


async def _running(client, count: int = 1):
    async def look():
        found = (await client.get("pods")).body["items"]
        running = [
            p
            for p in found
            if p["status"]["phase"] == "Running" and not p["metadata"].get("deletionTimestamp")
        ]
        return running if len(running) == count else []

    return (await client.eventually(look))[0]


async def _none(client) -> bool:
    return not (await client.get("pods")).body["items"]


async def _failed(client) -> str:
    conditions = (await client.get(JOBS, "training")).body.get("status", {}).get("conditions") or []
    return next((entry["reason"] for entry in conditions if entry["type"] == "Failed"), "")


async def _end(client, pod, *, evict: bool) -> None:
    name = pod["metadata"]["name"]
    answer = await (client.evict(name) if evict else client.delete("pods", name))
    assert answer.status in {200, 201}, answer.body


def _now() -> str:
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def test_numbers_and_resumption_in_one_patch(kube):
    """A suspended Indexed Job takes its new numbers, its resumption and our marks at once."""
    await kube.create(JOBS, job(suspend=True, **INDEXED))
    change = {"suspend": False, "parallelism": 4, "completions": 4}

    async def changed():
        # Its controller may write it between the reading and the patch.
        read = (await kube.get(JOBS, "training")).body["metadata"]["resourceVersion"]
        metadata = {"resourceVersion": read, "annotations": {"specon.io/scaled": "2:4"}}
        body = {"metadata": metadata, "spec": change}
        first = (await kube.patch(JOBS, "training", body, form=MERGE)).status
        again = (await kube.patch(JOBS, "training", body, form=MERGE)).status
        return (first, again) == (200, 409)

    await kube.eventually(changed)
    after = (await kube.get(JOBS, "training")).body["spec"]
    assert (after["suspend"], after["parallelism"], after["completions"]) == (False, 4, 4)
