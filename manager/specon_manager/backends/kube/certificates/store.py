"""What the leader does for certificates: keeps the Secret, and the authorities wherever they are used."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from specon_manager.backends.kube.certificates.bundle import (
    Bundle,
    CertificateError,
    ca_bundle,
    dns_names,
    from_secret_data,
    renew,
    to_secret_data,
)
from specon_manager.backends.kube.objects.annotation_keys import CA, INJECTED, SIDECAR_LABEL
from specon_manager.backends.kube.transport.api import Api, ApiError, ApiUnavailableError
from specon_manager.backends.kube.transport.resources import (
    MUTATING_WEBHOOKS,
    PODS,
    SECRETS,
    VALIDATING_WEBHOOKS,
    Object,
    Resource,
)
from specon_manager.backends.kube.transport.rivals import KEPT_BY, find_keeper

LOOK_SECONDS: Final = 60.0
_PODS_SECONDS: Final = 3600.0  # between two looks at all pods when nothing changed
_PATCH_PAUSE: Final = 0.05  # seconds between two pods: 20 per second
_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
_US: Final = "specon"
_log = logging.getLogger(__name__)


class StoreSettings(Struct, frozen=True, kw_only=True):
    """Where things are."""

    namespace: str
    secret: str
    webhook_configuration: str
    services: tuple[str, ...]
    """Names of the services under which we are reached."""
    lease: str = ""
    """Namespace/name of the Lease by which we lead: the configuration is marked as kept by it."""
    evictions: bool = False
    """Whether there is a ValidatingWebhookConfiguration of the same name, for evictions."""


class CertificateStore:
    """Keeps the Secret and `caBundle` (mode `self`). The leader runs it; after a conflict it looks again."""

    def __init__(
        self,
        api: Api,
        settings: StoreSettings,
        *,
        extra_names: tuple[str, ...] = (),
        fence: Callable[[], bool] = lambda: True,
        rival: Callable[[], str] = str,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Keep certificates for the services and for `extra_names`; nothing is written unless `fence()`.

        `rival` says in words who else lives and keeps our webhook configuration; empty: nobody.
        """
        self._rival = rival
        self._api = api
        self._settings = settings
        self._names = (*dns_names(settings.services, settings.namespace), *extra_names)
        self._fence = fence
        self._now = now
        self._sleep = sleep

    async def run(self) -> None:
        """Keep them until cancelled; trouble is logged, and looked at again a minute later."""
        said = ""
        while True:
            try:
                await self.keep()
                said = ""
            except (ApiError, ApiUnavailableError, CertificateError) as error:
                if str(error) != said:
                    _log.warning("certificates: %s", error)
                    said = str(error)
            await self._sleep(LOOK_SECONDS)

    async def keep(self) -> Bundle:
        """Do the steps due once, and return the bundle kept now. Raises ApiError, ApiUnavailableError.

        Raises CertificateError where there is a Secret of that name which is somebody else's.
        """
        secret, bundle = await self._read()
        wanted = renew(bundle, self._names, self._now())
        if wanted != bundle:
            await self._write(secret, wanted)
            _log.info("wrote certificates to Secret %s/%s", self._settings.namespace, self._settings.secret)
        await self._keep_webhook(ca_bundle(wanted))
        return wanted

    async def _read(self) -> tuple[Object | None, Bundle | None]:
        """Return the Secret and its content, each where there is one."""
        try:
            secret = await self._api.get(SECRETS, self._settings.secret, self._settings.namespace)
        except ApiError as error:
            if not error.not_found:
                raise
            return None, None
        data = secret.get("data") or {}
        try:
            return secret, from_secret_data(data) if data else None
        except CertificateError as error:
            if (secret["metadata"].get("labels") or {}).get(_MANAGED_BY) != _US:
                raise CertificateError(
                    f"Secret {self._settings.namespace}/{self._settings.secret}: {error}, and it is not ours "
                    f"to replace (label {_MANAGED_BY} is not {_US}): delete it, or use the mode provided"
                ) from error
            _log.warning("Secret %s is made again: %s", self._settings.secret, error)
            return secret, None

    async def _write(self, secret: Object | None, bundle: Bundle) -> None:
        """Create or replace the Secret as it was read: the faster writer wins."""
        self._check_fence()
        name, namespace = self._settings.secret, self._settings.namespace
        if secret is None:
            metadata = {"name": name, "namespace": namespace, "labels": {_MANAGED_BY: _US}}
            body = {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": metadata,
                "type": "kubernetes.io/tls",
                "data": to_secret_data(bundle),
            }
            await self._api.create(SECRETS, body, namespace)
            return
        labels = {**(secret["metadata"].get("labels") or {}), _MANAGED_BY: _US}
        body = {
            **secret,
            "metadata": {**secret["metadata"], "labels": labels},
            "data": to_secret_data(bundle),
        }
        await self._api.replace(SECRETS, body, name, namespace)

    async def _keep_webhook(self, bundle: str) -> None:
        """Give the API server our authorities; written only where they are not there already."""
        await self._keep_authorities(MUTATING_WEBHOOKS, bundle)
        if self._settings.evictions:
            await self._keep_authorities(VALIDATING_WEBHOOKS, bundle)

    async def _keep_authorities(self, resource: Resource, bundle: str) -> None:
        name = self._settings.webhook_configuration
        configuration = await self._api.get(resource, name)
        patch = self._make_mark(resource, configuration)
        for index, webhook in enumerate(configuration.get("webhooks") or ()):
            if (webhook.get("clientConfig") or {}).get("caBundle") != bundle:
                at = f"/webhooks/{index}"
                patch.append({"op": "test", "path": f"{at}/name", "value": webhook.get("name")})
                patch.append({"op": "add", "path": f"{at}/clientConfig/caBundle", "value": bundle})
        if patch:
            self._check_fence()
            await self._api.patch(resource, name, None, patch, form="json")
            _log.info("gave the authorities to %s %s", resource.kind, name)

    def _make_mark(self, resource: Resource, configuration: Object) -> list[Object]:
        """Return the patch that marks a configuration as kept by us; one that was marked since fails.

        Raises CertificateError where another manager that lives keeps it.
        """
        mark, ours = find_keeper(configuration), self._settings.lease
        if not ours or mark == ours:
            return []
        if mark and (rival := self._rival()):
            raise CertificateError(
                f"{resource.kind} {self._settings.webhook_configuration} is not ours to write: {rival}"
            )
        metadata = configuration["metadata"]
        annotations = {**(metadata.get("annotations") or {}), KEPT_BY: ours}
        version = {"path": "/metadata/resourceVersion", "value": metadata.get("resourceVersion")}
        return [
            {"op": "test", **version},
            {"op": "add", "path": "/metadata/annotations", "value": annotations},
        ]

    def _check_fence(self) -> None:
        if not self._fence():
            raise CertificateError("another manager leads now: nothing is written")


