"""How the trainer is asked for a checkpoint: by a signal, a file or a request, as was declared."""

import asyncio
import math
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from specon_sidecar.certificates import trust_for
from specon_sidecar.hook.messages import Refused, Saved
from specon_sidecar.hook.server import Hook
from specon_sidecar.parse import CheckpointMode
from specon_sidecar.trainer.process import CannotAskError, Trainer
from specon_sidecar.wire import CheckpointInstruction

Asker = Callable[[CheckpointMode, Trainer | None, str], Awaitable[None]]
_ASK_AGAIN_SECONDS: Final = 0.5
_HTTP_SECONDS: Final = 5.0
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


async def ask(mode: CheckpointMode, process: Trainer | None, instruction: str) -> None:
    """Pass on the request for a checkpoint in the declared way.

    `instruction` is its id, for the trainer's log. Raises CannotAskError where it did not reach the trainer.
    With `periodic` and `sigterm` nothing is asked.
    """
    if mode.kind == "signal":
        if process is None:
            raise CannotAskError("no process id of the trainer is known")
        process.send(signal.Signals[f"SIG{mode.target}"])
    elif mode.kind == "file":
        await asyncio.to_thread(create, Path(mode.target), instruction)
    elif mode.kind == "http":
        await _post(mode.target, instruction)


def create(path: Path, content: str) -> None:
    """Create the file in one piece, in place of one that is still there; raises CannotAskError."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        aside.unlink(missing_ok=True)
        # Whatever else is put there meanwhile is no file of ours, and no link is followed.
        with os.fdopen(os.open(aside, _NEW, 0o666), "wb") as opened:
            opened.write(f"{content}\n".encode())
        aside.replace(path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise CannotAskError(f"{path}: {error.strerror}") from error


async def _post(url: str, instruction: str) -> None:
    # Imported here: a stand-alone sidecar needs no HTTP.
    import aiohttp  # noqa: PLC0415 - see above

    timeout = aiohttp.ClientTimeout(total=_HTTP_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(
                url, json={"id": instruction}, ssl=trust_for(url), allow_redirects=False
            ) as response,
        ):
            status = response.status
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise CannotAskError(f"{url}: {type(error).__name__}: {error}"[:300]) from error
    if not 200 <= status < 300:  # noqa: PLR2004 - the success class of HTTP
        raise CannotAskError(f"{url}: status {status}")


class Asking:
    """Asks the trainer once, and where that fails again at most twice a second."""

    def __init__(
        self,
        mode: CheckpointMode,
        process: Trainer | None,
        instruction: CheckpointInstruction,
        asker: Asker,
        hook: Hook | None,
    ) -> None:
        """Prepare to ask for this; nobody is asked yet."""
        self._arguments = (mode, process, instruction.id)
        self._instruction = instruction
        self._asker = asker
        self._hook = hook if mode.kind == "hook" else None
        self._again_at: float | None = -math.inf
        self.trouble = ""
        """Why the trainer could not be asked so far."""

    @property
    def by_hook(self) -> bool:
        """Whether the trainer's helper was asked, and nothing but its answer counts."""
        return self._hook is not None and not self.trouble

    @property
    def saved(self) -> Saved | None:
        """The helper's answer, once it has saved."""
        answer = None if self._hook is None else self._hook.answer(self._instruction.id)
        return answer if isinstance(answer, Saved) else None

    @property
    def refused(self) -> str:
        """Why the trainer could not save, where it said so."""
        answer = None if self._hook is None else self._hook.answer(self._instruction.id)
        return f"the trainer could not save: {answer.reason}" if isinstance(answer, Refused) else ""

    async def ask(self, now: float) -> None:
        """Ask, where that was not done yet."""
        if self._again_at is None or now < self._again_at:
            return
        try:
            if self._hook is not None:
                # Again and again: another trainer may have taken the place of the one that was asked.
                self._hook.ask(self._instruction.id, self._instruction.pause)
            else:
                await self._asker(*self._arguments)
        except CannotAskError as error:
            self.trouble, self._again_at = str(error), now + _ASK_AGAIN_SECONDS
        else:
            self.trouble = ""
            self._again_at = None if self._hook is None else now
