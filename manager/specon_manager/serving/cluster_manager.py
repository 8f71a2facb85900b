"""One replica of the manager on Kubernetes: what each does, and its term when it leads."""

import asyncio
import contextlib
import logging
import os
import random
import time
from collections.abc import Collection, Coroutine, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry

from specon_manager.backends.base import NotLeadingError
from specon_manager.backends.kube.admission.sidecar_container import InjectionSettings
from specon_manager.backends.kube.admission.webhook import webhook_routes
from specon_manager.backends.kube.authentication import KubeIdentities
from specon_manager.backends.kube.certificates.served import (
    ServedCertificate,
    follow_directory,
    secret_reflector,
)
from specon_manager.backends.kube.certificates.store import CertificateStore, StoreSettings
from specon_manager.backends.kube.interception.desk import Desk
from specon_manager.backends.kube.interception.leader_last import LeaderLast
from specon_manager.backends.kube.interception.marks import Marks
from specon_manager.backends.kube.interception.webhook import eviction_routes
from specon_manager.backends.kube.kueue.lookout import LocalQueues
from specon_manager.backends.kube.kueue.webhook import gate_routes
from specon_manager.backends.kube.log_relay import LogRelay
from specon_manager.backends.kube.queues.watch import QueueWatch
from specon_manager.backends.kube.records.migrations import MigrationWatch
from specon_manager.backends.kube.records.pause import LEASE_LABELS, pause_reason
from specon_manager.backends.kube.records.pin_watch import PinWatch
from specon_manager.backends.kube.reporting.recorder import Recorder
from specon_manager.backends.kube.transport.api import Api
from specon_manager.backends.kube.transport.backoff import Backoff
from specon_manager.backends.kube.transport.lease import Elector
from specon_manager.backends.kube.transport.resources import MIGRATIONS, TRAINING_JOBS, Object, Resource
from specon_manager.backends.kube.transport.rivals import NAMESPACES, Rivals
from specon_manager.core.state import State
from specon_manager.model.cluster import JobSpec
from specon_manager.model.events import Paused
from specon_manager.runtime.cluster_metrics import ClusterMetrics
from specon_manager.runtime.collector import keep_collections_short
from specon_manager.runtime.controller import Controller
from specon_manager.runtime.identities import IdentityUnavailableError
from specon_manager.runtime.metrics import Metrics
from specon_manager.runtime.page.listener import PageListener
from specon_manager.runtime.page.page import Page
from specon_manager.runtime.server import Server
from specon_manager.runtime.tls_buffers import use_small_tls_buffers
from specon_manager.serving.cluster_term import Term, TermTask
from specon_manager.serving.leader_label import drop_label, keep_label
from specon_manager.serving.serve_settings import ServeSettings

_log = logging.getLogger(__name__)
_FIRST_PAUSE: Final = 0.5  # seconds; doubled from one short term to the next
_LONGEST_PAUSE: Final = 30.0
_LONG_TERM: Final = 60.0
_PINS_SECONDS: Final = 3.0  # the API server waits for five


