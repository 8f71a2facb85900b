"""Disruption budgets as they are asked before the object of a job ends its pods, against an API server."""

import pytest

from fakekube.kinds import PDBS as FAKE_PDBS
from specon_manager.backends.kube.objects.pod import slim_pod
from specon_manager.backends.kube.owners.context import BlockedError, Hands
from specon_manager.backends.kube.owners.disruption_ledger import Grants
from specon_manager.backends.kube.owners.patching import may_go
from specon_manager.backends.kube.transport.resources import PDBS, PODS
from support.kube.stage import Keeper, make_pod

NAMES = ("a", "b", "c")
TRAINING = {"matchLabels": {"app": "training"}}


class Scene:
    """Three pods that run, and a clock that stands still."""

    def __init__(self, cluster, api):
        self.cluster, self.api, self.now = cluster, api, 0.0
        self.hands = Hands(api=api, keeper=Keeper(), fence=lambda: None, grants=Grants(lambda: self.now))

    async def begin(self, **budget):
        for name in NAMES:
            await make_pod(self.api, name)
        if budget:
            body = {"metadata": {"name": "keep"}, "spec": {"selector": TRAINING, **budget}}
            await self.api.create(PDBS, body, "default")
        await self.cluster.settle()
        self.pods = {name: slim_pod(await self.api.get(PODS, name, "default")) for name in NAMES}
        assert {pod.phase for pod in self.pods.values()} == {"Running"}

    async def ask(self, *names, whole=True):
        await may_go(self.hands, [self.pods[name] for name in names], whole=whole)

    def asked(self):
        """Return what was asked, without the versions of the API."""
        return [(method, path.split("/v1/")[-1]) for method, path in self.cluster.server.requests]


@pytest.fixture
def scene(cluster, api):
    return Scene(cluster, api)


@pytest.mark.parametrize(("least", "blocked"), [(0, False), (1, True), (2, True)])
async def test_all_that_leave_together_need_room_in_the_budget(scene, least, blocked):
    """Each of the three may go by itself in all of these cases."""
    await scene.begin(minAvailable=least)
    if not blocked:
        await scene.ask(*NAMES)
        return
    with pytest.raises(BlockedError, match=rf"keep lets {3 - least} of its 3 pods go at a time"):
        await scene.ask(*NAMES)


async def test_what_is_refused_takes_nothing_of_the_budget(scene):
    """Afterwards fewer may go at once."""
    await scene.begin(maxUnavailable=1)
    with pytest.raises(BlockedError):
        await scene.ask("a", "b")
    await scene.ask("a")


async def test_two_jobs_do_not_leave_by_the_same_disruption(scene):
    """The status does not show at once what the first one used; who asks again has it already."""
    await scene.begin(maxUnavailable=1)
    await scene.ask("a")
    with pytest.raises(BlockedError, match="lets none go now, 1 of others being on the way, and 1 pod"):
        await scene.ask("b")
    await scene.ask("a")
    scene.now += 11.0
    await scene.ask("b")


async def test_an_old_status_of_a_budget_lets_nobody_go_together(scene, monkeypatch):
    """Its controller has not looked at what is written there now; the server says so of each pod too."""
    await scene.begin(maxUnavailable=2)
    (budget,) = scene.cluster.store.all(FAKE_PDBS)
    stale = {**budget, "status": {**budget["status"], "observedGeneration": 0}}

    async def listed(resource, namespace=None):
        assert (resource, namespace) == (PDBS, "default")
        return [stale], "1"

    monkeypatch.setattr(scene.api, "list", listed)
    with pytest.raises(BlockedError, match="before its controller has looked at it"):
        await scene.ask("a")


async def test_a_pod_that_is_gone_or_another_one_needs_no_disruption(scene):
    """Only those that are there, by their UIDs, are counted."""
    await scene.begin(maxUnavailable=1)
    await scene.api.delete(PODS, "b", "default", grace_seconds=0)
    await scene.api.delete(PODS, "c", "default", grace_seconds=0)
    await make_pod(scene.api, "c")
    budget = {"spec": {"maxUnavailable": 2}}
    await scene.api.patch(PDBS, "keep", "default", budget, form="merge")
    await scene.cluster.settle()
    (status,) = [each["status"] for each in scene.cluster.store.all(FAKE_PDBS)]
    assert status["disruptionsAllowed"] == 2
    await scene.ask(*NAMES)
    assert scene.hands.grants.count_taken([]) == {
        budget["metadata"]["uid"]: 1 for budget in scene.cluster.store.all(FAKE_PDBS)
    }


async def test_where_there_is_no_budget_no_pod_is_read(scene):
    """One list is all that it takes, beside the dry runs."""
    await scene.begin()
    before = len(scene.asked())
    await scene.ask(*NAMES)
    runs = [("POST", f"namespaces/default/pods/{name}/eviction?dryRun=All") for name in NAMES]
    assert scene.asked()[before:-1] == runs
    method, path = scene.asked()[-1]
    assert (method, path.split("?")[0]) == ("GET", "namespaces/default/poddisruptionbudgets")
