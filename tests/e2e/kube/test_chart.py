"""The chart on a real cluster: installed, used, upgraded and rolled back in the middle of a move, removed.

The managers run in pods of the cluster, from the image of manager/Dockerfile.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from specon_manager.backends.kube.transport.api import Api
from specon_manager.backends.kube.transport.resources import (
    CUSTOM_RESOURCES,
    LEASES,
    MIGRATIONS,
    SECRETS,
    TRAINING_PROGRESSES,
    Object,
    Resource,
)
from support.live.chart_stage import ChartStage
from support.live.jobs import ANNOTATIONS
from support.live.settings import NotAllowedError, read_live_settings
from support.live.stage import INJECTED, MOVES_NOTHING, check_trained
from support.packaging.chart_notes import trial_pod

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(570)]

SPECON = {**MOVES_NOTHING, "policy": "specon", "parameters": {"rebalance": False}}
LINGER_SECONDS = 60
"""How long an evicted trainer that does not listen stays: long enough for every manager to be replaced."""
TOO_SLOW = "the managers were replaced more slowly than the move was made"
PATIENT = {**MOVES_NOTHING, "deadlines": {**MOVES_NOTHING["deadlines"], "eviction_margin": 120}}
CHOICES = (("recreate", "true"), ("migrate", "false"))
"""What is said of the pod that may be moved, and of the one that may not."""
RBAC = "rbac.authorization.k8s.io"
REMOVED = (
    Resource("apps", "v1", "deployments", "Deployment"),
    Resource("", "v1", "services", "Service"),
    Resource(RBAC, "v1", "roles", "Role"),
    Resource(RBAC, "v1", "rolebindings", "RoleBinding"),
)


@pytest.fixture
async def chart(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ChartStage]:
    """Give a namespace for jobs and one for a release, and remove both with all that is in them."""
    if "cluster" not in (request.config.option.markexpr or ""):
        pytest.skip("a whole cluster: KUBECONFIG=... ALLOW_CONTEXT=... pytest -m cluster runs it")
    try:
        settings = read_live_settings()
        api = await Api.connect(kubeconfig=settings.kubeconfig, context=settings.context)
        try:
            stage = ChartStage(api, settings, tmp_path)
            try:
                await stage.open()
                yield stage
            finally:
                await stage.close()
        finally:
            await api.close()
    except NotAllowedError as error:
        pytest.skip(str(error))


async def lingering_move(chart: ChartStage, name: str) -> tuple[Object, str]:
    """Have a move stand in Evicting for a minute; return the former pod and the target."""
    manifest = chart.jobs.job(name, "--ignore-sigterm")
    manifest["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = LINGER_SECONDS
    await chart.create(manifest)
    pod = await chart.training(name)
    await chart.reported(name, step=20)
    target = await chart.other_node(pod)
    await chart.ask_for_move(name, pod, target)
    assert (await chart.reaches(name, ["Evicting"]))["state"] == "Evicting", await chart.account()
    return pod, target


async def check_arrival(chart: ChartStage, name: str, former: Object, target: str) -> None:
    """Check that the move was made to its end: the replica trains on its target, and lost nothing."""
    migration = await chart.ended(name, seconds=180)
    assert migration["state"] == "Succeeded", await chart.account()
    after = await chart.training(name, former=former["metadata"]["uid"])
    assert after["spec"]["nodeName"] == target
    await chart.let_finish(name)
    await chart.eventually(lambda: chart.completed(name), f"{name} is complete", seconds=120)
    check_trained(await chart.result(name))


async def test_installed_as_it_is_it_moves_what_has_converged(chart: ChartStage):
    """No values but images, nodes and a namespace; in a namespace that enforces the standard `restricted`."""
    notes = await chart.install(chart.values(SPECON))
    managers = await chart.pods_of_managers()
    assert len(managers) == 2
    for pod in managers:
        (status,) = pod["status"]["containerStatuses"]
        assert status["ready"], status
        assert status["restartCount"] == 0, status
    webhook = await chart.webhook()
    assert webhook is not None
    assert all(hook["clientConfig"]["caBundle"] for hook in webhook["webhooks"])
    crowded, empty, *_ = await chart.nodes()
    recreated, kept = ({**ANNOTATIONS, f"specon.io/{key}": value} for key, value in CHOICES)
    await chart.create(chart.jobs.pod("mover", annotations=recreated, prefers=crowded))
    pod = await chart.training("mover")
    assert INJECTED.items() <= pod["metadata"]["labels"].items()
    await chart.create(chart.jobs.pod("neighbour", annotations=kept, prefers=crowded))
    await chart.training("neighbour")

    async def classified() -> bool:
        return (await chart.progress("mover")).get("category") == "converged"

    await chart.eventually(classified, "it is found to have converged")

    async def moved() -> Object | None:
        found, _ = await chart.api.list(MIGRATIONS, chart.namespace)
        ended = [one["status"] for one in found if (one.get("status") or {}).get("state") == "Succeeded"]
        return next(iter(ended), None)

    migration = await chart.eventually(moved, "the policy has moved it", seconds=120)
    assert (migration["source"], migration["target"]) == (pod["spec"]["nodeName"], empty)
    trial = trial_pod(notes)
    trial["spec"] |= {"nodeSelector": dict(chart.settings.node_selector)}
    trial["spec"]["containers"][0]["image"] = chart.settings.trainer_image
    await chart.create(trial)
    await chart.reported("specon-trial", step=100)
    assert migration["policy"] == "specon"


async def test_upgrade_and_rollback_in_the_middle_of_a_move_end_it_all_the_same(chart: ChartStage):
    """The next manager takes up what the one before it had begun; two moves, and nobody notices."""
    await chart.install(chart.values(PATIENT))
    before = {pod["metadata"]["uid"] for pod in await chart.pods_of_managers()}
    first = await lingering_move(chart, "upgraded")
    await chart.release.upgrade(chart.values({**PATIENT, "tick": 0.7}, podAnnotations={"revision": "two"}))
    between = {pod["metadata"]["uid"] for pod in await chart.pods_of_managers()}
    assert not before & between
    assert (await chart.migration("upgraded"))["state"] == "Evicting", TOO_SLOW
    await check_arrival(chart, "upgraded", *first)
    second = await lingering_move(chart, "rolled-back")
    await chart.release.rollback()
    assert not between & {pod["metadata"]["uid"] for pod in await chart.pods_of_managers()}
    assert (await chart.migration("rolled-back"))["state"] == "Evicting", TOO_SLOW
    await check_arrival(chart, "rolled-back", *second)
    assert len(await chart.release.history()) == 3


async def test_removed_it_leaves_pods_training_and_what_the_documentation_says(chart: ChartStage):
    """Custom resources, Secret and Lease stay; installed again, it ends the move that was under way."""
    await chart.install(chart.values(PATIENT))
    await chart.create(chart.jobs.job("stays"))
    stays = await chart.training("stays")
    await chart.reported("stays", step=20)
    former, target = await lingering_move(chart, "interrupted")
    await chart.release.uninstall()
    assert await chart.webhook() is None
    for resource in REMOVED:
        assert (await chart.api.list(resource, chart.system))[0] == []
    for resource, name in (
        (LEASES, "specon"),
        (SECRETS, "specon-certificates"),
        (CUSTOM_RESOURCES, "migrations.specon.io"),
        (CUSTOM_RESOURCES, "trainingprogresses.specon.io"),
    ):
        assert await chart.found(resource, name, chart.system if resource.namespaced else None)
    assert len((await chart.api.list(TRAINING_PROGRESSES, chart.namespace))[0]) == 2
    still = await chart.training("stays")
    assert still["metadata"]["uid"] == stays["metadata"]["uid"]
    await chart.create(chart.jobs.pod("later"))
    later = await chart.training("later")
    assert "specon.io/sidecar" not in later["metadata"].get("labels", {})
    await chart.install(chart.values(PATIENT))
    await check_arrival(chart, "interrupted", former, target)
    seen = (await chart.progress("stays"))["step"]
    await chart.reported("stays", step=seen + 20)
    assert await chart.phase(stays) == "Running"
