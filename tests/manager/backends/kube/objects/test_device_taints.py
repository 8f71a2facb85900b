"""What is read of devices, their taints, and the claims that hold them."""

import pytest

from specon_manager.backends.kube.objects.device_taints import (
    TOO_LATE,
    DeviceTaint,
    Tolerated,
    read_announcement,
    slim_claim,
    slim_rule,
    slim_slice,
)

GPU = ("gpu.example.com", "node-1", "gpu-0")
KEY = "example.com/service"


def taint(effect="NoSchedule", added=100.0):
    return DeviceTaint(KEY, "", effect, added)


def tolerated(**changes):
    given = {"key": KEY, "value": "", "effect": "NoExecute", "exists": True, "seconds": None}
    return Tolerated(**given | changes)


@pytest.mark.parametrize(
    ("taints", "tolerations", "expected"),
    [
        ([], [], None),
        ([taint()], [], (None,)),
        ([taint()], [tolerated(effect="")], None),
        ([taint()], [tolerated()], (None,)),
        ([taint()], [tolerated(effect="", key="other")], (None,)),
        ([taint("NoExecute")], [], TOO_LATE),
        ([taint("NoExecute")], [tolerated()], None),
        ([taint("NoExecute")], [tolerated(effect="")], TOO_LATE),
        ([taint("NoExecute")], [tolerated(seconds=0.0)], TOO_LATE),
        ([taint("NoExecute")], [tolerated(seconds=60.0), tolerated(seconds=600.0)], (160.0,)),
        ([taint("NoExecute")], [tolerated(exists=False, value="other", seconds=60.0)], TOO_LATE),
        ([taint("NoExecute", None)], [tolerated(seconds=60.0)], TOO_LATE),
        ([taint(), taint("NoExecute")], [tolerated(seconds=60.0)], (160.0,)),
        ([taint(), taint("NoExecute")], [], TOO_LATE),
    ],
)
def test_a_taint_announces_what_the_claim_does_not_tolerate(taints, tolerations, expected):
    """`NoSchedule` has no time. `NoExecute` has one if it is tolerated for some time, else it is too late."""
    found = read_announcement(GPU, taints, tolerations)
    if isinstance(expected, tuple):
        assert found is not None
        assert (found.leaves_at,) == expected
        assert found.why == f"its device gpu-0 of pool node-1 has the taint {KEY}"
    else:
        assert found == expected


def test_a_slice_is_its_tainted_devices():
    """The others say nothing, and neither does an effect that is not known."""
    devices = [
        {
            "name": "gpu-0",
            "taints": [{"key": KEY, "effect": "NoSchedule", "timeAdded": "1970-01-01T00:01:00Z"}],
        },
        {"name": "gpu-1"},
        {"name": "gpu-2", "taints": [{"key": KEY, "effect": "None"}]},
    ]
    spec = {"driver": GPU[0], "pool": {"name": GPU[1], "generation": 3}, "devices": devices}
    found = slim_slice({"metadata": {"uid": "s"}, "spec": spec})
    assert (found.uid, found.pool, found.generation) == ("s", GPU[:2], 3)
    assert found.taints == {"gpu-0": (DeviceTaint(KEY, "", "NoSchedule", 60.0),)}


@pytest.mark.parametrize(
    ("selector", "meant"),
    [
        ({}, True),
        ({"driver": GPU[0], "pool": GPU[1], "device": GPU[2]}, True),
        ({"pool": "node-2"}, False),
        ({"device": "gpu-1"}, False),
        (None, None),
        ({"deviceClassName": "gpus"}, None),
        ({"selectors": [{"cel": {"expression": "true"}}]}, None),
    ],
)
def test_a_rule_means_all_devices_that_it_does_not_exclude(selector, meant):
    """Without a selector it means none; what is not read here is taken to mean none."""
    spec = {"taint": {"key": KEY, "effect": "NoSchedule"}}
    if selector is not None:
        spec["deviceSelector"] = selector
    rule = slim_rule({"metadata": {"uid": "r"}, "spec": spec})
    assert (rule.taint is not None) == (meant is not None)
    assert meant is None or rule.means(GPU) == meant


def test_a_claim_is_its_devices_and_its_pods():
    """It is a pod's own where a pod owns it; who is no pod does not use it."""
    result = {"driver": GPU[0], "pool": GPU[1], "device": GPU[2], "tolerations": [{"operator": "Exists"}]}
    claim = {
        "metadata": {"uid": "c", "namespace": "team", "ownerReferences": [{"kind": "Pod", "uid": "p"}]},
        "status": {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [
                {"resource": "pods", "name": "pod", "uid": "p"},
                {"resource": "podgroups", "apiGroup": "scheduling.k8s.io", "name": "g", "uid": "g"},
            ],
        },
    }
    found = slim_claim(claim)
    assert (found.namespace, found.own, found.pods) == ("team", True, (("pod", "p"),))
    assert found.devices == ((GPU, (Tolerated("", "", "", exists=True, seconds=None),)),)
    assert not slim_claim({"metadata": {"uid": "c"}}).own


@pytest.mark.parametrize("slim", [slim_slice, slim_rule, slim_claim])
@pytest.mark.parametrize("part", [7, [], {}, None, [7], {"pool": 7, "devices": {"results": [[]]}}])
def test_nonsense_says_nothing(slim, part):
    """Whatever stands where something else belongs."""
    found = slim({"metadata": part, "spec": part, "status": {"allocation": part, "reservedFor": part}})
    assert found.uid == ""


def test_names_and_times_are_bounded():
    """The writer of a slice does not choose how much of it is kept."""
    taints = [{"key": "k" * 9999, "effect": "NoSchedule", "timeAdded": "9" * 9999}] * 99
    spec = {"devices": [{"name": f"{n}" * 999, "taints": taints} for n in range(999)]}
    found = slim_slice({"metadata": {}, "spec": spec})
    assert len(found.taints) <= 128
    assert {len(each) for each in found.taints.values()} == {16}
    (words,) = {
        read_announcement(("d", "p" * 999, "n" * 999), each, []).why for each in found.taints.values()
    }
    assert len(words) < 300