class ClusterManager:
    """Serves webhook, health, metrics and page from its start on; leads when the Lease is its own."""

    def __init__(
        self, settings: ServeSettings, api: Api, registry: CollectorRegistry, *, outputs: Api | None = None
    ) -> None:
        """Manage by `api`; logs of pods are read by `outputs`: each takes a connection."""
        self._settings, self._api = settings, api
        self._metrics, self._cluster_metrics = Metrics(registry), ClusterMetrics(registry)
        self._certificate = ServedCertificate()
        self._pause: str | None = None
        self._elector = Elector(
            api,
            namespace=settings.namespace,
            name=settings.lease_name,
            identity=settings.identity,
            labels=LEASE_LABELS,
            annotations={NAMESPACES: ",".join(sorted(settings.watch_namespaces))},
            noticed=self._obey_pause,
        )
        self._rivals = Rivals(
            api,
            lease=(settings.namespace, settings.lease_name),
            labels=LEASE_LABELS,
            namespaces=settings.watch_namespaces,
            configuration=settings.webhook_configuration,
        )
        self._cluster_metrics.follow_manager(
            leads=self._elector.holds, certificate_expiry=lambda: self._certificate.expires_at or 0.0
        )
        self._migrations = MigrationWatch(
            api,
            identity=settings.identity,
            namespaces=settings.watch_namespaces,
            holds=self._elector.holds,
        )
        self._pins = PinWatch(api, namespaces=settings.watch_namespaces)
        self._queues = QueueWatch(api, given=settings.decisions.queues)
        identities = KubeIdentities(api, unavailable=IdentityUnavailableError)
        self._page = Page(identities.is_owner, manager=settings.identity.rpartition("_")[0])
        self._page_listener = PageListener(self._page)
        self._server = Server(
            None,
            identities,
            registry,
            _no_jobs,
            readiness=self._is_ready,
            takes_orders=False,
            probes_here=False,
            relay=None if outputs is None else LogRelay(outputs, identities.pod_of, settings.log_streams),
        )
        self._webhook = webhook_routes(
            self._injection,
            self._list_pinned,
            self._cluster_metrics.count_answer,
            arriving=self._arriving,
            known=self._know_pins,
        )
        self._desk = self._eviction_desk(settings) if settings.interception.enabled else None
        if self._desk is not None:
            self._webhook += eviction_routes(self._desk.answer, self._cluster_metrics.count_answer)
        gates = settings.preemption_gate.enabled and not settings.decisions.dry_run
        self._local_queues = LocalQueues(api) if gates else None
        if self._local_queues is not None:
            self._webhook += gate_routes(
                settings.preemption_gate,
                self._local_queues,
                self._elector.is_led,
                self._cluster_metrics.count_answer,
            )
        self._rng = random.Random()  # noqa: S311  (jitter, not cryptography)
        self._own_pod = os.environ.get("POD_NAME", "")

    async def run(self) -> None:
        """Serve and, when it is our turn, lead; until cancelled. Raises OSError where a port is taken."""
        use_small_tls_buffers()
        listen, reports = self._settings.listen, self._settings.reports_listen
        probes, tls = self._settings.metrics_listen, self._certificate.context
        try:
            await self._server.start_probes(probes.host, probes.port)
            # Each has a port of its own, so that a NetworkPolicy can tell the API server from training pods.
            await self._server.start_beside(self._webhook, listen.host, listen.port, tls=tls)
            await self._server.start(reports.host, reports.port, tls=tls)
            if self._settings.page_listen is not None:
                await self._page_listener.start(
                    self._settings.page_listen.host, self._settings.page_listen.port
                )
            _log.info(
                "%s answers admission at %s:%d and sidecars at %s:%d",
                self._settings.identity,
                listen.host,
                listen.port,
                reports.host,
                reports.port,
            )
            async with asyncio.TaskGroup() as group:
                group.create_task(self._migrations.run())
                group.create_task(self._pins.run())
                group.create_task(self._queues.run())
                if self._desk is not None:
                    group.create_task(self._desk.run())
                if self._local_queues is not None:
                    group.create_task(self._local_queues.run())
                group.create_task(self._follow_certificate())
                group.create_task(self._candidate())
                group.create_task(keep_collections_short())
        finally:
            await self._page_listener.stop()
            await self._server.stop()

    async def _candidate(self) -> None:
        """Stand by and lead, again and again, where no other release leads over the same namespaces."""
        backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, self._rng)
        while True:
            await self._rivals.absent()
            began = time.monotonic()
            try:
                await self._elector.run(self._lead)
            except NotLeadingError as error:
                _log.warning("standing by, for another manager leads: %s", error)
            # Of two that depose each other one comes back later than the other.
            if time.monotonic() - began > _LONG_TERM:
                backoff.succeed()
            await asyncio.sleep(backoff.next())

    async def _lead(self) -> None:
        beside: list[TermTask] = [self._rivals.watch]
        if self._settings.certificates == "self":
            beside.append(self._keep_certificates)
        if self._own_pod:
            beside.append(self._keep_label)
        if self._desk is not None:
            beside.append(Marks(self._api, self._desk, holds=self._elector.holds).run)
        term = Term(
            self._settings,
            self._api,
            migrations=self._migrations,
            queues=self._queues,
            holds=self._elector.holds,
            trusted=lambda: self._certificate.trusted,
            metrics=self._metrics,
            paused=lambda: self._pause,
            changed=self._page.tell_changed,
            beside=tuple(beside),
            local_queues=self._local_queues,
            wrote=self._learn,
        )
        self._page.show_starts(term.forecasts.tell)
        self._page.show_logs(term.log_tail)
        self._server.show_starts(term.forecasts.tell)
        self._server.spare(term.backend.is_ending)
        self._cluster_metrics.follow_term(
            not_injected=lambda: term.backend.not_injected, events_dropped=lambda: term.recorder.dropped
        )
        try:
            await term.run(self._serve)
        finally:
            if self._own_pod:
                await drop_label(self._api, self._settings.namespace, self._own_pod)

    def _obey_pause(self, lease: Object) -> None:
        """Have the loop that runs here, if one does, obey what the Lease says; the next one asks."""
        reason = pause_reason(lease)
        if reason == self._pause:
            return
        self._pause = reason
        _log.info("%s", "the pause is over" if reason is None else f"paused: {reason or 'nobody says why'}")
        if (controller := self._server.controller) is not None:
            controller.post(Paused(reason=reason))

    def _serve(self, controller: Controller | None) -> None:
        self._server.controller = controller
        self._page.controller = controller

    def _keep_label(self) -> Coroutine[Any, Any, None]:
        return keep_label(self._api, self._settings.namespace, self._own_pod)

    def _keep_certificates(self) -> Coroutine[Any, Any, None]:
        settings = self._settings
        urls = (settings.webhook_url, settings.reports_url)
        outside = {host for url in urls if url is not None and (host := urlsplit(url).hostname)}
        store = CertificateStore(
            self._api,
            StoreSettings(
                namespace=settings.namespace,
                secret=settings.certificate_secret,
                webhook_configuration=settings.webhook_configuration,
                services=(settings.webhook_service, settings.reports_service),
                lease=f"{settings.namespace}/{settings.lease_name}",
                evictions=settings.interception.enabled,
            ),
            extra_names=tuple(sorted(outside)),
            fence=self._elector.holds,
            rival=lambda: self._rivals.keeper,
        )
        return store.run()

    async def _follow_certificate(self) -> None:
        settings = self._settings
        if settings.certificates != "self":
            await follow_directory(settings.certificate_directory, self._certificate)
            return
        secret = settings.certificate_secret
        await secret_reflector(self._api, settings.namespace, secret, self._certificate).run()

    def _injection(self) -> InjectionSettings | None:
        """Return the sidecar to inject; None: another release injects, and its manager would ignore us."""
        if self._rivals.present is not None:
            return None
        settings = self._settings
        service = f"https://{settings.reports_service}.{settings.namespace}.svc"
        return InjectionSettings(
            image=settings.sidecar.image,
            manager=settings.reports_url or service,
            ca_bundle=self._certificate.trusted,
            pull_policy=settings.sidecar.pull_policy,
            resources=settings.sidecar.resources,
            heartbeat=settings.sidecar.heartbeat,
            status_port=settings.sidecar.status_port,
            helper_volume=settings.sidecar.helper_volume,
            relays_output=settings.log_streams > 0,
            evictions=settings.interception.enabled,
        )

    def _eviction_desk(self, settings: ServeSettings) -> Desk:
        leader = LeaderLast(
            self._api,
            namespace=settings.namespace,
            leader=lambda: self._elector.holder.rpartition("_")[0],
            patience=settings.interception.patience,
        )
        return Desk(
            self._api,
            settings.interception,
            migrations=self._migrations,
            recorder=Recorder(self._api, instance=settings.identity),
            namespaces=settings.watch_namespaces,
            led=self._elector.is_led,
            leader=leader,
        )

    def _is_ready(self) -> bool:
        """Whether the webhook may be asked: it has its certificate, and knows the pins and what is evicted.

        An update ends the old managers by that, and an eviction passes where nobody knows the pods yet.
        """
        synced = self._migrations.synced.is_set() and self._pins.synced.is_set()
        evictions = self._desk is None or self._desk.ready
        return self._certificate.loaded.is_set() and synced and evictions

    async def _know_pins(self) -> None:
        """Wait a moment for the pins: outside of a cluster nobody keeps questions from who is not ready."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PINS_SECONDS):
                await self._migrations.synced.wait()
                await self._pins.synced.wait()

    def _list_pinned(self) -> Mapping[str, str]:
        """Return the hostname by replica; no replica moves while its job changes, and so none has two."""
        return {**self._pins.pins, **self._migrations.pins}

    def _learn(self, resource: Resource, written: Object) -> None:
        """Know a record at once that this manager wrote: its pod may come before the watch tells of it."""
        if resource == MIGRATIONS:
            self._migrations.learn(written)
        elif resource == TRAINING_JOBS:
            self._pins.learn(written)

    def _arriving(self) -> Collection[str]:
        """Return the replicas whose next pods are kept from the scheduler until their room is handed over."""
        guards = self._settings.hold_room and self._settings.guard_priority_class
        return self._pins.arriving | self._migrations.arriving if guards else ()


def _no_jobs(body: bytes, state: State) -> JobSpec:
    del body, state
    raise ValueError("jobs are created through the Kubernetes API here: annotate their pods")
