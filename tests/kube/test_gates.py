"""Pods of jobs in queues, with whole managers and their webhook: held, let through, or refused."""

import msgspec

from fakekube.failures import FailureError
from fakekube.kinds import PODS, TRAINING_JOBS, TRAINING_QUEUES
from support.kube.cluster_stage import DECISIONS, ClusterStage
from support.kube.training_templates import training_template

GATE = {"name": "specon.io/admission"}
TOLD = msgspec.structs.replace(DECISIONS, dry_run=True)
"""Nothing is ordered, and so nobody opens a gate."""


def queued(name, **annotations):
    template = training_template(name)
    template["metadata"]["annotations"] |= {"specon.io/queue": "team-a", **annotations}
    return template


async def make(stage, name, size=1):
    """Make an Indexed Job in a queue."""
    body = {"completionMode": "Indexed", "completions": size, "parallelism": size}
    return await stage.make("Job", name, template=queued(name), **body)


def pods(stage, name):
    """Return the pods of a Job by their index."""
    found = {}
    for pod in stage.cluster.store.all(PODS, "training"):
        labels = pod["metadata"].get("labels") or {}
        if labels.get("batch.kubernetes.io/job-name") == name:
            found[int(labels["batch.kubernetes.io/job-completion-index"])] = pod
    return found


async def test_a_job_in_a_queue_is_created_whole_and_takes_no_room(tmp_path):
    """Each pod has its sidecar and our gate, and no node."""
    async with ClusterStage(tmp_path) as stage:
        await stage.manage_and_lead(decisions=TOLD)
        await make(stage, "gang", size=3)
        free = await stage.make("Job", "free")
        await stage.trains(free)
        await stage.until(lambda: len(pods(stage, "gang")) == 3, "its pods are created")
        for pod in pods(stage, "gang").values():
            assert pod["spec"]["schedulingGates"] == [GATE]
            assert "nodeName" not in pod["spec"]
            assert [one["name"] for one in pod["spec"]["initContainers"]] == ["specon-sidecar"]


async def test_what_a_change_brings_about_goes_to_its_node_and_the_rest_waits(tmp_path):
    """Managers that stand by know the pins of TrainingJobs too: any of them may be asked about a pod."""
    async with ClusterStage(tmp_path) as stage:
        leader = await stage.manage_and_lead(decisions=TOLD)
        standby = await stage.manage("second", TOLD)
        manifest = {"metadata": {"name": "gang"}, "spec": {"job": "training/gang", "queue": "team-a"}}
        made = await stage.cluster.machinery.create(TRAINING_JOBS, "training", manifest)
        node = stage.nodes[-1]
        await stage.cluster.machinery.set_status(
            TRAINING_JOBS,
            made,
            change={"id": "change-1", "kind": "admit", "state": "Coming"},
            pins=[{"replica": "training/gang/worker/1", "hostname": node}],
        )
        await stage.until(standby.serves._list_pinned, "the one that stands by knows it")
        await stage.until(standby.serves._is_ready, "and can answer")
        leader.freeze()  # it would write down what it knows of this job, in which nothing is changed
        await make(stage, "gang", size=2)
        await stage.until(lambda: len(pods(stage, "gang")) == 2, "its pods are created")
        waits, goes = (pods(stage, "gang")[index] for index in (0, 1))
        assert waits["spec"]["schedulingGates"] == [GATE]
        assert "schedulingGates" not in goes["spec"]
        assert goes["spec"]["nodeSelector"] == {"kubernetes.io/hostname": node}


async def test_a_pod_that_would_be_held_waits_for_the_webhook(tmp_path):
    """Unheld it would take room that nobody gave it; a pod in no queue is let pass."""
    async with ClusterStage(tmp_path) as stage:
        manager = await stage.manage_and_lead(decisions=TOLD)
        await manager.kill()
        held = {**queued("held"), "metadata": {**queued("held")["metadata"], "name": "held"}}
        refused = None
        try:
            await stage.cluster.machinery.create(PODS, "training", held)
        except FailureError as error:
            refused = error
        assert refused is not None
        assert "gate.specon.io" in str(refused)
        free = training_template("free")
        free["metadata"]["name"] = "free"
        made = await stage.cluster.machinery.create(PODS, "training", free)
        assert "initContainers" not in made["spec"]


async def test_a_queue_counts_from_the_first_moment_on(tmp_path):
    """A manager that takes over knows the quotas before it orders anything, and hears of changes."""
    async with ClusterStage(tmp_path) as stage:
        spec = {"quota": {"cpu": "4", "memory": "8Gi"}}
        queue = {"metadata": {"name": "team-a"}, "spec": spec}
        await stage.cluster.machinery.create(TRAINING_QUEUES, "", queue)
        manager = await stage.manage_and_lead(decisions=TOLD)
        controller = manager.serves._server.controller
        assert controller is not None
        assert controller.state.settings.queues[0].quota.cpu == 4
        assert controller.state.queues["team-a"].quota.cpu == 4
        body = {"spec": {"quota": {"cpu": "6"}}}
        await stage.cluster.machinery.patch(TRAINING_QUEUES, ("", "team-a"), "merge", body)
        await stage.until(lambda: controller.state.queues["team-a"].quota.cpu == 6, "the core knows it")
        found = stage.cluster.store.get
        await stage.until(
            lambda: found(TRAINING_QUEUES, ("", "team-a")).get("status"), "its use is written down"
        )
        assert found(TRAINING_QUEUES, ("", "team-a"))["status"]["running"] == 0