class PodAuthorities:
    """Keeps the annotation with the authorities on pods that have a sidecar: it reads them as a file."""

    def __init__(
        self,
        api: Api,
        trusted: Callable[[], str],
        *,
        namespaces: Collection[str] = (),
        fence: Callable[[], bool] = lambda: True,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Write what `trusted()` returns, PEM; nothing while it is empty. With `namespaces`, only there."""
        self._namespaces = frozenset(namespaces)
        self._api = api
        self._trusted = trusted
        self._fence = fence
        self._sleep = sleep

    async def run(self) -> None:
        """Look at all pods when the authorities change, and now and then; until cancelled."""
        done, waited = "", 0.0
        while True:
            trusted = self._trusted()
            if trusted and (trusted != done or waited >= _PODS_SECONDS):
                try:
                    await self.keep(trusted)
                    done, waited = trusted, 0.0
                except (ApiError, ApiUnavailableError) as error:
                    _log.warning("authorities of pods: %s", error)
            await self._sleep(LOOK_SECONDS)
            waited += LOOK_SECONDS

    async def keep(self, trusted: str) -> int:
        """Give all pods `trusted` that have something else, at a bounded rate; return how many.

        Raises ApiError, ApiUnavailableError: those not reached yet are looked at the next time.
        """
        count = 0
        selector = f"{SIDECAR_LABEL}={INJECTED}"
        stale: list[tuple[str, str, str]] = []
        async for page, _ in self._api.pages(PODS, label_selector=selector):
            found = (pod["metadata"] for pod in page)
            stale += [_place(each) for each in found if self._is_ours(each) and _is_stale(each, trusted)]
        for namespace, name, uid in stale:
            if not self._fence():
                break
            change = {"metadata": {"uid": uid, "annotations": {CA: trusted}}}
            with contextlib.suppress(ApiError):  # it is gone, or its namespace is: not worth a word
                await self._api.patch(PODS, name, namespace, change, form="merge")
                count += 1
            await self._sleep(_PATCH_PAUSE)
        return count

    def _is_ours(self, metadata: Object) -> bool:
        return not self._namespaces or metadata["namespace"] in self._namespaces


def _is_stale(metadata: Object, trusted: str) -> bool:
    present = (metadata.get("annotations") or {}).get(CA)
    return present is not None and present != trusted and not metadata.get("deletionTimestamp")


def _place(metadata: Object) -> tuple[str, str, str]:
    return str(metadata["namespace"]), str(metadata["name"]), str(metadata["uid"])
