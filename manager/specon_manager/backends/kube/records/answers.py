"""What became of a request where all of a job moves: its Migration says so, for people.

The move itself is on record with its TrainingJob: nothing depends on these writes, in the background.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from specon_manager.backends.base import NotLeadingError
from specon_manager.backends.kube.objects.names import Name
from specon_manager.backends.kube.records.decoding import cut_text
from specon_manager.backends.kube.records.due_writes import DueWrites
from specon_manager.backends.kube.records.housekeeping import Housekeeping
from specon_manager.backends.kube.records.job_record import nodes_in_words
from specon_manager.backends.kube.records.migration_record import Migrated, read_migration
from specon_manager.backends.kube.records.migration_status import MigrationStatus, describe_move
from specon_manager.backends.kube.records.records import checkpoint_status, part_of, status_of
from specon_manager.backends.kube.transport.api import Api
from specon_manager.backends.kube.transport.errors import ApiError
from specon_manager.backends.kube.transport.rate import Rate
from specon_manager.backends.kube.transport.resources import MIGRATIONS, Object
from specon_manager.core.state import State
from specon_manager.model.transactions import Kind, Transaction

_WORDS: Final = 253
_AT_HAND: Final = frozenset({"message", "checkpoint"})
"""What may have to be taken away again."""


def is_answered_apart(transaction: Transaction) -> bool:
    """Whether somebody asked for it by a Migration that is not its record."""
    return transaction.kind is Kind.MOVE and transaction.whole and "/" in transaction.id


def answer(move: Transaction, *, manager: str, now: float) -> MigrationStatus:
    """Return what the Migration says of the move of a whole job that it asks for; `now` in seconds."""
    witness = next(iter(move.witnesses.values()), None)
    return msgspec.structs.replace(
        describe_move(move, manager=manager, now=now),
        job=move.job,
        source=cut_text(nodes_in_words(Counter(move.before.values())), _WORDS) if move.before else None,
        target=cut_text(nodes_in_words(Counter(move.after.values())), _WORDS) if move.after else None,
        checkpoint=checkpoint_status(move.checkpoint),
        last_step=None if witness is None else witness.last_step,
        first_step=None if witness is None else witness.first_step,
    )


class _Told(Struct, frozen=True):
    """What the Migration of a request is to say."""

    move: Transaction
    at: float


class Answers:
    """Tells people what became of their requests for moves of whole jobs."""

    def __init__(
        self,
        api: Api,
        housekeeping: Housekeeping,
        *,
        identity: str,
        holds: Callable[[], bool],
        rate: Rate,
        rng: random.Random,
    ) -> None:
        """Write as `identity` while `holds` says that this manager leads; `rate` bounds the writes."""
        self._api, self._housekeeping, self._identity, self._holds = api, housekeeping, identity, holds
        self._told: dict[str, _Told] = {}
        """By the name of the Migration; of moves that are over, until that is written."""
        self.due = DueWrites(self._write, kind=MIGRATIONS.kind, holds=holds, rate=rate, rng=rng)

    def __contains__(self, name: str) -> bool:
        """Whether the Migration of that name is answered by a transaction in flight, or is about to be."""
        return name in self._told

    def tell(self, state: State, over: Iterable[Transaction], now: float) -> None:
        """Take note of transactions in flight, and of those just ended; `now` on the manager's clock."""
        for move in (*state.transactions.values(), *over):
            known = self._told.get(move.id)
            if is_answered_apart(move) and (known is None or known.move != move):
                self._told[move.id] = _Told(move, now)
                self.due.put(move.id)

    def begin(self, state: State, migrations: Iterable[Migrated], now: float) -> None:
        """Have those say what became of them that an earlier manager left behind."""
        found = {str(each.name): each for each in migrations}
        left = [move for move in state.history if _is_behind(found.get(move.id))]
        self.tell(state, left, now)

    async def _write(self, name: str) -> None:
        told = self._told.get(name)
        if told is None:
            return  # that it is over was written already
        if not self._holds():
            raise NotLeadingError("another manager may lead")
        namespace, _, short = name.partition("/")
        try:
            written = await self._api.patch(
                MIGRATIONS, short, namespace, self._body(told), form="merge", subresource="status"
            )
        except ApiError as error:
            if not error.not_found:
                raise
            written = {}  # deleted: nobody wants to know
        if told.move.in_flight or self._told.get(name) is not told:
            return
        del self._told[name]
        uid = part_of(written, "metadata").get("uid")
        if isinstance(uid, str):
            at = told.at if told.move.ended_at is None else told.move.ended_at
            # Each pod of a gang has wishes of its own, and goes once three of those failed.
            about = read_migration(written)[0].about or told.move.job
            self._housekeeping.note_ended(about, at, Name(namespace, short), uid)

    def _body(self, told: _Told) -> Object:
        status: Mapping[str, object] = status_of(answer(told.move, manager=self._identity, now=told.at))
        return {"status": {**dict.fromkeys(_AT_HAND), **status}}


def _is_behind(found: Migrated | None) -> bool:
    """Whether its Migration does not say yet that it has ended."""
    return found is not None and (found.status.state is None or found.status.ended_at is None)
