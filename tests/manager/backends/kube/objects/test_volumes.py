import pytest

from specon_manager.backends.kube.objects.annotations import Options
from specon_manager.backends.kube.objects.pod import slim_pod
from specon_manager.backends.kube.objects.volumes import VolumeClaim, judge_volumes, slim_claim, slim_volume
from specon_manager.model.constraints import Requirement
from support.kube.stage import template

LOG = Options(log_path="/data/train.log", checkpoint_path="/data/checkpoints")


def _pod(*volumes, mounts=({"name": "data", "mountPath": "/data"},)):
    pod = template(volumes=list(volumes))
    pod["spec"]["containers"][0]["volumeMounts"] = list(mounts)
    pod["metadata"] |= {"name": "p", "namespace": "a", "uid": "u"}
    detail = slim_pod(pod).detail
    assert detail is not None
    return detail


CLAIMED = {"name": "data", "persistentVolumeClaim": {"claimName": "disk"}}
BOUND = {"disk": VolumeClaim(name="disk", bound=True, volume="pv")}


@pytest.mark.parametrize("source", ["emptyDir", "hostPath", "ephemeral", "csi"])
def test_checkpoints_that_do_not_come_along_forbid_a_move(source):
    """The reason names the volume and where it is."""
    verdict = judge_volumes(_pod({"name": "data", source: {}}), LOG, {}, {})
    assert verdict.immovable.startswith("the checkpoints are on ")
    assert "(/data)" in verdict.immovable


def test_a_log_that_is_no_file_is_on_no_volume():
    """What is printed needs none; checkpoints do."""
    pod = _pod({"name": "data", "nfs": {}})
    options = Options(log_path="stdout", checkpoint_path="/data/checkpoints")
    assert judge_volumes(pod, options, {}, {}).immovable == ""


def test_the_log_on_a_volume_that_is_lost_forbids_a_move_too():
    """Though the checkpoints are safe."""
    mounts = ({"name": "data", "mountPath": "/data"}, {"name": "log", "mountPath": "/data/logs"})
    pod = _pod({"name": "data", "nfs": {}}, {"name": "log", "emptyDir": {}}, mounts=mounts)
    options = Options(log_path="/data/logs/train.log", checkpoint_path="/data/checkpoints")
    assert judge_volumes(pod, options, {}, {}).immovable.startswith("the log is on an emptyDir")
    assert judge_volumes(pod, LOG, {}, {}).immovable == ""


def test_a_path_on_no_volume_is_in_the_container():
    """/database is not below /data."""
    options = Options(checkpoint_path="/database/checkpoints")
    verdict = judge_volumes(_pod({"name": "data", "nfs": {}}), options, {}, {})
    assert (
        verdict.immovable == "the checkpoints are in the container's own file system (/database/checkpoints)"
    )


def test_the_affinity_of_a_volume_restricts_the_targets():
    """As the node affinity of the PersistentVolume says, or its zone labels where it has none."""
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
    bound = slim_volume(
        {"metadata": {"name": "pv"}, "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}}
    )
    assert judge_volumes(_pod(CLAIMED), LOG, BOUND, {"pv": bound}).terms == (
        ((Requirement(key="zone", operator="In", values=("a",)),),),
    )
    zones = {"topology.kubernetes.io/zone": "a__b"}
    old = slim_volume({"metadata": {"name": "pv", "labels": zones}, "spec": {}})
    assert judge_volumes(_pod(CLAIMED), LOG, BOUND, {"pv": old}).terms[0][0][0].values == ("a", "b")


def test_claims_that_are_missing_or_unbound_forbid_a_move():
    """Where their volume will be is not known."""
    assert judge_volumes(_pod(CLAIMED), LOG, {}, {}).immovable == "its claim disk is not there"
    unbound = slim_claim({"metadata": {"name": "disk"}, "status": {"phase": "Pending"}})
    assert (
        judge_volumes(_pod(CLAIMED), LOG, {"disk": unbound}, {}).immovable
        == "its claim disk is not bound to a volume"
    )


def test_a_directory_of_one_node_forbids_a_move():
    """A PersistentVolume of a hostPath without an affinity does not name its node."""
    volume = slim_volume({"metadata": {"name": "pv"}, "spec": {"hostPath": {"path": "/x"}}})
    assert "hostPath" in judge_volumes(_pod(CLAIMED), LOG, BOUND, {"pv": volume}).immovable


def test_a_directory_that_many_nodes_may_have_is_taken_for_shared() -> None:
    """A hostPath that its administrator offers as ReadWriteMany is the same on every node."""
    spec = {"hostPath": {"path": "/x"}, "accessModes": ["ReadWriteMany"]}
    volume = slim_volume({"metadata": {"name": "pv"}, "spec": spec})
    assert judge_volumes(_pod(CLAIMED), LOG, BOUND, {"pv": volume}).immovable == ""


def test_a_volume_that_all_nodes_reach_is_no_obstacle():
    """ReadWriteOnce is waited for, not refused."""
    volume = slim_volume({"metadata": {"name": "pv"}, "spec": {"nfs": {}, "accessModes": ["ReadWriteOnce"]}})
    verdict = judge_volumes(_pod(CLAIMED), LOG, BOUND, {"pv": volume})
    assert (verdict.immovable, verdict.terms) == ("", ())
