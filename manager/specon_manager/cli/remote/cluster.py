"""A manager of a cluster: TrainingProgress and Migration objects, its Lease, events; never its own port."""

import asyncio
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from specon_manager.backends.kube.objects.fields import mapping
from specon_manager.backends.kube.objects.names import Name, namespace_of, slug
from specon_manager.backends.kube.queues.record import queue_info
from specon_manager.backends.kube.records.decoding import bounded
from specon_manager.backends.kube.records.job_record import Recorded, read_training_job
from specon_manager.backends.kube.records.migration_record import Migrated, read_migration
from specon_manager.backends.kube.records.pause import LEASE_LABELS, pause_patch, pause_reason
from specon_manager.backends.kube.records.progress_record import Progressed, read_progress
from specon_manager.backends.kube.records.restore import restore
from specon_manager.backends.kube.reporting.recorder import CONTROLLER
from specon_manager.backends.kube.transport.api import Api, ApiError
from specon_manager.backends.kube.transport.resources import (
    EVENTS,
    LEASES,
    MIGRATIONS,
    NODES,
    TRAINING_JOBS,
    TRAINING_PROGRESSES,
    TRAINING_QUEUES,
    Object,
    Resource,
)
from specon_manager.cli.remote.cluster_evidence import collected
from specon_manager.cli.remote.cluster_moves import is_refused, row_of_migration
from specon_manager.cli.remote.cluster_queues import queue_rows, waiting_rows
from specon_manager.cli.remote.problems import in_words
from specon_manager.cli.remote.rebuilt import Rebuilt, rebuilt
from specon_manager.cli.remote.remote import RefusedError, Remark, Wanted
from specon_manager.core.state import Pause, State
from specon_manager.model.transactions import TransactionState
from specon_manager.serving.serve_settings import CLUSTER_DEFAULTS
from specon_manager.usage import UsageError
from specon_manager.views.transactions import TransactionRow, rows_of
from specon_manager.views.view import View
from specon_manager.views.words import ASKED, word_of_state

_LOOK_SECONDS: Final = 0.3
_NAME: Final = 50  # characters of a Migration's name that tell whose it is
_FORBIDDEN: Final = 403
_FEW: Final = 3  # Migrations of a namespace that are read one by one
_BUDGETS: Final = "the manager's own budgets are not read here: the defaults are taken for them"


