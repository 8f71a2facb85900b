"""What becomes of pods when they are created, and of jobs that nobody moves."""

import pytest

from specon_manager.backends.kube.transport.api import ApiError
from specon_manager.backends.kube.transport.resources import PODS
from support.live.jobs import ANNOTATIONS, NO_ANNOTATIONS
from support.live.stage import MOVES_NOTHING, LiveStage

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


async def test_a_pod_without_the_annotation_is_as_its_owner_made_it(live: LiveStage):
    """Nothing is added to a pod that does not ask for it, and nothing is known of it."""
    await live.manage(decisions=MOVES_NOTHING)
    manifest = live.jobs.pod("plain", annotations=NO_ANNOTATIONS)
    created = await live.create(manifest)
    assert [one["name"] for one in created["spec"]["containers"]] == ["trainer"]
    assert "initContainers" not in created["spec"]
    assert created["metadata"].get("labels", {}) == {}
    assert created["metadata"].get("annotations", {}) == {}
    named = {volume["name"] for volume in created["spec"]["volumes"]}
    assert named == {volume["name"] for volume in manifest["spec"]["volumes"]}
    # One that asks is known by then, so this one was not overlooked.
    await live.create(live.jobs.pod("asking"))
    await live.reported("asking")
    assert await live.progress("plain") == {}


@pytest.mark.parametrize(
    ("annotation", "value", "said"),
    [
        ("specon.io/alpha", "many", "specon.io/alpha: 'many'"),
        ("specon.io/chekpoint", "periodic", "did you mean specon.io/checkpoint"),
        ("specon.io/log-path", "/elsewhere/train.log", "is on no volume of container 'trainer'"),
    ],
)
async def test_a_wrong_annotation_is_refused_with_its_name(
    live: LiveStage, annotation: str, value: str, said: str
):
    """The creator of a pod with an unusable annotation is told which one it is, and why."""
    await live.manage(decisions=MOVES_NOTHING)
    with pytest.raises(ApiError) as refused:
        await live.create(live.jobs.pod("wrong", annotations={**ANNOTATIONS, annotation: value}))
    assert said in refused.value.message
    assert await live.found(PODS, "wrong", live.namespace) is None


async def test_a_job_with_a_sidecar_completes(live: LiveStage):
    """The sidecar ends after its trainer, and what it saw is in the TrainingProgress."""
    await live.manage(decisions=MOVES_NOTHING)
    await live.create(live.jobs.job("short", steps=200))
    pod = await live.training("short")
    assert [one["name"] for one in pod["spec"]["initContainers"]] == ["specon-sidecar"]
    status = await live.reported("short", step=20)
    assert status["node"] == pod["spec"]["nodeName"]
    assert status["incarnation"] == pod["metadata"]["uid"]
    assert 0 < status["loss"] <= 1.1
    await live.eventually(lambda: live.completed("short"), "the Job is complete")
    assert (await live.result("short"))["violations.txt"] == ""


async def test_a_job_that_converges_is_classified(live: LiveStage):
    """The category, its reason and the newest checkpoint can be read from the TrainingProgress."""
    await live.manage(decisions=MOVES_NOTHING)
    await live.create(live.jobs.pod("converging"))

    async def converged() -> bool:
        return (await live.progress("converging")).get("category") == "converged"

    await live.eventually(converged, "it is classified as converged")
    status = await live.progress("converging")
    assert status["phase"] == "Running"
    assert status["checkpoint"]["path"].startswith("/data/checkpoints/step-")
    assert status["checkpoint"]["step"] <= status["step"]
    assert status["since"] <= status["updatedAt"]
    assert status.get("moves", 0) == 0
