"""Weights of running pods: what their trainers request is changed in place, and given back."""

import pytest

from specon_manager.backends.kube.objects.pod import slim_pod
from specon_manager.backends.kube.objects.weights import bursts, quantity, read_whole_cpu, why_not
from specon_manager.backends.kube.owners.bare import manifest_of
from specon_manager.backends.kube.transport.resources import POD_RESIZE, PODS
from specon_manager.core.state import State
from specon_manager.model.actions import SetWeight
from specon_manager.model.cluster import Job, JobSpec, Phase, Replica
from specon_manager.model.events import JobObserved, ReplicaStarted
from support.kube.stage import Stage, make_pod, template

REPLICA = "default/p/worker/0"
ALLOWED = {"specon.io/min-cpu": "0.25"}


@pytest.fixture
def nodes():
    return 1


async def _running(api, stage, annotations=ALLOWED, **spec):
    await make_pod(api, "p", annotations=annotations, **spec)
    return (await stage.hear(ReplicaStarted, replica=REPLICA)).incarnation


async def _weigh(stage, incarnation, weight):
    order = SetWeight(replica=REPLICA, incarnation=incarnation, weight=weight, reason="test")
    await stage.backend.carry_out(order)


async def _requested(api):
    pod = await api.get(PODS, "p", "default")
    cpu = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    return cpu, pod["metadata"]["annotations"].get("specon.io/cpu"), pod["metadata"]["uid"]


async def test_a_weight_is_a_share_of_what_the_pod_requested_first(api):
    """Lowered, lowered again, and given back: the same pod all the time, nothing restarted."""
    async with Stage(api) as stage:
        uid = await _running(api, stage)
        for weight, cpu in ((0.5, "500m"), (0.5, "500m"), (0.3, "300m"), (1.0, "1000m")):
            await _weigh(stage, uid, weight)
            assert await _requested(api) == (cpu, "1000m", uid)


async def test_nothing_goes_below_what_the_owner_allows(api):
    """A quarter of a core, whatever the weight; and nothing at all is lowered without that annotation."""
    async with Stage(api) as stage:
        uid = await _running(api, stage)
        await _weigh(stage, uid, 0.01)
        assert (await _requested(api))[0] == "250m"


async def test_without_a_lower_bound_nothing_is_lowered(api):
    """Its owner did not allow it."""
    async with Stage(api) as stage:
        uid = await _running(api, stage, annotations={})
        await _weigh(stage, uid, 0.5)
        assert (await _requested(api))[:2] == ("1", None)


async def test_a_pod_of_the_same_name_that_came_later_is_left_alone(api):
    """A weight is for one incarnation."""
    async with Stage(api) as stage:
        await _running(api, stage)
        await _weigh(stage, "another-uid", 0.5)
        assert (await _requested(api))[:2] == ("1", None)


async def test_what_a_replica_gave_up_stays_reserved_for_it(api):
    """Otherwise somebody would take it, and it could never be given back."""
    async with Stage(api) as stage:
        uid = await _running(api, stage)
        before = stage.said(JobObserved)[-1].spec
        await _weigh(stage, uid, 0.25)
        await stage.until(lambda: stage.backend._ledger.live(REPLICA).requests.cpu == 0.25)
        assert stage.said(JobObserved)[-1].spec.requests == before.requests
        assert stage.backend._ledger.live(REPLICA).reserved.cpu == before.requests.cpu
        assert before.lowest_cpu == 0.25


