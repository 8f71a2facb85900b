"""Which pods hold devices that are about to be taken from them."""

import msgspec

from specon_manager.backends.kube.objects.device_taints import (
    DeviceClaim,
    DeviceTaint,
    SliceTaints,
    TaintRule,
    Tolerated,
)
from specon_manager.backends.kube.watching.device_book import DeviceBook, Holder

POOL = ("gpu.example.com", "node-1")
SERVICE = DeviceTaint("example.com/service", "", "NoSchedule", 100.0)
EVICTS = DeviceTaint("example.com/gone", "", "NoExecute", 100.0)
POD = Holder("team", "pod", "p")


def claim(*devices, own=True, uid="c", tolerated=()):
    held = tuple(((*POOL, device), tolerated) for device in devices)
    return DeviceClaim(uid, "team", own, (("pod", "p"),), held)


def part(uid="s", generation=1, **taints):
    return SliceTaints(uid, POOL, generation, taints)


def rule(device="gpu-0", taint=SERVICE):
    return TaintRule("r", None, None, device, taint)


def test_who_holds_a_tainted_device_is_named_whichever_is_seen_first():
    """By a slice or by a rule; and no longer once the taint, the rule or the claim is gone."""
    book = DeviceBook()
    book.claim_changed(None, claim("gpu-0"))
    assert book.list_announced() == {}
    tainted, clean = part(**{"gpu-0": (SERVICE,)}), part()
    book.slice_changed(None, tainted)
    assert book.list_announced()[POD].why.endswith("has the taint example.com/service")
    book.slice_changed(tainted, clean)
    assert book.list_announced() == {}
    book.rule_changed(None, rule())
    assert POD in book.list_announced()
    book.rule_changed(rule(), None)
    assert book.list_announced() == {}
    book.rule_changed(None, rule())
    book.claim_changed(claim("gpu-0"), None)
    assert book.list_announced() == {}
    late = DeviceBook()
    late.slice_changed(None, tainted)
    late.claim_changed(None, claim("gpu-0"))
    assert POD in late.list_announced()


def test_other_devices_and_claims_that_outlive_their_pod_announce_nothing():
    """A claim that is not the pod's own holds the same device for the next pod: to leave would not help."""
    book = DeviceBook()
    book.slice_changed(None, part(**{"gpu-0": (SERVICE,)}))
    book.claim_changed(None, claim("gpu-1"))
    book.claim_changed(None, claim("gpu-0", own=False, uid="shared"))
    assert book.list_announced() == {}


def test_slices_of_an_earlier_generation_count_no_more():
    """A driver writes a pool anew under the next one."""
    book = DeviceBook()
    book.claim_changed(None, claim("gpu-0"))
    book.slice_changed(None, part(**{"gpu-0": (SERVICE,)}))
    book.slice_changed(None, part("new", 2))
    assert book.list_announced() == {}
    book.slice_changed(part("new", 2), None)
    assert POD in book.list_announced()


def test_the_device_that_is_taken_first_counts_and_one_that_is_taken_already_makes_it_too_late():
    """Of all claims of a pod the first time; of one claim nothing once a device of it evicts at once."""
    minute = (Tolerated("", "", "NoExecute", exists=True, seconds=60.0),)
    book = DeviceBook()
    book.slice_changed(None, part(**{"gpu-0": (SERVICE,), "gpu-1": (EVICTS,)}))
    book.claim_changed(None, claim("gpu-0"))
    timed = claim("gpu-1", uid="timed", tolerated=minute)
    book.claim_changed(None, timed)
    assert book.list_announced()[POD].leaves_at == 160.0
    book.claim_changed(timed, None)
    assert book.list_announced()[POD].leaves_at is None
    book.claim_changed(claim("gpu-0"), claim("gpu-0", "gpu-1"))
    assert book.list_announced() == {}


def test_a_claim_without_devices_is_not_kept():
    """Most of a cluster's claims may wait."""
    book = DeviceBook()
    book.rule_changed(None, rule(device=None))
    book.claim_changed(None, claim())
    assert book.list_announced() == {}
    book.claim_changed(claim(), msgspec.structs.replace(claim("gpu-7"), pods=()))
    assert book.list_announced() == {}