class ClusterRemote:
    """Speaks as the person at the terminal, whose permissions decide."""

    answer_seconds = 10.0
    """How long a manager may take to say something to a request before it is said that none did."""
    pause_words = "the manager that leads obeys within seconds, and so does whoever leads after it"

    def __init__(
        self,
        api: Api,
        *,
        where: str,
        namespace: str | None = None,
        manager_namespace: str | None = None,
        lease: str | None = None,
    ) -> None:
        """Look at the replicas of one namespace or (None) of all."""
        self._api, self.where, self._namespace = api, where, namespace
        self._manager_namespace, self._lease = manager_namespace, lease
        self._rebuilt: Rebuilt | None = None
        self._known = State()
        """What was last read, for the names of replicas and for what transactions wait for."""

    async def view(self) -> View:
        """Return what the custom resources and the Lease say."""
        with in_words(self.where):
            records = await self._records(self._namespace)
        self._known, caveats = await self._with_pause(_state(records))
        return _view(self._known, records, caveats)

    async def whole(self, concerned: Callable[[State], Iterable[str]]) -> View:
        """Build the state again from everything that a new leader would read."""
        with in_words(self.where):
            records = await self._records(None)
            self._rebuilt = await rebuilt(self._api, _state(records), concerned)
        self._known, caveats = await self._with_pause(self._rebuilt.state)
        return _view(self._known, records, (*caveats, _BUDGETS))

    async def remarks(self, job: str) -> Sequence[Remark]:
        """Return the manager's events on the job's owner and pods; the server forgets them after an hour."""
        namespace, _, name = job.partition("/")
        with in_words(self.where):
            events, _ = await self._api.list(EVENTS, namespace)
        found = [
            Remark(
                at=str(event.get("eventTime") or ""),
                about=f"{mapping(event.get('regarding')).get('kind')} {_about(event)}",
                reason=str(event.get("reason") or ""),
                text=str(event.get("note") or ""),
                warning=event.get("type") == "Warning",
            )
            for event in events
            if event.get("reportingController") == CONTROLLER
            and (_about(event) == name or _about(event).startswith(f"{name}-"))
        ]
        return sorted(found, key=lambda remark: (remark.at, remark.about))

    async def objection(self, replica: str) -> tuple[str | None, str | None]:
        """Have the eviction of the replica's pod tried, without its being done."""
        pod = None if self._rebuilt is None else self._rebuilt.pods.get(replica)
        if pod is None:
            return None, None
        try:
            with in_words(self.where):
                await self._api.evict(pod.name, pod.namespace, uid=pod.uid, dry_run=True)
        except UsageError as error:
            cause = error.__cause__
            if isinstance(cause, ApiError) and cause.status == _FORBIDDEN:
                return None, "disruption budgets are not checked: you may not create pods/eviction"
            if isinstance(cause, ApiError):
                return f"its pod cannot be evicted now: {cause.message}", None
            raise
        return None, None

    async def ask(self, wanted: Wanted, reason: str) -> TransactionRow:
        """Create a Migration, and wait a moment for what the manager says to it."""
        name = Name(namespace_of(wanted.name), f"{slug(wanted.name, _NAME)}-{secrets.token_hex(3)}")
        spec: dict[str, Any] = {"replica": wanted.replica, "target": wanted.target}
        if wanted.replica is None:
            spec = {"job": wanted.job, "targets": list(wanted.targets) or None}
        spec["reason"] = bounded(reason)
        body: Object = {
            "apiVersion": MIGRATIONS.api_version,
            "kind": MIGRATIONS.kind,
            "metadata": {"name": name.name, "namespace": name.namespace},
            "spec": {key: value for key, value in spec.items() if value is not None},
        }
        with in_words(self.where):
            await self._api.create(MIGRATIONS, body, name.namespace)
        deadline = time.monotonic() + self.answer_seconds
        while True:
            found = await self._found(name)
            row = None if found is None else self._row(found)
            if row is None:
                raise RefusedError(f"{name} is gone: somebody deleted it")
            if row.state != ASKED or time.monotonic() >= deadline:
                break
            await asyncio.sleep(_LOOK_SECONDS)
        if is_refused(row):
            raise RefusedError(row.note or "refused")
        return row

    async def cancel(self, name: str) -> TransactionRow:
        """Delete the Migration of a request, unless it has begun meanwhile."""
        known = Name(*name.split("/", 1)) if name.count("/") == 1 else None
        found = None if known is None else await self._found(known)
        if found is None or known is None:
            raise UsageError(f"--cancel: there is no request {name!r}: specon moves --open lists them")
        row = self._row(found)
        if row.begun:
            raise RefusedError(f"{name} is no request any more: it is {row.state}")
        version = found.version
        try:
            with in_words(self.where):
                await self._api.delete(
                    MIGRATIONS,
                    known.name,
                    known.namespace,
                    resource_version=version,
                    propagation="Background",
                )
        except UsageError as error:
            if isinstance(error.__cause__, ApiError) and error.__cause__.conflict:
                raise RefusedError(f"{name} has changed just now: look at it again") from error
            raise
        refused = str(TransactionState.REFUSED)
        return msgspec.structs.replace(row, state=refused, word=word_of_state(refused), awaited="")

    async def moves(self, names: Collection[str]) -> Mapping[str, TransactionRow]:
        """Read the Migrations `namespace/name`: of a namespace at once, where there are many."""
        by_namespace: dict[str, list[str]] = {}
        for name in names:
            namespace, _, short = name.partition("/")
            by_namespace.setdefault(namespace, []).append(short)
        rows: dict[str, TransactionRow] = {}
        for namespace, some in by_namespace.items():
            if len(some) <= _FEW:
                each = [await self._found(Name(namespace, short)) for short in some]
                found = [one for one in each if one is not None]
            else:
                with in_words(self.where):
                    items, _ = await self._api.list(MIGRATIONS, namespace)
                found = [read_migration(item)[0] for item in items]
            rows |= {row.id: row for row in (self._row(one) for one in found) if row.id in names}
        return rows

    async def set_pause(self, reason: str | None) -> None:
        """Annotate the Lease."""
        with in_words(self.where):
            found = await self._leases()
            if len(found) != 1:
                raise UsageError(_which(found))
            metadata = found[0]["metadata"]
            await self._api.patch(
                LEASES, metadata["name"], metadata["namespace"], pause_patch(reason), form="merge"
            )

    async def cordoned(self, node: str) -> bool | None:
        """Whether the node is marked unschedulable."""
        with in_words(self.where):
            found = await self._api.get(NODES, node)
        return bool(mapping(found.get("spec")).get("unschedulable"))

    async def evidence(self) -> Mapping[str, bytes]:
        """Return the objects that are the manager's state, and what is known of its pods."""
        with in_words(self.where):
            leases = await self._leases()
            return await collected(self._api, leases, self._namespace)

    async def close(self) -> None:
        """Close the connections."""
        await self._api.close()

    def _row(self, migration: Migrated) -> TransactionRow:
        return row_of_migration(migration, self._known)

    async def _records(self, namespace: str | None) -> "_Records":
        listed, _ = await self._api.list(TRAINING_PROGRESSES, namespace)
        progresses = [read for item in listed if (read := read_progress(item)[0]) is not None]
        migrations, _ = await self._api.list(MIGRATIONS, namespace)
        jobs = await self._readable(TRAINING_JOBS, namespace, "changes of jobs, and who waits,")
        queues = await self._readable(TRAINING_QUEUES, None, "queues")
        return _Records(
            progresses=progresses,
            migrations=[read_migration(item)[0] for item in migrations],
            jobs=[job for item in jobs.found if (job := read_training_job(item)[0]) is not None],
            queues=queues.found,
            unknown=(*jobs.unknown, *queues.unknown),
        )

    async def _readable(self, resource: Resource, namespace: str | None, what: str) -> "_Readable":
        """Return the objects of a resource, none where the server does not have it, or may not be asked."""
        try:
            found, _ = await self._api.list(resource, namespace)
        except ApiError as error:
            if error.not_found:
                return _Readable()
            if error.status != _FORBIDDEN:
                raise
            name = f"{resource.plural}.{resource.group}"
            return _Readable(unknown=(f"{what} are not known: you may not list {name}",))
        return _Readable(found)

    async def _found(self, name: Name) -> Migrated | None:
        try:
            with in_words(self.where):
                item = await self._api.get(MIGRATIONS, name.name, name.namespace)
        except UsageError as error:
            if isinstance(error.__cause__, ApiError) and error.__cause__.not_found:
                return None
            raise
        return read_migration(item)[0]

    async def _leases(self) -> list[Object]:
        """Return the Leases of managers: the one that is named, else all that can be found."""
        if self._lease is not None and self._manager_namespace is not None:
            return [await self._api.get(LEASES, self._lease, self._manager_namespace)]
        selector = ",".join(f"{key}={value}" for key, value in LEASE_LABELS.items())
        found, _ = await self._api.list(LEASES, self._manager_namespace, label_selector=selector)
        return [each for each in found if self._lease in {None, each["metadata"]["name"]}]

    async def _with_pause(self, state: State) -> tuple[State, tuple[str, ...]]:
        """Return the state with the pause that the Lease tells of, and what cannot be known of that."""
        try:
            with in_words(self.where):
                found = await self._leases()
        except UsageError as error:
            return state, (f"whether the manager is paused is not known: {error}",)
        held = [each for each in found if mapping(each.get("spec")).get("holderIdentity")]
        caveats = () if held else ("no manager leads at present: nothing is decided",)
        reasons = [reason for each in found if (reason := pause_reason(each)) is not None]
        if not reasons:
            return state, caveats
        return msgspec.structs.replace(state, pause=Pause(since=0.0, reason="; ".join(reasons))), caveats


