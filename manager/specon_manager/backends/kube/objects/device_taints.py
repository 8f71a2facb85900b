"""What device taints say of the pods that were allocated such devices (dynamic resource allocation). Pure.

Taints stand in ResourceSlices and in DeviceTaintRules. `NoSchedule` announces that a device will be serviced.
`NoExecute` deletes the pod at once, which is too late to save, unless its claim tolerates that for some
seconds. That is the rule of Kubernetes' controller (`pkg/controller/devicetainteviction`).
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from specon_manager.backends.kube.objects.fields import count, mapping, mappings
from specon_manager.backends.kube.transport.resources import Object

_MOST_DEVICES: Final = 128  # of a slice, and of a claim
_MOST_TAINTS: Final = 16  # of a device
_MOST_PODS: Final = 256  # that share a claim
_LONGEST: Final = 253  # characters of a name
_SHOWN: Final = 80  # characters of a name that are repeated in words
_MOST_SECONDS: Final = 10**9

Device = tuple[str, str, str]
"""Driver, pool and name."""


class DeviceTaint(Struct, frozen=True):
    """One taint."""

    key: str
    value: str
    effect: str
    added: float | None
    """When, Unix seconds; None where nobody says."""


class Tolerated(Struct, frozen=True):
    """Which taints of its device a claim tolerates, and how long."""

    key: str
    value: str
    effect: str
    exists: bool
    seconds: float | None
    """Of `NoExecute`; None: without an end."""

    def covers(self, taint: DeviceTaint) -> bool:
        """Whether it means this taint."""
        if self.effect not in {"", taint.effect} or self.key not in {"", taint.key}:
            return False
        return self.exists or self.value == taint.value


class SliceTaints(Struct, frozen=True):
    """The fields of a ResourceSlice that count here."""

    uid: str
    pool: tuple[str, str]
    """Driver and pool."""
    generation: int
    """Of the pool: slices of an earlier one count no more."""
    taints: Mapping[str, tuple[DeviceTaint, ...]]
    """Taints by device; devices without taints are left out."""


class TaintRule(Struct, frozen=True):
    """The fields of a DeviceTaintRule that count here."""

    uid: str
    driver: str | None
    pool: str | None
    device: str | None
    taint: DeviceTaint | None
    """None where the rule means no device, or means them by fields not read here."""

    def means(self, device: Device) -> bool:
        """Whether the rule is about this device."""
        wanted = (self.driver, self.pool, self.device)
        return all(asked in {None, has} for asked, has in zip(wanted, device, strict=True))


class DeviceClaim(Struct, frozen=True):
    """The fields of a ResourceClaim that count here."""

    uid: str
    namespace: str
    own: bool
    """Whether it was made for one pod, and goes with it; else the next pod gets the same devices."""
    pods: tuple[tuple[str, str], ...]
    """Name and UID of each pod that may use the devices."""
    devices: tuple[tuple[Device, tuple[Tolerated, ...]], ...]


class Announced(Struct, frozen=True):
    """A device will be taken from the pods that use it."""

    why: str
    leaves_at: float | None
    """When, Unix seconds; None where nobody says."""


TOO_LATE: Final = Announced("", 0.0)
"""It is taken already."""


def slim_slice(found: Object) -> SliceTaints:
    """Return the fields of a ResourceSlice that count here."""
    spec = mapping(found.get("spec"))
    pool = mapping(spec.get("pool"))
    tainted = {
        _text(device.get("name")): taints
        for device in mappings(spec.get("devices"))[:_MOST_DEVICES]
        if (taints := _taints(mappings(device.get("taints"))[:_MOST_TAINTS]))
    }
    return SliceTaints(
        uid=_uid(found),
        pool=(_text(spec.get("driver")), _text(pool.get("name"))),
        generation=count(pool.get("generation"), 0),
        taints=tainted,
    )


def slim_rule(found: Object) -> TaintRule:
    """Return the fields of a DeviceTaintRule that count here.

    `v1alpha3` once knew device classes and CEL expressions: a rule with one of these is passed over.
    """
    spec = mapping(found.get("spec"))
    selector = spec.get("deviceSelector")
    by = mapping(selector)
    read = isinstance(selector, dict) and not (by.get("deviceClassName") or by.get("selectors"))
    taints = _taints([mapping(spec.get("taint"))]) if read else ()
    return TaintRule(
        uid=_uid(found),
        driver=_asked(by, "driver"),
        pool=_asked(by, "pool"),
        device=_asked(by, "device"),
        taint=taints[0] if taints else None,
    )


def slim_claim(found: Object) -> DeviceClaim:
    """Return the fields of a ResourceClaim that count here."""
    metadata, status = mapping(found.get("metadata")), mapping(found.get("status"))
    results = mappings(mapping(mapping(status.get("allocation")).get("devices")).get("results"))
    return DeviceClaim(
        uid=_uid(found),
        namespace=_text(metadata.get("namespace")),
        own=any(owner.get("kind") == "Pod" for owner in mappings(metadata.get("ownerReferences"))),
        pods=tuple(
            (_text(each.get("name")), _text(each.get("uid")))
            for each in mappings(status.get("reservedFor"))[:_MOST_PODS]
            if each.get("resource") == "pods" and not each.get("apiGroup")
        ),
        devices=tuple(
            (
                (_text(each.get("driver")), _text(each.get("pool")), _text(each.get("device"))),
                tuple(map(_tolerated, mappings(each.get("tolerations"))[:_MOST_TAINTS])),
            )
            for each in results[:_MOST_DEVICES]
        ),
    )


def read_announcement(
    device: Device, taints: Iterable[DeviceTaint], tolerated: Sequence[Tolerated]
) -> Announced | None:
    """Return what the taints of a device announce to who tolerates these; None: nothing."""
    found: Announced | None = None
    for taint in taints:
        covering = [each for each in tolerated if each.covers(taint)]
        if taint.effect == "NoSchedule" and not covering:
            found = found or Announced(_words(device, taint), None)
        if taint.effect == "NoExecute":
            # Only a toleration that names this effect holds off the eviction.
            limits = [each.seconds for each in covering if each.effect == "NoExecute"]
            if None in limits:
                continue
            seconds = min((each for each in limits if each is not None), default=0.0)
            if seconds <= 0.0 or taint.added is None:
                return TOO_LATE
            at = taint.added + seconds
            if found is None or found.leaves_at is None or at < found.leaves_at:
                found = Announced(_words(device, taint), at)
    return found


def _words(device: Device, taint: DeviceTaint) -> str:
    _, pool, name = device
    return f"its device {name[:_SHOWN]} of pool {pool[:_SHOWN]} has the taint {taint.key[:_SHOWN]}"


def _taints(given: Sequence[Mapping[str, Any]]) -> tuple[DeviceTaint, ...]:
    return tuple(
        DeviceTaint(
            key=_text(each.get("key")),
            value=_text(each.get("value")),
            effect=_text(each.get("effect")),
            added=_time(each.get("timeAdded")),
        )
        for each in given
        if each.get("effect") in {"NoSchedule", "NoExecute"}
    )


def _tolerated(given: Mapping[str, Any]) -> Tolerated:
    said = given.get("tolerationSeconds")
    seconds = said if isinstance(said, int) and not isinstance(said, bool) else None
    return Tolerated(
        key=_text(given.get("key")),
        value=_text(given.get("value")),
        effect=_text(given.get("effect")),
        exists=given.get("operator") == "Exists",
        seconds=None if seconds is None else float(max(0, min(_MOST_SECONDS, seconds))),
    )


def _asked(selector: Mapping[str, Any], field: str) -> str | None:
    given = selector.get(field)
    return None if given is None else _text(given)


def _uid(found: Object) -> str:
    return _text(mapping(found.get("metadata")).get("uid"))


def _text(given: object) -> str:
    return given[:_LONGEST] if isinstance(given, str) else ""


def _time(given: object) -> float | None:
    if not isinstance(given, str) or len(given) > _LONGEST:
        return None
    try:
        return datetime.fromisoformat(given).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
