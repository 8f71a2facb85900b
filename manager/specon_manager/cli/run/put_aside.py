"""`--fresh`: puts an earlier run aside and deletes none of its files."""

import asyncio
import itertools
import os
from pathlib import Path

from specon_manager.backends.local.pods import find_pods
from specon_manager.model.cluster import job_of
from specon_manager.runtime.journal import NAME
from specon_manager.runtime.state_directory import StateDirectory
from specon_manager.usage import UsageError
from specon_manager.views.names import job_label


def put_aside(directory: Path) -> Path | None:
    """Give a state directory another name; return that, or None where there is nothing to put aside.

    Nothing is deleted. Raises UsageError where something of it still trains, or it is no state directory,
    DirectoryBusyError where a manager works in it, NotOursError, OSError.
    """
    if not directory.exists() or not any(directory.iterdir()):
        return None
    if not (directory / NAME).exists():
        raise UsageError(f"--fresh: {directory} is no state directory: there is no {NAME} in it")
    held = StateDirectory(directory)
    try:
        pods = asyncio.run(find_pods(directory.resolve() / "replicas"))
        if running := sorted({job_label(job_of(pod.replica)) for pod in pods if pod.alive}):
            raise UsageError(
                f"--fresh: an earlier run left jobs training: {', '.join(running)}; the same command without "
                "--fresh takes them up, and ends them with Ctrl-C"
            )
        names = (directory.with_name(f"{directory.name}.before-{number}") for number in itertools.count(1))
        aside = next(name for name in names if not os.path.lexists(name))
        try:
            directory.rename(aside)
        except OSError as error:
            raise UsageError(f"--fresh: {directory} cannot be put aside: {error.strerror}") from error
    finally:
        held.release()
    return aside
