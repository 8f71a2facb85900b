"""What the cluster autoscaler does to a node before it removes it, with its own times.

Source: `cluster-autoscaler/core/scaledown/actuation/drain.go`: a taint; each pod is evicted with a grace
period, every ten seconds for two minutes, until that succeeds or there is none; then none of its name may be
on the node. Where that does not come about it takes the taint off, and comes back later.
"""

import asyncio
import time

import aiohttp

from specon_manager.backends.kube.transport.resources import NODES
from support.kube.real_stage import RealStage

_TAINT = "ToBeDeletedByClusterAutoscaler"
_RETRY_SECONDS = 10.0
_EVICTION_SECONDS = 120.0
_GONE_SECONDS = 30.0


async def scale_down(stage: RealStage, node: str) -> tuple[int, float, int]:
    """Empty a node; return its pods, the seconds, and how many evictions were told to wait.

    Raises TimeoutError where the autoscaler would give the node up.
    """
    taint = {"key": _TAINT, "effect": "NoSchedule", "value": str(int(time.time()))}
    began = time.monotonic()
    await _taint(stage, node, [taint])
    pods = [pod["metadata"] for pod in stage.on_node(node)]
    try:
        async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as group:
            tasks = [group.create_task(_remove(stage, session, node, each["name"])) for each in pods]
    finally:
        await _taint(stage, node, None)
    return len(pods), time.monotonic() - began, sum(task.result() for task in tasks)


async def _remove(stage: RealStage, session: aiohttp.ClientSession, node: str, name: str) -> int:
    waited = 0
    async with asyncio.timeout(_EVICTION_SECONDS):
        while await _evict(stage, session, name) not in {201, 404}:
            waited += 1
            await asyncio.sleep(_RETRY_SECONDS)
    async with asyncio.timeout(_GONE_SECONDS):
        while any(pod["metadata"]["name"] == name for pod in stage.on_node(node)):  # noqa: ASYNC110  (as it does)
            await asyncio.sleep(1)
    return waited


async def _evict(stage: RealStage, session: aiohttp.ClientSession, name: str) -> int:
    endpoint = stage.endpoint
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": "training"},
        "deleteOptions": {"gracePeriodSeconds": 30},
    }
    headers = {
        "Authorization": f"Bearer {endpoint.token}",
        "Impersonate-User": "cluster-autoscaler",
        "Impersonate-Group": "system:masters",
    }
    url = f"{endpoint.url}/api/v1/namespaces/training/pods/{name}/eviction"
    async with session.post(url, json=body, headers=headers, ssl=endpoint.tls) as response:
        return response.status


async def _taint(stage: RealStage, node: str, taints: list[dict[str, str]] | None) -> None:
    await stage.api.patch(NODES, node, None, {"spec": {"taints": taints}}, form="merge")
