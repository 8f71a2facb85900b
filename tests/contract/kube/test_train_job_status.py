"""Whose words stand in `status.trainerStatus` of a TrainJob, by the marks of a real API server."""

import contextlib
import uuid
from pathlib import Path

import msgspec
import pytest
import yaml

import fakekube
from specon_manager.backends.kube.reporting.train_job_status import is_anothers
from specon_manager.backends.kube.transport.access import direct_access
from specon_manager.backends.kube.transport.api import Api, ApiError
from specon_manager.backends.kube.transport.resources import TRAIN_JOBS
from support.kube.client import KubeClient

DEFINITION = Path(next(iter(fakekube.__path__))) / "definitions" / "trainjobs.yaml"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RESOURCE = "trainer.kubeflow.org/v1alpha1/trainjobs"


@pytest.fixture
async def kube(bare_server):
    async with KubeClient(bare_server, f"train-{uuid.uuid4().hex[:10]}") as client:
        await client.ask("POST", "/api/v1/namespaces", {"metadata": {"name": client.namespace}})
        await client.ask("POST", CRDS, yaml.safe_load(DEFINITION.read_text()))

        async def served() -> bool:
            return (await client.get(RESOURCE)).status == 200

        with contextlib.suppress(msgspec.DecodeError):
            await client.eventually(served)
        yield client


async def test_trainer_takes_over_and_is_left_alone(kube):
    """What we wrote is marked as ours; what Trainer applies by force is not, and then we stop."""
    job = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "bert"},
        "spec": {"runtimeRef": {"name": "torch"}},
    }
    assert (await kube.create(RESOURCE, job)).status == 201
    endpoint = kube.endpoint
    api = Api(access=direct_access(endpoint.url, endpoint.token, endpoint.authority))
    try:
        found = await api.get(TRAIN_JOBS, "bert", kube.namespace)
        version = {"resourceVersion": found["metadata"]["resourceVersion"]}
        body = {"metadata": version, "status": {"trainerStatus": {"progressPercentage": 25}}}
        patch = {"form": "merge", "subresource": "status"}
        ours = await api.patch(TRAIN_JOBS, "bert", kube.namespace, body, **patch)
        assert (is_anothers(found), is_anothers(ours)) == (False, False)
        with pytest.raises(ApiError) as caught:
            await api.patch(TRAIN_JOBS, "bert", kube.namespace, body, **patch)
        assert caught.value.conflict
        applied = {**job, "status": {"trainerStatus": {"progressPercentage": 26}}}
        del applied["spec"]
        answer = await kube.ask(
            "PATCH",
            kube.path(RESOURCE, "bert", "status"),
            applied,
            form="application/apply-patch+yaml",
            fieldManager="trainer-status",
            force="true",
        )
        assert answer.status == 200, answer.body
        assert is_anothers(await api.get(TRAIN_JOBS, "bert", kube.namespace))
    finally:
        await api.close()
