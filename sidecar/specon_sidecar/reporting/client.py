"""HTTP to the manager: send reports, wait for instructions, acknowledge them.

A manager that is away, slow or wrong never raises here: each call returns what became of it.
"""

import contextlib
import logging
import math
import time
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import aiohttp

from specon_sidecar.certificates import trust_for
from specon_sidecar.reporting.authorities import AuthoritiesFile
from specon_sidecar.reporting.bearer import TokenFile
from specon_sidecar.reporting.outcome import Outcome
from specon_sidecar.wire import (
    MAX_MESSAGE_BYTES,
    Acknowledgement,
    Checkpoint,
    Instruction,
    Report,
    Turns,
    WireError,
    decode_instructions,
    decode_resumable,
    decode_turns,
    encode,
)

_LOG = logging.getLogger(__name__)
_CONNECT_SECONDS: Final = 5.0
_SEND_SECONDS: Final = 10.0
_TURNS_SECONDS: Final = 2.0  # likewise: an answer that comes later is about turns that are over
_GRACE_SECONDS: Final = 10.0  # beyond the wait that a long poll asks for
# A log that says nothing for long may be read by nobody any more: it is asked for again.
_OUTPUT_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, connect=_CONNECT_SECONDS, sock_read=900)
_BUSY: Final = frozenset({429, 503})
_LONGEST_PAUSE: Final = 60.0  # that a manager may ask for
_TRANSIENT: Final = frozenset({401, 403, 408, 425, 429})  # tokens rotate, managers get busy


