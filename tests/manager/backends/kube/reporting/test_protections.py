"""For how long who removes nodes is asked to leave a pod alone."""

import math

import msgspec
import pytest

from specon_manager.backends.kube.objects.annotation_keys import SIGNALS
from specon_manager.backends.kube.reporting.protections import (
    DO_NOT_DISRUPT,
    SAFE_TO_EVICT,
    Protections,
    until,
    wanted_annotations,
)
from specon_sidecar.wire import Checkpoint
from support.decisions.cluster import DIGEST, replica_of
from support.decisions.snapshots import NOW, cluster_of

BOTH = ("do-not-disrupt", "safe-to-evict")
REPLICA = replica_of("p0")


def test_nothing_is_written_unless_it_is_switched_on():
    """Each by its name."""
    known = {"left": 600.0, "age": 60.0, "saved": True, "present": ""}
    assert wanted_annotations((), **known) == {DO_NOT_DISRUPT: None, SAFE_TO_EVICT: None}
    assert wanted_annotations(BOTH, **known) == {DO_NOT_DISRUPT: "11m", SAFE_TO_EVICT: "true"}


@pytest.mark.parametrize(
    ("left", "present", "expected"),
    [
        (7200.0, "", "180m"),
        (7200.0, "185m", "185m"),
        (7200.0, "300m", "180m"),
        (7200.0, "true", "180m"),
        (math.inf, "", None),
        (0.0, "180m", None),
    ],
)
def test_the_duration_counts_from_the_start_of_the_pod_and_is_seldom_changed(left, present, expected):
    """An hour old, two hours to go; what nobody knows protects nobody for ever."""
    assert until(left, 3600.0, present) == expected


class Server:
    """A pod, as far as it matters."""

    def __init__(self, **annotations):
        self.annotations, self.patches = dict(annotations), 0

    async def get(self, resource, name, namespace):
        del resource, name, namespace
        metadata = {"uid": self.uid, "annotations": dict(self.annotations), "resourceVersion": "1"}
        return {"metadata": metadata, "status": {"startTime": "1970-01-01T00:00:00Z"}}

    async def patch(self, resource, name, namespace, body, *, form):
        del resource, name, namespace, form
        self.patches += 1
        for key, value in body["metadata"]["annotations"].items():
            self.annotations.pop(key, None)
            if value is not None:
                self.annotations[key] = value


def staged(server, *, left=7200.0, saved=False):
    state = cluster_of({"node-0": "p"})
    job = state.jobs["default/p0"]
    spec = msgspec.structs.replace(job.spec, declared_seconds=job.attained(NOW) + left)
    state = state.with_job(msgspec.structs.replace(job, spec=spec))
    replica = state.replicas[REPLICA]
    if saved:
        checkpoint = Checkpoint(step=1, path="/c", digest=DIGEST)
        progress = msgspec.structs.replace(replica.progress, checkpoint=checkpoint)
        state = state.with_replica(msgspec.structs.replace(replica, progress=progress))
    server.uid = replica.incarnation
    pod = {"kind": "Pod", "name": "p0", "namespace": "default", "uid": replica.incarnation}
    return state, Protections(server, BOTH, lambda _: (pod,), holds=lambda: True)


async def test_it_is_written_once_and_another_hand_is_left_alone():
    """What its owner wrote stays; so does our own word while nothing has changed."""
    server = Server()
    state, protections = staged(server)
    assert await protections.keep(state, NOW) == 1
    assert server.annotations[SAFE_TO_EVICT] == "false"
    assert server.annotations[DO_NOT_DISRUPT].endswith("m")
    assert SIGNALS in server.annotations
    assert await protections.keep(state, NOW + 30) == 0
    theirs = Server(**{DO_NOT_DISRUPT: "true", SAFE_TO_EVICT: "true"})
    state, protections = staged(theirs)
    await protections.keep(state, NOW)
    assert theirs.annotations == {DO_NOT_DISRUPT: "true", SAFE_TO_EVICT: "true"}


async def test_it_may_be_evicted_once_its_checkpoint_is_verified():
    """From then on an eviction costs little."""
    server = Server()
    state, protections = staged(server)
    await protections.keep(state, NOW)
    saved, _ = staged(server, saved=True)
    assert await protections.keep(saved, NOW + 30) == 1
    assert server.annotations[SAFE_TO_EVICT] == "true"