@pytest.mark.parametrize(
    ("resources", "may"),
    [
        ({"requests": {"cpu": "1"}}, True),
        ({"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}}, True),
        ({"requests": {"cpu": "1"}, "limits": {"cpu": "1500m"}}, True),
        ({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}, False),
        ({"requests": {"memory": "1Gi"}}, False),
        ({"requests": "?", "limits": 7}, False),
    ],
)
def test_a_trainer_uses_what_others_leave_unless_a_limit_forbids_it(resources, may):
    """One that requests no processors shares them anyway."""
    assert bursts({"name": "trainer", "resources": resources}) is may


async def test_the_job_says_whether_it_uses_more_than_it_requests(api):
    """The trainer of a bare pod without limits does."""
    async with Stage(api) as stage:
        await _running(api, stage)
        assert stage.said(JobObserved)[-1].spec.bursts


async def test_a_new_manager_gives_back_what_an_earlier_one_took(api):
    """It knows of no weight, so everybody begins with what is their own."""
    async with Stage(api) as stage:
        uid = await _running(api, stage)
        await _weigh(stage, uid, 0.5)
    spec = JobSpec(name="default/p", replicas=(REPLICA,), placed_by="owner")
    record = Replica(name=REPLICA, job="default/p", phase=Phase.RUNNING, incarnation=uid, node="node-1")
    state = State(jobs={spec.name: Job(spec=spec, order=0, submitted_at=0.0)}, replicas={REPLICA: record})
    async with Stage(api, state=state) as stage:
        await stage.until(lambda: stage.backend._ledger.live(REPLICA).requests.cpu == 1.0)
    assert (await _requested(api))[0] == "1000m"


async def test_whether_pods_can_be_resized_is_asked_of_the_server(api):
    """From Kubernetes 1.33 on they can."""
    assert await api.serves(POD_RESIZE)


@pytest.mark.parametrize(
    ("spec", "status", "trainer", "words"),
    [
        ({}, {"qosClass": "Burstable"}, {"resources": {"requests": {"cpu": "1"}}}, ""),
        ({}, {"qosClass": "Guaranteed"}, {"resources": {"requests": {"cpu": "1"}}}, "Guaranteed"),
        ({}, {}, {"resources": {"requests": {"memory": "1Gi"}}}, "requests no processors"),
        ({}, {}, {}, "requests no processors"),
        (
            {},
            {},
            {
                "resources": {"requests": {"cpu": "1"}},
                "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}],
            },
            "restarted",
        ),
        (
            {},
            {},
            {
                "resources": {"requests": {"cpu": "1"}},
                "resizePolicy": [{"resourceName": "memory", "restartPolicy": "RestartContainer"}],
            },
            "",
        ),
        ({"os": {"name": "windows"}}, {}, {"resources": {"requests": {"cpu": "1"}}}, "Windows"),
    ],
)
def test_pods_whose_processors_cannot_be_lowered_in_place_say_why(spec, status, trainer, words):
    """The words are for people."""
    why = why_not(spec, status, trainer)
    assert (words in why) if words else why == ""


@pytest.mark.parametrize(
    ("written", "cores"),
    [("1500m", 1.5), ("2", 2.0), ("nonsense", None), ("-1", None), (7, None), (None, None)],
)
def test_what_was_requested_first_is_read_from_the_annotation(written, cores):
    """Nonsense in it is as if it were not there."""
    assert read_whole_cpu(written) == cores


def test_a_pod_that_is_created_again_requests_what_it_did_first():
    """Its manifest is taken from the running pod, whose request may have been lowered."""
    pod = template({"specon.io/cpu": "1000m"})
    pod["metadata"] |= {"name": "p", "namespace": "a"}
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "250m"
    assert slim_pod({**pod, "status": {}}).reserved.cpu == 1.0
    manifest = manifest_of(pod)
    assert manifest["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "1000m"
    assert "specon.io/cpu" not in manifest["metadata"]["annotations"]


def test_cores_are_written_to_the_thousandth():
    """Never as nothing at all."""
    assert [quantity(cores) for cores in (1.0, 0.2505, 0.0001)] == ["1000m", "250m", "1m"]


async def test_who_takes_turns_is_not_resized(api):
    """Its sidecar asks when it runs; what it requests stays as it is."""
    turns = {"specon.io/share": "time", "specon.io/gpu-memory": "1Gi"}
    async with Stage(api) as stage:
        uid = await _running(api, stage, annotations=turns)
        await _weigh(stage, uid, 0.02)
        assert (await _requested(api))[:2] == ("1", None)
        spec = stage.said(JobObserved)[-1].spec
        assert (spec.share, spec.gpu_memory) == ("time", 2.0**30)
        assert spec.unshareable.startswith("the pod needs shareProcessNamespace: true")
        assert not stage.backend.is_ending(REPLICA)
        await api.delete(PODS, "p", "default")
        await stage.until(lambda: stage.backend.is_ending(REPLICA))
