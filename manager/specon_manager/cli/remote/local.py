"""A manager of this machine: its state directory, and the server that it runs on loopback."""

import asyncio
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import aiohttp
import msgspec

from specon_manager.cli.remote.local_evidence import collect_evidence
from specon_manager.cli.remote.log_end import LogEnd, log_end
from specon_manager.cli.remote.remote import ReadJournal, Remark, RequestRefusedError, Wanted
from specon_manager.cli.remote.state_directories import silence
from specon_manager.core.state import State
from specon_manager.core.state_check import latest
from specon_manager.model.expected_start import ExpectedStart
from specon_manager.model.transactions import Kind
from specon_manager.runtime.clock import Clock
from specon_manager.runtime.journal import NAME, JournalError, Recovered, recover
from specon_manager.runtime.state_directory import address_and_token
from specon_manager.usage import UsageError
from specon_manager.views.names import job_label, short_name
from specon_manager.views.queues import queue_rows, waiting_rows
from specon_manager.views.transactions import TransactionRow, rows_of
from specon_manager.views.view import View
from specon_manager.views.words import word_of_state

_SECONDS: Final = 30.0  # longer than a manager takes to have an order on record, or to say that it cannot
_CONFLICT: Final = 409
_OK: Final = 300


class LocalRemote:
    """Speaks with the owner's token, which is in the manager's directory."""

    pause_words = "nothing new is started or moved; moves in flight finish"

    def __init__(self, directory: Path) -> None:
        """Take the directory; raises UsageError where no manager was ever started in it."""
        try:
            known = address_and_token(directory)
        except OSError as error:
            raise UsageError(f"--state: the owner's token cannot be read: {error}") from error
        if known is None:
            raise UsageError(f"--state: no manager was ever started in {directory}")
        self._directory = directory
        self._address, self._token = known
        self._http: aiohttp.ClientSession | None = None

    @property
    def where(self) -> str:
        """The directory and the address."""
        return f"manager in {self._directory} at {self._address.url}"

    @property
    def journal(self) -> Path | None:
        """In its directory."""
        return self._directory / NAME

    async def view(self, read: ReadJournal = recover) -> View:
        """Ask for the whole state, or read the journal of a manager that has ended.

        Raises UsageError for a manager of another version.
        """
        try:
            content = await self._ask("GET", "/v1/state")
        except _SilentError as error:
            recovered = await asyncio.to_thread(_recover, self._directory, read, error)
            state, words = recovered.state, "the manager does not run: this is what its journal says"
            return msgspec.structs.replace(view_of(state, recovered.last_at, (words,)), answers=False)
        try:
            state = msgspec.convert(content, State)
        except msgspec.ValidationError as error:
            raise UsageError(f"the manager is of another version: {error}; use its own specon") from error
        return view_of(state, Clock(latest(state)).now(), (), await self._starts())

    async def _starts(self) -> Mapping[str, ExpectedStart]:
        """Return when jobs start as the manager expects; one that expects nothing has no such page."""
        try:
            return msgspec.convert(await self._ask("GET", "/v1/starts"), dict[str, ExpectedStart])
        except (UsageError, RequestRefusedError, msgspec.ValidationError):
            return {}

    async def whole(self, concerned: Callable[[State], Iterable[str]]) -> View:
        """As `view`: the manager's state is all that there is."""
        del concerned
        return await self.view()

    async def log_end(self, replica: str) -> LogEnd | None:
        """Read it where the job wrote it."""
        return await asyncio.to_thread(log_end, self._directory, replica)

    async def remarks(self, job: str) -> Sequence[Remark]:
        """Nobody but the manager says anything here."""
        del job
        return ()

    async def objection(self, replica: str) -> tuple[str | None, str | None]:
        """Nothing but the plan is asked here."""
        del replica
        return None, None

    async def ask(self, wanted: Wanted, reason: str) -> TransactionRow:
        """Ask the manager, which answers once it has begun, queued or refused it."""
        whole = {"job": wanted.job, "targets": wanted.targets}
        subject = whole if wanted.replica is None else {"replica": wanted.replica, "target": wanted.target}
        return _row(await self._ask("POST", "/v1/moves", {**subject, "reason": reason}), reason)

    async def cancel(self, name: str) -> TransactionRow:
        """Tell the manager, which answers once it is withdrawn."""
        return _row(await self._ask("DELETE", f"/v1/moves/{quote(name, safe='')}"), "")

    async def moves(self, names: Collection[str]) -> Mapping[str, TransactionRow]:
        """Look for them in the state."""
        return {row.id: row for row in (await self.view()).transactions if row.id in names}

    async def versions(self) -> Mapping[str, str]:
        """Return that of the manager, as it wrote it down."""
        return {"manager": self._address.version} if self._address.version else {}

    async def set_pause(self, reason: str | None) -> None:
        """Tell the manager, which answers once it holds."""
        if reason is None:
            await self._ask("DELETE", "/v1/pause")
        else:
            await self._ask("POST", "/v1/pause", {"reason": reason})

    async def is_cordoned(self, node: str) -> bool | None:
        """Virtual nodes cannot be cordoned."""
        del node
        return None

    async def evidence(self) -> Mapping[str, bytes]:
        """Return the evidence of the directory; a file NAME.missing says why a manager did not answer."""
        files: dict[str, bytes] = {}
        for name, path in (("state.json", "/v1/state"), ("metrics.txt", "/metrics")):
            try:
                files[name] = await self._fetch("GET", path)
            except (UsageError, RequestRefusedError) as error:
                files[f"{name}.missing"] = f"{error}\n".encode()
        return await asyncio.to_thread(collect_evidence, self._directory, files, self._token)

    async def close(self) -> None:
        """Close the connection."""
        if self._http is not None:
            await self._http.close()

    async def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        content = await self._fetch(method, path, body)
        try:
            return json.loads(content)
        except ValueError as error:
            raise UsageError(f"the server at {self._address.url} is no manager: {error}") from error

    async def _fetch(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> bytes:
        """Return an answer; raises RequestRefusedError for 409, else UsageError where it is none."""
        if self._http is None:
            self._http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_SECONDS))
        headers = {"Authorization": f"Bearer {self._token}"}
        try:
            async with self._http.request(
                method, self._address.url + path, json=body, headers=headers, allow_redirects=False
            ) as answer:
                content = await answer.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            words = silence(self._address.url, error)
            raise _SilentError(f"{words} (--context NAME asks a cluster)") from error
        if answer.status < _OK:
            return content
        problem = _problem(content, answer)
        raise RequestRefusedError(problem) if answer.status == _CONFLICT else UsageError(problem)