class _Records(NamedTuple):
    """What the manager writes down, each where it can be read."""

    progresses: Sequence[Progressed]
    migrations: Sequence[Migrated]
    jobs: Sequence[Recorded]
    queues: Sequence[Object]
    unknown: tuple[str, ...]
    """What could not be read, in words."""


class _Readable(NamedTuple):
    """What of a resource can be read."""

    found: Sequence[Object] = ()
    unknown: tuple[str, ...] = ()


def _state(records: _Records) -> State:
    found = restore(
        records.progresses, records.migrations, CLUSTER_DEFAULTS, time.time(), recorded=records.jobs
    )
    queues = (queue_info(item).queue for item in records.queues)
    return msgspec.structs.replace(found.state, queues={queue.name: queue for queue in queues})


def _view(state: State, records: _Records, caveats: tuple[str, ...]) -> View:
    now = time.time()
    # Migrations tell of moves: of requests that nobody has looked at as well, and of more that ended. Of a
    # job that moves as a whole its TrainingJob has the record.
    whole = {row.id: row for row in rows_of(state) if row.begun and row.replica is None}
    moves = [row_of_migration(each, state) for each in records.migrations]
    rows = [*whole.values(), *(row for row in moves if row.id not in whole)]
    return View(
        state=state,
        now=now,
        transactions=tuple(sorted(rows, key=lambda row: (row.proposed_at or "~", row.id))),
        waiting=waiting_rows(records.jobs),
        queues=queue_rows(records.jobs, records.queues),
        caveats=(*caveats, *records.unknown),
    )


def _about(event: Object) -> str:
    return str(mapping(event.get("regarding")).get("name") or "")


def _which(leases: Sequence[Object]) -> str:
    if not leases:
        return "no Lease of a manager is found: is one running? --manager-namespace and --lease name it"
    names = ", ".join(f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in leases)
    return f"there are several managers ({names}): --manager-namespace and --lease name one"
