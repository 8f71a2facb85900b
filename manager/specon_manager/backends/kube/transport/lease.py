"""Elects one leader among replicas of the manager, by a Lease object.

The rule is client-go's, with one difference: a leader that cannot reach the API server ends its work before
another may begin. Wall clocks are never compared: each replica measures on a clock of its own how long
the record has not changed.
"""

import asyncio
import contextlib
import logging
import math
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

from specon_manager.backends.kube.transport.api import Api, ApiError, ApiUnavailableError
from specon_manager.backends.kube.transport.resources import LEASES, Object

_log = logging.getLogger(__name__)
_NO_LABELS: Final[Mapping[str, str]] = MappingProxyType({})
_LONGEST_OTHER: Final = 60.0  # seconds of a lease that another release of the manager may have asked for


class StillWorkingError(RuntimeError):
    """What the leader did has not ended although its leadership has; the process has to end."""


def steady_seconds() -> float:
    """Return the seconds of a clock that goes on while the machine sleeps, where there is one."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class Elector:
    """One candidate.

    A leader renews its lease every `retry_seconds`. From `renew_seconds` after the last renewal that
    succeeded was sent, it leads no more: what it does is cancelled and awaited. Others may take over no
    sooner than `lease_seconds` after they saw that renewal, which is later. A standby looks every
    `retry_seconds`, so that it leads within `retry_seconds` + `lease_seconds` and two calls after the last
    renewal of a leader that died, and within `retry_seconds` after one that left in order.
    """

    def __init__(
        self,
        api: Api,
        *,
        namespace: str,
        name: str,
        identity: str,
        lease_seconds: float = 12.0,
        renew_seconds: float = 8.0,
        retry_seconds: float = 2.0,
        call_seconds: float = 2.5,
        monotonic: Callable[[], float] = steady_seconds,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
        rng: random.Random | None = None,
        labels: Mapping[str, str] = _NO_LABELS,
        annotations: Mapping[str, str] = _NO_LABELS,
        noticed: Callable[[Object], None] = lambda _: None,
    ) -> None:
        """Be the candidate `identity`, which no other process has, for the Lease of that name.

        The candidate writes `labels` and `annotations` when it takes the Lease; those of others stay.
        `noticed` is told of the Lease each time that it is seen, so also before this candidate leads. Raises
        ValueError where the times leave no room between one leader and the next.
        """
        if not 0 < retry_seconds < renew_seconds < lease_seconds:
            raise ValueError(
                f"retry_seconds {retry_seconds} < renew_seconds {renew_seconds} < "
                f"lease_seconds {lease_seconds} does not hold"
            )
        if not 0 < call_seconds < renew_seconds:
            raise ValueError(f"call_seconds {call_seconds} is not below renew_seconds {renew_seconds}")
        if not identity:
            raise ValueError("identity is empty: that is how a Lease says that nobody holds it")
        self._api = api
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._lease_seconds = lease_seconds
        self._renew_seconds = renew_seconds
        self._retry_seconds = retry_seconds
        self._call_seconds = call_seconds
        self._monotonic = monotonic
        self._sleep = sleep
        self._wall = wall
        self._rng = rng or random.Random()  # noqa: S311  (jitter, not cryptography)
        self._given = {"labels": labels, "annotations": annotations}
        self._noticed = noticed
        self._lease: Object | None = None
        """As last seen."""
        self._seen_at = monotonic()
        """Since when it has been as it is; before the first look: since this candidate is there."""
        self._own_term = ""
        """The acquireTime that this process wrote last."""
        self._held_until = -math.inf
        self.leading = False
        """Whether this candidate does the leader's work, or is about to end it."""

    def holds(self) -> bool:
        """Whether an order may be given at this moment."""
        return self._monotonic() < self._held_until

    def is_led(self) -> bool:
        """Whether somebody leads, this candidate or another, or the next one is due; as far as is known.

        Between two leaders nobody leads for a moment, and whoever asks then can wait for the next one. A
        Lease that was never seen counts as one that nobody holds.
        """
        spec = (self._lease or {}).get("spec") or {}
        over_at = self._seen_at + (self._lasts(spec) if spec.get("holderIdentity") else 0.0)
        return self.holds() or self._monotonic() < over_at + self._retry_seconds + 2 * self._call_seconds

    @property
    def holder(self) -> str:
        """Who leads, as last seen; empty when nobody does, or nobody knows."""
        spec = self._lease.get("spec") if self._lease else None
        return str((spec or {}).get("holderIdentity") or "")

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Stand by, lead, stand by again when the lease is lost; until `lead` returns or raises by itself.

        The lease is given back at the end, cancelled or not. Raises StillWorkingError when `lead` does not
        end in time after its leadership has.
        """
        try:
            while True:
                await self._acquire()
                if await self._lead(lead):
                    return
                _log.warning("the lease %s/%s is lost: standing by", self._namespace, self._name)
        finally:
            if not self.leading:
                await self._release()

    async def _lead(self, lead: Callable[[], Awaitable[None]]) -> bool:
        """Have the leader's work done while the lease is renewed; True when it came to its own end."""

        async def work() -> None:
            await lead()

        self.leading = True
        working, renewing = asyncio.create_task(work()), asyncio.create_task(self._keep())
        try:
            await asyncio.wait({working, renewing}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                return False
            await working
            return True
        finally:
            until, self._held_until = self._held_until, -math.inf
            renewing.cancel()
            working.cancel()
            await self._end(working, until + self._lease_seconds - self._renew_seconds)
            await asyncio.gather(renewing, return_exceptions=True)
            self.leading = False

    async def _end(self, working: "asyncio.Task[None]", latest: float) -> None:
        """Wait for the end of the leader's work, but no longer than nobody else may lead."""
        if working.done():
            return
        seconds = max(0.0, latest - self._monotonic())
        await asyncio.wait({working}, timeout=seconds)
        if not working.done():
            raise StillWorkingError(f"{self._identity} leads no more, and has not ended for {seconds:.1f} s")
        if not working.cancelled() and (error := working.exception()) is not None:
            _log.error("the leader's work ended badly: %s", error, exc_info=error)

    async def _acquire(self) -> None:
        """Return once this candidate holds the lease."""
        while True:
            try:
                if await self._try():
                    _log.info("%s leads", self._identity)
                    return
            except ApiError as error:
                if not error.conflict and not error.already_exists:
                    _log.warning("standing by: %s", error)
            except ApiUnavailableError as error:
                _log.warning("standing by: %s", error)
            free_in = self._free_at() - self._monotonic()
            pause = self._retry_seconds * self._rng.uniform(0.8, 1.0)
            await self._sleep(min(pause, free_in) if free_in > 0 else pause)

    async def _try(self) -> bool:
        """Look at the lease and take it if nobody holds it any more."""
        try:
            self._saw(await self._limit(self._api.get(LEASES, self._name, self._namespace)))
        except ApiError as error:
            if not error.not_found:
                raise
            return await self._take(None)
        if self._monotonic() < self._free_at():
            return False
        return await self._take(self._lease)

    def _free_at(self) -> float:
        """Return when the lease, as it was seen, may be taken, on this candidate's clock."""
        spec = (self._lease or {}).get("spec") or {}
        holder = spec.get("holderIdentity")
        if not holder:
            return -math.inf
        if holder == self._identity and self._own_term and spec.get("acquireTime") == self._own_term:
            return -math.inf  # this very process held it, and has ended what it did as the leader
        return self._seen_at + self._lasts(spec)

    def _lasts(self, spec: Object) -> float:
        """Return for how many seconds a lease is its holder's that is not renewed."""
        wanted = spec.get("leaseDurationSeconds")
        others = min(float(wanted), _LONGEST_OTHER) if isinstance(wanted, int) else 0.0
        return max(self._lease_seconds, others)

    async def _take(self, lease: Object | None) -> bool:
        sent = self._monotonic()
        spec: Object = (lease or {}).get("spec") or {}
        now = self._time()
        # Should the answer be lost, then this is how the next look knows that the lease is its own.
        self._own_term = now
        transitions = spec.get("leaseTransitions")
        metadata: Object = (lease or {}).get("metadata") or {"name": self._name, "namespace": self._namespace}
        for field, given in self._given.items():
            if given:
                metadata = {**metadata, field: {**(metadata.get(field) or {}), **given}}
        body: Object = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": metadata,
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": math.ceil(self._lease_seconds),
                "acquireTime": now,
                "renewTime": now,
                "leaseTransitions": (transitions if isinstance(transitions, int) else -1) + 1,
            },
        }
        if lease is None:
            call = self._api.create(LEASES, body, self._namespace)
        else:
            call = self._api.replace(LEASES, body, self._name, self._namespace)
        self._saw(await self._limit(call))
        self._held_until = sent + self._renew_seconds
        return self.holds()

    async def _keep(self) -> None:
        """Renew until the lease is lost."""
        while self.holds():
            await self._sleep(min(self._retry_seconds, max(0.0, self._held_until - self._monotonic())))
            while self.holds():
                try:
                    if not await self._renew():
                        return
                    break
                except (ApiError, ApiUnavailableError) as error:
                    _log.warning("the lease is not renewed: %s", error)
                pause = min(self._retry_seconds / 4, max(0.0, self._held_until - self._monotonic()))
                await self._sleep(pause)

    async def _renew(self) -> bool:
        """Renew once; False when the lease is another's. Raises where nobody knows."""
        assert self._lease is not None
        sent = self._monotonic()
        body = {**self._lease, "spec": {**(self._lease.get("spec") or {}), "renewTime": self._time()}}
        limit = min(self._call_seconds, self._held_until - sent)
        try:
            call = self._api.replace(LEASES, body, self._name, self._namespace)
            self._saw(await self._limit(call, limit))
        except ApiError as error:
            if error.not_found:
                return False
            if not error.conflict:
                raise
            # A renewal whose answer was lost, or a label that somebody set: look whose it is now.
            limit = min(self._call_seconds, self._held_until - self._monotonic())
            self._saw(await self._limit(self._api.get(LEASES, self._name, self._namespace), limit))
            spec = self._lease.get("spec") or {}
            if spec.get("holderIdentity") != self._identity or spec.get("acquireTime") != self._own_term:
                return False
            raise
        self._held_until = sent + self._renew_seconds
        return True

    async def _release(self) -> None:
        """Give the lease back, so that a standby need not wait; harmless when it is another's."""
        self._held_until = -math.inf
        if not self._own_term:
            return
        with contextlib.suppress(ApiError, ApiUnavailableError):
            lease = await self._limit(self._api.get(LEASES, self._name, self._namespace))
            spec = lease.get("spec") or {}
            if spec.get("holderIdentity") != self._identity or spec.get("acquireTime") != self._own_term:
                return
            body = {**lease, "spec": {**spec, "holderIdentity": "", "renewTime": self._time()}}
            self._saw(await self._limit(self._api.replace(LEASES, body, self._name, self._namespace)))
            _log.info("%s gave the lease back", self._identity)

    def _saw(self, lease: Object) -> None:
        """Remember a lease, and since when it has been as it is."""
        known = self._lease
        if known is None or _version(known) != _version(lease):
            self._seen_at = self._monotonic()
        self._lease = lease
        self._noticed(lease)

    async def _limit(self, call: Awaitable[Object], seconds: float | None = None) -> Object:
        limit = self._call_seconds if seconds is None else max(0.0, seconds)
        try:
            async with asyncio.timeout(limit):
                return await call
        except TimeoutError as late:
            raise ApiUnavailableError(
                f"lease {self._namespace}/{self._name}: no answer within {limit:.1f} s"
            ) from late

    def _time(self) -> str:
        return self._wall().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _version(lease: Object) -> tuple[str, str]:
    metadata = lease.get("metadata") or {}
    return metadata.get("uid", ""), metadata.get("resourceVersion", "")
