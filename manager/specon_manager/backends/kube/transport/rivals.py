"""Other releases of the manager over the same namespaces: two that lead there would depose each other.

Each release has a Lease of its own, so that the Lease of one says nothing to the other. All of them carry a
label, and say in an annotation after which namespaces their manager looks. Anybody may write Leases: one is
believed in our own namespace, or in one to which a webhook configuration of specon points, or where such a
configuration is marked as kept by it, which takes an administrator. A manager outside the cluster has no
Service to which a configuration could point. Clocks are never compared, as in an election: a Lease is alive
while it is seen to change.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from specon_manager.backends.base import NotLeadingError
from specon_manager.backends.kube.transport.api import Api, ApiError, ApiUnavailableError
from specon_manager.backends.kube.transport.resources import LEASES, MUTATING_WEBHOOKS, Object

NAMESPACES: Final = "specon.io/namespaces"
"""Annotation of a Lease: the namespaces that its manager looks after, with commas; empty: all of them."""
KEPT_BY: Final = "specon.io/kept-by"
"""Annotation of a webhook configuration: namespace/name of the Lease by which the one who keeps it leads."""
_WEBHOOKS: Final = ".specon.io"
_LOOK: Final = 3.0  # seconds between two looks; a leader renews its Lease every two
_LONGEST: Final = 60.0
_SHOWN: Final = 200
_log = logging.getLogger(__name__)


class Rival(Struct, frozen=True, kw_only=True):
    """The Lease of another release, as it was last seen."""

    place: tuple[str, str]
    """Its namespace and its name."""
    holder: str
    namespaces: tuple[str, ...]
    since: str
    """When its holder took it, as it says: of two that lead the earlier goes on."""
    seconds: float
    """For how long it holds without a renewal."""
    version: str
    keeps: str = ""
    """The webhook configuration of ours that it keeps; empty: none."""

    def __str__(self) -> str:
        where = ", ".join(self.namespaces) or "all namespaces"
        said = f"{self.holder} leads by the Lease {'/'.join(self.place)} and looks after {where}"[:_SHOWN]
        return f"{said}; it keeps our webhook configuration {self.keeps}" if self.keeps else said


class Rivals:
    """Looks for other releases that lead over namespaces of ours."""

    def __init__(
        self,
        api: Api,
        *,
        lease: tuple[str, str],
        labels: Mapping[str, str],
        namespaces: Collection[str] = (),
        configuration: str = "",
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Look on behalf of the release with this Lease (namespace and name), whose Leases have `labels`.

        Two releases that keep the same webhook `configuration` are rivals, whatever their namespaces are.
        """
        self._configuration = configuration
        self._api, self._own = api, lease
        self._selector = ",".join(f"{key}={value}" for key, value in labels.items())
        self._namespaces = frozenset(namespaces)
        self._monotonic, self._sleep = monotonic, sleep
        self._seen: dict[tuple[str, str], tuple[str, float, bool]] = {}
        """Of each Lease its version, since when it has that, and whether it was seen to change."""
        self._since = ""
        self._unsure = False
        self.present: Rival | None = None
        """Whom we stand by for; None where it is nobody."""
        self.keeper = ""
        """Who else keeps our webhook configuration, and perhaps lives, in words; empty: nobody."""

    async def absent(self) -> None:
        """Wait until no other release leads over our namespaces; its name is said once."""
        while True:
            rivals = await self._find_rivals()
            alive = next((each for each in rivals if self._is_alive(each)), None)
            if alive is not None and alive.place != (self.present and self.present.place):
                _log.warning("standing by for another release of specon: %s", alive)
            self.present = alive
            if not rivals:
                return
            await self._sleep(_LOOK)

    async def watch(self) -> None:
        """Look while we lead. Raises NotLeadingError once another release leads that did so before us."""
        while True:
            for rival in await self._find_rivals():
                ours = (self._since or "~", *self._own)
                # Who keeps our configuration may not know of us: nothing is marked as ours.
                earlier = rival.keeps or (rival.since or "~", *rival.place) < ours
                if self._is_alive(rival) and earlier:
                    self.present = rival
                    raise NotLeadingError(f"another release of specon was here first: {rival}")
                if self._is_alive(rival):
                    _log.warning("another release of specon is to stand by for this one: %s", rival)
            await self._sleep(_LOOK)

    def _is_alive(self, rival: Rival) -> bool:
        """Whether it was seen to be renewed; one that was seen once only may be left from long ago."""
        return self._seen[rival.place][2]

    async def _find_rivals(self) -> list[Rival]:
        """Return the Leases of others over our namespaces that are held, perhaps by somebody who lives."""
        try:
            listed, _ = await self._api.list(LEASES, label_selector=self._selector)
            others = [each for each in map(self._read, listed) if each is not None]
            rivals = await self._choose_believed(others)
        except (ApiError, ApiUnavailableError) as error:
            if not self._unsure:
                _log.warning("whether another release of specon is here is not known: %s", error)
            self._unsure = True
            return []
        self._unsure = False
        now = self._monotonic()
        self._seen = {each.place: self._look_at(each, now) for each in others}
        held = [each for each in rivals if now - self._seen[each.place][1] <= each.seconds]
        self.keeper = next((str(each) for each in held if each.keeps), "")
        return held

    def _look_at(self, rival: Rival, now: float) -> tuple[str, float, bool]:
        known = self._seen.get(rival.place)
        if known is None:
            return rival.version, now, False
        return known if known[0] == rival.version else (rival.version, now, True)

    def _read(self, lease: Object) -> Rival | None:
        """Return another release's Lease; None for our own, or for one that nobody holds."""
        with self._api.reading.of(LEASES.kind, "of a manager"):
            metadata, spec = lease["metadata"], lease.get("spec") or {}
            place = (str(metadata["namespace"]), str(metadata["name"]))
            if place == self._own:
                self._since = str(spec.get("acquireTime") or "")
                return None
            said = str((metadata.get("annotations") or {}).get(NAMESPACES, ""))
            namespaces = tuple(sorted(filter(None, said.split(","))))
            if not spec.get("holderIdentity"):
                return None
            wanted = spec.get("leaseDurationSeconds")
            return Rival(
                place=place,
                holder=str(spec["holderIdentity"]),
                namespaces=namespaces,
                since=str(spec.get("acquireTime") or ""),
                seconds=min(float(wanted), _LONGEST) if isinstance(wanted, int) else _LONGEST,
                version=str(metadata.get("resourceVersion", "")),
            )
        return None

    async def _choose_believed(self, others: Sequence[Rival]) -> list[Rival]:
        """Return those over namespaces or a configuration of ours; Leases of tenants are not believed."""
        if not others:
            return []
        services, marks, keeper = {self._own[0]}, set[str](), ""
        configurations, _ = await self._api.list(MUTATING_WEBHOOKS)
        for each in configurations:
            with self._api.reading.of(MUTATING_WEBHOOKS.kind, "of some release"):
                services |= set(webhook_namespaces(each))
                mark = find_keeper(each) if _ours_in(each) else ""
                marks.add(mark)
                if each["metadata"].get("name") == self._configuration:
                    keeper = mark
        believed = []
        for other in others:
            name = "/".join(other.place)
            keeps = self._configuration if name == keeper else ""
            known = other.place[0] in services or name in marks
            if known and (keeps or not self._is_apart(other)):
                believed.append(msgspec.structs.replace(other, keeps=keeps))
        return believed

    def _is_apart(self, other: Rival) -> bool:
        """Whether we look after no namespace that the other one does."""
        return bool(other.namespaces and self._namespaces) and self._namespaces.isdisjoint(other.namespaces)


def find_keeper(configuration: Mapping[str, Any]) -> str:
    """Return the Lease, as namespace/name, of who keeps a webhook configuration; empty where nobody says."""
    metadata = configuration.get("metadata") or {}
    return str((metadata.get("annotations") or {}).get(KEPT_BY, ""))


def webhook_namespaces(configuration: Mapping[str, Any]) -> list[str]:
    """Return the namespaces to which the webhooks of specon in a configuration point."""
    services = ((each.get("clientConfig") or {}).get("service") or {} for each in _ours_in(configuration))
    return [str(service["namespace"]) for service in services if service.get("namespace")]


def _ours_in(configuration: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the webhooks of specon in a configuration."""
    webhooks = configuration.get("webhooks") or ()
    return [each for each in webhooks if str(each.get("name", "")).endswith(_WEBHOOKS)]
