"""Which pods hold devices that are about to be taken from them. Pure."""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from specon_manager.backends.kube.objects.device_taints import (
    TOO_LATE,
    Announced,
    Device,
    DeviceClaim,
    DeviceTaint,
    SliceTaints,
    TaintRule,
    read_announcement,
)


class Holder(Struct, frozen=True):
    """A pod that holds such a device."""

    namespace: str
    name: str
    uid: str


class DeviceBook:
    """Takes changes of slices, rules and claims in; says what they announce, and to which pods."""

    def __init__(self) -> None:
        self._slices: dict[tuple[str, str], dict[str, SliceTaints]] = {}
        """By driver and pool, and then by UID."""
        self._rules: dict[str, TaintRule] = {}
        self._claims: dict[str, DeviceClaim] = {}
        self._by_claim: dict[str, dict[Holder, Announced]] = {}
        """Announcements by UID of the claim; most have none here."""

    def slice_changed(self, before: SliceTaints | None, after: SliceTaints | None) -> None:
        """Take note of a slice that came, changed or went."""
        touched = [each for each in (before, after) if each is not None]
        tainted = any(each.taints for each in touched)
        for each in touched:
            pool = self._slices.setdefault(each.pool, {})
            pool.pop(each.uid, None)
            if each is after:
                pool[each.uid] = each
            tainted |= any(other.taints for other in pool.values())
            if not pool:
                del self._slices[each.pool]
        if tainted:
            self._judge(self._claims.values())

    def rule_changed(self, before: TaintRule | None, after: TaintRule | None) -> None:
        """Take note of a rule that came, changed or went."""
        if before is not None:
            self._rules.pop(before.uid, None)
        if after is not None and after.taint is not None:
            self._rules[after.uid] = after
        self._judge(self._claims.values())

    def claim_changed(self, before: DeviceClaim | None, after: DeviceClaim | None) -> None:
        """Take note of a claim that came, changed or went."""
        if before is not None:
            self._claims.pop(before.uid, None)
            self._by_claim.pop(before.uid, None)
        if after is not None and after.own and after.devices:
            self._claims[after.uid] = after
            self._judge([after])

    def list_announced(self) -> dict[Holder, Announced]:
        """Return the announcements by pod; of several devices the one that is taken first counts."""
        found: dict[Holder, Announced] = {}
        for said in self._by_claim.values():
            for holder, news in said.items():
                known = found.get(holder)
                found[holder] = news if known is None else min(known, news, key=_urgency)
        return found

    def _judge(self, claims: Iterable[DeviceClaim]) -> None:
        for claim in claims:
            self._by_claim.pop(claim.uid, None)
            said = (
                read_announcement(device, self._taints(device), tolerated)
                for device, tolerated in claim.devices
            )
            first = min((each for each in said if each is not None), key=_urgency, default=TOO_LATE)
            if first == TOO_LATE:
                continue
            holders = (Holder(claim.namespace, name, uid) for name, uid in claim.pods)
            self._by_claim[claim.uid] = dict.fromkeys(holders, first)

    def _taints(self, device: Device) -> Iterator[DeviceTaint]:
        slices = self._slices.get(device[:2], {}).values()
        latest = max((each.generation for each in slices), default=0)
        for each in slices:
            if each.generation == latest:
                yield from each.taints.get(device[2], ())
        for rule in self._rules.values():
            if rule.taint is not None and rule.means(device):
                yield rule.taint


def _urgency(news: Announced) -> tuple[float, str]:
    return (float("inf") if news.leaves_at is None else news.leaves_at), news.why
