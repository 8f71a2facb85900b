"""What is written of TrainJobs whose trainer says nothing, and what is left to Kubeflow Trainer."""

import msgspec
import pytest

from specon_manager.backends.kube.reporting.train_job_status import (
    TrainJobStatusWriter,
    is_anothers,
    trainer_status,
)
from specon_manager.backends.kube.transport.api import ApiError
from specon_manager.core.state import State
from specon_manager.model.cluster import Job, JobSpec, Replica
from specon_manager.model.progress import Progress
from specon_sidecar.classify.curve import Estimate

PROGRESS = Progress(
    step=250, step_at=90.0, total_steps=1000, metric="loss", value=0.51234567,
    remaining_seconds=Estimate(value=1234.6, uncertainty=5.0),
)  # fmt: skip
NAME = "ml/bert/worker/0"


def test_it_is_said_in_trainer_s_words():
    """Whole percents and seconds, metrics as text, and the time of the step."""
    assert trainer_status(PROGRESS, 100.0, 1_795_000_000.0) == {
        "progressPercentage": 25,
        "estimatedRemainingSeconds": 1235,
        "metrics": [
            {"name": "current_step", "value": "250"},
            {"name": "total_steps", "value": "1000"},
            {"name": "loss", "value": "0.512346"},
        ],
        "lastUpdatedTime": "2026-11-18T11:06:30Z",
    }


def test_what_is_not_known_is_not_said():
    """Nor the end, before it is there."""
    said = trainer_status(Progress(step=7, step_at=0.0), 0.0, 0.0)
    assert said == {
        "metrics": [{"name": "current_step", "value": "7"}],
        "lastUpdatedTime": "1970-01-01T00:00:00Z",
    }
    assert trainer_status(Progress(), 0.0, 0.0) is None
    late = msgspec.structs.replace(PROGRESS, step=1000)
    assert trainer_status(late, 0.0, 0.0)["progressPercentage"] == 99


def written_by(*managers):
    fields = {"f:status": {"f:trainerStatus": {"f:progressPercentage": {}}}}
    return {
        "metadata": {"managedFields": [{"manager": name, "fieldsV1": fields} for name in managers]},
        "status": {"trainerStatus": {"progressPercentage": 3}},
    }


@pytest.mark.parametrize(
    ("found", "theirs"),
    [
        ({"status": {"jobsStatus": []}}, False),
        (written_by("specon-manager"), False),
        (written_by("trainer-status"), True),
        (written_by("specon-manager", "trainer-status"), True),
        ({"status": {"trainerStatus": {"progressPercentage": 3}}}, True),
    ],
    ids=["nobody", "we", "trainer", "both", "unmarked"],
)
def test_what_another_wrote_is_another_s(found, theirs):
    """By the API server's own marks; without any it may be anybody's."""
    assert is_anothers(found) is theirs


class Server:
    """One TrainJob, with a version; it keeps what is written, and marks it as ours."""

    def __init__(self):
        self.version, self.status, self.patched = 1, {}, []
        self.managers = ["specon-manager"]

    async def get(self, resource, name, namespace):
        assert (resource.plural, name, namespace) == ("trainjobs", "bert", "ml")
        found = written_by(*self.managers)
        found["metadata"] |= {"uid": "u", "resourceVersion": str(self.version)}
        return {**found, "status": self.status}

    async def patch(self, resource, name, namespace, body, *, form, subresource):
        del resource, name, namespace
        assert (form, subresource) == ("merge", "status")
        if body["metadata"]["resourceVersion"] != str(self.version):
            raise ApiError(409, "Conflict", "changed")
        self.patched.append(body["status"]["trainerStatus"])
        if self.version:
            kept = {key: value for key, value in self.patched[-1].items() if value is not None}
            self.status = {"trainerStatus": kept}
        self.version += 1
        return {"status": self.status}


def state(progress=PROGRESS):
    job = Job(spec=JobSpec(name="ml/bert", replicas=(NAME,)), order=0, submitted_at=0.0)
    replica = Replica(name=NAME, job="ml/bert", incarnation="i", progress=progress)
    return msgspec.structs.replace(State(), jobs={"ml/bert": job}, replicas={NAME: replica})


def writer(server, kind="TrainJob", holds=True):
    async def sleep(_):
        pass

    owner = {"kind": kind, "name": "bert", "namespace": "ml", "uid": "u"}
    return TrainJobStatusWriter(
        server,
        lambda _: owner,
        holds=lambda: holds,
        seconds=60,
        now=lambda: 100.0,
        wall=lambda: 0.0,
        sleep=sleep,
    )


async def test_each_new_step_is_written_once():
    """And what is not known any more is taken away."""
    server = Server()
    made = writer(server)
    await made.look(state())
    await made.look(state())
    assert len(server.patched) == 1
    later = msgspec.structs.replace(PROGRESS, step=300, step_at=99.0, remaining_seconds=None)
    await made.look(state(later))
    assert server.patched[1]["estimatedRemainingSeconds"] is None
    assert server.status["trainerStatus"]["progressPercentage"] == 30


async def test_a_trainer_that_speaks_for_itself_is_left_alone():
    """For good, also where its words go again."""
    server = Server()
    server.managers, server.status = ["trainer-status"], {"trainerStatus": {"progressPercentage": 3}}
    made = writer(server)
    await made.look(state())
    server.status = {}
    await made.look(state(msgspec.structs.replace(PROGRESS, step_at=99.0)))
    assert server.patched == []


async def test_a_word_in_between_wins():
    """The write is bound to what was read; the next look sees whose it is."""
    server = Server()
    read = server.get

    async def get(*names):
        found = await read(*names)
        server.version += 1
        return found

    server.get = get
    await writer(server).look(state())
    assert server.patched == []


async def test_of_others_nothing_is_written():
    """Jobs of another kind, a manager that does not lead, a definition that has no such field."""
    server = Server()
    await writer(server, kind="Job").look(state())
    await writer(server, holds=False).look(state())
    assert server.patched == []
    server.version = 0
    made = writer(server)
    await made.look(state())
    server.version = 0
    await made.look(state(msgspec.structs.replace(PROGRESS, step_at=99.0)))
    assert len(server.patched) == 1
