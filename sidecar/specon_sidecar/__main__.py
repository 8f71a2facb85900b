"""The command `specon-sidecar`: wire the parts, run until SIGTERM."""

# The first of all: what follows takes a while to be imported.
from specon_sidecar.at_start import LOG_AT_START

# isort: split
import asyncio
import contextlib
import logging
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Final

import msgspec

from specon_sidecar.certificates import leave_unread
from specon_sidecar.run import Sidecar
from specon_sidecar.settings import Settings, SettingsError, read_settings

_LOG = logging.getLogger(__name__)
_END_SECONDS: Final = 10.0


def _is_news(record: logging.LogRecord) -> bool:
    """Return False for what watchdog calls an error: a file that changes while it ends as it was told to."""
    return not record.getMessage().endswith("called when the thread is inactive")


def main() -> int:
    """Run the sidecar; returns 0 at its end, 2 for unusable settings, 1 for an unforeseen error."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)
    logging.getLogger("watchdog.observers.inotify").addFilter(_is_news)
    if sys.argv[1:2] == ["copy-helper"]:
        return _copy_helper(sys.argv[2:])
    try:
        settings = read_settings()
    except SettingsError as error:
        for mistake in error.mistakes:
            sys.stderr.write(f"specon-sidecar: {mistake}\n")
        return 2
    if settings.fresh_from is None and LOG_AT_START is not None:
        size, changed_at = LOG_AT_START
        settings = msgspec.structs.replace(settings, fresh_from=size, fresh_since=changed_at)
    try:
        if settings.once:
            from specon_sidecar.read_once import read_once  # noqa: PLC0415 - a sidecar in a pod never needs it

            read_once(settings, _write)
        else:
            # Until the loop has its handler: without one the first process of a container ignores it.
            signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(0))
            asyncio.run(_run(settings))
    except BrokenPipeError:
        # The reader of our output has gone; nothing more can be told, at exit neither.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        sys.stderr.write(f"specon-sidecar: {error}\n")
        return 1
    except Exception:  # noqa: BLE001 - the log of the pod is all that anybody will see of it
        _LOG.exception("the sidecar ends for a reason that was not foreseen")
        return 1
    return 0


def _copy_helper(targets: list[str]) -> int:
    """Copy the helper of trainers to the folder that is named."""
    from specon_sidecar.copy_helper import copy_helper  # noqa: PLC0415 - a sidecar itself never copies

    if len(targets) != 1:
        sys.stderr.write("specon-sidecar: copy-helper: name the folder to copy to\n")
        return 2
    try:
        copy_helper(Path(targets[0]))
    except OSError as error:
        sys.stderr.write(f"specon-sidecar: copy-helper: {error}\n")
        return 1
    return 0


async def _run(settings: Settings) -> None:
    async with contextlib.AsyncExitStack() as stack:
        manager = None
        if settings.manager is not None:
            with leave_unread():
                from specon_sidecar.reporting.client import Client  # noqa: PLC0415 - stand-alone needs no HTTP

            manager = await stack.enter_async_context(
                Client(
                    settings.manager,
                    replica=settings.replica or "",
                    incarnation=settings.incarnation or "",
                    token_file=settings.token_file,
                    ca_file=settings.ca_file,
                )
            )
        sidecar = Sidecar(settings, manager, _write)
        if settings.metrics_port is not None:
            from specon_sidecar.reporting.metrics import serve  # noqa: PLC0415 - only where a port is set

            serve(settings.metrics_port, sidecar.snapshot)  # a daemon thread, which ends with the process

        def stop() -> None:
            sidecar.stop()
            # A thread that waits for a dead network volume would hold the process for ever.
            end = threading.Timer(_END_SECONDS, os._exit, (0,))
            end.daemon = True
            end.start()

        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop)
        await sidecar.run()


def _write(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
