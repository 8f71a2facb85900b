"""How the trainer is asked for a checkpoint: by a signal, a file or a request, as was declared."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Final

from specon_sidecar.parse import CheckpointMode
from specon_sidecar.trainer.process import CannotAskError, Trainer

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
            session.post(url, json={"id": instruction}, allow_redirects=False) as response,
        ):
            status = response.status
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise CannotAskError(f"{url}: {type(error).__name__}: {error}"[:300]) from error
    if not 200 <= status < 300:  # noqa: PLR2004 - the success class of HTTP
        raise CannotAskError(f"{url}: status {status}")
