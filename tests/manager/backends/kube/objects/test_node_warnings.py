"""By what a node says that it is about to be emptied."""

import pytest

from specon_manager.backends.kube.objects.node_warnings import maintenance_at, warnings_of


def annotated(at):
    return {"metadata": {"annotations": {"specon.io/maintenance-at": at}}}


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ({}, ()),
        ({"spec": {"unschedulable": True}}, ("cordon",)),
        ({"spec": {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}}, ("taint",)),
        ({"spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]}}, ()),
        ({"status": {"conditions": [{"type": "DrainInProgress", "status": "True"}]}}, ("condition",)),
        ({"status": {"conditions": [{"type": "MaintenancePlanned", "status": "False"}]}}, ()),
        (annotated("2026-12-01T02:00:00Z"), ("annotation",)),
        (annotated("tomorrow"), ()),
        ({"spec": 7, "status": [], "metadata": "x"}, ()),
    ],
)
def test_each_kind_is_told_by_its_name(node, expected):
    """What makes no sense announces nothing."""
    assert warnings_of(node) == expected


@pytest.mark.parametrize("at", ["1970-01-01T00:01:00Z", "1970-01-01T01:01:00+01:00", "1970-01-01T00:01:00"])
def test_a_time_without_a_zone_is_utc(at):
    """Any other says which."""
    assert maintenance_at(annotated(at)) == 60.0


@pytest.mark.parametrize("at", ["", "x" * 1000, 7, None, ["2026-12-01"]])
def test_no_time_is_none(at):
    """Whatever it is."""
    assert maintenance_at(annotated(at)) is None
