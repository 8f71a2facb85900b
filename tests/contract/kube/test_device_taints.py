"""What an API server stores of claims, slices and taints of devices is what the manager reads there."""

import asyncio
import contextlib

import pytest

from fakekube.kinds import Kind
from specon_manager.backends.kube.transport.access import direct_access
from specon_manager.backends.kube.transport.api import Api
from specon_manager.backends.kube.watching.device_watch import DeviceWatch
from support.kube.client import MERGE
from support.kube.manifests import gated

GROUP = "resource.k8s.io"
SLICES, RULES = f"/apis/{GROUP}/v1/resourceslices", f"/apis/{GROUP}/v1beta2/devicetaintrules"
CLAIMS = f"{GROUP}/v1/resourceclaims"
SERVICE = {"key": "example.com/service", "effect": "NoSchedule"}
GONE = {"key": "example.com/gone", "effect": "NoExecute", "timeAdded": "2026-11-27T12:00:00Z"}
GONE_AT = 1795780800.0 + 600
"""When who tolerates it for ten minutes is evicted, Unix seconds."""


@pytest.fixture
def devices(kube):
    """Name a driver that no other test has, and let the fake know the kinds."""
    if kube.fake is not None:
        kube.fake.server.kinds += [
            Kind(GROUP, "v1", "resourceslices", "ResourceSlice", namespaced=False),
            Kind(GROUP, "v1", "resourceclaims", "ResourceClaim", status=True),
            Kind(GROUP, "v1beta2", "devicetaintrules", "DeviceTaintRule", namespaced=False),
        ]
    return f"{kube.namespace}.example.com"


async def hold(kube, driver, device, *tolerations):
    """Make a pod that has been allocated a device of the pool; return its UID."""
    pod = await kube.create("pods", gated())
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid, "controller": True}
    asked = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
    claim = {
        "metadata": {"name": "gpu", "ownerReferences": [owner]},
        "spec": {"devices": {"requests": [asked]}},
    }
    made = await kube.create(CLAIMS, claim)
    assert made.status == 201, made.message
    result = {
        "request": "gpu",
        "driver": driver,
        "pool": "pool",
        "device": device,
        "tolerations": list(tolerations),
    }
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": pod.name, "uid": pod.uid}],
    }
    answer = await kube.patch(CLAIMS, made.name, {"status": status}, "status", form=MERGE)
    assert answer.status == 200, answer.message
    return pod.uid


@contextlib.asynccontextmanager
async def offered(kube, driver, **taints):
    """Let the driver offer devices, each with its taints."""
    spec = {
        "driver": driver,
        "allNodes": True,
        "pool": {"name": "pool", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": name, "taints": found} for name, found in taints.items()],
    }
    answer = await kube.ask("POST", SLICES, {"metadata": {"name": driver}, "spec": spec})
    assert answer.status == 201, answer.message
    try:
        yield
    finally:
        await kube.ask("DELETE", f"{SLICES}/{driver}")


@contextlib.asynccontextmanager
async def warnings(kube):
    """Follow the server as a manager does; what is told comes by UID into the dictionary."""
    endpoint = kube.endpoint
    api = Api(access=direct_access(endpoint.url, endpoint.token, endpoint.authority))
    told = {}
    watch = DeviceWatch(
        api,
        lambda: told.update((each.incarnation, each) for each in watch.events(lambda holder: holder.name)),
    )
    task = asyncio.create_task(watch.run())
    try:
        yield told
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await api.close()


async def said(kube, told, uid, why):
    """Wait until that is the word on a pod."""

    async def it_is() -> bool:
        return uid in told and told[uid].why == why

    await kube.eventually(it_is)


async def test_who_holds_a_device_is_told_of_its_taint_in_the_slice_until_it_is_gone(kube, devices):
    async with offered(kube, devices, first=[SERVICE], second=[]), warnings(kube) as told:
        uid = await hold(kube, devices, "first")
        await said(kube, told, uid, "its device first of pool pool has the taint example.com/service")
        assert told[uid].leaves_at is None
        clean = {"spec": {"devices": [{"name": "first"}, {"name": "second", "taints": [SERVICE]}]}}
        answer = await kube.ask("PATCH", f"{SLICES}/{devices}", clean, form=MERGE)
        assert answer.status == 200, answer.message
        await said(kube, told, uid, "")


async def test_who_tolerates_that_it_goes_is_told_when(kube, devices):
    tolerated = {
        "key": GONE["key"],
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 600,
    }
    async with offered(kube, devices, first=[GONE]), warnings(kube) as told:
        uid = await hold(kube, devices, "first", tolerated)
        await said(kube, told, uid, "its device first of pool pool has the taint example.com/gone")
        assert told[uid].leaves_at == GONE_AT


async def test_a_rule_of_an_administrator_taints_the_devices_that_it_names(kube, devices):
    async with offered(kube, devices, first=[], second=[]), warnings(kube) as told:
        uid = await hold(kube, devices, "first")
        for name, device in (("other", "second"), ("ours", "first")):
            selector = {"driver": devices, "pool": "pool", "device": device}
            rule = {"metadata": {"name": f"{name}-{devices}"}, "spec": {"deviceSelector": selector}}
            rule["spec"]["taint"] = {**SERVICE, "key": f"example.com/{name}"}
            answer = await kube.ask("POST", RULES, rule)
            if answer.status == 404:
                pytest.skip("the server has no DeviceTaintRules: it would need that feature gate and API")
            assert answer.status == 201, answer.message
        await said(kube, told, uid, "its device first of pool pool has the taint example.com/ours")
        await kube.ask("DELETE", f"{RULES}/ours-{devices}")
        await said(kube, told, uid, "")
        await kube.ask("DELETE", f"{RULES}/other-{devices}")
