"""A manager of a cluster: TrainingProgress and Migration objects, its Lease, events; never its own port."""

import asyncio
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from specon_manager.backends.kube.objects.fields import mapping
from specon_manager.backends.kube.objects.names import Name, namespace_of, slug
from specon_manager.backends.kube.records.decoding import cut_text
from specon_manager.backends.kube.records.job_record import read_training_job
from specon_manager.backends.kube.records.migration_record import Migrated, read_migration
from specon_manager.backends.kube.records.pause import LEASE_LABELS, pause_patch
from specon_manager.backends.kube.records.progress_record import read_progress
from specon_manager.backends.kube.transport.api import Api, ApiError
from specon_manager.backends.kube.transport.resources import (
    EVENTS,
    LEASES,
    MIGRATIONS,
    NODES,
    PODS,
    TRAINING_JOBS,
    TRAINING_PROGRESSES,
    TRAINING_QUEUES,
    Object,
    Resource,
)
from specon_manager.cli.remote.cluster_evidence import MANAGERS, collect_evidence
from specon_manager.cli.remote.cluster_moves import is_refused, row_of_migration
from specon_manager.cli.remote.cluster_records import (
    Records,
    image_versions,
    remarks_of,
    state_of,
    view_of,
    with_leases,
)
from specon_manager.cli.remote.log_end import LogEnd
from specon_manager.cli.remote.problems import raise_in_words
from specon_manager.cli.remote.rebuilt import Rebuilt, rebuild
from specon_manager.cli.remote.remote import ReadJournal, Remark, RequestRefusedError, Wanted
from specon_manager.core.state import State
from specon_manager.model.transactions import TransactionState
from specon_manager.runtime.journal import recover
from specon_manager.usage import UsageError
from specon_manager.views.transactions import TransactionRow
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
    journal = None
    pause_words = "the leading manager obeys within seconds, and so does the next leader"

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
        """The state read last, for the names of replicas and for what transactions wait for."""

    async def view(self, read: ReadJournal = recover) -> View:
        """Return what the custom resources and the Lease say."""
        del read
        with raise_in_words(self.where):
            records = await self._records(self._namespace)
        self._known, caveats = await self._with_pause(state_of(records, time.time()))
        return view_of(self._known, records, caveats, time.time())

    async def whole(self, concerned: Callable[[State], Iterable[str]]) -> View:
        """Build the state again from everything that a new leader would read."""
        with raise_in_words(self.where):
            records = await self._records(None)
            self._rebuilt = await rebuild(self._api, state_of(records, time.time()), concerned)
        self._known, caveats = await self._with_pause(self._rebuilt.state)
        return view_of(self._known, records, (*caveats, _BUDGETS), time.time())

    async def log_end(self, replica: str) -> LogEnd | None:
        """Training logs are not read from here."""
        del replica
        return None

    async def remarks(self, job: str) -> Sequence[Remark]:
        """Return the manager's events on the job's owner and pods; the server forgets them after an hour."""
        namespace = job.partition("/")[0]
        with raise_in_words(self.where):
            events, _ = await self._api.list(EVENTS, namespace)
        return remarks_of(events, job)

    async def objection(self, replica: str) -> tuple[str | None, str | None]:
        """Have the eviction of the replica's pod tried, without its being done."""
        pod = None if self._rebuilt is None else self._rebuilt.pods.get(replica)
        if pod is None:
            return None, None
        try:
            with raise_in_words(self.where):
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
        """Create a Migration, and wait a moment for what the manager says to it.

        Raises RequestRefusedError where the manager refuses it, or someone deletes it meanwhile.
        """
        name = Name(namespace_of(wanted.name), f"{slug(wanted.name, _NAME)}-{secrets.token_hex(3)}")
        spec: dict[str, Any] = {"replica": wanted.replica, "target": wanted.target}
        if wanted.replica is None:
            spec = {"job": wanted.job, "targets": list(wanted.targets) or None}
        spec["reason"] = cut_text(reason)
        body: Object = {
            "apiVersion": MIGRATIONS.api_version,
            "kind": MIGRATIONS.kind,
            "metadata": {"name": name.name, "namespace": name.namespace},
            "spec": {key: value for key, value in spec.items() if value is not None},
        }
        with raise_in_words(self.where):
            await self._api.create(MIGRATIONS, body, name.namespace)
        deadline = time.monotonic() + self.answer_seconds
        while True:
            found = await self._find(name)
            row = None if found is None else self._row(found)
            if row is None:
                raise RequestRefusedError(f"{name} is gone: someone deleted it")
            if row.state != ASKED or time.monotonic() >= deadline:
                break
            await asyncio.sleep(_LOOK_SECONDS)
        if is_refused(row):
            raise RequestRefusedError(row.note or "refused")
        return row

    async def cancel(self, name: str) -> TransactionRow:
        """Delete the Migration of a request, unless it has begun meanwhile.

        Raises UsageError where there is none, RequestRefusedError where it has begun or changed.
        """
        known = Name(*name.split("/", 1)) if name.count("/") == 1 else None
        found = None if known is None else await self._find(known)
        if found is None or known is None:
            raise UsageError(f"--cancel: there is no request {name!r}: specon moves --open lists them")
        row = self._row(found)
        if row.begun:
            raise RequestRefusedError(f"{name} is no request any more: it is {row.state}")
        version = found.version
        try:
            with raise_in_words(self.where):
                await self._api.delete(
                    MIGRATIONS,
                    known.name,
                    known.namespace,
                    resource_version=version,
                    propagation="Background",
                )
        except UsageError as error:
            if isinstance(error.__cause__, ApiError) and error.__cause__.conflict:
                raise RequestRefusedError(f"{name} changed a moment ago: look at it again") from error
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
                each = [await self._find(Name(namespace, short)) for short in some]
                found = [one for one in each if one is not None]
            else:
                with raise_in_words(self.where):
                    items, _ = await self._api.list(MIGRATIONS, namespace)
                found = [read_migration(item)[0] for item in items]
            rows |= {row.id: row for row in (self._row(one) for one in found) if row.id in names}
        return rows

    async def versions(self) -> Mapping[str, str]:
        """Return the tags of the managers' images, where their pods may be listed."""
        try:
            with raise_in_words(self.where):
                pods, _ = await self._api.list(PODS, self._manager_namespace, label_selector=MANAGERS)
        except UsageError:
            return {}
        return image_versions(pods)

    async def set_pause(self, reason: str | None) -> None:
        """Annotate the Lease; raises UsageError where it is not clear which manager is meant."""
        with raise_in_words(self.where):
            found = await self._leases()
            if len(found) != 1:
                raise UsageError(_which(found))
            metadata = found[0]["metadata"]
            await self._api.patch(
                LEASES, metadata["name"], metadata["namespace"], pause_patch(reason), form="merge"
            )

    async def is_cordoned(self, node: str) -> bool | None:
        """Whether the node is marked unschedulable."""
        with raise_in_words(self.where):
            found = await self._api.get(NODES, node)
        return bool(mapping(found.get("spec")).get("unschedulable"))

    async def evidence(self) -> Mapping[str, bytes]:
        """Return the objects that are the manager's state, and the facts about its pods."""
        with raise_in_words(self.where):
            leases = await self._leases()
            return await collect_evidence(self._api, leases, self._namespace)

    async def close(self) -> None:
        """Close the connections."""
        await self._api.close()

    def _row(self, migration: Migrated) -> TransactionRow:
        return row_of_migration(migration, self._known)

    async def _records(self, namespace: str | None) -> "Records":
        listed, _ = await self._api.list(TRAINING_PROGRESSES, namespace)
        progresses = [read for item in listed if (read := read_progress(item)[0]) is not None]
        migrations, _ = await self._api.list(MIGRATIONS, namespace)
        jobs = await self._readable(TRAINING_JOBS, namespace, "changes of jobs, and who waits,")
        queues = await self._readable(TRAINING_QUEUES, None, "queues")
        return Records(
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

    async def _find(self, name: Name) -> Migrated | None:
        try:
            with raise_in_words(self.where):
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
            with raise_in_words(self.where):
                found = await self._leases()
        except UsageError as error:
            return state, (f"whether the manager is paused is not known: {error}",)
        return with_leases(state, found)


class _Readable(NamedTuple):
    """What of a resource can be read."""

    found: Sequence[Object] = ()
    unknown: tuple[str, ...] = ()


def _which(leases: Sequence[Object]) -> str:
    if not leases:
        return "no Lease of a manager is found: is one running? --manager-namespace and --lease name it"
    names = ", ".join(f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in leases)
    return f"there are several managers ({names}): --manager-namespace and --lease name one"
