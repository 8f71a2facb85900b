"""The servers that the contract is held against: the fake, a bare real API server, a whole cluster."""

import contextlib
import os
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import msgspec
import pytest
import yaml

from fakekube.cluster import FakeCluster
from support.kube import context as kube_context
from support.kube import server as kube_server
from support.kube.client import Endpoint, KubeClient

CLUSTER = pytest.param("cluster", marks=pytest.mark.cluster)
_DEFINITIONS = Path(__file__).parents[3] / "charts" / "specon" / "crds"


@pytest.fixture(scope="session")
def bare_server(tmp_path_factory) -> Iterator[Endpoint]:
    programs = kube_server.assets()
    if programs is None:
        pytest.skip("no etcd and kube-apiserver: set KUBEBUILDER_ASSETS to their folder")
    with kube_server.running(tmp_path_factory.mktemp("kube"), programs) as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def cluster_endpoint(request) -> Endpoint:
    if "cluster" not in (request.config.option.markexpr or ""):
        pytest.skip("a whole cluster: KUBECONFIG=... ALLOW_CONTEXT=... pytest -m cluster runs it")
    path = os.environ.get("KUBECONFIG")
    if not path:
        pytest.skip("KUBECONFIG names no cluster: set it, and ALLOW_CONTEXT to its context")
    return kube_context.endpoint(Path(path))


@pytest.fixture(params=["fake", "server", CLUSTER])
async def kube(request) -> AsyncIterator[KubeClient]:
    """Give an API server, and an own namespace on it; no controllers except on a whole cluster."""
    async with _client(request, controllers=False) as client:
        yield client


@pytest.fixture(params=["fake", CLUSTER])
async def controlled(request) -> AsyncIterator[KubeClient]:
    """Give a cluster with nodes, a scheduler and controllers."""
    if request.param != "fake" and not os.environ.get("CONTRACT_IMAGE"):
        pytest.skip("CONTRACT_IMAGE names no image with sh that the nodes of the cluster have or can pull")
    async with _client(request, controllers=True) as client:
        yield client


@contextlib.asynccontextmanager
async def _client(request, *, controllers: bool) -> AsyncIterator[KubeClient]:
    async with contextlib.AsyncExitStack() as stack:
        if request.param == "fake":
            nodes = 2 if controllers else 0
            fake = await stack.enter_async_context(FakeCluster(nodes=nodes, controllers=controllers))
            endpoint = Endpoint(fake.url)
        else:
            endpoint = request.getfixturevalue(
                "bare_server" if request.param == "server" else "cluster_endpoint"
            )
        name = f"contract-{uuid.uuid4().hex[:10]}"
        client = await stack.enter_async_context(KubeClient(endpoint, name))
        client.fake = fake if request.param == "fake" else None
        await _install(client)
        await client.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        if request.param == "server" or (request.param == "fake" and not controllers):
            await client.create("serviceaccounts", {"metadata": {"name": "default"}})
        else:
            await client.eventually(lambda: _account(client))
        try:
            yield client
        finally:
            with contextlib.suppress(aiohttp.ClientError):
                await client.ask("DELETE", f"/api/v1/namespaces/{name}")


async def _account(client: KubeClient) -> bool:
    return (await client.get("serviceaccounts", "default")).status == 200


async def _install(client: KubeClient) -> None:
    """Let a real server know our custom resources (where it does not yet) and wait until it serves them."""
    if client.fake is not None:
        return
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for file in sorted(_DEFINITIONS.glob("*.yaml")):
        document = yaml.safe_load(file.read_text())
        answer = await client.ask("POST", path, document)
        assert answer.status in {201, 409}, answer.message

        async def served(plural: str = document["spec"]["names"]["plural"]) -> bool:
            # Of all namespaces: some are in none.
            return (await client.ask("GET", f"/apis/specon.io/v1alpha1/{plural}")).status == 200

        with contextlib.suppress(msgspec.DecodeError):
            await client.eventually(served)
