"""The log of a pod as an API server streams it from a kubelet, followed by a sidecar through the relay."""

import asyncio
import contextlib
import uuid

import pytest
from aiohttp import web

from specon_manager.backends.kube.log_relay import LogRelay
from specon_manager.backends.kube.transport.access import direct_access
from specon_manager.backends.kube.transport.api import Api, ApiError
from specon_sidecar.observing.follow_output import OutputFollower
from specon_sidecar.reporting.client import Client
from support.kube.client import KubeClient
from support.kube.webhook import tls_context


class Kubelet:
    """Serves the log of one container as a kubelet does, to whom the API server connects it."""

    def __init__(self):
        self.asked, self.lines = [], asyncio.Queue()

    async def answer(self, request):
        self.asked.append((request.path, dict(request.query)))
        response = web.StreamResponse()
        await response.prepare(request)
        while (line := await self.lines.get()) is not None:
            await response.write(line)
        return response


@contextlib.asynccontextmanager
async def listening(answer, tls=None):
    application = web.Application()
    application.router.add_get("/{tail:.*}", answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@pytest.fixture
async def bound(bare_server, tmp_path):
    """Give a pod that runs on a node whose kubelet is played, that kubelet, and the way to the API server."""
    kubelet, name = Kubelet(), f"logs-{uuid.uuid4().hex[:10]}"
    async with (
        KubeClient(bare_server, name) as kube,
        listening(kubelet.answer, tls_context(tmp_path)) as port,
    ):
        await kube.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        }
        node = {"metadata": {"name": kube.namespace}}
        assert (await kube.ask("POST", "/api/v1/nodes", node)).status == 201
        path = f"/api/v1/nodes/{kube.namespace}/status"
        patched = await kube.ask("PATCH", path, {"status": status}, form="application/merge-patch+json")
        assert patched.status == 200, patched.body
        pod = {
            "metadata": {"name": "train-0"},
            "spec": {"nodeName": kube.namespace, "containers": [{"name": "trainer", "image": "i"}]},
        }
        assert (await kube.create("pods", pod)).status == 201
        api = Api(access=direct_access(kube.endpoint.url, kube.endpoint.token, kube.endpoint.authority))
        yield kube, kubelet, api
        await api.close()


async def test_a_sidecar_reads_what_its_trainer_prints(bound):
    """As it is printed, through the API server, the relay and the sidecar's client."""
    kube, kubelet, api = bound

    async def pod_of(token):
        del token
        return kube.namespace, "train-0"

    relay = LogRelay(api, pod_of, 1)

    async def answer(request):
        assert request.path == "/v1/output"
        return await relay(request, "")

    for second in (1, 2):
        line = f"2026-11-23T07:00:0{second}.000000000Z step {second} loss {3 - second}\n"
        kubelet.lines.put_nowait(line.encode())
    async with listening(answer) as port:
        url = f"http://127.0.0.1:{port}"
        async with Client(url, replica="a/b/worker/0", incarnation="uid") as client:
            follower = OutputFollower(client, "trainer", pause=0.01)
            found = []
            async with asyncio.timeout(20), contextlib.aclosing(follower.batches()) as batches:
                async for lines in batches:
                    found += lines
                    if len(found) == 2:
                        break
    assert found == [b"step 1 loss 2", b"step 2 loss 1"]
    path, query = kubelet.asked[0]
    assert path == f"/containerLogs/{kube.namespace}/train-0/trainer"
    assert query == {"follow": "true", "timestamps": "true"}


async def test_a_container_that_is_not_there_is_refused_with_words(bound):
    """As the sidecar tells them on."""
    kube, _, api = bound
    with pytest.raises(ApiError) as caught:
        async with api.output("train-0", kube.namespace, query={"container": "other"}):
            pass
    assert caught.value.status == 400
    assert "container other is not valid for pod train-0" in str(caught.value)
