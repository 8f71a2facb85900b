"""A manager that only looks: pods as they are, judged by what they print, and no request that changes any."""

import asyncio
import contextlib
import math
import time
from datetime import UTC, datetime

import pytest

from fakekube.cluster import FakeCluster
from fakekube.kinds import PODS as POD_KIND
from specon_manager.backends.kube.objects.selectors import read_selector
from specon_manager.backends.kube.transport.api import Api
from specon_manager.model.settings import Gate, Settings
from specon_manager.serving.observation import ObservationOptions, open_observation
from specon_manager.views.first_look import describe_look
from specon_sidecar.classify import Category
from support.kube.stage import make_job


def printed(value, *, steps=2000, every=1.2, ends=0.0):
    """Return what a trainer printed in the last minutes; `value` is its loss by the share that is done."""
    now, total = time.time() - ends, steps * 4
    lines = []
    for step in range(steps):
        at = datetime.fromtimestamp(now - (steps - step) * every, UTC)
        stamp = at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond:06d}000Z"
        lines.append(f"{stamp} step={step}/{total} loss={value(step / steps):.5f}\n".encode())
    return lines


def converged(share):
    return 0.2 + 2 * math.exp(-60 * share)


def growing(share):
    return 3 - 2 * share


class Look:
    def __init__(self, cluster, api, path):
        self.cluster, self.api, self.path = cluster, api, path

    async def train(self, name, value, node, label="train"):
        """Start a Job that knows nothing of us, on a node."""
        container = {"name": "main", "image": "train", "resources": {}}
        spec = {"containers": [container], "restartPolicy": "Never", "nodeName": node}
        template = {"metadata": {"labels": {"app": label}}, "spec": spec}
        await make_job(self.api, name, template=template)
        async with asyncio.timeout(20):
            while not (pod := self.pod(name)):  # noqa: ASYNC110  (a server's store has no event to wait for)
                await asyncio.sleep(0.01)
        self.cluster.server.printed["default", pod] = printed(value)
        return pod

    def pod(self, job):
        for item in self.cluster.store.all(POD_KIND):
            owners = item["metadata"].get("ownerReferences") or []
            runs = item["status"].get("phase") == "Running"
            if runs and any(each["name"] == job for each in owners):
                return item["metadata"]["name"]
        return None

    @contextlib.asynccontextmanager
    async def looking(self, **changes):
        options = ObservationOptions(
            directory=self.path / "observe.specon",
            settings=Settings(policy="specon", tick=0.2, gate=Gate(enabled=False)),
            selector=read_selector("app=train"),
            heartbeat=0.2,
            **changes,
        )
        outputs = Api(self.cluster.url)
        self.cluster.server.requests.clear()
        try:
            async with open_observation(options, self.api, outputs) as observation:
                yield observation
        finally:
            await outputs.close()

    async def until(self, holds):
        async with asyncio.timeout(45):
            while not holds():  # noqa: ASYNC110  (as above)
                await asyncio.sleep(0.05)


@pytest.fixture
async def look(tmp_path):
    async with FakeCluster(nodes=2) as cluster:
        api = Api(cluster.url)
        yield Look(cluster, api, tmp_path)
        await api.close()


def categories(observation):
    replicas = observation.session.controller.state.replicas.values()
    return {replica.job: replica.progress.category for replica in replicas}


async def test_jobs_that_know_nothing_of_us_are_judged_and_nothing_is_changed(look):
    """What was printed before anybody looked counts by the time at which it was printed."""
    await look.train("flat", converged, "node-0")
    await look.train("steep", growing, "node-0")
    await look.train("stranger", growing, "node-1", label="web")
    async with look.looking() as observation:
        both = {Category.CONVERGED, Category.PROGRESSING}
        await look.until(lambda: set(categories(observation).values()) == both)
        assert categories(observation) == {
            "default/flat": Category.CONVERGED,
            "default/steep": Category.PROGRESSING,
        }
        await look.until(lambda: observation.report().would)
        report = observation.report()
    (would,) = report.would
    assert would.about.startswith("flat")
    assert "to node-1" in would.what
    assert {method for method, _ in look.cluster.server.requests} == {"GET"}
    said = "\n".join(describe_look(report))
    assert "Would have been ordered (1):" in said
    assert report.categories == {"converged": 1, "progressing": 1}


async def test_a_look_goes_on_where_it_was(look):
    """What runs is found again by its journal; a second look in the same directory is refused meanwhile."""
    await look.train("flat", converged, "node-0")
    async with look.looking() as observation:
        await look.until(lambda: Category.CONVERGED in categories(observation).values())
    async with look.looking() as observation:
        assert "default/flat" in observation.session.controller.state.jobs
        await look.until(lambda: Category.CONVERGED in categories(observation).values())
        with pytest.raises(Exception, match="is in use by"):
            async with look.looking():
                pass


async def test_a_pod_that_ends_is_over_and_its_last_lines_were_read(look):
    """Its job has ended for the observer as well."""
    await look.train("flat", converged, "node-0")
    async with look.looking() as observation:
        await look.until(lambda: Category.CONVERGED in categories(observation).values())
        (pod,) = [
            item for item in look.cluster.store.all(POD_KIND) if item["status"].get("phase") == "Running"
        ]
        await look.cluster.kubelet.complete(pod)
        await look.until(
            lambda: observation.session.controller.state.jobs["default/flat"].ended_at is not None
        )
