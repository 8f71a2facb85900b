"""Elastic jobs end to end: held at a gate, admitted whole, scaled and preempted after a checkpoint."""

import pytest

from specon_manager.backends.kube.transport.resources import JOBS, PODS, Object
from support.live.elastic import (
    ADMISSION_GATE,
    SCALED,
    SUSPENDED_FOR,
    all_running,
    changed,
    changing,
    decisions,
    elastic_job,
    gates,
    in_phase,
    live_pods,
    mark,
    training_job,
    with_cpu,
)
from support.live.jobs import ANNOTATIONS, ONLY_WHEN_ASKED
from support.live.stage import MOVES_NOTHING, LiveStage, check_trained

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]


async def finish(live: LiveStage, name: str, workers: int) -> None:
    """Let every worker of a job do its last steps at once, and see the job complete."""
    for index in range(workers):
        await live.let_finish(f"{name}-{index}")
    await live.eventually(lambda: live.completed(name), f"{name} is complete", seconds=120)


async def test_a_gang_is_held_until_it_is_admitted_as_a_whole(live: LiveStage):
    """What has no room waits at the gate with all its pods; those very pods get their nodes and start."""
    await live.manage(decisions=decisions("dragon"))
    await live.create(elastic_job(live, "early", cpu="1200m"))
    early = await all_running(live, "early", 2)
    assert {pod["spec"]["nodeName"] for pod in early.values()} == set((await live.nodes())[:2])
    await live.create(elastic_job(live, "late", cpu="900m"))
    await in_phase(live, "late", "Waiting")

    async def explained() -> Object | None:
        status = await training_job(live, "late")
        return status if status.get("waitingFor") else None

    waiting = await live.eventually(explained, "it is said what late waits for")
    assert waiting["position"] == 1
    assert "room" in waiting["waitingFor"]
    held = await live_pods(live, "late")
    assert {index: gates(pod) for index, pod in held.items()} == {0: [ADMISSION_GATE], 1: [ADMISSION_GATE]}
    await finish(live, "early", 2)
    admission = await changed(live, "late", "admit")
    assert admission["state"] == "Succeeded", await live.account()
    late = await all_running(live, "late", 2)
    assert {pod["metadata"]["uid"] for pod in late.values()} == {
        pod["metadata"]["uid"] for pod in held.values()
    }
    assert len({pod["spec"]["nodeName"] for pod in late.values()}) == 1, "one node has room for both"
    running = await in_phase(live, "late", "Running")
    assert running["workers"] == 2
    await finish(live, "late", 2)
    await in_phase(live, "late", "Ended")
    for index in range(2):
        assert check_trained(await live.result(f"late-{index}")) == []


@pytest.mark.parametrize("killed_in", ["", "Checkpointing", "Leaving"])
async def test_a_trial_preempts_a_best_effort_job_which_goes_on_from_its_checkpoint(
    live: LiveStage, killed_in: str
):
    """Checkpoint, suspension, the trial, then the victim again; a manager that dies in it changes nothing."""
    (manager,) = await live.manage(decisions=decisions("fitgpp"))
    # The only checkpoint there can be is the one that the preemption asks for.
    flags = (*ONLY_WHEN_ASKED, "--forget-on-sigterm")
    asked = {"checkpoint": "signal:USR1", "grace_period": "30s"}
    await live.create(elastic_job(live, "victim", *flags, cpu="1200m", **asked))
    before = await all_running(live, "victim", 2)
    await live.reported("victim", step=20)
    await live.create(elastic_job(live, "trial", workers=1, cpu="1500m", **{"class": "trial"}))
    if killed_in:
        await changing(live, "victim", "preempt", killed_in)
        manager.kill()
        manager.start(live.arguments)
    preemption = await changed(live, "victim", "preempt")
    assert preemption["state"] == "Succeeded", await live.account()
    await all_running(live, "trial", 1)
    owner = await live.owner("victim")
    assert owner["spec"]["suspend"] is True
    assert mark(owner)[SUSPENDED_FOR].startswith("held-")
    assert await live_pods(live, "victim") == {}
    assert (await training_job(live, "victim"))["phase"] == "Waiting"
    await finish(live, "trial", 1)
    after = await all_running(live, "victim", 2)
    assert not {pod["metadata"]["uid"] for pod in before.values()} & {
        pod["metadata"]["uid"] for pod in after.values()
    }
    resumed = await in_phase(live, "victim", "Running")
    assert resumed["preemptions"] == 1
    owner = await live.owner("victim")
    assert owner["spec"].get("suspend") is not True
    assert SUSPENDED_FOR not in mark(owner)
    await finish(live, "victim", 2)
    (step,) = check_trained(await live.result("victim-0"))
    assert step >= 20


