"""The socket on which the trainer's helper speaks with its sidecar.

A client has to show the token, is read no faster than it may speak, and holds no other up: what it
does not read is bounded, and then it is sent away.
"""

import asyncio
import contextlib
import hmac
import logging
import os
import secrets
import stat
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct

from specon_sidecar.clock import Time
from specon_sidecar.hook.messages import MAX_LINE, Hello, Progress, Refused, Said, Saved, decode, encode
from specon_sidecar.trainer.process import CannotAskError

_LOG: Final = logging.getLogger(__name__)
MAX_CONNECTIONS: Final = 64
_HELLO_SECONDS: Final = 10.0
_MAX_UNREAD: Final = 65536  # bytes that somebody may leave unread
_BURST: Final = 200  # messages at once
_RATE: Final = 100.0  # messages per second after that
_REMEMBERED: Final = 16
_MOST_RANKS: Final = 4096  # of one pod; who names more of them is offered nothing
_NOBODY: Final = (
    "the trainer's helper never reported: no framework that it knows and no call of specon, or something that"
    " leaves it out: python -I, -E or -S, ssh, mpirun, a cleaned environment, a Python before 3.8"
)
_DEAF: Final = "the trainer does not look for requests: its loop has to call specon.checkpoint_requested()"
_GONE: Final = "the trainer's helper is not connected"
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
TOKEN_NAME: Final = "token"  # noqa: S105 - the name of a file


class Listener(Protocol):
    """Who is told what the trainer says."""

    def on_hello(self) -> None:
        """Take note that somebody has shown the token."""

    def on_report(self, progress: Progress) -> None:
        """Take a report of the rank that counts."""

    async def on_saved(self, saved: Saved) -> None:
        """Take note of a checkpoint, be it one that was asked for."""

    async def offer(self) -> Saved | None:
        """Return the verified checkpoint to go on from, or None."""


class _Peer(Struct, eq=False):
    """Somebody who has shown the token."""

    hello: Hello
    writer: asyncio.StreamWriter
    reports: bool = False


