"""Backends under contract. A new backend adds a stage here and passes the same suite."""

import contextlib
import os
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fakekube.cluster import FakeCluster
from specon_manager.backends.kube.transport.api import Api, ApiError
from specon_manager.backends.kube.transport.resources import NAMESPACES, NODES, Object, Resource
from support.clocks.fair_time import be_fair
from support.kube import context as kube_context
from support.kube.backend_contract import LocalStage, Stage
from support.kube.contract_stage import OWNERS, ClusterStage, FakeStage, Owner

PLACED_BY_US = [pytest.param("local", marks=pytest.mark.processes)]
PLACED_BY_OWNERS = [
    *(f"fake {owner}" for owner in OWNERS),
    *(pytest.param(f"cluster {owner}", marks=pytest.mark.cluster) for owner in OWNERS),
]
_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
_SIMULATED = "kwok.x-k8s.io/node"


@pytest.fixture(params=[*PLACED_BY_US, *PLACED_BY_OWNERS])
async def stage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stage]:
    """Yield a backend with two nodes, not begun yet."""
    async with _made(request, tmp_path) as made:
        yield made


@pytest.fixture(params=PLACED_BY_US)
async def our_stage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stage]:
    """Yield one that places replicas itself."""
    async with _made(request, tmp_path) as made:
        yield made


@pytest.fixture(params=PLACED_BY_OWNERS)
async def owned_stage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stage]:
    """Yield one whose replicas are placed by others, and moved by it."""
    async with _made(request, tmp_path) as made:
        yield made


@contextlib.asynccontextmanager
async def _made(request: pytest.FixtureRequest, directory: Path) -> AsyncIterator[Stage]:
    where, _, owner = request.param.partition(" ")
    async with contextlib.AsyncExitStack() as stack:
        stage: Stage
        if where == "local":
            stage = LocalStage(directory)
        elif where == "fake":
            be_fair()
            cluster = await stack.enter_async_context(FakeCluster(nodes=2))
            api = Api(cluster.url)
            stack.push_async_callback(api.close)
            stage = FakeStage(cluster, api, OWNERS[owner])
        else:
            stage = await _on_a_cluster(_kubeconfig(request), stack, OWNERS[owner])
        stack.push_async_callback(stage.close)
        yield stage


def _kubeconfig(request: pytest.FixtureRequest) -> Path:
    """Return how to reach the cluster that the user means, if there is one and it may be changed."""
    if "cluster" not in (request.config.option.markexpr or ""):
        pytest.skip("a whole cluster: KUBECONFIG=... ALLOW_CONTEXT=... pytest -m cluster runs it")
    path = os.environ.get("KUBECONFIG")
    if not path:
        pytest.skip("KUBECONFIG names no cluster: set it, and ALLOW_CONTEXT to its context")
    kube_context.endpoint(Path(path))
    return Path(path)


async def _on_a_cluster(kubeconfig: Path, stack: contextlib.AsyncExitStack, owner: Owner) -> Stage:
    """Return a stage in an own namespace, which is deleted with all that is in it."""
    api = await Api.connect(kubeconfig=kubeconfig)
    stack.push_async_callback(api.close)
    nodes, _ = await api.list(NODES)
    names = sorted(node["metadata"]["name"] for node in nodes if _pretends(node))
    if len(names) < 2:
        pytest.skip("no two ready nodes whose kubelet is simulated: trainers of tests have no image")
    namespace = f"contract-{uuid.uuid4().hex[:10]}"
    await api.create(NAMESPACES, {"metadata": {"name": namespace}})
    stack.push_async_callback(api.delete, NAMESPACES, namespace)
    stage = ClusterStage(api, owner, namespace, (names[0], names[1]))

    async def account() -> bool:
        try:
            await api.get(_ACCOUNTS, "default", namespace)
        except ApiError as error:
            if error.not_found:
                return False
            raise
        return True

    await stage.settles(account)
    return stage


def _pretends(node: Object) -> bool:
    """Whether the node is ready, open to all, and runs nothing really (KWOK, or a runtime named fake)."""
    simulated = (node["metadata"].get("annotations") or {}).get(_SIMULATED) == "fake"
    runtime = node["status"].get("nodeInfo", {}).get("containerRuntimeVersion", "")
    ready = any(
        each["type"] == "Ready" and each["status"] == "True" for each in node["status"].get("conditions", [])
    )
    return (simulated or runtime.startswith("fake")) and ready and not node["spec"].get("taints")
