"""Pods with the trainer's helper, as the webhook makes them, are what an API server takes."""

import pytest

from specon_manager.backends.kube.admission.injection import InjectionSettings, inject
from specon_manager.backends.kube.objects.annotation_reader import read_options
from support.kube.pods import annotated

RESTRICTED = {
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


def given(name, settings, **options):
    """Return a pod that trains on a claim, with what the webhook adds to it."""
    trainer = {
        "name": "trainer",
        "image": "registry.example/trainer:3",
        "env": [{"name": "RUN", "value": "7"}, {"name": "PYTHONPATH", "value": "/app/$(RUN)"}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "securityContext": RESTRICTED,
    }
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotated(instrument="true", **options)},
        "spec": {
            "restartPolicy": "Never",
            "serviceAccountName": "default",
            "containers": [trainer],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "training"}}],
        },
    }
    return inject(manifest, "ml", read_options(manifest["metadata"]["annotations"]), settings, {}).pod


@pytest.mark.parametrize("volume", ["emptyDir", "image"])
async def test_a_pod_with_the_helper_is_taken(kube, volume):
    """The API server takes it under the strictest Pod Security standard, and drops no field of it."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    path = f"/api/v1/namespaces/{kube.namespace}"
    namespace = (await kube.ask("GET", path)).body
    namespace["metadata"]["labels"] = {**namespace["metadata"].get("labels", {}), **labels}
    assert (await kube.ask("PUT", path, namespace)).status == 200
    settings = InjectionSettings(image="specon/sidecar:1", manager="https://reports", helper_volume=volume)
    manifest = given("trainer", settings)
    made = await kube.create("pods", manifest)
    assert made.status == 201, made.body
    spec = made.body["spec"]
    assert [one["name"] for one in spec["initContainers"]] == [
        one["name"] for one in manifest["spec"]["initContainers"]
    ]
    for volumes in manifest["spec"]["volumes"]:
        kept = next(one for one in spec["volumes"] if one["name"] == volumes["name"])
        assert set(volumes) <= set(kept)
    assert spec["containers"][0]["env"] == manifest["spec"]["containers"][0]["env"]