class Hook:
    """The sidecar's end: the connected ranks, what each was asked, and their answers."""

    def __init__(self, path: Path, listener: Listener, clock: Time) -> None:
        """Prepare to listen at `path`; nobody listens yet."""
        self._path = path
        self._listener = listener
        self._time = clock
        self._token = ""
        self._peers: list[_Peer] = []
        self._connections = 0
        self._asked: tuple[str, _Peer] | None = None
        self._answers: dict[str, Saved | Refused] = {}
        self._offered: dict[int, int] = {}
        self.spoke = False
        """Whether anybody ever showed the token."""
        self.framework = ""
        """What trains, as far as it was said."""

    async def serve(self) -> None:
        """Listen until cancelled; raises OSError where that cannot be."""
        self._token = secrets.token_hex(16)
        _write_token(self._path.with_name(TOKEN_NAME), self._token)
        _take_away(self._path)
        server = await asyncio.start_unix_server(self._meet, str(self._path), limit=MAX_LINE)
        try:
            self._path.chmod(0o666)  # its folder says who may come here
            await server.serve_forever()
        finally:
            server.close()
            for peer in self._peers:
                peer.writer.close()

    @property
    def can_ask(self) -> bool:
        """Whether somebody is there that saves on request."""
        return any(peer.hello.saves for peer in self._peers)

    def ask(self, request: str, pause: float) -> None:
        """Ask the lowest rank for a checkpoint, once as long as it is there; raises CannotAskError."""
        if self._asked is not None and self._asked[0] == request and self._asked[1] in self._peers:
            return
        able = [peer for peer in self._peers if peer.hello.saves]
        if not able:
            raise CannotAskError(_DEAF if self._peers else self.silence or _GONE)
        first = min(able, key=_rank)
        self._asked = request, first
        self._send(first, "checkpoint", {"request": request, "pause": pause})

    @property
    def silence(self) -> str:
        """Why nobody ever showed the token, as far as that can be guessed; empty where somebody did."""
        return "" if self.spoke else _NOBODY

    def answer(self, request: str) -> Saved | Refused | None:
        """Return what became of a request, as soon as that was said."""
        return self._answers.get(request)

    def hold(self, request: str) -> None:
        """Keep every rank that has saved from training on; stale after 10 s."""
        for peer in list(self._peers):
            self._send(peer, "hold", {"request": request})

    def release(self, request: str) -> None:
        """Let all of them train on."""
        for peer in list(self._peers):
            self._send(peer, "release", {"request": request})

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._connections >= MAX_CONNECTIONS:
            writer.close()
            return
        self._connections += 1
        peer: _Peer | None = None
        try:
            async with asyncio.timeout(_HELLO_SECONDS):
                first = decode(await reader.readuntil())
            if first is None or first.hello is None or not self._knows(first.hello):
                return
            peer = _Peer(first.hello, writer)
            self._peers.append(peer)
            self._note(first.hello)
            await self._welcome(peer)
            await self._listen(peer, reader)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
            pass  # it is gone, or says what nobody can read
        finally:
            self._connections -= 1
            if peer is not None:
                self._peers.remove(peer)
            writer.close()

    async def _listen(self, peer: _Peer, reader: asyncio.StreamReader) -> None:
        left, at = float(_BURST), self._time.now()
        while True:
            said = decode(await reader.readuntil())
            now = self._time.now()
            left, at = min(_BURST, left + _RATE * (now - at)) - 1, now
            if said is not None:
                await self._take(peer, said)
            if left < 0:
                await self._time.sleep(1 / _RATE)

    def _knows(self, hello: Hello) -> bool:
        return hmac.compare_digest(hello.token.encode("utf-8", "replace"), self._token.encode())

    async def _welcome(self, peer: _Peer) -> None:
        offer = None
        # Who comes later in the same rank is another program, which never wrote that checkpoint.
        if len(self._offered) < _MOST_RANKS:
            self._offered.setdefault(peer.hello.rank, peer.hello.pid)
        if self._offered.get(peer.hello.rank) == peer.hello.pid:
            offer = await self._listener.offer()
        resume = None if offer is None else {"path": offer.path, "step": offer.step}
        self._send(peer, "welcome", {"resume": resume})

    async def _take(self, peer: _Peer, said: Said) -> None:
        if said.hello is not None and self._knows(said.hello):
            peer.hello = said.hello
            self._note(said.hello)
        elif said.report is not None:
            peer.reports = True
            if peer is min((one for one in self._peers if one.reports), key=_rank):
                self._listener.on_report(said.report)
        elif said.saved is not None:
            # In this order: the verified files are then compared with how they looked when they were told.
            await self._listener.on_saved(said.saved)
            self._answer(said.saved.request, said.saved)
        elif said.refused is not None:
            self._answer(said.refused.request, said.refused)
        elif said.resumed is not None:
            _LOG.info("the trainer went on from %s at step %d", said.resumed.path, said.resumed.step)

    def _note(self, hello: Hello) -> None:
        self.spoke = True
        self.framework = hello.framework or self.framework
        self._listener.on_hello()

    def _answer(self, request: str | None, answer: Saved | Refused) -> None:
        if request is None or self._asked is None or request != self._asked[0]:
            return
        self._answers.setdefault(request, answer)
        for old in list(self._answers)[:-_REMEMBERED]:
            del self._answers[old]

    def _send(self, peer: _Peer, kind: str, content: dict[str, object]) -> None:
        transport = peer.writer.transport
        if transport.get_write_buffer_size() > _MAX_UNREAD:
            transport.abort()  # it reads nothing, and would keep ever more
            return
        with contextlib.suppress(OSError):
            peer.writer.write(encode(kind, content))


def _rank(peer: _Peer) -> int:
    return peer.hello.rank


def _write_token(file: Path, token: str) -> None:
    """Write what a trainer of whichever user must be able to read: the folder says who may."""
    if not file.parent.is_dir():
        file.parent.mkdir(parents=True)
        file.parent.chmod(0o755)
    aside = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    aside.unlink(missing_ok=True)
    with os.fdopen(
        os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644), "w"
    ) as opened:
        opened.write(token + "\n")
    aside.chmod(0o644)
    aside.replace(file)


def _take_away(path: Path) -> None:
    """Remove the socket of a sidecar before this one; raises OSError where something else is there."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise OSError(None, "is there and no socket", str(path))
        path.unlink()