@pytest.mark.parametrize("killed_in", [None, ("scale-in", "Leaving"), ("scale-out", "Coming")])
async def test_a_lighter_job_gives_workers_to_a_heavier_one_and_gets_them_back(
    live: LiveStage, killed_in: tuple[str, str] | None
):
    """Its first two workers train on all the time; those that go and come lose nothing."""
    (manager,) = await live.manage(decisions=decisions("kod2", cooldown=0))
    signal = {"checkpoint": "signal:USR1"}
    span = {"min_workers": "2", "max_workers": "4"}
    await live.create(elastic_job(live, "light", workers=4, cpu="800m", **span, **signal))
    before = await all_running(live, "light", 4)
    await live.reported("light", step=20)
    await live.create(elastic_job(live, "heavy", workers=3, cpu="500m"))

    async def killed(kind: str) -> None:
        if killed_in is not None and killed_in[0] == kind:
            await changing(live, "light", *killed_in)
            manager.kill()
            manager.start(live.arguments)

    await killed("scale-in")
    scaled = await changed(live, "light", "scale-in")
    assert scaled["state"] == "Succeeded", await live.account()
    between = await all_running(live, "light", 2)
    heavy = await all_running(live, "heavy", 3)
    assert not {gate for pod in heavy.values() for gate in gates(pod)}
    owner = await live.owner("light")
    assert (owner["spec"]["completions"], owner["spec"]["parallelism"]) == (2, 2)
    assert mark(owner)[SCALED] == "4:2"
    await finish(live, "heavy", 3)
    await killed("scale-out")
    scaled = await changed(live, "light", "scale-out")
    assert scaled["state"] == "Succeeded", await live.account()
    after = await all_running(live, "light", 4)
    for index in (0, 1):
        uids = {pods[index]["metadata"]["uid"] for pods in (before, between, after)}
        assert len(uids) == 1, f"worker {index} was to train on"
    owner = await live.owner("light")
    assert (owner["spec"]["completions"], owner["spec"]["parallelism"]) == (4, 4)
    await finish(live, "light", 4)
    resumed = [check_trained(await live.result(f"light-{index}")) for index in range(4)]
    assert resumed[:2] == [[], []]
    assert all(len(steps) == 1 and steps[0] > 0 for steps in resumed[2:])


async def test_a_converged_pod_lends_its_processors_in_place_and_gets_them_back(live: LiveStage):
    """The request is lowered while another pod on the node grows, and restored after; nothing restarts."""
    await live.manage(decisions=MOVES_NOTHING)
    node, *_ = await live.nodes()
    lends = {**ANNOTATIONS, "specon.io/min-cpu": "0.2", "specon.io/migrate": "false"}
    await live.create(with_cpu(live.jobs.pod("lends", annotations=lends, prefers=node), "800m"))
    before = await live.training("lends")
    # It is not judged before it has ended, and counts as one that grows.
    grows = {**ANNOTATIONS, "specon.io/interval": "1h", "specon.io/migrate": "false"}
    await live.create(with_cpu(live.jobs.pod("grows", annotations=grows, prefers=node), "200m"))
    assert (await live.training("grows"))["spec"]["nodeName"] == before["spec"]["nodeName"] == node

    async def requests(cpu: str) -> Object | None:
        """Return the pod once the kubelet has given it so many processors."""
        (pod,) = await live.pods_of("lends")
        (trainer,) = (one for one in pod["status"]["containerStatuses"] if one["name"] == "trainer")
        return pod if trainer.get("resources", {}).get("requests", {}).get("cpu") == cpu else None

    await live.eventually(lambda: requests("200m"), "its processors are lowered")
    await live.let_finish("grows")
    after = await live.eventually(lambda: requests("800m"), "it has its processors back")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert [one["restartCount"] for one in after["status"]["containerStatuses"]] == [0]
    await live.let_finish("lends")

    async def ended() -> bool:
        return await live.phase(after) == "Succeeded"

    await live.eventually(ended, "the training has ended", seconds=120)
    assert check_trained(await live.result("lends")) == []