class Client:
    """A connection to one manager, to be used as an asynchronous context."""

    def __init__(
        self,
        url: str,
        *,
        replica: str,
        incarnation: str,
        token_file: str | None = None,
        ca_file: str | None = None,
    ) -> None:
        """Prepare; both files are read when they are needed, and again when they change."""
        self._url = url.rstrip("/")
        self._identity = {"replica": replica, "incarnation": incarnation}
        self._token = None if token_file is None else TokenFile(Path(token_file))
        self._authorities = None if ca_file is None else AuthoritiesFile(Path(ca_file))
        self._session: aiohttp.ClientSession | None = None
        self._complaints: set[str] = set()
        self._not_before = -math.inf

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=4), cookie_jar=aiohttp.DummyCookieJar()
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def report(self, report: Report) -> Outcome:
        """Send a report."""
        return await self._send("/v1/reports", encode(report))

    async def acknowledge(self, acknowledgement: Acknowledgement) -> Outcome:
        """Answer an instruction."""
        return await self._send("/v1/acknowledgements", encode(acknowledgement))

    async def resumable(self) -> tuple[Outcome, Checkpoint | None]:
        """Ask from which checkpoint this incarnation may go on."""
        outcome, body = await self._call("GET", "/v1/checkpoint", _SEND_SECONDS, query=dict(self._identity))
        if outcome is not Outcome.DELIVERED:
            return outcome, None
        try:
            return outcome, decode_resumable(body).checkpoint
        except WireError as error:
            self._complain("/v1/checkpoint", f"the answer is not understood: {error}")
            return Outcome.LOST, None

    @contextlib.asynccontextmanager
    async def output(self, container: str, since: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """Give what a container of this pod prints, in pieces, with the time before each line.

        From the beginning, or from a time such as `2026-11-23T07:00:00Z` on. Raises OSError with the
        obstacle, and while reading.
        """
        query = {**self._identity, "container": container, "since": since}
        try:
            async with self._request("GET", "/v1/output", _OUTPUT_TIMEOUT, query=query) as response:
                if response.status != 200:  # noqa: PLR2004 - OK
                    said = (await _read_bounded(response)).decode("utf-8", "replace")
                    raise OSError(f"the manager answers {response.status}: {said[:300]}")
                yield response.content.iter_any()
        except (aiohttp.ClientError, ValueError) as error:
            raise OSError(f"{type(error).__name__}: {error}") from error

    async def instructions(
        self, known: Iterable[str] = (), *, wait: float = 20.0
    ) -> tuple[Outcome, tuple[Instruction, ...]]:
        """Wait up to `wait` seconds for an instruction that is not among the ids in `known`."""
        query = {**self._identity, "wait": f"{wait:g}", "known": ",".join(known)}
        outcome, body = await self._call("GET", "/v1/instructions", wait + _GRACE_SECONDS, query=query)
        if outcome is not Outcome.DELIVERED:
            return outcome, ()
        try:
            return outcome, decode_instructions(body).instructions
        except WireError as error:
            self._complain("/v1/instructions", f"the answer is not understood: {error}")
            return Outcome.LOST, ()

    async def turns(self, known: str, *, wait: float) -> tuple[Outcome, Turns | None]:
        """Wait up to `wait` seconds for turns with another id than `known`; return what holds then."""
        query = {**self._identity, "wait": f"{wait:g}", "known": known}
        outcome, body = await self._call("GET", "/v1/turns", wait + _TURNS_SECONDS, query=query)
        if outcome is not Outcome.DELIVERED:
            return outcome, None
        try:
            return outcome, decode_turns(body)
        except WireError as error:
            self._complain("/v1/turns", f"the answer is not understood: {error}")
            return Outcome.LOST, None

    async def _send(self, path: str, message: bytes) -> Outcome:
        outcome, _ = await self._call("POST", path, _SEND_SECONDS, message=message)
        return outcome

    async def _call(
        self,
        method: str,
        path: str,
        seconds: float,
        *,
        query: dict[str, str] | None = None,
        message: bytes | None = None,
    ) -> tuple[Outcome, bytes]:
        if self._session is None:
            raise RuntimeError("the client is used outside its context")
        if time.monotonic() < self._not_before:
            return Outcome.LOST, b""
        timeout = aiohttp.ClientTimeout(total=seconds, connect=_CONNECT_SECONDS)
        try:
            async with self._request(method, path, timeout, query=query, message=message) as response:
                outcome = self._outcome(path, response.status)
                self._obey(response)
                return outcome, await _read_bounded(response) if outcome is Outcome.DELIVERED else b""
        except (aiohttp.ClientError, OSError, ValueError) as error:
            self._complain(path, f"{type(error).__name__}: {error}")
            return Outcome.LOST, b""

    def _request(
        self,
        method: str,
        path: str,
        timeout: aiohttp.ClientTimeout,
        *,
        query: dict[str, str] | None = None,
        message: bytes | None = None,
    ) -> contextlib.AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """Make a request; raises OSError where nobody could be trusted."""
        if self._session is None:
            raise RuntimeError("the client is used outside its context")
        headers = {"Content-Type": "application/json"} if message is not None else {}
        if self._token is not None and (token := self._token.read()) is not None:
            headers["Authorization"] = f"Bearer {token}"
        tls = trust_for(self._url) if self._authorities is None else self._authorities.context()
        if tls is None:
            # The token must go to nobody else.
            raise OSError("not called: no certificate authorities can be read")
        return self._session.request(
            method,
            self._url + path,
            params=query,
            data=message,
            headers=headers,
            ssl=tls,
            # A redirect could carry the token to a stranger.
            allow_redirects=False,
            timeout=timeout,
        )

    def _obey(self, response: aiohttp.ClientResponse) -> None:
        """Keep silent for as long as the manager asks for: it is busy, or another is about to lead."""
        asked = response.headers.get("Retry-After", "")
        if response.status in _BUSY and asked.isascii() and asked.isdecimal():
            self._not_before = time.monotonic() + min(float(asked[:9]), _LONGEST_PAUSE)

    def _outcome(self, path: str, status: int) -> Outcome:
        if 200 <= status < 300:  # noqa: PLR2004 - the success class of HTTP
            self._complaints = {complaint for complaint in self._complaints if not complaint.startswith(path)}
            return Outcome.DELIVERED
        if status == 410:  # noqa: PLR2004 - Gone
            _LOG.warning("%s: this incarnation is no longer the current one", path)
            return Outcome.GONE
        transient = status in _TRANSIENT or not 400 <= status < 500  # noqa: PLR2004 - the client-error class of HTTP
        self._complain(path, f"status {status}, {'tried again' if transient else 'refused'}")
        return Outcome.LOST if transient else Outcome.REFUSED

    def _complain(self, path: str, what: str) -> None:
        """Log each trouble once until the path works again; a manager away for a day fills no log."""
        complaint = f"{path}: {what}"[:300]
        if complaint not in self._complaints and len(self._complaints) < 100:  # noqa: PLR2004 - bounds the set
            self._complaints.add(complaint)
            _LOG.warning("manager %s", complaint)


async def _read_bounded(response: aiohttp.ClientResponse) -> bytes:
    """Read the body; raises WireError where it is longer than any message may be."""
    body = bytearray()
    async for chunk in response.content.iter_chunked(8192):
        body += chunk
        if len(body) > MAX_MESSAGE_BYTES:
            raise WireError(f"answer is longer than {MAX_MESSAGE_BYTES} bytes")
    return bytes(body)
