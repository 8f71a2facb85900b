"""Migrations of the moves that are in flight, each with how to create a bare pod again that it ended."""

import json
import logging
from collections.abc import Collection

from specon_manager.backends.kube.objects.names import Name, migration_name, other_name
from specon_manager.backends.kube.records.decoding import moment
from specon_manager.backends.kube.records.external import MoveState
from specon_manager.backends.kube.records.housekeeping import Housekeeping
from specon_manager.backends.kube.records.migration_record import Migrated, read_migration
from specon_manager.backends.kube.records.migration_status import (
    MANIFEST_BYTES,
    MOVE_LABEL,
    MigrationStatus,
    migration_object,
    migration_status,
    to_first_schema,
)
from specon_manager.backends.kube.records.record_writer import Content, Home, Kept, RecordWriter
from specon_manager.backends.kube.records.records import part_of, status_of
from specon_manager.backends.kube.records.restore import Closing
from specon_manager.backends.kube.transport.resources import MIGRATIONS, Object
from specon_manager.core.state import State
from specon_manager.model.cluster import Phase
from specon_manager.model.transactions import Transaction, TransactionState

_log = logging.getLogger(__name__)
_HOSTNAME = "kubernetes.io/hostname"


class MoveRecords:
    """One Migration for each move, written before anything is ordered because of it."""

    def __init__(self, writer: RecordWriter, housekeeping: Housekeeping, *, identity: str) -> None:
        self._writer, self._housekeeping, self._identity = writer, housekeeping, identity
        self._kept: dict[str, Kept] = {}
        """By the id of the move."""
        self._hostnames: dict[str, tuple[str, str]] = {}
        """Destination of each move, and its hostname: the node may be gone meanwhile."""
        self._manifests: dict[str, tuple[str, Name, str]] = {}
        """Bare pods that are to be created again, by replica: move, Migration and manifest."""
        self._open: dict[str, Transaction] = {}
        """The move in flight, by replica."""
        self._state, self._now = State(), 0.0

    async def write(self, move: Transaction, state: State, now: float, *, begun: bool) -> str:
        """Write the Migration of a move, however long that takes; return why it cannot be, else nothing."""
        self.follow(state, now)
        if (kept := self._kept.get(move.id)) is None:
            kept = self._kept[move.id] = Kept(_home(move))
        kept.over = not move.in_flight
        if kept.over and move.state is not TransactionState.FAILED:
            for replica in move.concerned:
                self._manifests.pop(replica, None)
        await self._writer.write_through(kept, lambda: self._content(move, kept), begun=begun)
        refused, kept.refused = kept.refused, ""
        if kept.over:
            self._note_end(move, kept)
        elif kept.gone and not begun:
            return refused or "it cannot be recorded: its namespace is going"
        return refused

    def follow(self, state: State, now: float) -> None:
        """Take note of the moves in flight."""
        if state.transactions is not self._state.transactions:
            moves = (each for each in state.transactions.values() if not each.whole)
            self._open = {replica: move for move in moves for replica in move.concerned}
        self._state, self._now = state, now

    def find_moves(self, names: Collection[Name]) -> set[str]:
        """Return the ids of the moves in flight whose Migrations have these names."""
        return {move for move, kept in self._kept.items() if kept.name in names} if names else set()

    def forget_manifests(self, state: State) -> None:
        """Let go of how pods are created that are there again, or never will be."""
        for name in list(self._manifests):
            replica = state.replicas.get(name)
            awaited = replica is not None and not replica.ended and replica.phase is not Phase.RUNNING
            if name not in self._open and not awaited:
                _, migration, _ = self._manifests.pop(name)
                self._housekeeping.drop_manifest(migration)

    # -- what the backend asks for ---------------------------------------------------------------

    async def keep_manifest(self, replica: str, manifest: Object) -> None:
        """See `Keeper`."""
        move = self._open.get(replica)
        kept = None if move is None else self._kept.get(move.id)
        if move is None or kept is None or kept.gone or not kept.uid:
            raise LookupError(f"no move of {replica} is on record")
        text = json.dumps(manifest, separators=(",", ":"), ensure_ascii=True)
        if len(text) > MANIFEST_BYTES:
            raise ValueError(f"the manifest of {replica} has {len(text)} bytes, more than {MANIFEST_BYTES}")
        self._manifests[replica] = (move.id, kept.name, text)
        await self._writer.write_through(kept, lambda: self._content(move, kept), begun=True)
        if not kept.uid:
            why = kept.refused or "it was deleted"
            raise LookupError(f"the move of {replica} is on record no more: {why}")

    def read_manifest(self, replica: str) -> Object | None:
        """See `Keeper`."""
        held = self._manifests.get(replica)
        if held is None:
            return None
        try:
            manifest = json.loads(held[2])
        except (ValueError, RecursionError):
            return None  # edited by hand
        return manifest if isinstance(manifest, dict) else None

    def reference(self, replica: str) -> Object | None:
        """See `Keeper`."""
        move = self._open.get(replica)
        kept = None if move is None else self._kept.get(move.id)
        if kept is None or not kept.uid:
            return None
        return {
            "apiVersion": MIGRATIONS.api_version,
            "kind": MIGRATIONS.kind,
            "name": kept.name.name,
            "uid": kept.uid,
            "controller": False,
            "blockOwnerDeletion": False,
        }

    # -- taking over -----------------------------------------------------------------------------

    async def take(self, move: Transaction, found: Migrated, state: State, now: float) -> None:
        """Write our identity into the Migration of a move in flight; raises what the API raises."""
        self.follow(state, now)
        kept = Kept(_home(move))
        kept.note_known(found.name, found.uid, found.version, found.spec)
        hostname = found.status.destination_hostname
        if hostname is not None and found.status.destination == move.destination:
            self._hostnames[move.id] = (move.destination, hostname)
        if found.status.manifest is not None:
            self._manifests[move.replica] = (move.id, found.name, found.status.manifest)
        await self._writer.take(kept, self._content(move, kept))
        self._kept[move.id] = kept

    async def close(self, closing: Closing, found: Migrated, now: float) -> None:
        """Close a Migration that cannot go on; nothing else of what it said is kept but the manifest."""
        at, failed = moment(now), closing.state is MoveState.FAILED
        status = MigrationStatus(
            id=found.status.id,
            state=closing.state,
            replica=found.replica,
            source=found.status.source,
            target=found.status.target,
            message=closing.message,
            proposed_at=found.status.proposed_at,
            ended_at=at,
            manifest=found.status.manifest if failed else None,
            manager=self._identity,
            updated_at=at,
        )
        kept = Kept(Home(resource=MIGRATIONS, names=(found.name,), keeps_spec=True, writer_of=_manager_of))
        kept.note_known(found.name, found.uid, found.version, found.spec)
        await self._writer.take(kept, Content(spec=found.spec, status=status_of(status)))

    def remember(self, found: Migrated, state: State, *, failed: bool) -> None:
        """Keep the manifest that an earlier manager had kept, where its move has failed and it is needed."""
        assert found.replica is not None
        assert found.status.manifest is not None
        if found.replica in self._open:
            return  # that of the move in flight was taken with it
        replica = state.replicas.get(found.replica)
        if failed and replica is not None and not replica.ended and replica.phase is not Phase.RUNNING:
            self._manifests[found.replica] = ("", found.name, found.status.manifest)
        else:
            self._housekeeping.drop_manifest(found.name)

    def _note_end(self, move: Transaction, kept: Kept) -> None:
        del self._kept[move.id]
        self._hostnames.pop(move.id, None)
        if kept.uid:
            at = self._now if move.ended_at is None else move.ended_at
            self._housekeeping.note_ended(move.replica, at, kept.name, kept.uid)

    def _content(self, move: Transaction, kept: Kept) -> Content:
        """Return what the Migration is to say by now."""
        body = migration_object(move)
        held = self._manifests.get(move.replica)
        status = migration_status(
            move,
            self._state.replicas.get(move.replica),
            hostname=self._hostname(move),
            measured=self._state.measured,
            manifest=held[2] if held is not None and held[0] == move.id else None,
            manager=self._identity,
            now=self._now,
        )
        return Content(
            spec=kept.spec or body["spec"],
            status=status_of(status),
            first_schema=status_of(to_first_schema(status)),
            labels=body["metadata"].get("labels", {}),
        )

    def _hostname(self, move: Transaction) -> str:
        destination = move.destination
        node, known = self._state.nodes.get(destination), self._hostnames.get(move.id)
        labels = {} if node is None else node.labels
        if _HOSTNAME not in labels and known is not None and known[0] == destination:
            return known[1]
        hostname = labels.get(_HOSTNAME, destination)
        self._hostnames[move.id] = (destination, hostname)
        return hostname


def _home(move: Transaction) -> Home:
    name = migration_name(move)

    def is_ours(item: Object) -> bool:
        """Whether an object of that name is that of the move, which may have been asked for by it."""
        read, _ = read_migration(item)
        label = part_of(part_of(item, "metadata"), "labels").get(MOVE_LABEL, str(read.name))
        over = read.transaction is not None and not read.transaction.in_flight
        return label == move.id and read.replica in {None, move.replica} and not over

    return Home(
        resource=MIGRATIONS,
        names=(name, other_name(name, move)),
        asked="/" in move.id,
        keeps_spec=True,
        is_ours=is_ours,
        writer_of=_manager_of,
    )


def _manager_of(item: Object) -> str | None:
    return read_migration(item)[0].status.manager
