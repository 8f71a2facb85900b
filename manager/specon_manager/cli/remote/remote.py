"""What a command can see of a manager and ask of it, wherever that manager is."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from specon_manager.cli.remote.log_end import LogEnd
from specon_manager.core.state import State
from specon_manager.model.transactions import Request
from specon_manager.runtime.journal import Recovered, recover
from specon_manager.views.transactions import TransactionRow
from specon_manager.views.view import View


class RequestRefusedError(Exception):
    """The request is not carried out; the text says why."""


class Wanted(Struct, frozen=True, kw_only=True):
    """A move that somebody wants: of one replica, or of a whole job."""

    job: str
    replica: str | None = None
    """None: all of the job."""
    targets: tuple[str, ...] = ()
    """The node, of a whole job the nodes among which the manager may choose; none: among all."""

    @property
    def name(self) -> str:
        """The replica or the job to move."""
        return self.job if self.replica is None else self.replica

    @property
    def target(self) -> str | None:
        """Of one replica, where to; None: the manager chooses."""
        return self.targets[0] if self.replica is not None and self.targets else None

    def request(self, now: float) -> Request:
        """Return it as the manager would keep it, asked for at that time."""
        if self.replica is not None:
            return Request(id="", replica=self.replica, target=self.target, at=now)
        return Request(id="", job=self.job, targets=self.targets, at=now)


class Remark(Struct, frozen=True, kw_only=True):
    """Something that was said of a replica or of its owner, as an event of the cluster."""

    at: str
    about: str
    reason: str
    text: str
    warning: bool = False


ReadJournal = Callable[[Path], Recovered | None]
"""Reads a journal: what it holds, or None where there is none. Raises JournalError, OSError."""


class Remote(Protocol):
    """A manager. Every method raises UsageError where it cannot be reached, with what to do."""

    @property
    def where(self) -> str:
        """Which manager this is, in words."""

    @property
    def pause_words(self) -> str:
        """What a pause is like here, in words."""

    @property
    def journal(self) -> Path | None:
        """Its journal, where that can be read from here."""

    async def view(self, read: ReadJournal = recover) -> View:
        """Return the known replicas and transactions; `read` reads the journal of a manager that ended."""

    async def whole(self, concerned: Callable[[State], Iterable[str]]) -> View:
        """Return the state with everything that a decision on the replicas `concerned` needs; slower."""

    async def log_end(self, replica: str) -> LogEnd | None:
        """Return the end of a replica's own log, where that can be read from here."""

    async def remarks(self, job: str) -> Sequence[Remark]:
        """Return the events of a job, oldest first."""

    async def objection(self, replica: str) -> tuple[str | None, str | None]:
        """Return what would keep a replica from being evicted, beside what the plan knows; changes nothing.

        Second comes what could not be looked at. Asked after `whole`.
        """

    async def ask(self, wanted: Wanted, reason: str) -> TransactionRow:
        """Ask for a move, which begins, or is queued until others have ended. Raises RequestRefusedError."""

    async def cancel(self, name: str) -> TransactionRow:
        """Withdraw the request for a move that has not begun. Raises RequestRefusedError where it has."""

    async def moves(self, names: Collection[str]) -> Mapping[str, TransactionRow]:
        """Return moves, and requests for moves, by their ids; without those that are not there any more."""

    async def versions(self) -> Mapping[str, str]:
        """Return the versions at work there, by component; empty where nobody knows them."""

    async def set_pause(self, reason: str | None) -> None:
        """Begin, reword or (None) end a pause."""

    async def is_cordoned(self, node: str) -> bool | None:
        """Return whether nothing new is placed on a node; None where there is no such thing."""

    async def evidence(self) -> Mapping[str, bytes]:
        """Return files for a support bundle by name, without secrets and each of bounded size."""

    async def close(self) -> None:
        """Let go of connections."""