async def test_a_job_that_was_created_suspended_is_held_without_pods_and_resumed(live: LiveStage):
    """It is known from its owner's object alone; a worker that crashes later comes back without waiting."""
    await live.manage(decisions=decisions("dragon"))
    await live.create(elastic_job(live, "early", cpu="1200m"))
    await all_running(live, "early", 2)
    manifest = elastic_job(live, "asleep", cpu="1200m")
    manifest["spec"] |= {"suspend": True, "backoffLimit": 3}
    await live.create(manifest)
    await in_phase(live, "asleep", "Waiting")
    assert await live_pods(live, "asleep") == {}
    await finish(live, "early", 2)
    assert (await changed(live, "asleep", "admit"))["state"] == "Succeeded", await live.account()
    before = await all_running(live, "asleep", 2)
    assert (await live.owner("asleep"))["spec"]["suspend"] is False
    await live.reported("asleep", 1, step=20)
    await live.api.delete(PODS, before[1]["metadata"]["name"], live.namespace)
    again = await live.training("asleep", 1, former=before[1]["metadata"]["uid"])
    assert gates(again) == []
    after = await all_running(live, "asleep", 2)
    assert after[0]["metadata"]["uid"] == before[0]["metadata"]["uid"]
    await finish(live, "asleep", 2)
    (step,) = check_trained(await live.result("asleep-1"))
    assert step >= 20


async def test_whoever_edits_the_number_of_workers_in_a_change_is_obeyed(live: LiveStage):
    """A scale-out that waits for a checkpoint that never comes ends; the number that stands there counts."""
    await live.manage(decisions=decisions("kod2", cooldown=0))
    flags = (*ONLY_WHEN_ASKED, "--ignore-checkpoint-requests")
    said = {"checkpoint": "signal:USR1", "min_workers": "2", "max_workers": "4"}
    await live.create(elastic_job(live, "edited", *flags, cpu="800m", **said))
    await all_running(live, "edited", 2)
    change = await changing(live, "edited", "scale-out", "Checkpointing")
    assert change["state"] == "Checkpointing", await live.account()
    edit = {"spec": {"completions": 3, "parallelism": 3}}
    await live.api.patch(JOBS, "edited", live.namespace, edit, form="merge")
    ended = await changed(live, "edited", "scale-out", seconds=20)
    assert ended["state"] == "RolledBack", await live.account()
    assert "owner" in ended["note"]
    await all_running(live, "edited", 3)
    owner = await live.owner("edited")
    assert (owner["spec"]["completions"], owner["spec"]["parallelism"]) == (3, 3)
    assert SCALED not in mark(owner)


async def test_a_gang_that_is_not_ready_in_time_is_put_back_as_a_whole(live: LiveStage):
    """It holds no node while it pauses, so that another job has the room; then it is tried again."""
    chosen = decisions("dragon")
    chosen["deadlines"]["ready"] = 8
    chosen["budgets"]["retry_cooldown"] = 20
    await live.manage(decisions=chosen)
    broken = elastic_job(live, "broken", cpu="1200m")
    broken["spec"]["template"]["spec"]["containers"][0]["image"] = "specon-e2e/nowhere:0"
    await live.create(broken)
    admission = await changed(live, "broken", "admit")
    assert admission["state"] == "RolledBack", await live.account()
    owner = await live.owner("broken")
    assert owner["spec"]["suspend"] is True
    assert mark(owner)[SUSPENDED_FOR].startswith("held-")
    assert await live_pods(live, "broken") == {}
    status = await training_job(live, "broken")
    assert status["phase"] == "Waiting", f"{status} {await live.account()}"
    await live.create(elastic_job(live, "sound", cpu="1200m"))
    await all_running(live, "sound", 2)
    await finish(live, "sound", 2)
    await in_phase(live, "broken", "Starting")