class _SilentError(UsageError):
    """Nobody answers."""


def view_of(
    state: State, now: float, caveats: tuple[str, ...], starts: Mapping[str, ExpectedStart] | None = None
) -> View:
    """Return the view of a manager's own state."""
    return View(
        state=state,
        now=now,
        transactions=rows_of(state),
        waiting=waiting_rows(state, now, starts),
        queues=queue_rows(state),
        caveats=caveats,
    )


def _row(told: Mapping[str, Any], reason: str) -> TransactionRow:
    """Return what the manager said of a move as a row."""
    replica = told["replica"] or None
    return TransactionRow(
        id=told["move"],
        kind=str(Kind.MOVE),
        job=told["job"],
        replica=replica,
        label=job_label(told["job"]) if replica is None else short_name(replica),
        what=told["what"],
        state=told["state"],
        word=word_of_state(told["state"]),
        source=told["source"] or None,
        target=told["target"] or None,
        reason=reason,
        note=told["note"],
        awaited=told["waits_for"],
    )


def _recover(directory: Path, read: ReadJournal, silent: UsageError) -> Recovered:
    try:
        recovered = read(directory / NAME)
    except (JournalError, OSError):
        recovered = None
    if recovered is None:
        raise silent
    return recovered


def _problem(content: bytes, answer: aiohttp.ClientResponse) -> str:
    try:
        return str(json.loads(content)["error"])
    except (ValueError, KeyError, TypeError):
        return f"the manager answered {answer.status} {answer.reason}"
