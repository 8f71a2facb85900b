"""What a tenant writes into its own objects, with whole managers: nobody else goes unheard for it."""

import asyncio
import copy

import pytest

from fakekube.kinds import JOBS, PODS
from specon_manager.backends.kube.background import BrokenError, leaves
from specon_manager.backends.kube.watching.nodes import NodeBook
from support.kube.cluster_stage import ClusterStage
from support.kube.training_templates import running_pod, training_template

HOSTILE = {
    "a repetition that is too large": "(?P<value>a{99999999999})",
    "groups that are too deep": "(?P<value>" + "(" * 5000 + ")" * 5000 + ")",
    "groups that take for ever to judge": "(?P<value>x)" + "(" * 200 + ")" * 200,
    "ranges that take seconds to compile": "(?i)(?P<value>x)" + "[\0-\uffff]" * 500,
}


def suspended_job(name, pattern):
    """Return a Job that nobody reviews: its template is read by managers all the same."""
    template = training_template(name)
    template["metadata"]["annotations"] |= {"specon.io/queue": "team-a", "specon.io/pattern": pattern}
    spec = {"suspend": True, "completionMode": "Indexed", "completions": 1, "parallelism": 1}
    return {"metadata": {"name": name}, "spec": {**spec, "template": template}}


def labelled_pod(name, pattern):
    """Return a pod that says itself that it has a sidecar: no webhook is asked. It need not even run."""
    pod = copy.deepcopy(running_pod(name, "2026-01-01T00:00:00Z"))
    pod["metadata"] |= {"name": name, "ownerReferences": []}
    del pod["metadata"]["uid"], pod["spec"]["nodeName"]
    pod["spec"]["schedulerName"] = "nobody"
    pod["metadata"]["annotations"] = {"specon.io/pattern": pattern}
    return pod


async def attack(stage, pattern):
    machinery = stage.cluster.machinery
    await machinery.create(JOBS, "training", suspended_job("hostile-job", pattern))
    await machinery.create(PODS, "training", labelled_pod("hostile-pod", pattern))


@pytest.mark.parametrize("pattern", HOSTILE.values(), ids=HOSTILE)
async def test_a_manager_hears_everybody_else(stage, pattern):
    """Where the objects come while it leads, and where they are there when it takes over."""
    first = await stage.manage_and_lead()
    await attack(stage, pattern)
    heard = await stage.make("Job", "heard")
    await stage.trains(heard)
    await first.kill()
    await stage.lease_runs_out()
    second = await stage.manage_and_lead("second")
    later = await stage.make("Job", "later")
    await stage.trains(heard, later)
    assert not second.task.done()


async def test_a_leader_whose_eyes_break_leaves_its_place_to_another(tmp_path, monkeypatch):
    """Nothing that it follows the cluster by ends in a line of the log alone: it ends, and says why."""
    async with ClusterStage(tmp_path) as stage:
        first = await stage.manage_and_lead()
        second = await stage.manage("second")
        seeing = NodeBook.events

        def blinded(book):
            if first.task.done():
                return seeing(book)
            raise RuntimeError("a mistake of ours")

        monkeypatch.setattr(NodeBook, "events", blinded)
        heard = await stage.make("Job", "heard")
        await asyncio.wait([first.task], timeout=60)
        with pytest.raises(BaseExceptionGroup) as caught:
            first.task.result()
        (why,) = leaves(caught.value)
        assert isinstance(why, BrokenError)
        assert str(why) == "applying what changed: RuntimeError: a mistake of ours"
        stage.managers.remove(first)
        await first.api.close()
        await stage.until(lambda: stage.leader is second, "the other one leads")
        await stage.trains(heard)
